"""Why a machine takes no run: each reason is its own sentence, and it is the same for every reader."""

import html
import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db.models.functions import Now
from django.test import Client
from django.utils import timezone

from speedtrack import __version__
from speedtrack.runs.documents import Renewal
from speedtrack.runs.fleet import machines
from speedtrack.runs.models import Machine, Run
from speedtrack.runs.queue import estimates, queue
from speedtrack.runs.scheduling import standing
from speedtrack.runs.scheduling.windows import DAYS
from speedtrack.tests import builders
from speedtrack.web.tests.world import World, html_of, kvd  # noqa: F401 (a fixture)

CORE = "core 0, which the runner of machine other (process 12) uses"


def text_of(response: Any) -> str:
    return html.unescape(html_of(response))


def machine_of(world: World) -> Machine:
    return Machine.objects.get(pk=world.machines[0].pk)


def update(**columns: Any) -> None:
    Machine.objects.update(**{"last_seen_at": Now(), **columns})


def closed_window() -> list[str]:
    """A window of the day after tomorrow."""
    return [f"{DAYS[(timezone.now() + timedelta(days=2)).weekday()]} 10:00-11:00"]


def said(**words: str) -> dict[str, Any]:
    return {"runner_said": {"since": timezone.now().isoformat(), **words}}


#: By state: the columns of a machine that is in it, and a part of the sentence.
STATES: dict[str, tuple[dict[str, Any], str]] = {
    "idle": ({}, ""),
    "paused": ({"paused": True}, "is paused"),
    "quarantine": ({"quarantined_at": Now(), "quarantined_why": "moved"}, "has been in quarantine since"),
    "never seen": ({"last_seen_at": None}, "has never called"),
    "silent": ({"last_seen_at": Now() - timedelta(minutes=20)}, "has been silent for 20 min"),
    "stopped": (said(ended="was stopped"), "it was stopped; start it again"),
    "refused": ({"runner_version": "0.1.0", "runner_protocol": 1}, "Update the runner"),
    "unable": (said(unable="the disk is full"), "takes no work: the disk is full"),
    "waiting": (said(waits=CORE), f"for {CORE}"),
    "closed": ({"windows": closed_window(), "zone": "UTC"}, "is outside of its hours: its next window opens at"),
}


@pytest.mark.parametrize("state", STATES)
def test_each_reason_is_a_sentence_that_all_readers_say(client: Client, kvd: World, state: str, capsys: Any) -> None:  # noqa: F811
    kvd.push(1)
    columns, part = STATES[state]
    update(**{"runner_version": __version__, "runner_said": {}, **columns})
    stands = standing.of_machine(machine_of(kvd))
    assert stands.state == state and part in stands.sentence
    run = Run.objects.get(status="queued")
    why = stands.sentence or "Machine kvd-m1 takes it next."
    page = client.get("/machines/kvd-m1.json").json()
    assert (page["state"], page["why"]) == (state, stands.sentence)
    assert client.get(f"/runs/{run.pk}.json").json()["why_waiting"] == why
    assert [one["why_waiting"] for one in client.get(f"/p/kvd/c/{run.commit.sha}.json").json()["runs"]] == [why]
    of_api = client.get("/api/v1/queue").json()["machines"][0]
    assert (of_api["state"], of_api["why"]) == (state, stands.sentence)
    assert client.get(f"/api/v1/runs/{run.pk}").json()["why_waiting"] == why
    assert client.get("/api/v1/machines").json()["items"][0]["why"] == stands.sentence
    for address in (f"/runs/{run.pk}/", f"/p/kvd/c/{run.commit.sha}/"):
        assert why in text_of(client.get(address)), address
    if state != "quarantine":  # of which pages tell the cause as well
        assert stands.sentence in text_of(client.get("/queue/"))
    call_command("run", "why", str(run.pk))
    call_command("machine", "list")
    output = capsys.readouterr().out
    assert f"run {run.pk}: queued on kvd-m1. {why}" in output and stands.sentence in output and f" {state} " in output


def test_an_idle_machine_that_takes_no_run_is_late(client: Client, kvd: World) -> None:  # noqa: F811
    kvd.push(1)
    run = Run.objects.get(status="queued")
    update(runner_said={})
    ended = Now() - timedelta(minutes=9)
    Run.objects.exclude(pk=run.pk).update(started_at=ended - timedelta(minutes=1), ended_at=ended)
    Run.objects.filter(pk=run.pk).update(created=Now() - timedelta(minutes=3), not_before=Now() - timedelta(minutes=3))
    stands = standing.of_machine(machine_of(kvd))
    assert stands.state == "late" and "is late by 3 min" in stands.why and "broker" in stands.why
    page = html_of(client.get(f"/runs/{run.pk}/"))
    assert "late by 3 min" in page and "starts <time" not in page
    expected = estimates.expected_times(run)
    assert expected and expected.starts_at is None and expected.late == "late by 3 min"
    for address in ("/queue/", "/machines/kvd-m1/"):
        assert stands.sentence.rstrip(".") in html_of(client.get(address)), address
    assert ">idle<" not in html_of(client.get("/queue/"))


