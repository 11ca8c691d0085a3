"""The commands: each asks the API, prints what it found, and returns how the command ends."""
