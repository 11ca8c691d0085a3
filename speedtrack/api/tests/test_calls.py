"""Every call of a runner over HTTP: its answers and its errors."""

import json
from typing import Any

import pytest
from django.test import Client

from speedtrack.runs.fleet import machines, registering
from speedtrack.runs.models import Build, LogChunk, Machine, Measurement, Run, Status
from speedtrack.runs.queue import queue
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.tests import builders

from .conftest import CLAIM, Runner, error

BUILD = {
    "side": "head",
    "succeeded": False,
    "cached": False,
    "seconds": 2.5,
    "artifacts": {},
    "recipe_digest": builders.DIGEST,
    "error": "make exited with code 2",
}
PROFILE = {
    "side": "head",
    "event": "cycles",
    "frequency_hz": 997,
    "samples": 3,
    "folded": "kvd;main 3\n",
    "cpu_ns_per_request": None,
    "unavailable": "",
}


def calls(run: Run, document: dict[str, Any], token: int) -> dict[str, Any]:
    return {
        "renew": {"token": token, "progress": None},
        "log": {"token": token, "seq": 0, "phase": "measure", "text": "x"},
        "build": {"token": token, "build": {**BUILD, "sha": run.commit.sha}},
        "measurement": {**document, "token": token},
        "profile": {**PROFILE, "token": token, "sha": run.commit.sha, "benchmark": document.get("benchmark")},
        "complete": {"token": token},
        "fail": {"token": token, "kind": "permanent", "error": "x"},
    }


NAMES = ["renew", "log", "build", "measurement", "profile", "complete", "fail"]


@pytest.mark.parametrize("path", ["hello", "claim", *(f"runs/1/{name}" for name in NAMES)])
def test_a_call_without_a_token_is_refused_with_the_remedy(db: None, client: Client, path: str) -> None:
    answer = client.post(f"/api/runner/{path}", "{}", content_type="application/json")
    assert answer.status_code == 401
    assert "send `Authorization: Bearer <token>`" in error(answer)


@pytest.mark.parametrize("path", ["hello", "claim", *(f"runs/1/{name}" for name in NAMES)])
def test_a_call_with_a_wrong_token_is_refused_with_the_remedy(runner: Runner, path: str) -> None:
    answer = runner.post(path, token=runner.token[:-1])
    assert answer.status_code == 401
    assert "give the machine a new one" in error(answer)


def test_a_token_that_was_replaced_is_refused(runner: Runner) -> None:
    machines.renew_token("m1")
    assert runner.post("claim").status_code == 401


def test_the_source_needs_a_token(db: None, client: Client) -> None:
    assert client.get(f"/api/runner/runs/1/source/{'0' * 40}?token=1").status_code == 401


def test_hello_keeps_what_the_machine_says_of_itself(runner: Runner) -> None:
    answer = runner.post("hello", {**CLAIM, "boot_id": "b", "facts": {"cpu": "Ünïcode"}})
    assert answer.status_code == 200
    assert json.loads(answer.content) == {"machine": "m1", "queue": "machine.m1"}
    machine = Machine.objects.get()
    assert (machine.runner_version, machine.runner_protocol) == (CLAIM["version"], CLAIM["protocol"])
    assert machine.facts == {"cpu": "Ünïcode"}
    assert machine.last_seen_at is not None


def test_a_claim_without_work_answers_204(runner: Runner) -> None:
    answer = runner.post("claim", CLAIM)
    assert (answer.status_code, answer.content) == (204, b"")


def test_a_run_goes_its_way_over_http(runner: Runner, tracked: Tracked) -> None:
    job = runner.claim()
    run = Run.objects.get(pk=job["run"])
    token, path = job["token"], f"runs/{run.pk}"
    answer = runner.post(f"{path}/renew", {"token": token, "progress": {"done": 1, "total": 10, "now": "build"}})
    assert json.loads(answer.content) == {"lease_s": 60, "cancel": False, "rotate": False}
    for name in ("get-p1", "set-p1"):
        document = builders.result(run, name, run.commit, [5.0] * 5).model_dump(mode="json", by_alias=True)
        for _ in range(2):
            assert runner.post(f"{path}/measurement", document).status_code == 200
    for name in ("log", "build", "complete"):
        for _ in range(2):
            assert runner.post(f"{path}/{name}", calls(run, {}, token)[name]).status_code == 200
    run.refresh_from_db()
    assert run.status == Status.SUCCEEDED
    assert (Measurement.objects.filter(accepted=True).count(), LogChunk.objects.count(), Build.objects.count()) == (
        4,
        1,
        1,
    )


def test_a_failure_is_told_twice(runner: Runner, run: Run) -> None:
    for _ in range(2):
        assert runner.post(f"runs/{run.pk}/fail", calls(run, {}, run.lease_token)["fail"]).status_code == 200
    run.refresh_from_db()
    assert (run.status, run.error) == (Status.FAILED, "x")


def test_a_renewal_tells_of_the_cancelling(runner: Runner, run: Run) -> None:
    queue.cancel(run, "not now")
    answer = runner.post(f"runs/{run.pk}/renew", {"token": run.lease_token})
    assert json.loads(answer.content)["cancel"] is True


@pytest.mark.parametrize("name", NAMES)
def test_an_old_lease_token_answers_409(runner: Runner, run: Run, document: dict[str, Any], name: str) -> None:
    answer = runner.post(f"runs/{run.pk}/{name}", calls(run, document, run.lease_token - 1)[name])
    assert answer.status_code == 409
    assert "drop the work" in error(answer)


def test_a_run_that_misses_measurements_answers_422(runner: Runner, run: Run) -> None:
    answer = runner.post(f"runs/{run.pk}/complete", {"token": run.lease_token})
    assert answer.status_code == 422
    assert "0 of 2 measurements" in error(answer)


