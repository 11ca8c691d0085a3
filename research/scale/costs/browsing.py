"""What a reader waits for: pages of a large database in Chromium, and what its scripts cost under the pointer."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from research.scale.costs.pages import newest, to
from research.scale.marks import write_part
from runners.tests.ports import free_port
from speedtrack.alerts.models import Alert
from speedtrack.processes.devstack import BASE_DIR, PROCESSES
from speedtrack.projects.models import Commit
from speedtrack.runs.models import Machine, Run, Series

PART = "browser figures"
LINES = "timeline, 8 lines of 5,000 commits"
SIZE = ViewportSize(width=1280, height=800)
LOADS = 7
MOVES, TURNS = 80, 40
PAUSE_MS = 40  # longer than what one movement costs, so that movements are told apart
PAINT_MS, DRAWN_MS, SCRIPT_MS, SCRIPT_KB = 500, 1000, 16, 120
#: When the text in the chart's place has gone, and the frame after it.
NOTE_DRAWN = """addEventListener("DOMContentLoaded", () => {
  const state = document.querySelector(".chartstate");
  if (!state) return;
  new MutationObserver(() => {
    if (state.textContent === "") requestAnimationFrame(() => (window.drawnAt ??= performance.now()));
  }).observe(state, { childList: true, characterData: true, subtree: true });
});"""
LOADED = """() => ({
  paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
  drawn: window.drawnAt,
  script: performance.getEntriesByType("resource").filter((one) => new URL(one.name).pathname.endsWith(".js")).reduce(
    (sum, one) => sum + one.encodedBodySize, 0),
})"""
#: Of a trace: whatever runs a page's script.
SCRIPT = {"EventDispatch", "FireAnimationFrame", "TimerFire", "RunMicrotasks", "FireIdleCallback"}


@dataclass(frozen=True)
class PageLoad:
    """Milliseconds since the request began, and bytes of script on the wire. ``chart``: None on a page without one."""

    title: str
    paint: float
    chart: float | None
    script: int


@dataclass(frozen=True)
class Moved:
    """Milliseconds of CPU that scripts took for one movement."""

    title: str
    each: list[float]


def run(write: Path | None) -> None:
    text = "\n".join(table())
    print(text)
    if write:
        write_part(write, PART, text)


def table() -> Iterator[str]:
    program = shutil.which("chromium")
    if program is None:
        sys.exit("error: chromium is not on PATH: install it (Debian: apt-get install chromium)")
    pages = addresses()  # before Playwright runs its loop, beside which Django asks no database
    with served() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield (
            f"Chromium {browser.version}, {SIZE['width']} x {SIZE['height']}, nothing cached, median of {LOADS} loads; "
            f"{os.cpu_count()} cores for browser, server and PostgreSQL together, load {os.getloadavg()[0]:.1f}; "
            "bold: missed.\n"
        )
        yield "| page | first contentful paint, ms | chart drawn, ms | script, kB on the wire |\n|---|--:|--:|--:|"
        for title, address in pages.items():
            load = loaded(browser, url, title, address)
            chart = marked(load.chart, DRAWN_MS) if load.chart else "–"
            script = marked(load.script / 1000, SCRIPT_KB)
            yield f"| {load.title} | {marked(load.paint, PAINT_MS)} | {chart} | {script} |"
        yield "\n| movement, 8 lines of 5,000 commits | CPU ms of script, median | p95 |\n|---|--:|--:|"
        for movement in movements(browser, url + pages[LINES]):
            p95 = quantiles(movement.each, n=20)[-1]
            yield f"| {movement.title} | {median(movement.each):.1f} | {marked(p95, SCRIPT_MS, 1)} |"
        browser.close()


def marked(value: float, most: float, digits: int = 0) -> str:
    text = f"{value:,.{digits}f}"
    return f"**{text}**" if value > most else text


def lines_address() -> str:
    line = Series.objects.filter(project__slug="long").select_related("benchmark").order_by("pk")[0]
    machines = "&".join(f"machine={name}" for name in Machine.objects.values_list("name", flat=True))
    return to("timeline", "long", line.benchmark.name, line.metric, query=f"?last=5000&{machines}")


def addresses() -> dict[str, str]:
    measured_commits = Run.objects.filter(project__slug="wide", reason="push").values("commit")
    head, base = newest(Commit.objects.filter(pk__in=measured_commits), 2)
    return {
        "home": to("home"),
        "project, a grid of 50 benchmarks": to("project", "wide"),
        LINES: lines_address(),
        "commit, 2,000 series": to("commit", "wide", head.sha),
        "compare, 2,000 series": to("compare", "wide", query=f"?base={base.sha}&head={head.sha}"),
        "alert of 5 machines": to("alert", newest(Alert.objects.filter(project__slug="wide"), 1)[0].pk),
        "queue, 100,000 waiting": to("queue"),
    }


@contextlib.contextmanager
def served() -> Iterator[str]:
    """The web server as it is installed, on this database."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, *PROCESSES["web"], "--bind", f"127.0.0.1:{port}"]
    process = subprocess.Popen(command, cwd=BASE_DIR, env={**os.environ, "SPEEDTRACK_URL": url})
    try:
        while process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()


