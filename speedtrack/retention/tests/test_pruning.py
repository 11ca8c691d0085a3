"""A pruning that is asked about, interrupted, doubled, or out of room."""

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings as django_settings
from django.core.management import CommandError
from django.db import connection, connections

from speedtrack.processes.dispatch import duties_with_work
from speedtrack.retention import nightly, pruning
from speedtrack.retention.policies import POLICIES
from speedtrack.retention.tests.ages import contents, kept_for_ever, let_pass, measure_fully, prune
from speedtrack.runs.models import LogChunk
from speedtrack.tests import builders
from speedtrack.upkeep import doctor
from speedtrack.web.tests.world import World, world

LOGS = POLICIES["logs"]


def test_a_dry_run_says_what_would_go_and_deletes_nothing(kvd: World) -> None:
    kvd.push(1)
    measure_fully(builders.claim(kvd.machines[0]))
    let_pass(800)
    before, out = contents(), StringIO()
    prune("--dry-run", yes=False, stdout=out)
    assert contents() == before
    lines = {line.split()[0]: line for line in out.getvalue().splitlines()}
    assert lines["policy"].split() == ["policy", "setting", "rows", "bytes", "what", "would", "go"]
    assert lines.keys() >= POLICIES.keys()
    assert lines["logs"].split()[:3] == ["logs", "KEEP_LOGS_DAYS=90", "1"]
    rows = before["samples"] + before["trials"]
    assert lines["samples"].split()[2] == str(rows)
    assert "would delete 1 of 1 log chunks" in out.getvalue()
    found = pruning.forecast(POLICIES["documents"])
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*), sum(pg_column_size(documents)) FROM runs_result")
        assert (found.rows, found.bytes) == cursor.fetchone()


def fill(rows: int, days: int) -> None:
    """So many pieces of a log of this age: one of each attempt, and the rest of the first one."""
    attempt = LogChunk.attempt.field.related_model.objects.order_by("pk").first()
    LogChunk.objects.bulk_create(LogChunk(attempt=attempt, seq=i, phase="p", text="t") for i in range(1, rows + 1))
    let_pass(days)


def answered(*answers: str) -> tuple[str, str | None]:
    """What ``prune`` says on a terminal to a person with these answers, and its error."""
    ours, theirs = pty.openpty()
    os.write(ours, "".join(f"{answer}\n" for answer in answers).encode() or b"\x04")
    stdin, out = sys.stdin, StringIO()
    with os.fdopen(theirs) as terminal:
        sys.stdin = terminal
        try:
            prune("--only", "logs", yes=False, stdout=out, stderr=out)
            return out.getvalue(), None
        except CommandError as e:
            return out.getvalue(), str(e)
        finally:
            sys.stdin = stdin
            os.close(ours)


@pytest.mark.parametrize("answers", [[], ["no"], ["yes", "no"], ["yes", ""]])
def test_a_policy_that_would_delete_nearly_everything_asks_twice(kvd: World, answers: list[str]) -> None:
    fill(19, days=91)
    out, error = answered(*answers)
    assert "logs: it would delete 19 of 19 log chunks" in out
    assert error == "nothing was deleted of logs: confirm it, or give --yes"
    assert contents()["logs"] == 19


def test_it_deletes_once_both_questions_are_answered(kvd: World) -> None:
    fill(19, days=91)
    out, error = answered("yes", "logs")
    assert error is None and "logs: 19 rows older than 90 days deleted" in out
    assert contents()["logs"] == 0


def test_without_a_terminal_it_needs_yes(kvd: World) -> None:
    fill(19, days=91)
    with pytest.raises(CommandError, match="nothing was deleted of logs: confirm it, or give --yes"):
        prune("--only", "logs", yes=False)
    prune("--only", "logs")
    assert contents()["logs"] == 0


def test_it_does_not_ask_while_enough_stays(kvd: World) -> None:
    fill(17, days=91)
    kvd.push(1)
    run = builders.claim(kvd.machines[0])
    LogChunk.objects.bulk_create(LogChunk(attempt=run.attempts.get(), seq=i, phase="p", text="t") for i in range(2))
    prune("--only", "logs", yes=False)
    assert contents()["logs"] == 2


def test_a_policy_of_a_few_days_asks(kvd: World, settings: Any) -> None:
    settings.KEEP_DAYS = settings.KEEP_DAYS | {"logs": 6}
    with pytest.raises(CommandError, match="nothing was deleted of logs"):
        prune("--only", "logs", yes=False)


@pytest.fixture
def by_night(kvd: World, settings: Any) -> World:
    """The next tick is the first one of the night, in which a log is old."""
    settings.PRUNE_HOUR = 0
    fill(3, days=91)
    return kvd


def test_the_nightly_duty_is_due_once_a_day(by_night: World) -> None:
    assert "prune" in duties_with_work()
    nightly.prune_due()
    assert "prune" not in duties_with_work()
    assert contents()["logs"] == 0
    let_pass(1)
    assert "prune" in duties_with_work()


def test_it_is_never_due_where_the_operator_says_so(by_night: World, settings: Any) -> None:
    settings.PRUNE_HOUR = -1
    assert "prune" not in duties_with_work()


def test_a_new_installation_waits_for_its_first_night(db: None, settings: Any, tmp_path: Path) -> None:
    settings.PRUNE_HOUR = 0
    world(settings, tmp_path)
    assert "prune" not in duties_with_work()


