"""What a run did with its time, its trials in their order, its cores, and what to do about its faults."""

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from speedtrack.accounts.access import ANYBODY, Access
from speedtrack.runs.documents import FailureReport
from speedtrack.runs.models import Run, Status
from speedtrack.runs.queue import queue
from speedtrack.runs.results import results
from speedtrack.tests import builders
from speedtrack.web.pages import paging
from speedtrack.web.pages.running import phases
from speedtrack.web.pages.running import results as results_of_run
from speedtrack.web.pages.running import run as run_page
from speedtrack.web.pages.running.faults import OTHERWISE, faults_of, remedy_of
from speedtrack.web.pages.running.phases import TrialTotals, totals_of, trials_of
from speedtrack.web.pages.running.placement import MOST_CPUS, cpus_of, placement_of
from speedtrack.web.tests.world import World, html_of

SERIES = {"server_cpus": "2,3", "driver_cpus": "1", "threads": 6, "placement_override": "no cache in common"}


def measured_now(world: World, flags: dict[int, list[str]], orders: list[int]) -> Run:
    """A run whose trials were made just now, in these places of its order, and flagged so."""
    world.push(1)
    run = builders.claim(world.machines[0])
    builders.send_build(run, run.commit, seconds=0.001)
    recorded = {"housekeeping_cpus": "0-1", "interrupts_on_measured_cpus": 3}
    environment = {**builders.environment(), "recorded": recorded}
    trials = builders.trials([{"server_cpu_ns_per_request": 5000.0 + i, "throughput_rps": 1e5} for i in range(5)])
    for i, trial in enumerate(trials):
        now = timezone.now().isoformat()
        trial |= {"order": orders[i], "flags": flags.get(i, []), "started_at": now, "seconds": 0.001}
    how = {"reason": "target", "half_width": 0.0083, "target": 0.01, "trials": 5, "thrown_out": 1}
    document = builders.result(
        run, "get-p1", run.commit, [], trials=trials, stopping=how, environment=environment, not_countable="why"
    )
    results.accept_result(run.machine, run.pk, document)
    queue.fail(
        run.machine, run.pk, FailureReport(token=run.lease_token, kind="permanent", error="1 of 2 benchmarks failed: x")
    )
    return run


def test_a_run_shows_its_time_its_trials_and_what_to_do(client: Client, kvd: World) -> None:
    kvd.push(1)
    lasting = run_page.load(builders.claim(kvd.machines[0]).pk, Access(ANYBODY))
    assert lasting.phases and [part.name for part in lasting.phases.parts] == ["what lasts now, and setting up"]
    assert (lasting.results.chart, lasting.placement) == (None, None)
    kvd.measure()
    run = measured_now(kvd, {2: ["steal", "foreign"]}, [0, 1, 3, 4, 5])
    page = run_page.load(run.pk, Access(ANYBODY))
    chart = page.results.chart
    assert page.phases and chart
    names = [part.name for part in page.phases.parts]
    assert names[0] == "build" and "get-p1" in names and names[-1] == "reporting"
    assert sum(float(part.width.rstrip("%")) for part in page.phases.parts) == pytest.approx(100, abs=0.1)
    [row] = chart.rows
    assert [dot.flagged for dot in row.strip.dots] == [False, False, True, False, False]
    assert row.strip.dots[2].title == "4. of the run: 5.00 µs, steal, foreign"
    assert len(chart.discarded) == 1  # the place 2, which no trial has
    assert row.strip.dots[1].x < chart.discarded[0] < row.strip.dots[2].x
    html = html_of(client.get(f"/runs/{run.pk}/"))
    assert "5 trials, 1 discarded and repeated: the median is known to ±0.83% (target ±1.00%)" in html
    assert "; instructions are not countable, because why" in html
    assert "1 of 5 trials: The hypervisor took more than 2% of the window" in html
    assert "Use a dedicated host" in html
    assert "The log below names the cause of each." in html
    assert '<rect x="' in html and "discarded because of its flags" in html


