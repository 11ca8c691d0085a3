"""The runner at work: it starts up, claims runs, executes them and reports how they ended."""
