"""One module per tool: how its file is recognised, and what of it becomes results."""
