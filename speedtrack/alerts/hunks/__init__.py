"""The hunks of a named commit, taken back one by one and together until those that did it are left."""
