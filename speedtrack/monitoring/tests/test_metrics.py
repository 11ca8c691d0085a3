"""``/metrics``: what Prometheus' own parser reads there is what the database holds."""

import hashlib
import hmac
import json
import re
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from speedtrack.monitoring import collector, tasktimes
from speedtrack.monitoring.heartbeats import DISPATCHER, Beating
from speedtrack.monitoring.models import TaskTime
from speedtrack.notices.models import Outbox
from speedtrack.projects import intake
from speedtrack.runs.documents import FailureReport
from speedtrack.runs.models import Attempt, Measurement
from speedtrack.runs.queue import queue
from speedtrack.tests import builders
from speedtrack.tests.clusters import databases
from speedtrack.web.tests import world as worlds
from speedtrack.web.tests.world import World

Values = dict[tuple[str, ...], float]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    collector.newest.forget()
    yield
    collector.newest.forget()


@pytest.fixture
def world(db: None, settings: Any, tmp_path: Path) -> World:
    made = worlds.world(settings, tmp_path, commits=1, name="kvd")
    made.measure()
    return made


def flag_all_measurements() -> None:
    Measurement.objects.update(flags=["driver_saturated", "noisy"])


def signed(world: World, body: bytes) -> dict[str, str]:
    digest = hmac.new(world.project.hook_secret.reveal().encode(), body, hashlib.sha256).hexdigest()
    return {"X-Hub-Signature-256": f"sha256={digest}", "X-GitHub-Event": "push", "X-GitHub-Delivery": "d1"}


def scrape(client: Client) -> dict[str, Values]:
    """Sample name -> values of its labels, by the order of their names -> value."""
    collector.newest.forget()
    answer = client.get("/metrics")
    assert answer.status_code == 200
    found: dict[str, Values] = {}
    for family in text_string_to_metric_families(answer.content.decode()):
        assert family.documentation, family.name
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def test_the_queue_and_its_leases(client: Client, world: World) -> None:
    world.push(3)
    before = scrape(client)
    assert before["speedtrack_queue_runs"] == {("kvd-m1", "push"): 3}
    assert before["speedtrack_queue_oldest_seconds"]["kvd-m1", "push"] >= 0
    assert "speedtrack_lease_age_seconds" not in before
    run = builders.claim(world.machines[0])
    during = scrape(client)
    assert during["speedtrack_queue_runs"] == {("kvd-m1", "push"): 2}
    assert 0 < during["speedtrack_lease_left_seconds"]["kvd-m1", "push"] <= 60
    assert during["speedtrack_machine_state"]["kvd-m1", "working"] == 1
    builders.expire_lease(run)
    assert scrape(client)["speedtrack_lease_left_seconds"]["kvd-m1", "push"] < 0
    queue.fail(run.machine, run.pk, FailureReport(token=run.lease_token, kind="permanent", error="x"))
    ended = scrape(client)["speedtrack_attempts_ended_last_day"]
    assert ended["kvd-m1", "failed"] == ended["kvd-m1", "succeeded"] == 1


def test_flags_of_measurements(client: Client, world: World) -> None:
    world.push(1)
    run = builders.claim(world.machines[0])
    builders.send_build(run, run.commit)
    builders.measure(run)
    flag_all_measurements()
    queue.complete(run.machine, run.pk, run.lease_token)
    found = scrape(client)["speedtrack_flagged_measurements_last_day"]
    assert found["driver_saturated",] == found["noisy",] > 0


def test_the_measurements_of_an_ended_attempt_are_counted_once(client: Client, world: World) -> None:
    flag_all_measurements()
    before = scrape(client)["speedtrack_flagged_measurements_last_day"]
    ended = list(Measurement.objects.values_list("pk", flat=True))
    world.push(1)
    world.measure()
    flag_all_measurements()
    Measurement.objects.filter(pk__in=ended).update(flags=[])
    after = scrape(client)["speedtrack_flagged_measurements_last_day"]
    assert after["noisy",] == before["noisy",] * Measurement.objects.count() / len(ended)
    Attempt.objects.update(ended_at=timezone.now() - timedelta(days=2))
    assert "speedtrack_flagged_measurements_last_day" not in scrape(client)


