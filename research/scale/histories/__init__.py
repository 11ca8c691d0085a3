"""The rows of a large database, generated."""
