"""Sealing, tokens, private files, and the addresses that may be called."""
