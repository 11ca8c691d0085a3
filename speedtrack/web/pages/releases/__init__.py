"""Releases of a project: each against the one before it and the first."""
