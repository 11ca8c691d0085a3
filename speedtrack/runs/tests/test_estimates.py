"""Estimates of runs whose phases are known, because the rows of earlier ones say how long each took."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import cycle

import pytest
from django.utils import timezone

from speedtrack.projects.models import Commit, Project
from speedtrack.runs.models import Machine, Reason, Run, Status, Trial
from speedtrack.runs.planning import pushes
from speedtrack.runs.planning.questions import Question, plan_pairs
from speedtrack.runs.queue import estimates, queue
from speedtrack.runs.queue.estimates import DurationEstimate
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.tests import builders
from speedtrack.tests.builders import Repository
from speedtrack.tests.plans import rows_read

TIMES = {"build_s": 40.0, "trial_s": 2.0, "between_s": 0.5, "around_s": 6.0}


def measure_all(machine: Machine, **times: float) -> list[Run]:
    runs = builders.work(machine, lambda *_: 5000.0)
    for run in runs:
        builders.take_time(run, **(TIMES | times))
    return runs


def expected(run: Run) -> DurationEstimate:
    found = estimates.of_runs(Run.objects.filter(pk=run.pk))[run.pk]
    assert found
    return found


def pair(head: Run, base: Commit, trials: int = 15, reason: Reason = Reason.CONFIRM) -> Run:
    question = Question(base.pk, head.commit_id, head.machine, head.suite, head.benchmark_set, reason)
    return plan_pairs(replace(question, pairs=trials, metrics=()))


@pytest.mark.django_db
def test_nothing_is_promised_of_a_machine_that_has_measured_nothing(tracked: Tracked) -> None:
    run = Run.objects.latest("pk")
    assert estimates.of_runs(Run.objects.all())[run.pk] is None


def test_a_run_takes_what_its_phases_took_before(machine: Machine, repository: Repository) -> None:
    project = builders.track(repository).project
    measure_all(machine)
    repository.commit()
    pushes.sync_and_plan(project)
    found = expected(Run.objects.get(status=Status.QUEUED))
    assert found.build_s == 40
    assert found.trials_s == pytest.approx(2 * 5 * 2.5, abs=0.51)  # two benchmarks of five trials
    assert found.around_s == pytest.approx(6, abs=0.1)


@pytest.mark.django_db
def test_odd_runs_change_nothing(tracked: Tracked, machine: Machine) -> None:
    first, *_ = measure_all(machine)
    builders.take_time(first, **(TIMES | {"build_s": 4000.0, "trial_s": 400.0}))
    found = expected(pair(first, first.commit))
    assert found.trials_s == pytest.approx(2 * 15 * 2 * 2.5, rel=0.1)


@pytest.mark.django_db
def test_pairs_count_as_two_trials_until_pairs_were_measured(tracked: Tracked, machine: Machine) -> None:
    first, second, _ = measure_all(machine)
    run = pair(first, second.commit, trials=15)
    before = expected(run)
    assert before.pairs and before.build_s == 0.0  # the machine has both
    assert before.trials_s == pytest.approx(15 * 2 * 2 * 2.5, rel=0.1)
    [measured] = measure_all(machine, build_s=0.0, trial_s=7.0)
    assert measured == run
    after = expected(pair(first, second.commit, trials=10))
    assert after.trials_s == pytest.approx(10 * 2 * 7.5, rel=0.05)


@pytest.mark.django_db
def test_of_pairs_that_are_built_each_side_counts(tracked: Tracked, machine: Machine) -> None:
    run = Run.objects.order_by("-rank")[0]
    builders.work(machine, lambda *_: 5000.0, until=1)
    builders.take_time(run, **TIMES)
    unbuilt = list(Run.objects.filter(status=Status.QUEUED).order_by("rank"))
    assert expected(pair(run, unbuilt[0].commit)).build_s == 40
    assert expected(pair(unbuilt[1], unbuilt[0].commit)).build_s == 80
    assert expected(pair(unbuilt[0], unbuilt[0].commit, reason=Reason.AA)).build_s == 40


@pytest.mark.django_db
def test_a_run_ends_when_its_progress_says(tracked: Tracked, machine: Machine) -> None:
    builders.work(machine, lambda *_: 5000.0, until=2)
    for run in Run.objects.filter(status=Status.SUCCEEDED):
        builders.take_time(run, **TIMES)
    run = builders.claim(machine)
    found, now = expected(run), timezone.now()
    assert estimates.left_s(run, found, now) == pytest.approx(found.seconds, abs=1)
    assert estimates.left_s(run, found, now + timedelta(seconds=20)) == pytest.approx(found.seconds - 20, abs=1)
    assert estimates.left_s(run, found, now + timedelta(hours=1)) == 0
    Run.objects.filter(pk=run.pk).update(progress={"done": 15, "total": 20, "now": "get-p1"})
    run.refresh_from_db()
    assert estimates.left_s(run, found, now) == pytest.approx(found.trials_s / 4 + 3, abs=0.1)


@pytest.mark.django_db
def test_a_build_of_its_own_is_not_one_that_was_there(tracked: Tracked, machine: Machine) -> None:
    builders.work(machine, lambda *_: 5000.0, until=2)
    for run in Run.objects.filter(status=Status.SUCCEEDED):
        builders.take_time(run, **TIMES)
    run = builders.claim(machine)
    builders.send_build(run, run.commit)
    assert expected(run).build_s == 40
    assert queue.claim(machine)  # handed back: the next attempt finds its artifacts, which is noticed when it ends


@pytest.mark.django_db
def test_what_waits_is_summed_by_machine(tracked: Tracked, machine: Machine) -> None:
    builders.machine("m2")
    builders.work(machine, lambda *_: 5000.0, until=1)
    builders.take_time(Run.objects.get(status=Status.SUCCEEDED), **TIMES)
    one = expected(Run.objects.filter(status=Status.QUEUED)[0]).seconds
    total = estimates.totals(estimates.learn([machine.pk]), Run.objects.filter(status=Status.QUEUED))
    assert total == {machine.pk: (2, pytest.approx(2 * one))}


@pytest.mark.django_db
def test_as_many_rows_are_learned_from_however_many_runs_have_ended(tracked: Tracked, machine: Machine) -> None:
    run, *_ = measure_all(machine)

    def learn() -> object:
        return estimates.learn([machine.pk])

    add_ended(run, 50, 100)
    few = rows_read(learn)
    add_ended(run, 600, 1000)
    assert rows_read(learn) <= few


@pytest.mark.django_db
def test_the_trials_of_a_run_are_read_once(tracked: Tracked, machine: Machine) -> None:
    first, *_ = measure_all(machine)
    trials = Trial.objects.count()
    learned: list[estimates.Learned] = []

    def learn() -> None:
        learned.append(estimates.learn([machine.pk]))

    assert rows_read(learn) > trials
    assert rows_read(learn) < trials
    assert learned[0] == learned[1]
    builders.take_time(first, **(TIMES | {"trial_s": 400.0}))
    learn()
    assert learned[2] != learned[1], "it was measured again: it has another start and end"


def add_ended(run: Run, count: int, first: int, projects: Sequence[Project] = ()) -> None:
    """Runs like this one that have ended, in rounds from the first on, of these projects in turn."""
    now = timezone.now()
    names = ("project", "commit_id", "machine_id", "suite_id", "benchmark_set_id", "reason", "trials")
    same = {name: getattr(run, name) for name in names}
    ended = {"status": "succeeded", "started_at": now - timedelta(minutes=5), "ended_at": now}
    turns = cycle(projects or [run.project])
    Run.objects.bulk_create(
        Run(**same | ended | {"project": project}, round=first + number)
        for number, project in zip(range(count), turns, strict=False)
    )


@pytest.mark.django_db
def test_the_newest_runs_of_a_project_are_read_without_those_of_other_projects(
    tracked: Tracked, machine: Machine
) -> None:
    run, *_ = measure_all(machine)
    other = Project.objects.create(slug="b", name="b", url="/b", default_branch="main", suite="tiny")
    add_ended(run, 4000, 100, projects=[other, run.project])
    add_ended(run, 1000, 5000, projects=[other])

    def newest() -> int:
        return Run.objects.newest_first(run.project_id).values_list("pk", flat=True)[0]

    assert newest() == Run.objects.filter(project=run.project_id).latest("pk").pk
    assert rows_read(newest) == 1
