"""Sessions, values, wake-ups and addresses of PostgreSQL, and whether a database can be used."""
