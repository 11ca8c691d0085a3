"""Reading pages from a streaming replica: its database engine (base.py), and the choice of the source (watch.py)."""
