"""Sealing, tokens, private files, and which addresses may be called."""
