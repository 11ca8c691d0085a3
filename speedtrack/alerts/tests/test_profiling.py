"""A confirmed alert is profiled once, by itself, after everything that is to be measured; again by hand."""

from collections.abc import Callable

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction

from speedtrack.alerts.models import Alert
from speedtrack.alerts.triage import profiling
from speedtrack.runs.fleet import machines
from speedtrack.runs.models import Machine, Measurement, Profile, Reason, Run, Status
from speedtrack.runs.planning import planning
from speedtrack.runs.queue import ends, fence, jobs, queue
from speedtrack.runs.requests import changing
from speedtrack.runs.results import profiles
from speedtrack.tests import builders

from .conftest import World


@pytest.fixture
def alert(world: World) -> Alert:
    world.factors = {world.shas[7]: 1.3}
    builders.track(world.repository)
    world.until_quiet()
    return Alert.objects.get()


def profile_runs() -> list[Run]:
    return list(Run.objects.filter(reason=Reason.PROFILE).order_by("id"))


def test_an_alert_is_profiled_once_on_its_machine_under_its_benchmark(world: World, alert: Alert) -> None:
    assert [profiling.plan_missing_profiles(), profiling.plan_missing_profiles()] == [1, 0]
    (run,) = profile_runs()
    assert (run.base, run.commit, run.machine, run.benchmark_set.names) == (
        alert.before,
        alert.commit,
        world.machine,
        ["get-p1"],
    )
    before = Measurement.objects.count()
    builders.work(world.machine, world.speed)
    run.refresh_from_db()
    assert run.status == Status.SUCCEEDED and Measurement.objects.count() == before
    found = profiles.profiles_of([run])
    assert [p.side for p in found] == ["base", "head"]
    assert profiles.folded_stacks(found[0]) == builders.FOLDED["base"]


def retire(machine: Machine) -> None:
    machines.retire(machine)


def untrack(machine: Machine) -> None:
    changing.untrack(machine.projects.get())


def leave_it_to_others(machine: Machine) -> None:
    Machine.objects.filter(pk=machine.pk).update(outside=True, last_seen_at=None)


@pytest.mark.parametrize("end", [retire, untrack, leave_it_to_others])
def test_nothing_is_profiled_where_nothing_can_be_measured(
    world: World, alert: Alert, end: Callable[[Machine], None]
) -> None:
    end(world.machine)
    assert profiling.plan_missing_profiles() == 0 and not profile_runs()
    with pytest.raises(CommandError, match="has no change that can be measured again"):
        call_command("profile", "--alert", str(alert.pk))


def test_the_job_says_that_it_is_to_be_profiled_and_goes_after_what_is_to_be_measured(
    world: World, alert: Alert
) -> None:
    profiling.plan_missing_profiles()
    call_command("measure", world.repository.path.name, world.shas[3])
    assert builders.claim(world.machine).reason == Reason.MANUAL
    builders.work(world.machine, world.speed, until=0)
    Run.objects.filter(reason=Reason.MANUAL).update(status=Status.CANCELLED, lease_until=None)
    job = jobs.job_document(builders.claim(world.machine))
    assert job["profile"] == {"frequency_hz": 997} and job["reason"] == "profile"
    assert [side["side"] for side in job["sides"]] == ["base", "head"]


def test_a_run_without_all_its_profiles_is_not_complete(world: World, alert: Alert) -> None:
    profiling.plan_missing_profiles()
    run = builders.claim(world.machine)
    for _ in range(2):
        builders.send_profile(run, "get-p1", alert.commit)
    assert Profile.objects.count() == 1, "the same again changes nothing"
    with pytest.raises(ends.Incomplete, match="has 1 of 2 profiles"):
        queue.complete(world.machine, run.pk, run.lease_token)
    with pytest.raises(fence.LeaseLost):
        builders.send_profile(run, "get-p1", alert.before, token=0)
    row = Profile.objects.get()
    row.pk = None
    with pytest.raises(IntegrityError, match="a_profile_once_per_attempt"), transaction.atomic():
        row.save()


def test_by_hand_it_is_done_again_and_first(world: World, alert: Alert) -> None:
    profiling.plan_missing_profiles()
    builders.work(world.machine, world.speed)
    call_command("profile", "--alert", str(alert.pk))
    call_command("profile", "--alert", str(alert.pk))
    again = profile_runs()
    assert [run.round for run in again] == [0, 1] and again[1].priority == planning.PRIORITY["manual"]


def test_a_run_is_profiled_against_the_commit_before_it(world: World, alert: Alert) -> None:
    run = Run.objects.get(commit__sha=world.shas[4], base=None)
    call_command("profile", "--run", str(run.pk))
    (made,) = profile_runs()
    assert made.base and (made.base.sha, made.commit.sha) == (world.shas[3], world.shas[4])
    assert made.benchmark_set == run.benchmark_set
    first = Run.objects.get(commit__sha=world.shas[0], base=None)
    for what, number, words in [
        ("--run", first.pk, "is not tracked: profile a run of a later commit"),
        ("--run", 0, "there is no run 0"),
        ("--alert", 0, "there is no alert 0"),
    ]:
        with pytest.raises(CommandError, match=words):
            call_command("profile", what, str(number))
