"""The board in a real browser: it fills the screen, follows new results by itself, and leads to timelines."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from speedtrack.web.tests.test_browser import OVERFLOW, chart_is_drawn, chromium, watched
from speedtrack.web.tests.world import CPU, slowed

pytestmark = pytest.mark.browser
__all__ = ["chromium"]


@pytest.mark.parametrize("width", [1280, 390])
def test_the_board(live_server: Any, settings: Any, tmp_path: Path, chromium: Browser, width: int) -> None:
    settings.LIVE_URL = ""  # the page asks by itself
    made, _ = slowed(settings, tmp_path)
    complaints: list[str] = []
    page = watched(chromium, width, complaints)
    page.goto(f"{live_server.url}/p/kvd/")
    page.get_by_role("link", name="Board", exact=True).click()
    expect(page.locator(".plots li")).not_to_have_count(0)
    assert page.evaluate(OVERFLOW) <= 0

    page.get_by_role("button", name="Full screen").click()
    page.wait_for_function("() => document.fullscreenElement !== null")
    expect(page.locator("header.top")).to_be_hidden()
    expect(page.locator("#plot-get-p1")).to_be_visible()
    page.evaluate("document.exitFullscreen()")
    expect(page.locator("header.top")).to_be_visible()

    before = page.locator("#plot-get-p1 .spark > path").last.get_attribute("d")
    expect(page.get_by_text("The newest 8 commits")).to_be_visible()
    made.push(1)
    made.measure()
    expect(page.get_by_text("The newest 9 commits")).to_be_visible()
    expect(page.locator("#plot-get-p1 .spark > path").last).not_to_have_attribute("d", before or "")

    page.locator("#plot-get-p1").click()
    page.wait_for_url(f"**/p/kvd/timeline/get-p1/{CPU}")
    chart_is_drawn(page)
    assert complaints == []
