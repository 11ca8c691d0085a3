"""People: what they may see and do, the tokens of their programs, and the record of what they changed."""
