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
from speedtrack.runs.scheduling import states
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


def test_pages_of_no_queue_say_the_version_that_is_published(runs: list[int]) -> None:
    versions = set()
    claimed = Run.objects.active().get()
    for error in ("", "the disk is full"):
        Run.objects.filter(pk=claimed.pk).update(error=error)
        with CaptureQueriesContext(connection) as queries:
            versions.add(states.version_now())
        published = look({}, True)[0].queue
        assert published and published.version in versions and len(queries) == 1
    assert len(versions) == 2


def test_without_machines_there_is_a_version_too(db: None) -> None:
    published = look({}, True)[0].queue
    assert published and published.version == states.version_now()


def test_the_estimate_of_a_run_is_dropped_when_it_has_ended(runs: list[int]) -> None:
    claimed = Run.objects.active().get()
    look(dict.fromkeys(runs), True)
    assert claimed.pk in subjects.expected
    queue.cancel(claimed, "no longer wanted")
    queue.renew(claimed.machine, claimed.pk, builders.renewal(claimed))
    answer, _ = look(dict.fromkeys(runs), True)
    assert answer.runs[claimed.pk].done and claimed.pk not in subjects.expected
