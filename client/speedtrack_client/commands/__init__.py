"""The commands: each calls the API, prints the answer, and returns the exit code."""
