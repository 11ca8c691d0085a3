"""Long values in statements."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection
from django.db.backends.postgresql.base import ServerBindingCursor


@contextmanager
def apart() -> Iterator[None]:
    """Send the values of this block's statements separately from their text.

    Django writes them into the text, where bytes are twice as long, and this process holds several copies of it.
    """
    connection.ensure_connection()
    link = connection.connection
    usual = link.cursor_factory
    link.cursor_factory = ServerBindingCursor
    try:
        yield
    finally:
        link.cursor_factory = usual
