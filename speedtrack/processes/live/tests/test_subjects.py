"""A look at what is watched: one for all viewers, whatever they watch."""

from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from speedtrack.processes.live import subjects
from speedtrack.processes.live.subjects import look
from speedtrack.runs.models import Run
from speedtrack.runs.queue import queue
from speedtrack.tests import builders


@pytest.fixture
def runs(db: None, settings: Any, tmp_path: Path) -> list[int]:
    """The numbers of three runs, of which one is claimed."""
    settings.CANARY_AUTO = False
    builders.claim(builders.tracked_machine(settings, tmp_path))
    return list(Run.objects.order_by("pk").values_list("pk", flat=True))


def test_a_look_costs_as_much_for_all_runs_as_for_one(runs: list[int]) -> None:
    assert len(runs) == 3
    _, indexes = look(dict.fromkeys(runs), True)
    counts = []
    for watched in (runs[:1], runs):
        with CaptureQueriesContext(connection) as queries:
            answer, fresh = look({run: indexes[run] for run in watched}, True)
        counts.append(len(queries))
        assert answer.runs.keys() == set(watched) and fresh == {} and answer.grown == set()
    assert counts[0] == counts[1]


def test_a_run_that_does_not_exist_has_no_state_and_the_queue_one_if_it_is_watched(runs: list[int]) -> None:
    answer, fresh = look({10**9: None}, False)
    assert (answer.runs, answer.queue, fresh) == ({}, None, {})
    assert look({}, True)[0].queue is not None


def test_the_estimate_of_a_run_is_dropped_when_it_has_ended(runs: list[int]) -> None:
    claimed = Run.objects.active().get()
    look(dict.fromkeys(runs), True)
    assert claimed.pk in subjects.expected
    queue.cancel(claimed, "no longer wanted")
    queue.renew(claimed.machine, claimed.pk, builders.renewal(claimed))
    answer, _ = look(dict.fromkeys(runs), True)
    assert answer.runs[claimed.pk].done and claimed.pk not in subjects.expected
