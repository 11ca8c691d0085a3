"""Log lines: text for people, or JSON with the subject of each line. Neither contains secrets.

Code that starts work on something binds it (``structlog.contextvars.bound_contextvars(run=7)``); each line of that
thread then names it, whichever module writes it.
"""

import logging
import re
from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog
from structlog.stdlib import ProcessorFormatter

from runners.logs import HIDDEN, SECRETS, WORDS
from speedtrack.ground.texts.text import plain

SECRET_NAME = re.compile(rf"(?i){WORDS}")
# In texts: what the runner hides, and the secret parts of our own paths.
IN_TEXT = (
    *SECRETS,
    (re.compile(r"(/(?:hooks|unsubscribe|notifications|codespeed|invite|accounts/first)/)[^/\s'\"?]+"), rf"\1{HIDDEN}"),
)
# The only attachments of a record that are kept: Django attaches whole requests.
EXTRAS = frozenset({"access"})
CLASSES = (bool, int, float, type(None))


def without_secrets(text: str) -> str:
    """The text without anything that looks like a secret. It only knows patterns: never log a secret on purpose."""
    for pattern, replacement in IN_TEXT:
        text = pattern.sub(replacement, text)
    return text


def values_without_secrets(value: Any) -> Any:
    """A copy of a document without secrets, which are in its texts, and in values whose keys name a secret."""
    if isinstance(value, Mapping):
        return {
            str(key): HIDDEN if SECRET_NAME.search(str(key)) else values_without_secrets(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [values_without_secrets(item) for item in value]
    return value if isinstance(value, CLASSES) else without_secrets(str(value))


class PlainLineFormatter(logging.Formatter):
    """Lines for people, safe to show on a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return plain(without_secrets(super().format(record)))


def hide_secrets(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    cleaned: MutableMapping[str, Any] = values_without_secrets(event)
    return cleaned


def json_formatter() -> ProcessorFormatter:
    """One JSON object per line: time, level, logger, message, the thread's bound values, and a traceback if any."""
    return ProcessorFormatter(
        foreign_pre_chain=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.ExtraAdder(allow=EXTRAS),
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        ],
        processors=[
            ProcessorFormatter.remove_processors_meta,
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("message"),
            hide_secrets,
            structlog.processors.JSONRenderer(),
        ],
    )


def configuration(form: str, level: str, quiet: Mapping[str, str]) -> dict[str, Any]:
    """The standard library's configuration: all to stderr, as ``line`` or ``json``; some loggers more quietly."""
    formatters = {
        "line": {"()": PlainLineFormatter, "fmt": "{asctime} {levelname} {name}: {message}", "style": "{"},
        "json": {"()": json_formatter},
    }
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {form: formatters[form]},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": form}},
        "loggers": {name: {"level": least} for name, least in quiet.items()},
        "root": {"handlers": ["stderr"], "level": level},
    }
