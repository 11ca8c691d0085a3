"""Invisible characters that change how text is shown reach no page, no mail and no terminal."""

import io
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from django.core.management import ManagementUtility
from django.db import connection
from django.db.models import Value
from django.db.models.functions import Concat, Now
from django.test import Client
from rich.console import Console

from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint
from speedtrack.ground.observing.logs import PlainLineFormatter
from speedtrack.ground.texts.text import plain, plain_json, plain_values
from speedtrack.notices import mail as mails
from speedtrack.notices.models import Outbox
from speedtrack.processes import demo
from speedtrack.projects.models import Branch, Commit, Project, Tag
from speedtrack.runs.models import LogChunk, Machine, Run, RunEvent
from speedtrack.settings import LOGGING
from speedtrack.tests import builders
from speedtrack.web.tests.world import CPU, World, html_of

BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
# All of C0 and C1 but tab, line feed, and NUL, which PostgreSQL does not take.
CONTROLS = "".join(map(chr, [*range(1, 9), *range(0x0B, 0x20), 0x7F, *range(0x80, 0xA0)]))
MARKS = f"\x1b[31m\x1b]0;title\x07\x9b1m{BIDI}{CONTROLS}"
FOUND = re.compile(f"[\0{BIDI}{CONTROLS}]")


@pytest.fixture
def marked(slow: tuple[World, Alert]) -> tuple[World, Alert]:
    """A world with such characters in every text that others can enter."""
    made, alert = slow
    run = made.fail() if made.push(1) else None
    assert run
    mark = Value(f"end {MARKS}")
    Tag.objects.create(project=made.project, name="v1", sha=made.shas[2])
    LogChunk.objects.create(attempt=run.attempts.get(), seq=900, phase="build", text="some words")
    for model, *fields in (
        (Commit, "subject", "author_name"),
        (Branch, "name"),
        (Tag, "name"),
        (Run, "error"),
        (RunEvent, "why"),
        (LogChunk, "text"),
        (Project, "error", "name"),
        (ChangePoint, "note"),
        (AlertEvent, "note"),
    ):
        rows = model.objects.all()  # type: ignore[attr-defined]
        rows.update(**{field: Concat(field, mark) for field in fields})
    Machine.objects.update(quarantined_at=Now(), quarantined_why=mark)
    return made, Alert.objects.get(pk=alert.pk)


def test_pages_show_none(client: Client, marked: tuple[World, Alert]) -> None:
    made, alert = marked
    line, machine = f"/p/kvd/timeline/get-p1/{CPU}", made.machines[0].name
    runs = [f"/runs/{pk}/" for pk in Run.objects.values_list("pk", flat=True)]
    addresses = [
        "/",
        "/p/kvd/",
        line,
        f"{line}?part=values",
        f"{line}.json",
        f"{line}.csv",
        f"/p/kvd/c/{made.shas[5]}/",
        "/p/kvd/alerts/",
        "/alerts/",
        f"/alerts/{alert.pk}/",
        *runs,
        *(f"{run}log/" for run in runs),
        "/queue/",
        f"/machines/{machine}/",
        f"/machines/{machine}.json",
    ]
    texts = {}
    for address in addresses:
        answer = client.get(address)
        assert answer.status_code == 200, address
        text = b"".join(answer).decode()  # type: ignore[arg-type]
        if address.endswith(".csv"):
            text = text.replace("\r\n", "\n")
        if address.endswith(".json"):
            text = json.dumps(json.loads(text), ensure_ascii=False).replace("\\u00", "\0").replace("\\r", "\0")
        assert not FOUND.search(text), (address, FOUND.search(text))
        texts[address] = text
    assert "Change number 3end" in texts[f"{line}?part=values"]
    assert "Ada Exampleend" in texts[f"{line}.json"]
    assert "v1end" in texts[f"{line}.json"]
    assert "Ada Exampleend" in texts[f"{line}.csv"]


def test_a_page_that_is_not_found_shows_none(client: Client, db: None) -> None:
    page = html_of(client.get("/nowhere/%E2%80%AE%C2%9B%1B/"))
    assert "/nowhere/" in page
    assert not FOUND.search(page)


def test_mails_show_none(marked: tuple[World, Alert]) -> None:
    _, alert = marked
    mail = mails.alert_message(Outbox.objects.create(recipient="team@example.org", alert=alert, event="shown"))
    html = str(mail.alternatives[0][0])
    assert "Ada Exampleend" in str(mail.body) and "Ada Exampleend" in html
    for text in (str(mail.subject), str(mail.body), html):
        assert not FOUND.search(text)


def track(settings: Any, home: Path, branch: str) -> None:
    """Run ``manage.py track`` of a repository with an odd branch."""
    repository = builders.Repository(home / "server")
    repository.commits(1)
    repository.git("branch", f"odd{BIDI}")
    builders.use_suite(settings, home / "suites")
    command = ["manage.py", "track", str(repository.path), "--suite", "tiny", "--branch", branch]
    ManagementUtility(command).execute()


def test_commands_print_none(db: None, settings: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    track(settings, tmp_path, f"odd{BIDI}")
    printed = capsys.readouterr().out
    assert "tracking odd of" in printed
    assert not FOUND.search(printed)


def test_commands_fail_without_any(db: None, settings: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        track(settings, tmp_path, "nowhere")
    printed = capsys.readouterr().err
    assert "it has main, odd" in printed
    assert not FOUND.search(printed)


def test_the_demonstration_prints_none(marked: tuple[World, Alert]) -> None:
    console = Console(file=io.StringIO(), soft_wrap=True, highlight=False)
    Commit.objects.update(subject=Concat(Value("[/x] "), "subject"))
    demo.print_runs(console, list(Run.objects.select_related("commit")))
    demo.print_findings(console, marked[0].project, [])
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "[/x] Change number 3" in printed
    assert not FOUND.search(printed)


def test_logs_hold_none() -> None:
    assert LOGGING["formatters"]["line"]["()"] is PlainLineFormatter
    record = logging.LogRecord("git", logging.WARNING, "", 0, "remote: %s", (f"said {MARKS}",), None)
    assert PlainLineFormatter("{message}", style="{").format(record) == "remote: said "


@pytest.mark.parametrize("text", ["", 'Ä quoted "word" and \\ a backslash \\u001b\n', f"odd {MARKS}", "\x1b[1mx", "\r"])
def test_json_of_the_database_is_made_plain(db: None, text: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT json_build_object('a', json_build_array(%s::text, 1))::text", [text])
        (document,) = cursor.fetchone()
    assert json.loads(plain_json(document)) == {"a": [plain(text), 1]}
    assert plain_values({"a": [text, 1]}) == {"a": [plain(text), 1]}
