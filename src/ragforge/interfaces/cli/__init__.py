"""The command line: parse, call Ragforge, format. Data on stdout, everything else on stderr."""
