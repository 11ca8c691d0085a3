"""The page that compares any two commits."""
