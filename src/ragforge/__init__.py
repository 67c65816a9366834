"""ragforge: a folder of documents becomes a project you can ask."""

__version__ = "0.1.0"
