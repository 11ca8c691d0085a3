"""A duty of several steps that must not hold up each other."""

import logging
from collections.abc import Callable

from django.db import InterfaceError, OperationalError

log = logging.getLogger(__name__)


def take_each(*steps: Callable[[], object]) -> None:
    """Take all steps of a duty, whatever becomes of the others. Raises what the first that failed has raised."""
    failures: list[Exception] = []
    for step in steps:
        try:
            step()
        except (OperationalError, InterfaceError):
            raise  # the database is away, also for the others
        except Exception as e:  # a step that fails must not hold up the others
            log.exception("%s has failed", step.__name__)
            failures.append(e)
    if failures:
        raise failures[0]
