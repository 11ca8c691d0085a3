"""What the webhook calls of forges look like: how each signs, which headers it sends, and what its events mean.

Bytes in, facts out: nothing here knows the database. ``providers`` lists the forges.
"""
