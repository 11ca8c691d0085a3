"""The runner's log: which secrets it hides, and its lines as JSON."""

import json
import logging
import threading
from collections.abc import Iterator
from contextvars import copy_context
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from structlog.contextvars import bound_contextvars

from runners.errors import SettingsError
from runners.logs import LineFormatter, json_formatter, set_up, without_secrets

GOLDEN = json.loads((Path(__file__).parent / "golden" / "secrets-in-logs.json").read_text())
PLANTED = GOLDEN["planted"]


@pytest.fixture
def lines() -> Iterator[Any]:
    """Returns what was logged since, as documents."""
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(json_formatter())
    log = logging.getLogger("runners")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    log.removeHandler(handler)


@pytest.mark.parametrize("text", GOLDEN["with_secrets"])
def test_no_secret_is_in_a_line(text: str, lines: Any) -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "%s", (text,), None)
    assert PLANTED not in LineFormatter("%(message)s").format(record)
    try:
        raise ValueError(text)
    except ValueError:
        logging.getLogger("runners.x").exception("%s", text)
    assert PLANTED not in json.dumps(lines())


@pytest.mark.parametrize("text", GOLDEN["harmless"])
def test_nothing_else_is_hidden(text: str) -> None:
    assert without_secrets(text) == text


def test_lines_of_all_threads_of_a_run_name_it(lines: Any) -> None:
    with bound_contextvars(run=7, attempt=2, project="kvd"):
        log = logging.getLogger("runners.x")
        thread = threading.Thread(target=copy_context().run, args=(log.warning, "of a %s", "thread"))
        thread.start()
        thread.join()
        log.info("of the run")
    log.info("later")
    first, second, third = lines()
    assert [(one["run"], one["attempt"], one["project"]) for one in (first, second)] == [(7, 2, "kvd")] * 2
    assert (first["message"], first["level"], first["logger"]) == ("of a thread", "warning", "runners.x")
    assert "run" not in third


def test_a_wrong_form_is_refused() -> None:
    with pytest.raises(SettingsError, match="'xml': set it to line or json"):
        set_up({"SPEEDTRACK_LOG_FORMAT": "xml"})
