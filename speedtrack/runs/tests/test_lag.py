"""The alarm of a branch whose head is not measured: once per episode, and over when it is."""

from datetime import timedelta

import pytest
from django.core import mail
from django.db.models import F
from django.db.models.functions import Now

from speedtrack.processes.dispatch import duties_with_work
from speedtrack.projects.models import Branch, Project
from speedtrack.runs.models import Alarm, Machine
from speedtrack.runs.planning import pushes
from speedtrack.runs.queue import lag
from speedtrack.runs.requests import rules
from speedtrack.tasks.notify import notify
from speedtrack.tests import builders
from speedtrack.tests.builders import Repository


@pytest.fixture
def project(machine: Machine, repository: Repository) -> Project:
    """A project that is measured up to its head."""
    made = builders.track(repository).project
    builders.work(machine, lambda *_: 5000.0)
    return made


def hours_pass(hours: float) -> None:
    """Look, as if this much time has passed since the look before."""
    earlier = timedelta(hours=hours)
    Branch.objects.update(awaited_since=F("awaited_since") - earlier)
    Project.objects.update(lag_looked_at=Now() - lag.LOOK_EVERY)
    lag.look()


def alarms() -> list[tuple[str, bool]]:
    return [(one.subject, one.ended_at is None) for one in Alarm.objects.order_by("pk")]


def test_a_head_that_is_not_measured_for_a_day_is_an_alarm_until_it_is(
    project: Project, repository: Repository, machine: Machine, settings: object
) -> None:
    settings.OPERATORS = ["ops@example.org"]  # type: ignore[attr-defined]
    hours_pass(0)
    repository.commits(1)
    pushes.sync_and_plan(project)
    for hours, found in ((0, []), (23, []), (2, [("repository main", True)]), (30, [("repository main", True)])):
        hours_pass(hours)
        assert alarms() == found, hours
    assert "runs that wait for m1: 1" in Alarm.objects.get().why
    notify()
    builders.work(machine, lambda *_: 5000.0)
    hours_pass(0)
    assert alarms() == [("repository main", False)]
    for _ in range(2):
        notify()
    assert [one.subject for one in mail.outbox] == [
        "[repository main] is not measured",
        "[repository main] over: is not measured",
    ]
    assert Branch.objects.get().awaited_since is None


def test_a_busy_branch_whose_measured_commit_follows_its_head_is_no_alarm(
    project: Project, repository: Repository, machine: Machine
) -> None:
    for _ in range(4):
        repository.commits(1)
        pushes.sync_and_plan(project)
        hours_pass(20)
        builders.work(machine, lambda *_: 5000.0)
        repository.commits(1)
        pushes.sync_and_plan(project)
        hours_pass(0)
    assert alarms() == []


def test_without_a_limit_or_tracking_there_is_no_alarm(
    project: Project, repository: Repository, machine: Machine
) -> None:
    repository.commits(1)
    pushes.sync_and_plan(project)
    Project.objects.update(lag_alarm_hours=0)
    hours_pass(0)
    hours_pass(1000)
    assert alarms() == []
    Project.objects.update(lag_alarm_hours=1)
    hours_pass(2)
    assert alarms() == [("repository main", True)]
    Project.objects.update(untracked_at=Now())
    hours_pass(0)
    assert alarms() == [("repository main", False)]


def test_the_cause_is_named(project: Project, repository: Repository) -> None:
    project.machines.clear()
    repository.commits(1)
    pushes.sync_and_plan(project)
    hours_pass(0)
    hours_pass(25)
    assert "no machine measures the project" in Alarm.objects.get().why


def test_the_dispatcher_looks_every_five_minutes(project: Project) -> None:
    assert "lag" not in duties_with_work()
    Project.objects.update(lag_looked_at=Now() - lag.LOOK_EVERY)
    assert "lag" in duties_with_work()
    lag.look()
    assert "lag" not in duties_with_work()


def test_a_head_that_its_policy_leaves_out_is_not_awaited(
    project: Project, repository: Repository, machine: Machine
) -> None:
    rules.save_policy(project, rules.WantedPolicy(every=100))
    repository.commits(1)
    pushes.sync_and_plan(project)
    assert project.deferrals.count() == 1
    hours_pass(0)
    hours_pass(1000)
    assert alarms() == []
    rules.save_policy(project, rules.WantedPolicy())
    hours_pass(0)
    hours_pass(25)
    assert alarms() == [("repository main", True)]
