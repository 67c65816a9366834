"""The web page: parse what is clicked, call Ragforge, show. It has no authority and no truth of its own."""
