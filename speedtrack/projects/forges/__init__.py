"""The webhook calls of forges: their signatures, their headers, and the meaning of their events.

Bytes in, facts out: nothing here knows the database. ``providers`` lists the forges.
"""
