"""Databases of the evaluation's own: an embedded PostgreSQL that ends with it, one database per process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HURRY = " -c synchronous_commit=off -c jit=off"  # these rows need not survive a power failure


@contextmanager
def databases(count: int) -> Iterator[list[str]]:
    """The URLs of this many empty databases with the tracker's tables."""
    from speedtrack.processes import devstack

    with tempfile.TemporaryDirectory(prefix="speedtrack-eval-", ignore_cleanup_errors=True) as home:
        Path(home).chmod(0o755)  # where root starts it, PostgreSQL runs as another user
        url = devstack.postgresql(Path(home) / "postgresql")
        use(url)
        from django.core.management import call_command
        from django.db import connections

        call_command("migrate", verbosity=0)
        connections.close_all()
        yield [copy(url, f"line{number}") for number in range(count)]
        connections.close_all()


def copy(url: str, name: str) -> str:
    """A copy of a database, which must have no connection; its URL."""
    import psycopg

    base, _, arguments = url.partition("?")
    server, _, original = base.rpartition("/")
    with psycopg.connect(f"{server}/template1?{arguments}", autocommit=True) as link:
        link.execute(f'CREATE DATABASE {name} TEMPLATE "{original}"')
    return f"{server}/{name}?{arguments}"


def use(url: str) -> None:
    """Let this process work on a database; to be called once, before any model is imported."""
    os.environ["DATABASE_URL"] = url
    os.environ["DJANGO_SETTINGS_MODULE"] = "speedtrack.settings"
    os.environ["PGOPTIONS"] = HURRY
    import logging

    import django

    django.setup()
    logging.getLogger("speedtrack").setLevel(logging.ERROR)
