"""Features of a PostgreSQL session: locks that are held for longer than a transaction, and notifications.

A connection pool in transaction mode (pgbouncer) gives each transaction another session: a lock would stay in a session
that nobody uses any more. So these statements go to PostgreSQL itself: DATABASE_SESSION_URL, if DATABASE_URL is a pool.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

# A pool sends its clients an invented process id. The lock is taken only in the caller's own session.
TAKE = "SELECT CASE WHEN pg_backend_pid() = %s THEN {}(%s, %s)::text END"


def session() -> BaseDatabaseWrapper:
    """This thread's connection to PostgreSQL itself."""
    return connections["session" if "session" in connections.settings else "default"]


def take(lock: int, number: int = 0, wait: bool = False) -> bool:
    """Take an advisory lock for this session. False if another session holds it, unless ``wait`` is set.

    Raises ImproperlyConfigured if the connection leads to a pool.
    """
    function = "pg_advisory_lock" if wait else "pg_try_advisory_lock"
    with session().cursor() as cursor:
        cursor.execute(TAKE.format(function), [cursor.connection.info.backend_pid, lock, number])
        (answer,) = cursor.fetchone()
    if answer is None:
        raise ImproperlyConfigured(pool_text())
    return bool(answer != "false")


@contextmanager
def holding(lock: int, number: int = 0, wait: bool = False) -> Iterator[bool]:
    """Hold an advisory lock during the block. Yields False if another session holds it, unless ``wait`` is set."""
    is_mine = take(lock, number, wait)
    try:
        yield is_mine
    finally:
        if is_mine and session().is_usable():  # otherwise the session and its lock have ended
            with session().cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [lock, number])


def leads_to_a_pool() -> bool:
    """Return whether the connection for locks and notifications leads to a pool."""
    with session().cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return bool(cursor.fetchone()[0] != cursor.connection.info.backend_pid)


def pool_text() -> str:
    variable = "DATABASE_SESSION_URL" if "session" in connections.settings else "DATABASE_URL"
    return (
        f"{variable} leads to a connection pool such as pgbouncer, in which locks and notifications are lost:"
        " set DATABASE_SESSION_URL to PostgreSQL itself"
    )
