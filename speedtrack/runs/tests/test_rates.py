"""Rates of open-loop benchmarks: shares of a reference that is stored once and never changes."""

import json
from pathlib import Path
from typing import Any

import pytest

from speedtrack.benchmarks import definitions
from speedtrack.benchmarks.digests import benchmark_digests
from speedtrack.benchmarks.suitefiles import parse_suite
from speedtrack.runs.models import Machine, Measurement, ReferenceRate, Run, RunEvent, Status
from speedtrack.runs.queue import jobs, queue
from speedtrack.runs.requests import byhand
from speedtrack.runs.results import results
from speedtrack.tests import builders

OPEN = """[[benchmark]]
name = "half"
why = "what a read waits at half the load"
workload = { test = "get", mode = "open", rate = { of = "get-p1", share = 0.5 }, keys = { count = 1000 } }
"""


@pytest.fixture
def suites(tmp_path: Path, settings: Any) -> Path:
    builders.use_suite(settings, tmp_path / "suites", builders.SUITE + OPEN)
    return tmp_path / "suites"


def rates(run: Run) -> list[Any]:
    """The rate of the open-loop benchmark in the job of a claimed run; empty if it is not in the job."""
    return [b["workload"]["rate"] for b in json.loads(jobs.job_text(run))["benchmarks"] if b["name"] == "half"]


def measure(run: Run, value: float, **changes: Any) -> None:
    """Measure and complete a claimed run: `value` ns of server CPU, which the builders make 1e9 / value requests/s."""
    for name in builders.measured(run):
        results.accept_result(run.machine, run.pk, builders.result(run, name, run.commit, [value] * 5, **changes))
    queue.complete(run.machine, run.pk, run.lease_token)


def test_a_benchmark_without_its_reference_is_postponed_and_the_history_says_so(tracked: Any, machine: Machine) -> None:
    run = builders.claim(machine)
    assert builders.measured(run) == ["get-p1", "set-p1"]
    why = RunEvent.objects.get(run=run, after=Status.LEASED).why
    assert why.startswith("claimed by m1; half is postponed: no undisturbed result of get-p1 on m1 yet")
    measure(run, 5000.0)
    run.refresh_from_db()
    assert run.status == Status.SUCCEEDED
    assert not Measurement.objects.filter(series__benchmark__name="half").exists()


def test_the_next_run_has_the_rate_and_no_later_one_another(tracked: Any, machine: Machine) -> None:
    measure(builders.claim(machine), 5000.0)
    second = builders.claim(machine)
    assert rates(second) == [100_000.0]
    measure(second, 1000.0)
    third = builders.claim(machine)
    assert rates(third) == [100_000.0]
    row = ReferenceRate.objects.get()
    assert (row.rps, row.machine, row.measurement.attempt.run.rank) == (200_000.0, machine, 2)


def test_each_machine_has_a_reference_of_its_own(tracked: Any, machine: Machine) -> None:
    measure(builders.claim(machine), 5000.0)
    other = builders.machine("m2")
    byhand.queue_by_hand(byhand.choose(tracked.project.slug, "main", [], "m2"))
    assert rates(builders.claim(other)) == []
    assert rates(builders.claim(machine)) == [100_000.0]


@pytest.mark.parametrize(("flag", "kept"), [("steal", []), ("client_bound", [100_000.0])])
def test_a_disturbed_measurement_is_no_reference(tracked: Any, machine: Machine, flag: str, kept: list[float]) -> None:
    measure(builders.claim(machine), 5000.0, flags=[[flag]] * 5)
    assert rates(builders.claim(machine)) == kept


def test_what_was_not_accepted_is_no_reference(tracked: Any, machine: Machine) -> None:
    run = builders.claim(machine)
    builders.measure(run)
    builders.expire_lease(run)
    queue.reap()
    assert rates(builders.claim(machine)) == []


def test_a_run_of_postponed_benchmarks_alone_fails_at_once_and_the_next_is_claimed(
    tracked: Any, machine: Machine
) -> None:
    byhand.queue_by_hand(byhand.choose(tracked.project.slug, "main", ["half"], None))
    run = builders.claim(machine)
    assert builders.measured(run) == ["get-p1", "set-p1"]
    [failed] = [one for one in Run.objects.all() if one.benchmark_set.names == ["half"]]
    assert failed.status == Status.FAILED
    assert failed.error.startswith("nothing to measure: half: no undisturbed result of get-p1 on m1 yet")
    assert builders.moves(failed) == [("queued", "leased"), ("leased", "failed")]


def test_a_rate_in_requests_per_second_needs_no_reference(
    machine: Machine, three_commits: builders.Repository, suites: Path, settings: Any
) -> None:
    fixed = OPEN.replace('{ of = "get-p1", share = 0.5 }', "1234.5")
    builders.use_suite(settings, suites, builders.SUITE + fixed)
    builders.track(three_commits)
    assert rates(builders.claim(machine)) == [1234.5]


EXTENDED = OPEN.replace("why", "extended = true\nwhy")


def test_extended_benchmarks_are_measured_when_they_are_asked_for(
    machine: Machine, three_commits: builders.Repository, suites: Path, settings: Any
) -> None:
    builders.use_suite(settings, suites, builders.SUITE + EXTENDED)
    slug = builders.track(three_commits).project.slug
    assert {tuple(run.benchmark_set.names) for run in Run.objects.all()} == {("get-p1", "set-p1")}
    byhand.queue_by_hand(byhand.choose(slug, "main", [], None))
    byhand.queue_by_hand(byhand.choose(slug, "main", [], None, extended=True))
    byhand.queue_by_hand(byhand.choose(slug, "main", ["half"], None))
    manual = Run.objects.filter(reason="manual").order_by("pk")
    assert [run.benchmark_set.names for run in manual] == [["get-p1", "set-p1"], ["get-p1", "set-p1", "half"], ["half"]]


def test_what_is_extended_is_not_part_of_a_meaning() -> None:
    usual, extended = (parse_suite(builders.SUITE + more, "tiny.toml") for more in (OPEN, EXTENDED))
    assert benchmark_digests(usual.model_dump()) == benchmark_digests(extended.model_dump())


def test_the_default_set_must_not_be_empty_nor_depend_on_the_rest() -> None:
    text = builders.SUITE.replace("[[benchmark]]", "[[benchmark]]\nextended = true")
    with pytest.raises(definitions.DefinitionError, match="every benchmark is extended"):
        parse_suite(text, "tiny.toml")
    with pytest.raises(definitions.DefinitionError, match="get-p1 is extended: then this one must be extended, too"):
        parse_suite(text + OPEN, "tiny.toml")
