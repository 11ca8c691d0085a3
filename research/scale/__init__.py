"""What SpeedTrack costs on a large database: a generator of histories, and what is measured on them.

`make bench SCALE=1 [ROWS=10M] [WRITE=1]` fills an embedded PostgreSQL of its own and prints one table.
"""
