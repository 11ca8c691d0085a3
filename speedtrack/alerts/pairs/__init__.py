"""Pairs of two commits: planned, read and compared."""
