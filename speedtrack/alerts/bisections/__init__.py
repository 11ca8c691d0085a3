"""Bisections that people ask for: which of the commits between two changed a benchmark."""
