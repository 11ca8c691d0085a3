"""Steps of a duty, or rows, that must not hold up each other."""

import logging
from collections.abc import Callable
from functools import partial

from django.db import InterfaceError, OperationalError

log = logging.getLogger(__name__)


def take_each(*steps: Callable[[], object]) -> None:
    """Take all steps, even if some fail. Raises the error of the first failed step."""
    failures: list[Exception] = []
    for step in steps:
        try:
            step()
        except (OperationalError, InterfaceError):
            raise  # the database is away for the other steps, too
        except Exception as e:  # a step that fails must not hold up the others
            log.exception("%s has failed", name_of(step))
            failures.append(e)
    if failures:
        raise failures[0]


def name_of(step: Callable[[], object]) -> str:
    """The name of a function, and the arguments that a step binds."""
    return f"{step.func.__name__}{step.args}" if isinstance(step, partial) else step.__name__