def test_a_turn_that_is_over_goes_on_with_the_next_nudge(by_night: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nightly, "AT_MOST_S", -1.0)
    nightly.prune_due()
    assert contents()["logs"] == 3 and "prune" in duties_with_work()
    monkeypatch.undo()
    nightly.prune_due()
    assert contents()["logs"] == 0 and "prune" not in duties_with_work()


def test_the_nightly_duty_refuses_to_delete_nearly_everything(by_night: World, caplog: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(nightly, "FEWEST", 3)
    nightly.prune_due()
    assert contents()["logs"] == 3
    words = "it would delete 3 of 3 log chunks. To prune `logs` by hand asks, and does it"
    assert words in caplog.text
    assert "prune" not in duties_with_work(), "until the next night"
    state, found = doctor.check_retention()
    assert state == "bad" and words in found
    prune()
    assert doctor.check_retention()[0] == "good"


def out_of_room(after: int) -> None:
    """PostgreSQL refuses to delete a log, with the error of a full disk, once so few are left."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                  IF (SELECT count(*) FROM runs_logchunk) <= {after} THEN
                    RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
                  END IF; RETURN OLD; END $$;
                CREATE TRIGGER full_disk BEFORE DELETE ON runs_logchunk
                FOR EACH ROW EXECUTE FUNCTION full_disk()"""
        )


def one_log_per_day(kvd: World) -> None:
    """Four old logs, each of another day."""
    attempts = LogChunk.attempt.field.related_model.objects.order_by("pk")
    for attempt in attempts:
        LogChunk.objects.create(attempt=attempt, seq=0, phase="p", text="t")
    with connection.cursor() as cursor:  # the sequence goes on from test to test: an id is no small number
        cursor.execute(
            "UPDATE runs_attempt SET ended_at = ended_at + (id - first) * interval '1 day'"
            " FROM (SELECT min(id) AS first FROM runs_attempt) AS attempts"
        )
    let_pass(400)


def test_a_full_disk_is_named_with_its_remedy_and_nothing_is_undone(kvd: World, caplog: Any) -> None:
    one_log_per_day(kvd)
    before = kept_for_ever()
    out_of_room(after=2)
    with pytest.raises(
        CommandError,
        match=r"logs: could not extend file: No space left on device\. Deleting needs some room, too: make room on "
        "PostgreSQL's disk, then prune again; deleted rows stay deleted",
    ):
        prune("--only", "logs")
    assert contents()["logs"] == 2
    assert nightly.prune_by_night(LOGS, lambda: True)
    assert "make room on PostgreSQL's disk" in caplog.text
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER full_disk ON runs_logchunk")
    prune("--only", "logs")
    assert contents()["logs"] == 0
    assert kept_for_ever() == before


def other_session() -> "psycopg.Connection[Any]":
    known = connection.settings_dict
    place = {"host": known["HOST"], "port": known["PORT"], "user": known["USER"], "password": known["PASSWORD"]}
    return psycopg.connect(
        dbname=known["NAME"], autocommit=True, **{key: value for key, value in place.items() if value}
    )


def test_a_second_pruning_says_that_there_is_a_first_one_and_ends(kvd: World, caplog: Any, settings: Any) -> None:
    fill(3, days=91)
    settings.PRUNE_HOUR = 0
    with other_session() as session:
        session.execute("SELECT pg_advisory_lock(%s, 0)", [pruning.PRUNING_LOCK])
        with pytest.raises(CommandError, match="another pruning is under way: this one ends and has deleted nothing"):
            prune()
        caplog.set_level("INFO")
        nightly.prune_due()
        assert "another pruning is under way" in caplog.text
        assert contents()["logs"] == 3
        session.execute("SELECT pg_advisory_unlock(%s, 0)", [pruning.PRUNING_LOCK])
    prune()
    assert contents()["logs"] == 0


def test_the_lock_is_given_back(kvd: World) -> None:
    prune()
    with other_session() as session:
        assert session.execute("SELECT pg_try_advisory_lock(%s, 0)", [pruning.PRUNING_LOCK]).fetchone() == (True,)


@pytest.fixture
def committed(transactional_db: None, settings: Any, tmp_path: Path) -> Iterator[World]:
    made = world(settings, tmp_path)
    made.measure()
    yield made
    connections.close_all()


def test_sigkill_in_the_middle_loses_nothing_else(committed: World) -> None:
    one_log_per_day(committed)
    before = kept_for_ever()
    with connection.cursor() as cursor:  # so that the middle can be hit
        cursor.execute(
            """CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
               $$ BEGIN PERFORM pg_sleep(1); RETURN OLD; END $$;
               CREATE TRIGGER slow BEFORE DELETE ON runs_logchunk FOR EACH ROW EXECUTE FUNCTION slow()"""
        )
    known = connection.settings_dict
    url = f"postgresql:///{known['NAME']}?host={known['HOST']}&user={known['USER']}&port={known['PORT']}"
    process = subprocess.Popen(
        [sys.executable, "manage.py", "prune", "--only", "logs", "--yes"],
        cwd=django_settings.BASE_DIR,
        env=os.environ | {"DATABASE_URL": url},
    )
    try:
        until = time.monotonic() + 120
        while contents()["logs"] > 3 and time.monotonic() < until:
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER slow ON runs_logchunk; DROP FUNCTION slow()")
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    assert 0 < contents()["logs"] <= 3
    assert kept_for_ever() == before
    prune("--only", "logs")
    assert contents()["logs"] == 0
    assert kept_for_ever() == before
