"""Log lines: as JSON with what they are about, and without the secrets that are planted here."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.conf import settings as live_settings
from django.test import Client
from structlog.contextvars import bound_contextvars, clear_contextvars

from speedtrack.ground.observing import logs
from speedtrack.ground.observing.logs import HIDDEN, PlainLineFormatter, json_formatter, without_secrets

GOLDEN = json.loads((live_settings.BASE_DIR / "runners/tests/golden/secrets-in-logs.json").read_text())
PLANTED = GOLDEN["planted"]


@pytest.fixture
def lines() -> Iterator[Any]:
    """Returns what was logged since, as documents."""
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(json_formatter())
    root = logging.getLogger()
    root.addHandler(handler)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.removeHandler(handler)
    clear_contextvars()


OF_OUR_PATHS = (f"GET /hooks/{PLANTED} 202", f"GET /unsubscribe/{PLANTED}/ 200", f"GET /notifications/{PLANTED}/ 200")


@pytest.mark.parametrize("text", [*GOLDEN["with_secrets"], *OF_OUR_PATHS])
def test_no_secret_is_in_a_line(text: str, lines: Any) -> None:
    assert PLANTED not in without_secrets(text)
    assert HIDDEN in without_secrets(text)
    record = logging.LogRecord("x", logging.INFO, "", 0, "%s", (text,), None)
    assert PLANTED not in PlainLineFormatter("{message}", style="{").format(record)
    try:
        raise ValueError(text)
    except ValueError:
        logging.getLogger("x").exception(text)
    assert PLANTED not in json.dumps(lines())


@pytest.mark.parametrize("text", GOLDEN["harmless"])
def test_nothing_else_is_hidden(text: str) -> None:
    assert without_secrets(text) == text


def test_a_long_line_is_no_burden() -> None:
    """Its time grows with its length only, whatever repeats in it."""
    for word in ("a", "://", "token", "bearer ", "cookie=", "a-", "token-", "strn_-", "://a@"):
        without_secrets(word * (100_000 // len(word)))


def test_what_is_bound_is_on_every_line(lines: Any) -> None:
    with bound_contextvars(run=7, attempt=2, project="kvd"):
        logging.getLogger("some.module").warning("it took %d s", 5)
    logging.getLogger("some.module").warning("later")
    first, second = lines()
    assert {key: first[key] for key in ("run", "attempt", "project", "level", "logger", "message")} == {
        "run": 7,
        "attempt": 2,
        "project": "kvd",
        "level": "warning",
        "logger": "some.module",
        "message": "it took 5 s",
    }
    assert first["time"].endswith("Z")
    assert "run" not in second


def test_bound_secrets_are_hidden_by_their_names(lines: Any) -> None:
    planted = {"hook_secret": PLANTED, "headers": {"Authorization": PLANTED, "x": [f"Bearer {PLANTED}"]}, "n": 1}
    with bound_contextvars(**planted):
        logging.getLogger("x").warning("look")
    assert PLANTED not in json.dumps(lines())
    assert lines()[0]["n"] == 1


def test_hostile_text_forges_no_line(lines: Any) -> None:
    logging.getLogger("x").warning('a\n{"level": "error", "run": 9}\x1b[31m\u202e')
    assert len(lines()) == 1
    assert "run" not in lines()[0]


def test_a_traceback_is_part_of_its_line(lines: Any) -> None:
    try:
        raise ValueError("of the test")
    except ValueError:
        logging.getLogger("x").exception("it failed")
    (line,) = lines()
    assert "ValueError: of the test" in line["exception"]


def test_a_request_has_an_id_and_a_line_without_its_query(client: Client, lines: Any, settings: Any, db: None) -> None:
    settings.ACCESS_LOG = True
    answer = client.get(f"/search/?q={PLANTED}", headers={"X-Request-Id": "from-proxy-1", "Cookie": PLANTED})
    (line,) = [one for one in lines() if one["logger"] == "speedtrack.access"]
    assert line["request"] == "from-proxy-1"
    assert line["access"] | {"ms": 0} == {"method": "GET", "path": "/search/", "view": "search", "status": 200, "ms": 0}
    assert PLANTED not in json.dumps(line)
    assert answer.status_code == 200


@pytest.mark.parametrize("given", ["", "a" * 65, "a b", 'x"}', "é", "a\n"])
def test_an_odd_request_id_is_replaced(client: Client, lines: Any, settings: Any, db: None, given: str) -> None:
    settings.ACCESS_LOG = True
    client.get("/healthz", headers={"X-Request-Id": given})
    client.get("/healthz")
    first, second = (one["request"] for one in lines() if one["logger"] == "speedtrack.access")
    assert len(first) == len(second) == 16
    assert first != second


def test_the_token_of_an_unsubscription_is_in_no_line(client: Client, lines: Any, settings: Any, db: None) -> None:
    settings.ACCESS_LOG = True
    client.get(f"/unsubscribe/{PLANTED}/")
    client.post(f"/hooks/{PLANTED}", b"{}", "application/json")
    assert lines()
    assert PLANTED not in json.dumps(lines())


def test_a_line_names_the_run_of_a_call(client: Client, lines: Any, settings: Any, db: None) -> None:
    settings.ACCESS_LOG = True
    client.post("/api/runner/runs/77/complete", b"{}", "application/json")
    assert {one.get("run") for one in lines() if one["logger"] == "speedtrack.access"} == {"77"}


def test_the_processes_write_json_when_told_to() -> None:
    words = "import django, logging; django.setup(); logging.getLogger('x').warning('said %s', 'so')"
    environment = {**os.environ, "SPEEDTRACK_LOG_FORMAT": "json", "DJANGO_SETTINGS_MODULE": "speedtrack.settings"}
    done = subprocess.run(
        [sys.executable, "-c", words], cwd=live_settings.BASE_DIR, env=environment, capture_output=True, text=True
    )
    assert json.loads(done.stderr)["message"] == "said so", done.stderr


def test_a_wrong_form_stops_the_start() -> None:
    environment = {**os.environ, "SPEEDTRACK_LOG_FORMAT": "xml"}
    done = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=live_settings.BASE_DIR,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode
    assert "SPEEDTRACK_LOG_FORMAT='xml': say line or json" in done.stderr
    assert logs.configuration("json", "INFO", {})["handlers"]["stderr"]["formatter"] == "json"
