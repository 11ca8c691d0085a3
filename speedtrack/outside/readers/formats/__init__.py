"""One module per tool: it recognises the tool's files, and picks the parts that become results."""