def test_totals_of_many_trials_are_those_of_few(kvd: World, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = measured_now(kvd, {2: ["steal", "foreign"], 3: ["steal"]}, [0, 1, 3, 4, 5]).attempts.get()
    few = totals_of(attempt, trials_of(attempt))
    assert (few.number, few.flags, list(few.spent)) == (5, {"steal": 2, "foreign": 1}, ["get-p1"])
    monkeypatch.setattr(phases, "DRAWN", 3)
    first = trials_of(attempt)
    assert len(first) == 4, "one more than are drawn"
    many = totals_of(attempt, first)
    assert many._replace(spent={}) == few._replace(spent={})
    assert many.spent == pytest.approx(few.spent)


@pytest.mark.parametrize("most_drawn", [phases.DRAWN, 3], ids=["drawn", "too many to draw"])
def test_a_run_of_many_benchmarks_shows_some_at_a_time(
    client: Client, kvd: World, monkeypatch: pytest.MonkeyPatch, most_drawn: int
) -> None:
    run = Run.objects.filter(status=Status.SUCCEEDED).latest("pk")
    whole_page = run_page.load(run.pk, Access(ANYBODY))
    all_rows, all_trials = whole_page.results.measurements, whole_page.trials
    monkeypatch.setattr(paging, "MOST", 1)
    monkeypatch.setattr(phases, "DRAWN", most_drawn)
    monkeypatch.setattr(results_of_run, "DRAWN", most_drawn)
    first, second = (run_page.load(run.pk, Access(ANYBODY), number) for number in (1, 2))
    assert (first.results.shown_benchmarks, second.results.shown_benchmarks) == ({"get-p1"}, {"set-p1"})
    shown_rows = [row[:9] for page in (first, second) for row in page.results.measurements]
    assert shown_rows == [row[:9] for row in all_rows]
    for page in (first, second):
        (name,) = page.results.shown_benchmarks
        own = [trial for trial in all_trials if trial.benchmark == name]
        assert page.trials == own[: most_drawn + 1] and len(own) == 5
        assert page.faults == whole_page.faults and page.phases and whole_page.phases
        assert [part.name for part in page.phases.parts] == [part.name for part in whole_page.phases.parts]
        chart = page.results.chart
        assert chart is None if most_drawn == 3 else [row.benchmark for row in chart.rows] == [name]


def test_the_pages_of_a_run_lead_to_each_other(client: Client, kvd: World, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run.objects.filter(status=Status.SUCCEEDED).latest("pk")
    assert "morerows" not in html_of(client.get(f"/runs/{run.pk}/"))
    monkeypatch.setattr(paging, "MOST", 1)
    first, second = (html_of(client.get(f"/runs/{run.pk}/?page={number}")) for number in (1, 2))
    assert 'href="?page=2#measurements"' in first and "10 trials, here those of the benchmarks 1 to 1 of 2" in first
    assert 'href="?page=1#measurements"' in second and 'rel="next"' not in second
    assert 'data-live="?page=2&amp;part=live"' in second, "what is loaded anew is the same page"
    part = html_of(client.get(f"/runs/{run.pk}/?page=2&part=live"))
    assert "/set-p1/" in part and "/get-p1/" not in part


def test_the_cores_of_a_run_are_drawn() -> None:
    found = placement_of({"series": SERIES, "recorded": {"housekeeping_cpus": "0-1", "interrupts_on_measured_cpus": 3}})
    assert found
    assert [cpu.mark for cpu in found.cpus] == ["·", "D·", "S", "S", "", ""]
    assert found.cpus[1].title == "CPU 1: load driver and everything else"
    assert found.cpus[5].title == "CPU 5: left idle"
    assert (found.override, found.interrupts) == ("no cache in common", "3")


@pytest.mark.parametrize(
    "facts", [{}, {"series": {}}, {"series": {"server_cpus": "unknown"}}, {"series": {"server_cpus": "<b>"}}]
)
def test_without_facts_no_cores_are_drawn(facts: dict[str, Any]) -> None:
    assert placement_of(facts) is None


def test_lists_of_cpus_are_bounded_whatever_they_say() -> None:
    assert cpus_of("0-2,5") == {0, 1, 2, 5}
    assert cpus_of("3-1") == cpus_of(None) == cpus_of("none") == frozenset()
    assert len(cpus_of("0-9999")) == MOST_CPUS
    huge = placement_of({"series": {"server_cpus": "1", "threads": 10**9}})
    assert huge and len(huge.cpus) == MOST_CPUS


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        ("build failed: make exited with code 2", "Read the log of the build"),
        ("the runner was silent for more than 60 s", "The runner stopped or lost its connection"),
        ("a server of 4 cores and the driver need 5 physical cores", "python -m runners plan"),
        ("something new", OTHERWISE),
    ],
)
def test_each_failure_has_a_remedy(error: str, remedy: str) -> None:
    assert remedy in remedy_of(error)
    found = faults_of(Run(status=Status.FAILED, error=error), TrialTotals(), ["not_known"])
    assert [fault.title for fault in found] == ["failed", "not_known"]
