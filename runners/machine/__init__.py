"""The measuring machine: its topology and facts, the placement on its cores, their locks, the kernel's settings."""
