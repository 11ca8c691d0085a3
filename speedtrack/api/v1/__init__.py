"""The API for programs of people, ``/api/v1``: it reads what the pages show, and writes with tokens (docs/api.md)."""
