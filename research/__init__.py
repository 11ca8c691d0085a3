"""Experiments behind the figures of the docs. Nothing of the product imports them."""
