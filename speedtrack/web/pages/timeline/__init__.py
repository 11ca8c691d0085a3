"""The page of one metric of one benchmark over the commits of a branch, and the same as JSON and CSV."""
