"""The runner's own log: lines for people, or JSON with the run of each line. Neither contains secrets.

Code that starts work on something binds it (`structlog.contextvars.bound_contextvars(run=7)`).
"""

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog
from structlog.stdlib import ProcessorFormatter

from runners.errors import SettingsError

SETTING = "SPEEDTRACK_LOG_FORMAT"
HIDDEN = "…"
WORDS = "authorization|cookie|token|secret|password|passwd|api_?key|dsn"
NAMED = rf"[\w-]{{0,40}}(?:{WORDS})[\w-]{{0,40}}"
# After a colon and a blank, as in `no token: set one`, only text that does not look like prose.
BETWEEN = r"(?:\s*=\s*|\s*:(?=\S)|\s*:\s+(?=['\"]|\S*\d|\S{12}))"
# In texts, of the server as well (tests/golden/secrets-in-logs.json): the rest of a header's line, user and password of
# an address, credentials behind the name of their kind or behind a name and = or :, and tokens of machines and people.
SECRETS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?im)\b((?:set-)?cookie|(?:proxy-)?authorization)(['\"]?\s*[:=]\s*)[^\n]+"), rf"\1\2{HIDDEN}"),
    (re.compile(r"(?<=://)[^\s/?#]*@"), f"{HIDDEN}@"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}"), rf"\1 {HIDDEN}"),
    (re.compile(rf"(?i)\b({NAMED}['\"]?{BETWEEN}['\"]?)(?!{HIDDEN})[^\s'\"&,;)]+"), rf"\1{HIDDEN}"),
    (re.compile(r"\bst(?:rn|pt)_\w+-?[\w-]*"), HIDDEN),
)


def without_secrets(text: str) -> str:
    """The text without anything that looks like a secret. It only knows patterns: never log a secret on purpose."""
    for pattern, replacement in SECRETS:
        text = pattern.sub(replacement, text)
    return text


class LineFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


def hide_secrets(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A processor that hides secrets in the texts of a log event; bound values are numbers and names."""
    return {key: without_secrets(value) if isinstance(value, str) else value for key, value in event.items()}


def json_formatter() -> logging.Formatter:
    """A formatter that writes one JSON object per line.

    It has time, level, logger, message, the thread's bound values, and a traceback if there is one.
    """
    return ProcessorFormatter(
        foreign_pre_chain=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        ],
        processors=[
            ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("message"),
            hide_secrets,
            structlog.processors.JSONRenderer(),
        ],
    )


def set_up(environ: Mapping[str, str]) -> None:
    """Logs to stderr in the form of SPEEDTRACK_LOG_FORMAT. Raises SettingsError."""
    form = environ.get(SETTING) or "line"
    if form not in ("line", "json"):
        raise SettingsError(f"{SETTING} is {form!r}: set it to line or json")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(json_formatter() if form == "json" else LineFormatter("%(asctime)s %(message)s", "%H:%M:%S"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("httpx").setLevel(logging.WARNING)