def test_states_of_machines(client: Client, world: World) -> None:
    machine = world.machines[0]
    for change, state in [
        ({"last_seen_at": None}, "silent"),
        ({"paused": True}, "paused"),
        ({"quarantined_at": machine.created, "quarantined_why": "it moved"}, "quarantined"),
        ({"retired_at": machine.created}, "retired"),
    ]:
        type(machine).objects.filter(pk=machine.pk).update(**change)
        found = scrape(client)["speedtrack_machine_state"]
        assert {labels[1] for labels, value in found.items() if value} == {state}


def test_deliveries_wait_and_are_counted(client: Client, world: World) -> None:
    counted = scrape(client).get("speedtrack_deliveries_total", {})
    body = json.dumps({"ref": "refs/heads/main"}).encode()
    address = f"/hooks/{world.project.hook_id}"
    right = signed(world, body)
    for headers in (right, right, {**right, "X-Hub-Signature-256": "sha256=0"}, {}):
        client.post(address, body, "application/json", headers=headers)
    found = scrape(client)
    assert found["speedtrack_deliveries_waiting"] == {("github",): 1}
    now = found["speedtrack_deliveries_total"]
    assert {key: value - counted.get(key, 0) for key, value in now.items() if value != counted.get(key, 0)} == {
        ("github", "received"): 1,
        ("github", "repeated"): 1,
        ("github", "refused"): 1,
        ("none", "refused"): 1,
    }


def test_the_outbox(client: Client, world: World) -> None:
    for number, error in enumerate(["", "", "refused"]):
        Outbox.objects.create(recipient=f"a{number}@example.org", digest=True, event="digest", error=error)
    assert scrape(client)["speedtrack_outbox_messages"] == {("waiting",): 2, ("failing",): 1}


def test_tasks_are_timed_in_all_processes(client: Client, db: None) -> None:
    for seconds in (0.02, 3, 3, 5000):
        tasktimes.add("detect", TaskTime.Outcome.SUCCEEDED, seconds)
    tasktimes.add("detect", TaskTime.Outcome.FAILED, 0.001)
    found = scrape(client)
    assert found["speedtrack_task_seconds_count"] == {("succeeded", "detect"): 4, ("failed", "detect"): 1}
    assert found["speedtrack_task_seconds_sum"]["succeeded", "detect"] == pytest.approx(5006.02)
    buckets = found["speedtrack_task_seconds_bucket"]
    ends = ("0.01", "0.05", "5.0", "600.0", "+Inf")
    assert [buckets[end, "succeeded", "detect"] for end in ends] == [0, 1, 3, 3, 4]
    assert found["speedtrack_task_failures_total"] == {("detect",): 1}


def test_celery_tells_of_every_task(db: None) -> None:
    celery = Celery("test", broker="memory://", set_as_current=False)

    @celery.task(name="speedtrack.tasks.good")
    def good() -> None: ...

    @celery.task(name="speedtrack.tasks.bad")
    def bad() -> None:
        raise ValueError

    good.apply()
    bad.apply()
    assert set(TaskTime.objects.values_list("task", "outcome", "count")) == {
        ("good", "succeeded", 1),
        ("bad", "failed", 1),
    }


def test_requests_are_counted_by_view(client: Client, db: None) -> None:
    before = scrape(client)["speedtrack_http_requests_total"]
    client.get("/queue/?token=secret")
    client.get("/nowhere/else")
    client.generic("BREW", "/queue/")
    client.get("/static/none.css")
    after = scrape(client)["speedtrack_http_requests_total"]
    risen = {key for key, value in after.items() if value != before.get(key)}
    expected = {("GET", "200", "queue"), ("GET", "404", "none"), ("other", "405", "queue"), ("GET", "404", "static")}
    assert risen - {("GET", "200", "metrics")} == expected


