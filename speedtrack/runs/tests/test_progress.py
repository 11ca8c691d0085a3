"""What is said of active runs, from their own reports and from earlier runs."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from speedtrack.benchmarks.numbers import about
from speedtrack.runs.documents import Renewal, ReportedProgress
from speedtrack.runs.models import Machine, Run
from speedtrack.runs.queue import progress, queue
from speedtrack.runs.queue.progress import Progress
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.tests import builders


def report(run: Run, done: int, total: int, now: str) -> Progress:
    said = ReportedProgress(done=done, total=total, now=now)
    queue.renew(run.machine, run.pk, Renewal(token=run.lease_token, progress=said))
    run.refresh_from_db()
    return progress.progress_of([run])[run.pk]


def began(run: Run, seconds: float) -> None:
    """Let the claim be so long ago."""
    Run.objects.filter(pk=run.pk).update(started_at=Now() - timedelta(seconds=seconds))


@pytest.fixture
def measured(tracked: Tracked, machine: Machine) -> Run:
    """A run that took 300 seconds: 100 for its build, 20 for each of its ten trials."""
    (run,) = builders.work(machine, lambda *_: 5000.0, until=1)
    builders.take_time(run, build_s=100.0, trial_s=19.5, between_s=0.5, around_s=0.0)
    return run


def test_a_run_that_builds_is_compared_with_earlier_builds(measured: Run, machine: Machine) -> None:
    run = builders.claim(machine)
    began(run, 41)
    found = report(run, 0, 10, f"build {run.commit.sha[:12]}")
    assert (found.part, found.percent, found.said) == ("build", 41, "build 41%, about 4 min left")
    began(run, 1000)
    found = report(run, 0, 10, f"build {run.commit.sha[:12]}")
    assert (found.percent, found.said) == (99, "build 99%, late by 12 min")


def test_a_run_that_measures_is_compared_with_earlier_trials(measured: Run, machine: Machine) -> None:
    run = builders.claim(machine)
    builders.send_build(run, run.commit)
    found = report(run, 5, 20, "get-p1, trial 6")
    assert (found.percent, found.said) == (25, "measure 25%, about 2 min left")
    assert found.left_s == pytest.approx(150, abs=1)


def test_without_earlier_runs_nothing_is_estimated(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    assert progress.progress_of([run])[run.pk].said == "start"
    assert report(run, 0, 10, "build abc").said == "build"
    assert report(run, 0, 10, "get-p1, trial 1").said == "measure 0%"


def test_only_active_runs_have_a_progress(measured: Run) -> None:
    measured.refresh_from_db()
    assert progress.progress_of([measured]) == {}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "10 s"), (44, "40 s"), (89, "90 s"), (91, "2 min"), (3600, "60 min"), (5400, "2 h"), (40000, "11 h")],
)
def test_an_estimate_is_no_more_exact_than_it_is(seconds: float, words: str) -> None:
    assert about(seconds) == words