def test_a_run_is_not_late_while_the_machine_had_other_work(kvd: World) -> None:  # noqa: F811
    """It is late only since the machine has been free, resumed, or within its hours."""
    kvd.push(1)
    update(runner_said={})
    Run.objects.filter(status="queued").update(
        created=Now() - timedelta(hours=3), not_before=Now() - timedelta(hours=3)
    )
    last = Run.objects.filter(status="succeeded").order_by("-pk")[:1]
    Run.objects.filter(pk__in=[one.pk for one in last]).update(ended_at=Now() - timedelta(seconds=5))
    assert standing.of_machine(machine_of(kvd)).state == "idle"


def test_a_run_that_lasts_longer_than_expected_is_late(client: Client, kvd: World) -> None:  # noqa: F811
    for one in Run.objects.filter(status="succeeded"):
        builders.take_time(one, build_s=60.0, trial_s=2.0, between_s=0.5, around_s=6.0)
    kvd.push(1)
    run = queue.claim(kvd.machines[0])
    assert run
    update(runner_said={})
    Run.objects.filter(pk=run.pk).update(started_at=Now() - timedelta(minutes=10))
    page = html_of(client.get(f"/runs/{run.pk}/"))
    assert "late by 8 min" in page or "late by 9 min" in page
    assert "late by" in html_of(client.get("/queue/")) and "ends now" not in page


def call(client: Client, secret: str, path: str, **body: Any) -> Any:
    headers = {"Authorization": f"Bearer {secret}"}
    answer = client.post(f"/api/runner/{path}", json.dumps(body), content_type="application/json", headers=headers)
    assert answer.status_code < 300, answer.content
    return answer


def token_of(world: World) -> str:
    return machines.renew_token(world.machines[0].name)


def test_what_a_runner_says_is_stored_and_forgotten(client: Client, kvd: World) -> None:  # noqa: F811
    secret = token_of(kvd)
    call(client, secret, "beat", unable="", waits=CORE)
    first = machine_of(kvd).runner_said
    call(client, secret, "beat", unable="", waits=CORE)
    assert machine_of(kvd).runner_said == first  # since when it waits
    assert CORE in standing.of_machine(machine_of(kvd)).sentence
    call(client, secret, "claim", instance="one", version=__version__, protocol=2)
    assert standing.of_machine(machine_of(kvd)).state == "idle"
    call(client, secret, "beat", unable="", waits="", ended="was drained")
    assert "it was drained" in standing.of_machine(machine_of(kvd)).sentence
    call(client, secret, "hello", version=__version__, protocol=2, boot_id="b", facts={})
    assert standing.of_machine(machine_of(kvd)).state == "idle"


def test_an_older_runner_says_nothing_and_is_heard_all_the_same(client: Client, kvd: World) -> None:  # noqa: F811
    secret = token_of(kvd)
    call(client, secret, "beat", unable="")
    assert machine_of(kvd).runner_said is None
    call(client, secret, "beat", unable="the disk is full")
    assert standing.of_machine(machine_of(kvd)).state == "unable"
    call(client, secret, "beat", unable="")
    assert standing.of_machine(machine_of(kvd)).state == "idle"


def test_a_drained_runner_takes_no_further_run(client: Client, kvd: World) -> None:  # noqa: F811
    kvd.push(2)
    run = queue.claim(kvd.machines[0])
    assert run
    update(runner_said={})
    queue.renew(machine_of(kvd), run.pk, Renewal(token=run.lease_token, draining=True))
    stands = standing.of_machine(machine_of(kvd))
    assert stands.state == "draining"
    other = Run.objects.get(status="queued")
    assert standing.why_waits(other, stands) == stands.sentence


def test_a_run_that_is_tried_again_says_when_and_why(kvd: World) -> None:  # noqa: F811
    kvd.push(1)
    update(runner_said={})
    Run.objects.filter(status="queued").update(
        not_before=Now() + timedelta(minutes=5), attempt=1, error="sandbox refused"
    )
    run = Run.objects.get(status="queued")
    why = standing.why_waits(run, standing.of_machine(machine_of(kvd)))
    assert why.startswith("It is not tried before") and "because attempt 1 failed: sandbox refused." in why
