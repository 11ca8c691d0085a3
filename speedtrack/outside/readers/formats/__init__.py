"""One module per tool: how its file is recognised, and which parts of it become results."""