def loaded(browser: Browser, url: str, title: str, address: str) -> PageLoad:
    answers = []
    for _ in range(LOADS):
        page = opened(browser, url + address)
        answers.append(page.evaluate(LOADED))
        page.context.close()
    chart_times = [answer["drawn"] for answer in answers if answer.get("drawn")]
    return PageLoad(
        title,
        median(answer["paint"] for answer in answers),
        median(chart_times) if chart_times else None,
        answers[-1]["script"],
    )


def opened(browser: Browser, address: str) -> Page:
    """A page with nothing cached that has been painted, with its chart drawn."""
    page = browser.new_context(viewport=SIZE).new_page()
    page.add_init_script(NOTE_DRAWN)
    page.goto(address, wait_until="load")
    page.wait_for_function("() => performance.getEntriesByName('first-contentful-paint').length")  # may follow `load`
    if page.locator(".chartstate").count():
        page.wait_for_function("() => window.drawnAt !== undefined")
    return page


def movements(browser: Browser, address: str) -> Iterator[Moved]:
    page = opened(browser, address)
    box: Any = page.locator("canvas#chart").bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 5, y)

    def hover() -> None:
        for number in range(MOVES):
            page.mouse.move(box["x"] + box["width"] * (0.1 + 0.8 * number / MOVES), y)
            page.wait_for_timeout(PAUSE_MS)

    def zoom() -> None:
        for number in range(TURNS):
            page.mouse.wheel(0, -60 if number < TURNS / 2 else 60)
            page.wait_for_timeout(PAUSE_MS)

    for title, kind, act in (("hover", "mousemove", hover), ("zoom by the wheel", "wheel", zoom)):
        browser.start_tracing(page=page, categories=["devtools.timeline"])
        act()
        yield Moved(title, costs(json.loads(browser.stop_tracing())["traceEvents"], kind))
    page.context.close()


def costs(events: list[dict[str, Any]], kind: str) -> list[float]:
    """Milliseconds of CPU of all scripts between each event of this kind and the next one."""
    scripts = sorted(
        (event for event in events if event["name"] in SCRIPT and "tdur" in event), key=lambda event: event["ts"]
    )
    outer, end = [], 0.0
    for event in scripts:  # what ran within another is part of it
        if event["ts"] >= end:
            outer.append(event)
            end = event["ts"] + event["dur"]
    began = [event["ts"] for event in outer if event.get("args", {}).get("data", {}).get("type") == kind]
    return [
        sum(event["tdur"] for event in outer if a <= event["ts"] < b) / 1000
        for a, b in pairwise([*began, float("inf")])
    ]
