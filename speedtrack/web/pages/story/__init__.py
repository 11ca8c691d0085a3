"""The story of a release: what it made slower and faster than another one, and whose commits did."""
