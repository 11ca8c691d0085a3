"""A machine's page: its state, its canary, what changed on it; and its quarantine on other pages."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from speedtrack.accounts.models import AuditEntry
from speedtrack.alerts.models import ChangePoint
from speedtrack.benchmarks.digests import json_digest
from speedtrack.projects.models import Branch, Commit
from speedtrack.runs.fleet import machines
from speedtrack.runs.models import Canary, CanaryCheck, Machine, MachineEvent, Run, Series
from speedtrack.runs.queue import queue
from speedtrack.runs.results import results
from speedtrack.runs.scheduling import canary
from speedtrack.stats.noise.canary import FEWEST, IN_A_ROW
from speedtrack.tests import builders
from speedtrack.web.drawing.small.plots import CanaryDot, CanaryPlot
from speedtrack.web.tests.world import World, html_of, queries

PAGE = "/machines/kvd-m1/"


def run_canary(machine: Machine, value: float, **facts: str) -> None:
    """Plan and complete one run of the canary with this value."""
    inuse = machine.canaries.get(retired_at=None)
    if not Run.objects.unfinished().filter(canary=inuse).exists():
        canary.queue_run(inuse, inuse.created)
    run = builders.claim(machine)
    builders.send_build(run, run.commit)
    series = builders.SERIES_FACTS | facts
    environment = {"digest": json_digest(series), "series": series, "recorded": {"governor": "performance"}}
    results.accept_result(
        machine, run.pk, builders.result(run, "get-p1", run.commit, [value] * 5, environment=environment)
    )
    queue.complete(machine, run.pk, run.lease_token)
    queue.claim(machine)


@pytest.fixture
def watched(kvd: World) -> Machine:
    machines.set_canary("kvd-m1", "kvd", None, [])
    machine = kvd.machines[0]
    for _ in range(FEWEST):
        run_canary(machine, 5000.0)
    return machine


@pytest.fixture
def quarantined(watched: Machine) -> Machine:
    for _ in range(IN_A_ROW):
        run_canary(watched, 5400.0)
    watched.refresh_from_db()
    assert watched.quarantined_at
    return watched


def test_a_machine_shows_its_canary_its_work_and_its_environment(client: Client, watched: Machine) -> None:
    run_canary(watched, 5010.0, kernel="6.2", compiler="sha256:" + "e" * 64)
    page = html_of(client.get(PAGE))
    assert page.count('<g class="learning">') == FEWEST + 1
    assert "<strong>kernel</strong> 6.1 → 6.2" in page
    assert "<strong>compiler</strong> cc 12 → eeeeeeeeeeee" in page
    assert "governor" in page and "Test CPU" in page
    assert "get-p1 of kvd at" in page
    found = client.get(f"{PAGE[:-1]}.json").json()
    assert len(b"".join(client.get(f"{PAGE[:-1]}.csv")).decode().splitlines()) - 1 == len(found["checks"])
    assert found["environments"][0]["changed"][0] == {"fact": "kernel", "before": "6.1", "after": "6.2"}
    assert len(found["checks"]) == FEWEST + 1 and found["canary"]["benchmarks"] == ["get-p1"]
    assert found["state"] != "quarantine"


def test_a_machine_shows_what_moved_with_it_and_not_with_the_code(client: Client, kvd: World) -> None:
    assert "Changes caused by this machine" not in html_of(client.get(PAGE))
    series = Series.objects.filter(machine__name="kvd-m1").earliest("id")
    before, commit = Commit.objects.filter(measurements__series=series).distinct().order_by("id")[:2]
    ChangePoint.objects.create(
        series=series,
        branch=Branch.objects.get(name="main"),
        before=before,
        commit=commit,
        status="machine",
        ratio=1.05,
        low=1.04,
        high=1.06,
        score=3.0,
        note="the canary moved at that time",
    )
    page = html_of(client.get(PAGE))
    assert "Changes caused by this machine" in page and "the canary moved at that time" in page
    (shift,) = client.get(f"{PAGE[:-1]}.json").json()["shifts"]
    assert (shift["commit"], shift["ratio"], shift["benchmark"]) == (commit.sha, 1.05, series.benchmark.name)


def test_an_operator_chooses_the_canary_of_a_machine(client: Client, kvd: World) -> None:
    address, chosen = "/settings/machines/kvd-m1/freeze", {"project": "kvd", "commit": kvd.shas[1]}
    page = html_of(client.get(PAGE))
    assert "an operator may choose" in page and "Choose its canary" not in page
    assert client.get("/machines/none/").status_code == 404
    ada = User.objects.create_superuser("ada")
    client.force_login(ada)
    assert "Choose its canary" in html_of(client.get(PAGE))
    for wrong, why in (({"commit": "no-such"}, "no-such"), ({"benchmarks": "none"}, "none"), ({"project": "x"}, "x")):
        assert why in html_of(client.post(address, chosen | wrong, follow=True)).partition("Not done:")[2]
    asked = html_of(client.post(address, chosen | {"benchmarks": "set-p1", "preview": "yes"}, follow=True))
    assert "Nothing was done" in asked and f'value="{kvd.shas[1]}"' in asked and 'value="set-p1"' in asked
    assert not Canary.objects.exists()
    client.post(address, chosen | {"benchmarks": "set-p1"})
    made = Canary.objects.get()
    assert (made.commit.sha, str(made.benchmark_set)) == (kvd.shas[1], "set-p1")
    assert Run.objects.get(canary=made).status == "queued"
    assert MachineEvent.objects.get(kind="canary").who == ada
    assert AuditEntry.objects.filter(action="machine.freeze").exists()


def test_a_quarantine_is_seen_wherever_the_machine_is(client: Client, quarantined: Machine) -> None:
    for address in ("/", "/queue/", PAGE):
        page = html_of(client.get(address))
        assert "quarantine" in page and "+8.0%" in page, address
    assert "<button" not in html_of(client.get(PAGE)).split("quarantine")[-1].split("</section>")[0]
    assert client.get(f"{PAGE[:-1]}.json").json()["state"] == "quarantine"


@pytest.mark.parametrize(("level", "anew"), [("old", False), ("new", True)])
def test_a_person_lifts_it(client: Client, quarantined: Machine, level: str, anew: bool) -> None:
    assert "/login/" in client.post(PAGE, {"level": level}).headers["Location"]
    since = quarantined.canaries.get().since
    client.force_login(User.objects.create_superuser("ada"))
    assert "The quarantine has ended" in html_of(client.post(PAGE, {"level": level}, follow=True))
    quarantined.refresh_from_db()
    assert quarantined.quarantined_at is None
    assert (quarantined.canaries.get().since > since) == anew
    assert MachineEvent.objects.get(kind="lifted").who == User.objects.get()
    assert "The quarantine was not ended" in html_of(client.post(PAGE, {"level": level}, follow=True))


def test_run_and_queue_pages_lead_to_the_machine(client: Client, kvd: World) -> None:
    run = Run.objects.latest("pk")
    for address in (f"/runs/{run.pk}/", "/queue/"):
        assert f'href="{PAGE}"' in html_of(client.get(address))


def test_the_number_of_queries_does_not_grow(client: Client, watched: Machine) -> None:
    before = queries(client, PAGE)
    for _ in range(5):
        run_canary(watched, 5000.0)
    assert queries(client, PAGE) == before
    assert CanaryCheck.objects.count() == FEWEST + 5


def test_a_plot_of_canaries() -> None:
    def dot(ratio: float | None, answer: str, changed: str = "") -> CanaryDot:
        return CanaryDot(ratio, 0.02 if answer != "unknown" else None, answer, "", changed)

    plot = CanaryPlot.of([dot(1.0, "steady"), dot(1.05, "off"), dot(None, "unknown"), dot(0.99, "steady", "kernel")])
    middle, high, bottom, low = (one.y for one in plot.dots)
    assert high < middle < low < bottom
    assert [one.changed for one in plot.breaks] == ["kernel"]
    assert plot.breaks[0].x < plot.dots[3].x
    assert plot.band and plot.band[0] < middle < plot.band[0] + plot.band[1]
    assert CanaryPlot.of([dot(1.0, "steady")]).dots[0].y == plot.dots[0].y


def test_an_operator_works_at_the_shell(kvd: World, quarantined: Machine) -> None:
    from io import StringIO

    from django.core.management import CommandError, call_command

    def told(*words: Any) -> str:
        out = StringIO()
        call_command("machine", *words, stdout=out)
        return out.getvalue()

    assert "quarantine" in told("list")
    assert "has ended" in told("lift", "kvd-m1")
    with pytest.raises(CommandError, match="not in quarantine"):
        told("lift", "kvd-m1")
    assert "set-p1 of kvd at" in told(
        "canary", "kvd-m1", "--project", "kvd", "--benchmark", "set-p1", "--commit", kvd.shas[0]
    )
    for words, why in [
        (("canary", "kvd-m1"), "name the project"),
        (("canary", "kvd-m1", "--project", "nobody"), "there is no project"),
        (("canary", "kvd-m1", "--project", "kvd", "--commit", "nowhere"), "check the spelling"),
        (("canary", "kvd-m1", "--project", "kvd", "--benchmark", "none"), "no benchmark none"),
        (("lift", "none"), "there is no machine"),
    ]:
        with pytest.raises(CommandError, match=why):
            told(*words)
