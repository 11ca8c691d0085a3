"""An invalid measurement is refused with the name of the wrong field, and nothing of it is stored."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from speedtrack.benchmarks.metrics import METRICS
from speedtrack.runs import documentfields
from speedtrack.runs.models import Measurement, Run, Trial
from speedtrack.tests import builders

from .conftest import Runner, error


def put(document: dict[str, Any], place: str, value: Any) -> None:
    """Set (or, with ``...``, remove) the value at a place such as ``trials.0.metrics``."""
    *way, last = place.split(".")
    part: Any = document
    for step in way:
        part = part[int(step)] if step.isdigit() else part[step]
    if value is ...:
        del part[last]
    else:
        part[last] = value


def nested(depth: int) -> dict[str, Any]:
    return {"a": nested(depth - 1)} if depth else {}


def refusal(runner: Runner, run: Run, document: dict[str, Any]) -> str:
    answer = runner.post(f"runs/{run.pk}/measurement", document)
    assert answer.status_code == 422, answer.content
    assert not Measurement.objects.exists()
    assert not Trial.objects.exists()
    return error(answer)


def test_the_right_document_is_stored(runner: Runner, run: Run, document: dict[str, Any]) -> None:
    assert runner.post(f"runs/{run.pk}/measurement", document).status_code == 200
    assert Measurement.objects.count() == 2


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("schema", "speedtrack.result/2", "Input should be 'speedtrack.result/1'"),
        ("schema", ..., "Field required"),
        ("side", "left", "Input should be 'head' or 'base'"),
        ("sha", "main", "String should match pattern"),
        ("benchmark", ..., "Field required"),
        ("benchmark.digest", ..., "Field required"),
        ("environment", ..., "Field required"),
        ("environment.digest", "md5:0", "String should match pattern"),
        ("trials", [], "at least 1 item"),
        ("trials.0.metrics", {}, "at least 1 item"),
        ("trials.0.metrics.throughput_rps", float("nan"), "finite number"),
        ("trials.0.metrics.throughput_rps", float("inf"), "finite number"),
        ("trials.0.metrics.throughput_rps", "fast", "valid number"),
        ("trials.0.seconds", float("nan"), "finite number"),
        ("trials.0.flags", ["<b>"], "String should match pattern"),
        ("trials.0.started_at", "yesterday", "valid datetime"),
        ("trials.0.trial", -1, "greater than or equal to 0"),
        ("trials.1.order", 1.5, "valid integer"),
        ("artifacts", {"kvd": "none"}, "String should match pattern"),
        ("artifacts", {f"a{i}": builders.DIGEST for i in range(101)}, "at most 100 items"),
        ("trials.0.metrics", {"throughput_rps": 1e308}, "between 1e-09 and 1e+12 requests/s"),
        ("trials.0.metrics", {"throughput_rps": 5e-324}, "between 1e-09 and 1e+12 requests/s"),
        ("trials.0.metrics.throughput_rps", 10**400, "valid number"),
        ("once", {"callgrind_instructions_per_request": 1e16}, "between 1e-09 and 1e+15"),
        ("trials.0.started_at", "0001-01-01T00:00:00Z", "greater than or equal to 2020-01-01"),
        ("trials.0.started_at", "2026-01-01T00:00:00", "timezone info"),
        ("trials.0.started_at", 10**30, "valid"),
        ("trials.0.seconds", 1e300, "less than or equal to 10000000"),
        ("trials.0.flags", ["steal"] * 101, "at most 100 items"),
        ("trials.0.driver", {"a": 10**400}, "the size of a number"),
        ("trials.0.driver", {"a": 1e-200}, "the size of a number"),
        ("trials.0.driver", {"a": "x" * 1_100_000}, "at most 1048576 characters"),
        ("environment.series", {"a": "x" * 300_000}, "at most 262144 characters"),
        ("environment.recorded", nested(40), "levels deep"),
        ("trials.0.pairing", nested(300), "levels deep"),
        ("token", 2**63, "less than or equal to"),
        ("benchmark.name", "x" * 101, "at most 100 characters"),
        ("stopping", {"reason": "cap", "half_width": 1e300, "target": 1, "trials": 1, "thrown_out": 0}, ""),
        ("stopping", {"reason": "futile", "half_width": 1, "target": 1, "trials": 1, "thrown_out": 0}, "most_trials"),
    ],
)
def test_the_wrong_field_is_named(
    runner: Runner, run: Run, document: dict[str, Any], place: str, value: Any, words: str
) -> None:
    put(document, place, value)
    said = refusal(runner, run, document)
    assert said.startswith(place)
    assert words in said


@pytest.mark.parametrize("begun", ["9999-12-31T23:59:59Z", timezone.now() + timedelta(days=2)])
def test_a_trial_in_the_future_is_refused(
    runner: Runner, run: Run, document: dict[str, Any], begun: str | datetime
) -> None:
    put(document, "trials.0.started_at", str(begun))
    assert "set the machine's clock" in refusal(runner, run, document)


def test_a_number_too_long_for_a_reader_is_refused(runner: Runner, run: Run, document: dict[str, Any]) -> None:
    raw = json.dumps(document).replace('"seconds": 1.0', f'"seconds": {"1" * 5000}').encode()
    answer = runner.post(f"runs/{run.pk}/measurement", raw)
    assert (answer.status_code, error(answer)[:9]) == (422, "document:")


def test_another_measurement_of_a_benchmark_is_a_conflict(runner: Runner, run: Run, document: dict[str, Any]) -> None:
    assert runner.post(f"runs/{run.pk}/measurement", document).status_code == 200
    assert runner.post(f"runs/{run.pk}/measurement", document).status_code == 200
    document["trials"][0]["metrics"]["throughput_rps"] += 1
    answer = runner.post(f"runs/{run.pk}/measurement", document)
    assert (answer.status_code, "which stays" in error(answer)) == (409, True)


def test_every_unit_of_a_metric_has_a_bound() -> None:
    assert {metric.unit for metric in METRICS.values()} == set(documentfields.LARGEST)


def test_an_unknown_metric_is_named(runner: Runner, run: Run, document: dict[str, Any]) -> None:
    document["trials"][0]["metrics"]["speed"] = 1.0
    assert refusal(runner, run, document).startswith("trials.0.metrics.speed")


def test_a_huge_list_of_trials_is_refused(runner: Runner, run: Run, document: dict[str, Any]) -> None:
    document["trials"] *= 300
    assert refusal(runner, run, document).startswith("trials: List should have at most 1000 items")


def test_a_digest_that_is_not_that_of_the_facts_is_named(runner: Runner, run: Run, document: dict[str, Any]) -> None:
    document["environment"]["series"]["kernel"] = "6.2"
    assert refusal(runner, run, document).startswith("environment.digest is sha256:")


def test_a_digest_of_another_benchmark_is_named(runner: Runner, run: Run, document: dict[str, Any]) -> None:
    document["benchmark"]["digest"] = "sha256:" + "0" * 64
    assert f"run {run.pk} does not measure get-p1 with digest" in refusal(runner, run, document)


def test_several_mistakes_are_told_at_once(runner: Runner, run: Run, document: dict[str, Any]) -> None:
    put(document, "side", "left")
    put(document, "sha", ...)
    said = refusal(runner, run, document).split("; ")
    assert [line.split(":")[0] for line in said] == ["side", "sha"]


def test_an_unknown_field_is_ignored(runner: Runner, run: Run, document: dict[str, Any]) -> None:
    document["future"] = {"a": 1}
    assert runner.post(f"runs/{run.pk}/measurement", json.dumps(document).encode()).status_code == 200


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("trials.0.driver", {"a": [{"b": float("nan")}]}),
        ("trials.0.driver", {"text": "zero \0 byte"}),
        ("trials.0.driver", {"zero \0 byte": 1}),
        ("trials.0.driver", {"text": "half \ud83d of a pair"}),
        ("environment.series", {"load": float("inf")}),
        ("environment.recorded", {"text": "\0"}),
        ("trials.0.trial", 40_000),
        ("trials.0.order", 2**31),
        ("trials.0.seconds", -1.0),
    ],
)
def test_what_the_database_cannot_hold_is_refused_with_its_place(
    runner: Runner, run: Run, document: dict[str, Any], place: str, value: Any
) -> None:
    put(document, place, value)
    assert refusal(runner, run, document).startswith(place)


def test_trials_that_share_no_metric_are_refused(runner: Runner, run: Run, document: dict[str, Any]) -> None:
    document["trials"][0]["metrics"] = {"latency_us_p99": 1.0}
    assert refusal(runner, run, document).startswith("trials: no metric is in all of them")
