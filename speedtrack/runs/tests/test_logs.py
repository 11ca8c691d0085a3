"""Logs by lines: whatever pieces they come in, each line has one number, and only what is asked for is read."""

import random

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from speedtrack.runs.documents import LogPiece
from speedtrack.runs.models import LogChunk, Machine, Run
from speedtrack.runs.queue import queue
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.runs.results import logs
from speedtrack.runs.results.logs import LINE_CHARACTERS, LINES, READ_BYTES, LogIndex, StoredLine
from speedtrack.tests import builders


@pytest.fixture
def run(tracked: Tracked, machine: Machine) -> Run:
    return builders.claim(machine)


def send(run: Run, *texts: str, phase: str = "build") -> None:
    seq = LogChunk.objects.filter(attempt__run=run, attempt__token=run.lease_token).count()
    for place, text in enumerate(texts):
        queue.keep_log(run.machine, run.pk, LogPiece(token=run.lease_token, seq=seq + place, phase=phase, text=text))


def fill(run: Run, texts: list[str], phase: str = "measure") -> None:
    """Pieces beyond what one attempt may send."""
    attempt = run.attempts.get()
    LogChunk.objects.bulk_create(LogChunk(attempt=attempt, seq=i, phase=phase, text=t) for i, t in enumerate(texts))


def texts(index: LogIndex, first: int = 1, end: int = 10**9) -> list[str]:
    return [line.text for line in logs.read(index, first, end)]


def test_lines_have_the_numbers_that_the_text_gives_them(run: Run) -> None:
    send(run, "one\ntw", "o\n\nfo", "ur", "\nfive")
    index = logs.index_of(run.pk)
    assert logs.read(index, 1, 100) == [
        StoredLine(number, text, False) for number, text in enumerate(["one", "two", "", "four", "five"], 1)
    ]
    assert (index.total, index.complete_lines) == (5, 4)
    assert texts(index, 2, 4) == ["two", ""]
    assert texts(index, 5, 6) == ["five"]
    assert texts(index, 6, 9) == []


def test_however_a_text_is_cut_its_lines_are_the_same(run: Run) -> None:
    dice = random.Random(7)
    text = "".join(dice.choice("ab\n\r\té") for _ in range(3000))
    cuts = sorted(dice.randrange(len(text)) for _ in range(200))
    fill(run, [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)])
    wanted = text.split("\n") if not text.endswith("\n") else text.split("\n")[:-1]
    index = logs.index_of(run.pk)
    assert texts(index) == wanted
    assert index.total == len(wanted)
    for _ in range(50):
        first = dice.randrange(1, len(wanted))
        assert texts(index, first, first + 7) == wanted[first - 1 : first + 6]


def test_a_phase_begins_on_a_line_of_its_own(run: Run) -> None:
    send(run, "cc\nlinking", phase="build a")
    send(run, "trial 1\n", phase="measure")
    send(run, "trial 2\n", phase="measure")
    index = logs.index_of(run.pk)
    assert texts(index) == ["cc", "linking", "trial 1", "trial 2"]
    assert [(one.phase, one.first, one.last) for one in index.stretches] == [("build a", 1, 2), ("measure", 3, 4)]
    assert [index.stretch_of(line).phase for line in (1, 2, 3, 4)] == ["build a"] * 2 + ["measure"] * 2


def test_a_second_attempt_goes_on_with_the_numbers(run: Run, machine: Machine) -> None:
    send(run, "lost\n")
    builders.expire_lease(run)
    queue.reap()
    Run.objects.update(not_before=run.created)
    again = builders.claim(machine)
    assert again.pk == run.pk
    send(again, "again\n")
    index = logs.index_of(run.pk)
    assert texts(index) == ["lost", "again"]
    assert [(one.number, one.first) for one in index.stretches] == [(1, 1), (2, 2)]


def test_an_index_that_grows_is_like_one_made_at_once(run: Run) -> None:
    index = LogIndex()
    assert logs.extend({run.pk: index}) == set()
    for piece in ("one\nt", "w", "o\nthree"):
        send(run, piece)
        assert logs.extend({run.pk: index}) == {run.pk}
    send(run, "")
    assert logs.extend({run.pk: index}) == set()
    send(run, "x\n", phase="measure")
    logs.extend({run.pk: index, 0: LogIndex()})
    assert index == logs.index_of(run.pk)
    assert logs.extend({run.pk: index}) == set()
    assert logs.extend({}) == set()


def test_a_line_of_10_mb_is_shown_by_its_beginning_and_not_read(run: Run) -> None:
    fill(run, ["before\n", "x" * 1000, *["y" * 64 * 1024] * 160, "z\nafter\n"])
    index = logs.index_of(run.pk)
    assert index.total == 3
    assert index.cost(1, 4) < READ_BYTES / 4
    before, long, after = logs.read(index, 1, 4)
    assert (before.text, after.text) == ("before", "after")
    assert long.cut and long.text == "x" * 1000 + "y" * (LINE_CHARACTERS - 1000)


def test_of_100_mb_only_a_part_is_read(run: Run) -> None:
    line = "0123456789abcde\n"
    fill(run, [line * (64 * 1024 // len(line))] * 1600)
    with CaptureQueriesContext(connection) as sent:
        index = logs.index_of(run.pk)
        first = index.start_before(index.total + 1)
        shown = logs.read(index, first, index.total + 1)
    assert len(sent) == 2
    assert index.total == 1600 * 4096
    assert [shown[0].number, shown[-1].number] == [index.total - LINES + 1, index.total]
    assert index.cost(first, index.total + 1) <= 2 * 64 * 1024


def test_fewer_lines_are_read_at_once_where_they_are_long(run: Run) -> None:
    fill(run, [f"{'a' * 200_000}\n"] * 50)
    index = logs.index_of(run.pk)
    end = index.end_after(1)
    assert 1 < end <= READ_BYTES // 200_000 + 2
    first = index.start_before(51)
    assert index.cost(first, 51) <= READ_BYTES
    assert [line.number for line in logs.read(index, first, 51)] == list(range(first, 51))
    assert (LogIndex().start_before(1), LogIndex().end_after(1)) == (1, 1)


def test_pieces_that_are_deleted_meanwhile_leave_no_error(run: Run) -> None:
    send(run, "one\n", "two\n")
    index = logs.index_of(run.pk)
    LogChunk.objects.all().delete()
    assert logs.read(index, 1, 3) == []
