"""Checks, backup and repair of an installation."""
