"""The runner itself: it claims runs, executes them and hands them in."""
