"""Tools for other programs, over the Model Context Protocol: search, read and ask the projects of a workspace."""
