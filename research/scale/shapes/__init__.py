"""Databases of other shapes than the histories: each is one thing that is large alone, and ``kind`` is most of them."""
