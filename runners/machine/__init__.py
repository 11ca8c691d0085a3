"""The measuring machine: its cores and memory, what is on it, and who may use it."""
