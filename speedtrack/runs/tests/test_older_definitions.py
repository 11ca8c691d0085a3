"""Runs that an older version queued, whose suites had fewer keys or different ones."""

from typing import Any

import pytest

from speedtrack.benchmarks.digests import json_digest
from speedtrack.benchmarks.models import Benchmark, Suite
from speedtrack.benchmarks.storing import store_set
from speedtrack.runs.models import Machine, Reason, Run, Status
from speedtrack.runs.planning import planning
from speedtrack.runs.queue import jobs
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.tests import builders

NEWEST = ("window", "verify", "tracking", "resp3", "probe")  # keys of workloads that the older version did not have


def older(content: dict[str, Any]) -> dict[str, Any]:
    """A stored definition as a version without the newest keys stored it."""
    sections = [
        section | {"workload": {key: value for key, value in section["workload"].items() if key not in NEWEST}}
        for section in content["benchmark"]
    ]
    return content | {"benchmark": sections}


def older_meaning(content: dict[str, Any], section: dict[str, Any]) -> dict[str, Any]:
    """What the digests of that version included."""
    workload = {key: value for key, value in section["workload"].items() if value is not None}
    workload["keys"] = {"count": 1000, "distribution": "uniform"}
    workload["values"] = {"bytes": 32}
    workload["expect"] = {key: value for key, value in section["workload"]["expect"].items() if value is not None}
    server = {key: content["server"][key] for key in ("command", "listen", "protocol")}
    build = {"command": "make", "environment": {}, "artifacts": ["kvd"]}
    return {"driver": "speedbench", "workload": workload, "server": server, "build": build}


@pytest.fixture
def queued(tracked: Tracked, machine: Machine) -> Run:
    """A run that the older version has queued, with the rows of its suite and benchmarks."""
    Run.objects.update(status=Status.CANCELLED)
    content = older(Suite.objects.get().definition)
    suite = Suite.objects.create(name="tiny", digest=json_digest(content), definition=content)
    benchmarks = []
    for section in content["benchmark"]:
        meaning = older_meaning(content, section)
        digest = json_digest(meaning)
        row = {"name": section["name"], "digest": digest, "definition": meaning}
        benchmarks.append(Benchmark.objects.create(project=tracked.project, **row))
    plan = planning.Plan(tracked.project, suite, store_set(suite, benchmarks), Reason.MANUAL)
    planning.plan_commits(plan, {Run.objects.order_by("rank")[0].commit_id: 0}, [machine])
    return Run.objects.get(status=Status.QUEUED)


def test_a_run_queued_before_a_key_was_added_is_measured_under_the_digests_stored_then(
    queued: Run, machine: Machine
) -> None:
    run = builders.claim(machine)
    assert run == queued
    stored = {b.name: b.digest for b in Benchmark.objects.order_by("id")[2:]}
    asked = jobs.job_document(run)["benchmarks"]
    assert {one["name"]: one["digest"] for one in asked} == stored
    assert {one["workload"]["window"] for one in asked} == {"batch"}
    assert {b.name: b.digest for b in run.benchmark_set.benchmarks.all()} == stored


def test_its_results_are_accepted(queued: Run, machine: Machine) -> None:
    [run] = builders.work(machine, lambda sha, benchmark, trial: 5000.0 + trial)
    run.refresh_from_db()
    assert (run.pk, run.status) == (queued.pk, Status.SUCCEEDED)


def test_a_run_whose_suite_cannot_be_read_any_more_fails_and_the_next_one_is_claimed(
    queued: Run, tracked: Tracked, machine: Machine
) -> None:
    content = queued.suite.definition
    Suite.objects.filter(pk=queued.suite_id).update(definition=content | {"colour": "blue"})
    last = Run.objects.exclude(pk=queued.pk).order_by("rank")[0]
    Run.objects.filter(pk=last.pk).update(status=Status.QUEUED)
    assert builders.claim(machine) == last
    queued.refresh_from_db()
    assert queued.status == Status.FAILED
    assert "suite tiny: colour: no such key" in queued.error
    assert "queue the commit again" in queued.error
