"""One walk through the pages in a real browser: home, project, timeline, commit."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections
from playwright.sync_api import Browser, ConsoleMessage, Page, Route, sync_playwright

from speedtrack.alerts.models import Alert
from speedtrack.runs.documents import Renewal, ReportedProgress
from speedtrack.runs.queue import queue
from speedtrack.web.tests.conftest import browser as browser_path
from speedtrack.web.tests.world import CPU, World, slowed

pytestmark = pytest.mark.browser

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
COLOURED = """
    canvas => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        let count = 0;
        for (let i = 3; i < data.length; i += 4) count += data[i] > 0;
        return count;
    }
"""
PATIENCE_MS = 120_000
OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture
def chromium(monkeypatch: pytest.MonkeyPatch) -> Iterator[Browser]:
    # Playwright's own loop runs in this thread, beside Django's database calls.
    monkeypatch.setitem(os.environ, "DJANGO_ALLOW_ASYNC_UNSAFE", "true")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=FLAGS)
        yield browser
        browser.close()
        connections.close_all()  # beside a running loop, Django's database connection is another one than without


@pytest.fixture
def shown(live_server: Any, settings: Any, tmp_path: Any) -> tuple[World, Alert, str]:
    made, alert = slowed(settings, tmp_path)
    return made, alert, live_server.url


def watched(chromium: Browser, width: int, complaints: list[str]) -> Page:
    page = chromium.new_page(viewport={"width": width, "height": 800})

    def heard(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    page.set_default_timeout(PATIENCE_MS)
    page.on("console", heard)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    return page


def chart_is_drawn(page: Page) -> None:
    page.wait_for_function("() => document.querySelector('.chartstate').textContent === ''")
    assert page.locator("canvas#chart").evaluate(COLOURED) > 1000


def test_from_home_to_a_commit(shown: tuple[World, Alert, str], chromium: Browser) -> None:
    made, _, url = shown
    complaints: list[str] = []
    page = watched(chromium, 1280, complaints)
    page.goto(url)
    page.get_by_role("link", name="kvd", exact=True).first.click()
    page.get_by_role("link", name="get-p1", exact=True).first.click()
    page.wait_for_url(f"**/timeline/get-p1/{CPU}*")
    chart_is_drawn(page)

    assert page.locator("#coverage").text_content() == "8 of 8 commits measured."
    page.get_by_text("All values as a table").click()
    page.locator("details.values tbody tr").nth(7).wait_for()

    canvas = page.locator("canvas#chart")
    canvas.focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    said = page.locator("#said").text_content() or ""
    assert made.shas[5][:10] in said
    assert "slower +20.1%" in said
    page.keyboard.press("Enter")
    page.locator("#pins a.sha").click()
    page.wait_for_url(f"**/c/{made.shas[5][:12]}/")
    assert "<script>alert(1)</script>" in page.locator("h1").inner_text()
    assert complaints == []


def test_a_click_holds_while_its_card_is_filled(shown: tuple[World, Alert, str], chromium: Browser) -> None:
    made, _, url = shown
    page = watched(chromium, 1280, [])
    page.goto(f"{url}/p/kvd/timeline/get-p1/{CPU}")
    chart_is_drawn(page)
    details: list[Route] = []
    page.route("**/*.json?*around=*", lambda route: details.append(route))
    page.locator("canvas#chart").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.locator("#pins a.sha").hover()
    page.mouse.down()
    with page.expect_response("**/*.json?*around=*") as answer:
        details[0].continue_()
    answer.value.finished()
    page.wait_for_timeout(500)  # more than a card takes to be made
    page.mouse.up()
    page.wait_for_url(f"**/c/{made.shas[7][:12]}/")


def test_no_page_scrolls_sideways(shown: tuple[World, Alert, str], chromium: Browser) -> None:
    made, alert, url = shown
    addresses = [
        "/",
        "/p/kvd/",
        f"/p/kvd/timeline/get-p1/{CPU}",
        f"/p/kvd/c/{made.shas[5]}/",
        "/alerts/",
        f"/alerts/{alert.pk}/",
        "/queue/",
        "/machines/kvd-m1/",
        "/login/",
    ]
    for width in (1280, 390):
        complaints: list[str] = []
        page = watched(chromium, width, complaints)
        for address in addresses:
            page.goto(url + address)
            assert page.evaluate(OVERFLOW) <= 0, (address, width)
        assert complaints == []
        page.close()


def test_a_run_page_follows_its_run(shown: tuple[World, Alert, str], chromium: Browser) -> None:
    made, _, url = shown
    made.push(1)
    run = queue.claim(made.machines[0])
    assert run
    complaints: list[str] = []
    page = watched(chromium, 390, complaints)
    page.goto(f"{url}/runs/{run.pk}/")
    assert page.evaluate(OVERFLOW) <= 0
    progress = ReportedProgress(done=4, total=10, now="trial 4 of get-p1")
    queue.renew(run.machine, run.pk, Renewal(token=run.lease_token, progress=progress))
    page.get_by_text("trial 4 of get-p1").wait_for()
    made.measure()
    page.locator("[data-going=no]").wait_for()
    assert complaints == []
