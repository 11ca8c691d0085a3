"""Comparing two commits in a real browser: the filters, the forest plot, and hostile names."""

import pytest
from playwright.sync_api import Browser, expect

from speedtrack.alerts.models import Alert
from speedtrack.benchmarks.models import Benchmark
from speedtrack.projects.models import Commit, Tag
from speedtrack.runs.models import Measurement, Series
from speedtrack.web.pages import paging
from speedtrack.web.tests.test_browser import OVERFLOW, chromium, shown, watched
from speedtrack.web.tests.test_compare import put_latencies
from speedtrack.web.tests.world import CPU, World

__all__ = ["chromium", "shown"]
pytestmark = pytest.mark.browser

CUT = "cells => cells.filter(one => one.getBoundingClientRect().right > innerWidth).map(one => one.textContent)"
HOSTILE_NAME = "<img onerror=alert(1) src=x>\u202egnp " + "x" * 200 + "😀"
CENTRES = """
    rows => rows.map(row => {
        const middle = element => { const box = element.getBoundingClientRect(); return box.top + box.height / 2; };
        return Math.abs(middle(row) - middle(row.querySelector("svg .mark")));
    })
"""


def test_filters_and_the_forest_plot(shown: tuple[World, Alert, str], chromium: Browser) -> None:
    made, _, url = shown
    put_latencies(made, 1, 50_000.0)
    put_latencies(made, 7, 60_000.0)
    Tag.objects.create(project=made.project, name="1.0", sha=made.shas[1])
    complaints: list[str] = []
    page = watched(chromium, 1280, complaints)
    page.goto(f"{url}/p/kvd/compare/")
    assert page.locator("h1").inner_text() == "main against 1.0"
    rows = page.locator("table.compared tbody tr")
    assert rows.count() == 4
    assert max(rows.evaluate_all(CENTRES)) < 3, "each mark stands in the middle of its row"
    one = page.locator("table.compared svg .one").first.bounding_box()
    marks = [page.locator("table.compared svg .mark").nth(i).bounding_box() for i in range(4)]
    assert one and all(marks)
    changes = rows.locator(".change").all_inner_texts()
    for change, mark in zip(changes, marks, strict=True):
        assert mark and (mark["x"] > one["x"]) == change.startswith("+"), "slower is on the side of its sign"
    page.get_by_label("only what differs").check()
    page.wait_for_url("**differs=1*")
    page.get_by_placeholder("name of a benchmark").fill("get")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=get*")
    assert "differs=1" in page.url
    assert rows.locator("th a[href*='/timeline/']").all_inner_texts() == ["get-p1", "get-p1"]
    page.locator("form[action='#results'] select[name=verdict]").select_option("same")
    page.get_by_text("No row fits these filters.").wait_for()
    page.get_by_role("link", name="Show all").click()
    rows.nth(3).wait_for()
    page.locator("#latency select").select_option("get-p1")
    page.locator("svg[aria-label^='Percentile curves']").wait_for()
    page.goto(f"{url}/p/kvd/c/{made.shas[6]}/")
    page.locator("[data-part] table.compared").wait_for()
    assert complaints == []


def test_a_phone_shows_all_numbers(shown: tuple[World, Alert, str], chromium: Browser) -> None:
    made, _, url = shown
    Tag.objects.create(project=made.project, name="1.0", sha=made.shas[1])
    Tag.objects.create(project=made.project, name="1.1", sha=made.shas[7])
    page = watched(chromium, 390, [])
    page.goto(f"{url}/p/kvd/compare/?base=1.0&head=1.1")
    expect(page.locator("p.verdictline")).to_contain_text("Slower +20.")
    offers = page.locator("datalist#names option")
    names = offers.evaluate_all("all => all.map(one => one.value)")
    assert {"main", "1.0", "1.1", made.shas[7][:10]} <= set(names)
    for path, cells in (("compare/?base=1.0&head=1.1", "table.compared td"), ("releases/", "details[open] td")):
        page.goto(f"{url}/p/kvd/{path}")
        assert page.locator(cells).count() > 4
        assert page.locator(cells).evaluate_all(CUT) == [], path
    page.goto(f"{url}/p/kvd/")
    assert page.locator("table.grid tbody td.number").evaluate_all(CUT) == []


