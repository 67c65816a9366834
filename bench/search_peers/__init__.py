"""Other frameworks' own hybrid search, each run by the interpreter of its own environment."""
