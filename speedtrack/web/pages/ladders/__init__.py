"""Ladders: a metric over clients, payload and the like, with one line per commit, release or project."""