def test_it_is_read_by_few_statements_however_many_rows_there_are(client: Client, world: World) -> None:
    def statements() -> int:
        collector.newest.forget()
        with CaptureQueriesContext(connection) as found:
            client.get("/metrics")
        return len(found)

    few = statements()
    world.push(20)
    world.machines.append(builders.machine("m2"))
    Beating(DISPATCHER, every_s=0).beat()
    tasktimes.add("detect", TaskTime.Outcome.SUCCEEDED, 1)
    assert statements() == few <= 15
    with CaptureQueriesContext(connection) as again:
        client.get("/metrics")
    assert len(again) == 0, "what was read a second ago"


def test_without_the_database_the_process_is_still_described(client: Client, db: None) -> None:
    with databases(DATABASE_URL="postgresql://nobody@127.0.0.1:1/none"):
        found = scrape(client)
    assert found["speedtrack_database_up"] == {(): 0}
    assert "process_resident_memory_bytes" in found
    assert "speedtrack_queue_runs" not in found


def test_hostile_names_are_escaped(client: Client, world: World) -> None:
    name = 'a"b\\c\nspeedtrack_forged 1'
    TaskTime.objects.create(task=name, outcome="failed", buckets=[0] * 9)
    found = scrape(client)
    assert found["speedtrack_task_failures_total"] == {(name,): 0}
    assert "speedtrack_forged" not in found


RULES = Path(__file__).parents[3] / "docs" / "prometheus-alerts.yml"
DASHBOARD = Path(__file__).parents[3] / "deploy" / "grafana" / "operation.json"
SUFFIXES = {"counter": "_total", "histogram": "_bucket"}  # of the samples that a graph shows
NAME = re.compile(r"\b(?:speedtrack|process|python)_[a-z_]+\b")


def expressions_of_dashboard() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", [])]


@pytest.fixture
def busy(client: Client, world: World) -> World:
    """A world in which each metric has a value."""
    world.push(2)
    builders.claim(world.machines[0])
    flag_all_measurements()
    Beating(DISPATCHER, every_s=0).beat()
    Outbox.objects.create(recipient="a@example.org", digest=True, event="digest", error="x")
    tasktimes.add("detect", TaskTime.Outcome.FAILED, 1)
    body = b"{}"
    intake.receive(world.project, signed(world, body), body)
    scrape(client)  # the first one counts itself
    collector.newest.forget()
    return world


def test_alert_rules_name_metrics_that_exist(client: Client, busy: World) -> None:
    text = re.sub(r"(?m)^ *#.*$", "", RULES.read_text())
    expressions = re.findall(r"expr: (.+)", text)
    assert len(expressions) == text.count("alert:") > 5
    named = {word for one in expressions for word in NAME.findall(one)}
    assert named - set(scrape(client)) == set()


def test_the_dashboard_of_operation_shows_each_metric_and_no_other(client: Client, busy: World) -> None:
    text = client.get("/metrics").content.decode()
    exported = {f"{family.name}{SUFFIXES.get(family.type, '')}" for family in text_string_to_metric_families(text)}
    assert {word for one in expressions_of_dashboard() for word in NAME.findall(one)} == exported


@pytest.mark.promtool
def test_promtool_accepts_rules_and_metrics(client: Client, world: World, tmp_path: Path) -> None:
    subprocess.run(["promtool", "check", "rules", RULES], check=True)
    rules = [
        {"record": f"shown:{number}", "expr": one.replace("$__rate_interval", "1m")}
        for number, one in enumerate(expressions_of_dashboard())
    ]
    shown = tmp_path / "dashboard.yml"
    shown.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))  # JSON is YAML, too
    subprocess.run(["promtool", "check", "rules", shown], check=True)
    text = client.get("/metrics").content
    subprocess.run(["promtool", "check", "metrics"], input=text, check=True)
