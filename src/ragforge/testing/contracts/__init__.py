"""Contract suites: a new adapter subclasses one and must pass it."""
