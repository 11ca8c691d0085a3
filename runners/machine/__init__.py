"""The measuring machine: its topology and facts, the placement on its cores, and their locks."""
