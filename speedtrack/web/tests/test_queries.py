"""No page takes more queries than its budget (docs/scale.md), whatever it has to show.

The world has releases, pairs and a private project: which projects are private is the first query of each page.
"""

from dataclasses import dataclass
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from speedtrack.alerts.bisections import bisecting
from speedtrack.alerts.models import Alert
from speedtrack.alerts.triage import measuring
from speedtrack.projects.models import Annotation, Project, Tag
from speedtrack.runs.fleet import machines
from speedtrack.runs.models import PairedComparison, Run
from speedtrack.runs.queue import queue
from speedtrack.runs.results import results
from speedtrack.tests import builders
from speedtrack.web.tests.world import CPU, World, queries

MOST = 12
#: Lines of another benchmark have to be found; a lost run has an attempt behind it, and another one to expect; of a
#: commit without results its run's end is estimated.
MOST_OF_OTHER_LINE, MOST_OF_LOST_RUN, MOST_OF_UNMEASURED = 14, 14, 14
LINE = f"/p/kvd/timeline/get-p1/{CPU}"


@dataclass
class FullWorld:
    """A project that has everything that pages show, and ``ada``, an operator."""

    world: World
    alert: Alert
    ada: Client
    runs: dict[str, Run]


@pytest.fixture
def full(slow: tuple[World, Alert]) -> FullWorld:
    world, alert = slow
    machine = world.machines[0]
    ada = User.objects.create_superuser("ada", "ada@example.org", "a long password")
    machines.set_canary(machine.name, "kvd", None, [])
    world.measure()
    for name, place in (("1.0.0", 0), ("1.1.0", 2), ("1.2.0", 4), ("1.3.0", 6)):
        Tag.objects.create(project=world.project, name=name, sha=world.shas[place])
    Project.objects.create(
        slug="secret", name="secret", url="https://example.org/secret.git", suite=world.project.suite, is_public=False
    )
    for about in ({"commit": world.commit(-1)}, {"moment": timezone.now()}):
        Annotation.objects.create(project=world.project, text="a note", author=ada, **about)
    bisecting.start(world.commit(0), world.commit(-1), machine)
    runs = {"measured": Run.objects.filter(status="succeeded", base=None, canary=None).latest("pk")}
    runs["paired"] = Run.objects.filter(reason="confirm").latest("pk")
    world.push(2)
    runs["failed"] = world.fail()
    runs["lost"] = begun(world)
    builders.expire_lease(runs["lost"])
    queue.reap()
    world.push(2)
    runs["running"] = begun(world)
    runs["waiting"] = Run.objects.filter(status="queued", attempt=0).latest("pk")
    client = Client()
    client.force_login(ada)
    return FullWorld(world, alert, client, runs)


def tried(full: FullWorld) -> PairedComparison:
    """A comparison with a measured paired run and one that waits."""
    ends = {"project": full.world.project, "head": full.runs["paired"].commit, "base": full.runs["paired"].base}
    comparison: PairedComparison = PairedComparison.objects.create(head_name="main", planned_at=timezone.now(), **ends)
    base, head = comparison.base, comparison.head
    assert base and head
    comparison.runs.add(
        full.runs["paired"], measuring.measure_pair(base, head, full.world.machines[0].pk, ["get-p1"]).run
    )
    return comparison


def begun(world: World) -> Run:
    """A run that has measured one of its benchmarks."""
    run = builders.claim(world.machines[0])
    builders.send_build(run, run.commit)
    results.accept_result(run.machine, run.pk, builders.result(run, "get-p1", run.commit, [5000.0] * 5))
    return run


def test_no_page_takes_more_queries_than_its_budget(client: Client, full: FullWorld) -> None:
    shas = full.world.shas
    project = ["", "board/", "alerts/", "releases/", "bisect/", "sensitivity/", "annotations/", "mutes/", "pulls/"]
    project += ["tries/", f"tries/{tried(full).pk}/"]
    project += [f"c/{shas[5]}/", f"c/{shas[5]}.json", f"c/{shas[-1]}/", f"compare/?base={shas[0]}&head={shas[6]}"]
    project += [f"compare/?base={shas[4]}&head={shas[5]}", "releases.atom", "badge.svg?show=release"]
    lines = [f"{LINE}{form}" for form in ("", ".json", ".csv", ".svg", "?part=values", "/takes/")]
    other_line = f"{LINE}.json?line={quote(f'kvd/set-p1/{CPU}@kvd-m1:main')}"
    runs = {name: f"/runs/{run.pk}/" for name, run in full.runs.items()}
    shared = ["/", "/queue/", "/queue/?part=live", "/machines/", "/machines/kvd-m1/", "/alerts/", "/ladders/"]
    shared += [f"/alerts/{full.alert.pk}/", "/api/v1/docs", "/p/kvd/latency/get-p1/", "/p/kvd.json"]
    pages = [*shared, *(f"/p/kvd/{one}" for one in project), *lines, *runs.values(), other_line]
    found = {page: queries(client, page) for page in pages}
    settings = ["/settings/machines/", "/settings/", "/settings/notifications/", "/p/kvd/settings/", "/p/kvd/members/"]
    found |= {page: queries(full.ada, page) for page in settings}
    assert found.pop(other_line) <= MOST_OF_OTHER_LINE
    assert found.pop(runs["lost"]) <= MOST_OF_LOST_RUN
    assert found.pop(f"/p/kvd/c/{shas[-1]}/") <= MOST_OF_UNMEASURED
    assert {page: count for page, count in found.items() if count > MOST} == {}
