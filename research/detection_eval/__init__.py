"""Evaluate the whole path from a measurement to a named commit: detection and settling as the workers run them.

`make detection-eval` runs it and docs/detection.md holds its table; see `__main__` for the arguments.
"""
