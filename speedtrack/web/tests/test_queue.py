"""Queue and machines: what runs, what waits, the state of each machine."""

from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from django.db.models.functions import Now
from django.test import Client
from django.utils import timezone

from speedtrack.runs import naming
from speedtrack.runs.fleet import machines
from speedtrack.runs.models import Machine, Run
from speedtrack.runs.queue import queue
from speedtrack.tests import builders
from speedtrack.tests.plans import rows_read
from speedtrack.web.pages.running import queue as queue_page
from speedtrack.web.tests.world import World, html_of, queries, world


def test_without_machines_it_says_how_to_begin(client: Client, db: None) -> None:
    assert 'An operator adds one (<a href="/help/machines/#enrolment">how</a>)' in html_of(client.get("/queue/"))


def seen(**ago: float) -> None:
    Machine.objects.update(last_seen_at=Now() - timedelta(**ago))


def test_what_waits_and_until_when(client: Client, kvd: World) -> None:
    seen(seconds=1)
    for run in Run.objects.filter(status="succeeded"):
        builders.take_time(run, build_s=60.0, trial_s=2.0, between_s=0.5, around_s=6.0)
    kvd.push(2)
    page = html_of(client.get("/queue/"))
    assert "2 runs waiting, done" in page
    assert "1 min 30 s" in page and "builds 1 min 0 s, trials 24 s, around them 6.0 s" in page
    assert ">in 1 minute<" in page and page.count(">in 3 minutes<") == 2
    assert ">idle<" in page


def test_a_silent_or_paused_machine_promises_nothing(client: Client, kvd: World) -> None:
    kvd.push(1)
    seen(hours=2)
    page = html_of(client.get("/queue/"))
    assert ">silent<" in page
    assert "Machine kvd-m1 has been silent for 2 h: its runner called last at" in page and "done <time" not in page
    machines.pause(naming.machine_named("kvd-m1"))
    assert "Machine kvd-m1 is paused" in html_of(client.get("/queue/"))


def test_what_runs(client: Client, kvd: World) -> None:
    seen(seconds=1)
    kvd.push(1)
    run = queue.claim(kvd.machines[0])
    assert run
    part = html_of(client.get("/queue/?part=live"))
    assert "<html" not in part
    assert f'href="/runs/{run.pk}/"' in part
    assert ">working<" in part
    assert "<progress" in part


def test_troubles_are_told_with_their_errors(client: Client, kvd: World) -> None:
    kvd.push(1)
    kvd.fail("disk <full>")
    assert "disk &lt;full&gt;" in html_of(client.get("/queue/"))


def test_the_environment_is_a_click_away(client: Client, kvd: World) -> None:
    assert '<a href="/machines/kvd-m1/">Environment</a> (first seen' in html_of(client.get("/queue/"))
    assert "Test CPU" in html_of(client.get("/machines/kvd-m1/"))


def test_the_number_of_queries_does_not_grow(client: Client, kvd: World, settings: Any, tmp_path: Path) -> None:
    kvd.push(1)
    few = queries(client, "/queue/")
    other = world(settings, tmp_path / "other", commits=8, machines=2, name="other")
    kvd.push(4)
    other.fail()
    assert queries(client, "/queue/") == few


def test_as_many_rows_are_read_however_many_runs_wait_or_have_ended(kvd: World) -> None:
    run = Run.objects.latest("pk")
    next_runs = partial(queue_page.waiting_runs, [run.machine_id])
    add_runs(run, 40, first_round=10)
    few = rows_read(next_runs)
    add_runs(run, 600, first_round=100)
    assert rows_read(next_runs) <= few


def add_runs(run: Run, count: int, first_round: int) -> None:
    """So many more that wait, and as many that succeeded."""
    names = ("project_id", "commit_id", "machine_id", "suite_id", "benchmark_set_id", "reason", "trials")
    same = {name: getattr(run, name) for name in names}
    now = timezone.now()
    ended = {"status": "succeeded", "started_at": now - timedelta(minutes=5), "ended_at": now}
    for number in range(count):
        Run.objects.create(**same, round=first_round + number, rank=number)
        Run.objects.create(**same, **ended, round=5000 + first_round + number)
