"""Deletes old rows, except those that must be kept whatever their age."""
