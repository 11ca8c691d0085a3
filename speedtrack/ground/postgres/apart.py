"""A duty of several independent steps."""

import logging
from collections.abc import Callable

from django.db import InterfaceError, OperationalError

log = logging.getLogger(__name__)


def take_each(*steps: Callable[[], object]) -> None:
    """Take all steps of a duty, even if some fail. Raises the error of the first failed step."""
    failures: list[Exception] = []
    for step in steps:
        try:
            step()
        except (OperationalError, InterfaceError):
            raise  # the database is away for the other steps, too
        except Exception as e:  # a step that fails must not hold up the others
            log.exception("%s has failed", step.__name__)
            failures.append(e)
    if failures:
        raise failures[0]