def test_the_main_metrics_come_first_and_ten_rows(
    shown: tuple[World, Alert, str], chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _, url = shown
    for place, factor in ((1, 1.0), (7, 2.0)):
        for metric in ("latency_us_p50", "latency_us_p99", "server_user_ns_per_request", "build_seconds"):
            copy_as(made, place, metric, factor)
    page = watched(chromium, 1280, [])
    page.goto(f"{url}/p/kvd/compare/?base={made.shas[1]}&head={made.shas[7]}")
    rows = page.locator("table.compared tbody tr")
    assert rows.count() == 10
    first = rows.locator("th .soft").all_inner_texts()[:4]
    assert set(first) == {"Server CPU per request", "Throughput"}
    monkeypatch.setattr(paging, "MOST", 7)
    page.get_by_role("link", name="All 12 rows").click()
    page.wait_for_url("**rows=all*")
    assert rows.count() == 7
    page.get_by_role("link", name="Show the next 5").click()
    expect(rows).to_have_count(12)
    expect(rows.nth(7).locator("th a").first).to_be_focused()
    expect(page.locator(".morerows")).to_have_text("12 of 12 rows")
    names = rows.locator("th").all_inner_texts()
    page.goto(f"{page.url.partition('#')[0]}&page=2")
    assert rows.locator("th").all_inner_texts() == names[7:]
    page.get_by_role("link", name="Rows before").click()
    page.wait_for_url("**page=1*")
    assert rows.locator("th").all_inner_texts() == names[:7]
    page.go_back()
    page.wait_for_url("**page=2*")
    assert rows.count() == 5
    hidden = page.locator("table.totals").get_by_text("Latency p50")
    expect(hidden).to_be_hidden()
    page.get_by_text("4 further metrics").click()
    expect(hidden).to_be_visible()


def copy_as(made: World, place: int, metric: str, factor: float) -> None:
    """Measurements of another metric at a commit: those of the CPU time, times ``factor``."""
    for row in Measurement.objects.filter(commit=made.commit(place), series__metric=CPU).select_related("series"):
        own = row.series
        fields = {name: getattr(own, name) for name in ("project", "machine", "environment", "benchmark")}
        series, _ = Series.objects.get_or_create(metric=metric, **fields)
        row.pk, row.series = None, series
        row.value, row.low, row.high = row.value * factor, row.low * factor, row.high * factor
        row.save()


def test_hostile_names_neither_run_nor_break_the_layout(shown: tuple[World, Alert, str], chromium: Browser) -> None:
    made, _, url = shown
    put_latencies(made, 1, 50_000.0)
    put_latencies(made, 7, 60_000.0)
    name = HOSTILE_NAME[:100]
    Benchmark.objects.filter(name="get-p1").update(name=name)
    Tag.objects.create(project=made.project, name=HOSTILE_NAME, sha=made.shas[1])
    Tag.objects.create(project=made.project, name="1.0", sha=made.shas[6])
    Commit.objects.update(subject=HOSTILE_NAME * 2)
    complaints: list[str] = []
    page = watched(chromium, 390, complaints)
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.goto(f"{url}/p/kvd/compare/")
    page.locator("input[name=base]").fill(HOSTILE_NAME)
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**base=*")
    assert page.locator("table.compared tbody tr").count() == 4
    assert page.evaluate(OVERFLOW) <= 0
    for path in (f"latency/{page.evaluate('encodeURIComponent', name)}/", "releases/", f"c/{made.shas[6]}/"):
        page.goto(f"{url}/p/kvd/{path}")
        assert page.locator("h1").count() == 1
        assert page.evaluate(OVERFLOW) <= 0, path
    assert complaints == []
