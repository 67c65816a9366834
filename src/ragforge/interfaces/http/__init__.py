"""The HTTP server: parse, authorise, call Ragforge, format."""
