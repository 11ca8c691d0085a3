"""Reading pages from a streaming replica: the database engine for it (base.py), and where to read from (watch.py)."""
