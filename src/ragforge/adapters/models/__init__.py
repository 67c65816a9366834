"""Language models behind HTTP services."""
