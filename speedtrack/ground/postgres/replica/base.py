"""Django's PostgreSQL engine with a time limit for statements that the client enforces.

A server that hangs (its disk, or a suspended process) still acknowledges packets, so neither TCP's timeouts nor its own
``statement_timeout`` end the wait.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.postgresql import base

STATEMENT_S = 5.0


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection whose statements are limited in time.

    A statement that takes too long raises OperationalError; the connection is then useless: close it.
    """

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        link = super().get_new_connection(conn_params)
        link.wait = partial(link.wait, timeout=STATEMENT_S)
        return link


@contextmanager
def limited(wrapper: BaseDatabaseWrapper) -> Iterator[None]:
    """The same limit for a connection of another engine, during the block."""
    wrapper.ensure_connection()
    link = wrapper.connection
    link.wait = partial(link.wait, timeout=STATEMENT_S)
    try:
        yield
    finally:
        del link.wait