@pytest.mark.parametrize("name", NAMES)
def test_a_call_without_its_lease_token_names_the_field(
    runner: Runner, run: Run, document: dict[str, Any], name: str
) -> None:
    body = calls(run, document, 1)[name]
    del body["token"]
    answer = runner.post(f"runs/{run.pk}/{name}", body)
    assert answer.status_code == 422
    assert error(answer) == "token: Field required"


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_run_answers_404(runner: Runner, run: Run, document: dict[str, Any], name: str) -> None:
    for run_id in (run.pk + 1000, 10**30):
        answer = runner.post(f"runs/{run_id}/{name}", calls(run, document, run.lease_token)[name])
        assert answer.status_code == 404
        assert f"there is no run {run_id} of m1" in error(answer)


@pytest.mark.parametrize("name", NAMES)
def test_the_run_of_another_machine_answers_404(runner: Runner, run: Run, document: dict[str, Any], name: str) -> None:
    runner.token = registering.add_machine("m2")
    answer = runner.post(f"runs/{run.pk}/{name}", calls(run, document, run.lease_token)[name])
    assert answer.status_code == 404


def test_the_source_of_an_unknown_run_answers_404(runner: Runner, run: Run) -> None:
    answer = runner.get(f"runs/{run.pk + 1000}/source/{run.commit.sha}?token={run.lease_token}")
    assert answer.status_code == 404


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 100_000, b'{"token": 1'])
def test_a_body_that_is_not_json_answers_422_with_an_error(runner: Runner, run: Run, body: bytes) -> None:
    answer = runner.post(f"runs/{run.pk}/complete", body)
    assert answer.status_code == 422
    assert "JSON" in error(answer)


@pytest.mark.parametrize("body", [[], 7, "text", None])
def test_json_of_another_kind_answers_422(runner: Runner, run: Run, body: Any) -> None:
    answer = runner.post(f"runs/{run.pk}/complete", json.dumps(body).encode())
    assert answer.status_code == 422
    assert error(answer)


def test_a_source_without_its_lease_token_names_it(runner: Runner, run: Run) -> None:
    answer = runner.get(f"runs/{run.pk}/source/{run.commit.sha}")
    assert (answer.status_code, error(answer)) == (422, "token: Field required")


def test_a_thousand_mistakes_are_counted_and_the_first_ones_named(runner: Runner, run: Run) -> None:
    mistakes = {f"b{number}": number for number in range(999)} | {"x" * 10_000: "a name that is too long"}
    answer = runner.post(f"runs/{run.pk}/complete", {"token": 1, "out_of_reach": mistakes})
    assert answer.status_code == 422
    assert error(answer).startswith("out_of_reach.b0: ")
    assert error(answer).endswith("; and 990 more")


def test_a_run_id_that_is_no_number_is_refused_with_an_error(runner: Runner, run: Run) -> None:
    answer = runner.post("runs/x/complete", {"token": 1})
    assert answer.status_code == 422
    assert error(answer).startswith("run_id: ")


def test_text_that_the_database_cannot_hold_is_kept_readable(runner: Runner, run: Run) -> None:
    odd, shown = "a\0b \ud83d c", "a\N{REPLACEMENT CHARACTER}b \N{REPLACEMENT CHARACTER} c"
    path, token = f"runs/{run.pk}", run.lease_token
    build = {**BUILD, "sha": run.commit.sha, "error": odd}
    for name, body in {
        "renew": {"progress": {"done": 0, "total": 1, "now": odd}},
        "log": {"seq": 0, "phase": odd, "text": odd},
        "build": {"build": build},
        "fail": {"kind": "permanent", "error": odd},
    }.items():
        assert runner.post(f"{path}/{name}", {"token": token, **body}).status_code == 200
    run.refresh_from_db()
    assert run.error == shown
    assert LogChunk.objects.values_list("phase", "text").get() == (shown, shown)
    assert Build.objects.get().error == shown
    assert (
        runner.post("hello", {"version": odd, "boot_id": odd, "facts": {}}).status_code == 426
    )  # odd, and refused as a version only
    assert Machine.objects.get().runner_version == shown


@pytest.mark.parametrize(
    ("name", "body", "place"),
    [
        ("log", {"seq": 2**31, "phase": "x", "text": "x"}, "seq"),
        ("log", {"seq": 0, "phase": "x" * 101, "text": "x"}, "phase"),
        ("log", {"seq": 0, "phase": "x", "text": "x" * 1_000_001}, "text"),
        ("fail", {"kind": "odd", "error": "x"}, "kind"),
        ("fail", {"kind": "permanent", "error": ""}, "error"),
        ("build", {"build": {**BUILD, "sha": "main"}}, "build.sha"),
        ("build", {"build": {**BUILD, "sha": "0" * 40, "seconds": float("nan")}}, "build.seconds"),
        (
            "build",
            {"build": {**BUILD, "sha": "0" * 40, "artifacts": {"a\0b": {"digest": builders.DIGEST, "bytes": 1}}}},
            "build.artifacts",
        ),
        ("renew", {"progress": {"done": -1, "total": 1, "now": ""}}, "progress.done"),
    ],
)
def test_a_wrong_field_of_a_call_is_named(runner: Runner, run: Run, name: str, body: Any, place: str) -> None:
    answer = runner.post(f"runs/{run.pk}/{name}", {"token": run.lease_token, **body})
    assert answer.status_code == 422
    assert error(answer).startswith(place)


def test_facts_that_the_database_cannot_hold_are_refused(runner: Runner) -> None:
    answer = runner.post("hello", {"version": "1", "boot_id": "b", "facts": {"load": float("nan")}})
    assert (answer.status_code, error(answer).split(":")[0]) == (422, "facts")
