"""The server: what is told to it, kept in it, found by it, and shown."""

__version__ = "1.1.0"  # as the runner's: versions.py says which of them work together
