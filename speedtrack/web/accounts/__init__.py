"""Logging in, and what people set of their own accounts. Pages of django-allauth have our templates."""
