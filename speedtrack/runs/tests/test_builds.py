"""A build has its own series, and a program that was measured before is not measured again."""

from typing import Any

import pytest

from speedtrack.benchmarks import definitions
from speedtrack.benchmarks.digests import build_meaning, json_digest
from speedtrack.runs.documents import FailureReport
from speedtrack.runs.models import Machine, Measurement, Reason, Run, Samples, Series, Status
from speedtrack.runs.queue import ends, queue
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.runs.scheduling import quarantine
from speedtrack.tests import builders

pytestmark = pytest.mark.django_db


def measure(run: Run) -> None:
    builders.measure(run)
    queue.complete(run.machine, run.pk, run.lease_token)


def send_build(run: Run, binary: str = "same", **changes: Any) -> Run | None:
    return builders.send_build(run, run.commit, binary=binary, environment=builders.environment(), **changes)


@pytest.fixture
def history(tracked: Tracked, machine: Machine) -> list[Run]:
    """The waiting runs of a history with one priority, oldest commit first."""
    return builders.oldest_first()


def build_series() -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    measurements = Measurement.objects.filter(series__benchmark__name=definitions.BUILD, accepted=True)
    for metric, value in measurements.order_by("pk").values_list("series__metric", "value"):
        found.setdefault(metric, []).append(value)
    return found


def test_the_same_program_as_the_parents_is_linked_and_not_measured(history: list[Run], machine: Machine) -> None:
    first = builders.claim(machine)
    assert send_build(first) is None
    measure(first)
    samples = Samples.objects.exclude(measurement__series__benchmark__name=definitions.BUILD).count()
    for _ in range(2):  # the second is linked through the first
        run = builders.claim(machine)
        assert send_build(run) == first
        queue.complete(machine, run.pk, run.lease_token)
        run.refresh_from_db()
        assert (run.status, run.linked) == (Status.SUCCEEDED, first)
    assert Samples.objects.exclude(measurement__series__benchmark__name=definitions.BUILD).count() == samples
    assert build_series() == {"binary_bytes": [1000.0] * 3, "build_seconds": [1.5] * 3}


@pytest.mark.parametrize(
    "how", ["another program", "another environment", "by hand", "parent not measured", "machine had moved"]
)
def test_what_must_be_measured_is_not_linked(history: list[Run], machine: Machine, how: str) -> None:
    first = builders.claim(machine)
    send_build(first, "other" if how == "another program" else "same")
    if how == "parent not measured":
        queue.fail(machine, first.pk, FailureReport(token=first.lease_token, kind="permanent", error="no"))
    else:
        measure(first)
    if how == "machine had moved":
        Measurement.objects.update(flags=[quarantine.FLAG])
    second = builders.claim(machine)
    if how == "by hand":
        Run.objects.filter(pk=second.pk).update(reason=Reason.MANUAL)
    facts = {"cpu": "another"} if how == "another environment" else builders.SERIES_FACTS
    environment = {"digest": json_digest(facts), "series": facts, "recorded": {}}
    assert builders.send_build(second, second.commit, binary="same", environment=environment) is None
    with pytest.raises(ends.Incomplete):
        queue.complete(machine, second.pk, second.lease_token)


def test_a_second_attempt_forgets_the_link(history: list[Run], machine: Machine) -> None:
    first = builders.claim(machine)
    send_build(first)
    measure(first)
    run = builders.claim(machine)
    assert send_build(run) == first
    again = builders.claim(machine)  # a runner that claims while it holds a run has lost it
    assert again.pk == run.pk and again.linked is None


def test_build_time_is_that_of_builds_without_help(history: list[Run], machine: Machine) -> None:
    run = builders.claim(machine)
    kvd = {"digest": builders.DIGEST, "bytes": 9, "loaded_bytes": 7}
    send_build(run, ccache={"hits": 3, "misses": 1}, artifacts={"kvd": kvd})
    measurement = Measurement.objects.get(series__metric="build_seconds")
    assert measurement.flags == ["ccache"] and (measurement.n, measurement.low, measurement.high) == (1, 1.5, 1.5)
    assert Measurement.objects.get(series__metric="binary_bytes").value == 7
    measure(run)
    other = builders.claim(machine)
    send_build(other, "other", cached=True)
    assert not Measurement.objects.filter(attempt__run=other, series__metric="build_seconds").exists()


def test_a_build_sent_twice_is_one_point(history: list[Run], machine: Machine) -> None:
    run = builders.claim(machine)
    send_build(run)
    send_build(run)
    assert Measurement.objects.count() == Samples.objects.count() == 2


def test_a_new_build_section_begins_a_new_line(history: list[Run], machine: Machine) -> None:
    run = builders.claim(machine)
    send_build(run)
    benchmark = Series.objects.get(metric="binary_bytes").benchmark
    assert benchmark.digest == json_digest({"build": build_meaning(run.suite.definition)})
