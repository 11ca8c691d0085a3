"""People: their rights, the tokens of their programs, and the record of their changes."""
