"""The calls by which a runner gets its token, replaces it, and says that it is there; and the versions that talk."""

import json
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client

from speedtrack import __version__
from speedtrack.runs.fleet import enrolment, tokens
from speedtrack.runs.models import Alarm, MachineToken, Run
from speedtrack.runs.queue import queue
from speedtrack.tests import builders

from .conftest import CLAIM, Runner, error


def enroll(client: Client, code: str, token: str, **changes: Any) -> Any:
    body = {**CLAIM, "code": code, "token": token, **changes}
    return client.post("/api/runner/enroll", body, content_type="application/json")


def test_a_machine_is_enrolled_without_a_token_and_works_with_the_one_it_made(db: None, client: Client) -> None:
    token = MachineToken.new_text().text
    answer = enroll(client, enrolment.make_code("m7"), token)
    assert json.loads(answer.content) == {"machine": "m7", "queue": "machine.m7"}
    runner = Runner(MachineToken.of(token).machine, token, client)
    assert runner.post("claim", CLAIM).status_code == 204
    assert MachineToken.of(token).last_used_from == "127.0.0.1"


def test_a_wrong_code_or_token_is_refused_and_guesses_are_throttled(db: None, client: Client) -> None:
    code, token = enrolment.make_code("m7"), MachineToken.new_text().text
    assert enroll(client, code, "strn_1_weak").status_code == 401
    assert enroll(client, code, token, protocol=0).status_code == 426
    for _ in range(10):
        answer = enroll(client, "GUESS", token)
        assert answer.status_code == 403 and "unknown enrolment code" in error(answer)
    answer = enroll(client, code, token)
    assert answer.status_code == 429 and "too many wrong enrolment codes" in error(answer)


def test_a_runner_replaces_its_token_when_it_is_asked(runner: Runner, tracked: Any) -> None:
    def beat(token: str | None = None) -> Any:
        return json.loads(runner.post("beat", {"unable": ""}, token).content)

    assert beat() == {"rotate": False}
    tokens.ask_to_rotate(runner.machine)
    job = runner.claim()
    renewed = runner.post(f"runs/{job['run']}/renew", {"token": job["token"]})
    assert beat() == {"rotate": True} and json.loads(renewed.content)["rotate"] is True
    new = MachineToken.new_text().text
    for _ in range(2):
        assert runner.post("token", {"token": new}).status_code == 200
    assert beat() == beat(new) == {"rotate": False}
    assert runner.post(f"runs/{job['run']}/renew", {"token": job["token"]}, new).status_code == 200
    MachineToken.objects.filter(key=runner.token.split("_")[1]).update(expires_at=Now())
    answer = runner.post("beat", {})
    assert answer.status_code == 401 and "has expired" in error(answer)
    assert runner.post("token", {"token": "weak"}, new).status_code == 401


@pytest.mark.parametrize("said", [{}, {"version": "0.9.0"}, {"version": "0.9.0", "protocol": 2}, {"protocol": 2}])
def test_another_version_gets_no_work_and_the_reason(runner: Runner, tracked: Any, said: dict[str, Any]) -> None:
    answer = runner.post("claim", said)
    assert answer.status_code == 426
    assert f"and this server is version {__version__} (protocol 1 or 2)" in error(answer)
    assert not Run.objects.active().exists()


def test_a_runner_that_says_no_protocol_is_known_by_what_it_said_when_it_started(runner: Runner, tracked: Any) -> None:
    assert runner.post("hello", {"version": "1.0.0", "boot_id": "b", "facts": {}}).status_code == 200
    assert runner.post("claim", {"instance": "box"}).status_code == 200
    assert Run.objects.active().count() == 1


def test_a_runner_without_space_is_an_alarm_until_it_works_again(runner: Runner, tracked: Any) -> None:
    for _ in range(2):
        runner.post("beat", {"unable": "the disk is full"})
    assert Alarm.objects.open().get().why == "the disk is full"
    job = runner.claim()
    runner.post(f"runs/{job['run']}/renew", {"token": job["token"]})
    assert not Alarm.objects.open().exists()


def test_progress_that_is_overdue_is_an_alarm_and_hung_work_is_not_renewed(runner: Runner, run: Run) -> None:
    def renew(age_s: float, hung: str = "") -> None:
        progress = {
            "done": 1,
            "total": 9,
            "now": "get-p1, trial 2",
            "phase": "get-p1",
            "age_s": age_s,
            "overdue_s": 120,
        }
        body = {"token": run.lease_token, "progress": progress, "hung": hung}
        assert runner.post(f"runs/{run.pk}/renew", body).status_code == 200

    renew(100)
    assert not Alarm.objects.exists()
    renew(121)
    renew(140)
    why = f"run {run.pk}: no progress for 121 s, at get-p1, trial 2"
    assert Alarm.objects.open().get().why.startswith(why)
    renew(3)
    assert Alarm.objects.get().ended_at
    renew(150)
    assert Alarm.objects.open().exists()
    failure = {"token": run.lease_token, "kind": "transient", "error": "the build was ended after 900 s"}
    assert runner.post(f"runs/{run.pk}/fail", failure).status_code == 200
    assert not Alarm.objects.open().exists(), "its runner goes on"
    Run.objects.update(not_before=Now())
    run.lease_token = runner.claim()["token"]
    renew(4)
    builders.expire_lease(run)
    renew(900, hung="its work hangs")
    assert Alarm.objects.open().get().why == f"run {run.pk}: its work hangs"
    assert queue.reap() == 1
