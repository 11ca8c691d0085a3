"""The golden documents, which the runner's tests use as well."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import Client

from speedtrack.runs.models import Measurement, Reason, Result, Run, Samples
from speedtrack.runs.planning.questions import Question, plan_pairs
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.tests import builders

from .conftest import Runner

GOLDEN = Path(django_settings.BASE_DIR) / "runners" / "tests" / "golden"


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text())


def shape(value: Any) -> Any:
    """Keys and types of a document at all depths; a list has the shapes of its items."""
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items()}
    if isinstance(value, list):
        return [shape(part) for part in value]
    return type(value).__name__


#: The golden suite as TOML: what `jobs.job_document` makes of it must be the golden job.
SUITE = """
name = "tiny"
[build]
command = "make -j{cores}"
artifacts = ["kvd"]
timeout_s = 300
environment = { CFLAGS = "-O2" }
trust = "kvd"
layouts = { linker = "any" }
[server]
command = "{artifact:kvd} --port {port} --unixsocket {socket} --dir {data}"
protocol = "resp"
ready_timeout_s = 20
[[benchmark]]
name = "get-p1"
why = "reads"
workload = { test = "get", clients = 50, pipeline = 1, keys = { count = 20000 }, values = { bytes = 32 }, \
transport = "unix", prefill = true, warmup_s = 0.1, duration_s = 0.3, expect = { hit_rate = 1.0 } }
[[benchmark]]
name = "set-p1"
why = "writes"
workload = { test = "set", clients = 50, pipeline = 1, keys = { count = 20000 }, values = { bytes = 32 }, \
transport = "unix", prefill = true, warmup_s = 0.1, duration_s = 0.3 }
"""


@pytest.fixture
def job(runner: Runner, tmp_path: Path, settings: Any) -> dict[str, Any]:
    """The job that the server makes of the golden suite."""
    builders.use_suite(settings, tmp_path / "suites", SUITE)
    repository = builders.Repository(tmp_path / "repository")
    repository.commits(1)
    builders.track(repository)
    return runner.claim()


def test_a_job_has_the_keys_and_types_of_the_golden_job(job: dict[str, Any]) -> None:
    assert shape(job) == shape(golden("job.v3"))


def test_a_job_says_of_the_suite_what_the_golden_job_says(job: dict[str, Any]) -> None:
    for part in ("schema", "build", "server", "repeat_for"):
        assert job[part] == golden("job.v3")[part]
    for made, wanted in zip(job["benchmarks"], golden("job.v3")["benchmarks"], strict=True):
        assert {**made, "digest": ""} == {**wanted, "digest": ""}


def test_a_paired_job_has_the_keys_and_types_of_the_golden_job(tracked: Tracked, runner: Runner) -> None:
    old, new = Run.objects.order_by("rank")
    ends, by = (old.commit_id, new.commit_id), (old.suite, old.benchmark_set)
    plan_pairs(Question(*ends, runner.machine, *by, Reason.CONFIRM, pairs=9, metrics=()))
    job = runner.claim()
    assert job["sides"] == [{"side": "base", "sha": old.commit.sha}, {"side": "head", "sha": new.commit.sha}]
    assert (job["reason"], job["trials"]) == ("confirm", 9)
    assert {key: type(value) for key, value in job.items()} == {k: type(v) for k, v in golden("job.v3").items()}


def test_the_layouts_of_a_result_are_stored_and_their_absence_is_shown(
    runner: Runner, job: dict[str, Any], client: Client
) -> None:
    result = golden("result.v1")
    result |= {"token": job["token"], "sha": job["sides"][0]["sha"]}
    result["benchmark"] = {key: job["benchmarks"][0][key] for key in ("name", "digest")}
    for number, trial in enumerate(result["trials"]):
        trial["layout"] = 77 + number
    result["layouts"] = {"linker": "mold", "left_out": 1, "refusal": "no layout of head starts: it ended at once"}
    assert runner.post(f"runs/{job['run']}/measurement", result).status_code == 200
    stored = Result.objects.get()
    assert stored.layouts == len(result["trials"])
    assert [trial["layout"] for trial in stored.unpacked()] == [77 + n for n in range(stored.layouts)]
    page = client.get(f"/runs/{job['run']}/").content.decode()
    assert "without random layouts" in page and "no layout of head starts: it ended at once." in page
    assert runner.post(f"runs/{job['run']}/measurement", result).status_code == 200, "the same again changes nothing"


def test_the_golden_result_is_accepted_for_a_run(runner: Runner, job: dict[str, Any]) -> None:
    result = golden("result.v1")
    result["token"] = job["token"]
    result["sha"] = job["sides"][0]["sha"]
    result["benchmark"] = {key: job["benchmarks"][0][key] for key in ("name", "digest")}
    answer = runner.post(f"runs/{job['run']}/measurement", result)
    assert (answer.status_code, answer.content) == (200, b"{}")
    assert Measurement.objects.count() == len(result["trials"][0]["metrics"])
    stored = Samples.objects.get(measurement__series__metric="throughput_rps")
    assert stored.values == [t["metrics"]["throughput_rps"] for t in result["trials"]]
    assert stored.flagged == [t["trial"] for t in result["trials"] if t["flags"]]
