"""One's own board in a real browser: pin by a button, move by keys, full screen, live, and unpin."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Browser, Page, expect

from speedtrack.accounts import pins
from speedtrack.projects.models import Project
from speedtrack.web.tests.test_accessibility import UNBROKEN, faults_of, hostile
from speedtrack.web.tests.test_browser import OVERFLOW, chart_is_drawn, chromium, watched
from speedtrack.web.tests.test_first_lines_browser import log_in
from speedtrack.web.tests.test_timeline_browser import is_ready
from speedtrack.web.tests.world import CPU, slowed

pytestmark = pytest.mark.browser
__all__ = ["chromium"]
LINE = f"/p/kvd/timeline/get-p1/{CPU}"


def heads(page: Page) -> Any:
    return page.locator(".plots .plothead strong")


@pytest.mark.parametrize("width", [1280, 390])
def test_ones_own_board(live_server: Any, settings: Any, tmp_path: Path, chromium: Browser, width: int) -> None:
    settings.LIVE_URL = ""  # the page asks by itself
    made, _ = slowed(settings, tmp_path)
    complaints: list[str] = []
    page = watched(chromium, width, complaints)
    log_in(page, live_server.url, User.objects.create_user("bob"))
    page.goto(f"{live_server.url}{LINE}")
    is_ready(page)
    page.locator("canvas#chart").focus()
    page.keyboard.press("+")
    page.wait_for_url("**from=*")
    page.get_by_role("button", name="Pin", exact=True).click()
    expect(page.get_by_role("status").get_by_text("Pinned.")).to_be_visible()
    page.wait_for_url("**from=*")  # it is the part that was shown
    page.goto(f"{live_server.url}/p/kvd/compare/?base={made.shas[4]}&head={made.shas[5]}")
    page.get_by_role("button", name="Pin", exact=True).click()
    page.goto(f"{live_server.url}/p/kvd/timeline/set-p1/{CPU}")
    page.get_by_role("button", name="Pin", exact=True).click()

    page.get_by_role("link", name="My board").click()
    sides = f"{made.shas[5][:10]} against {made.shas[4][:10]}"
    expect(heads(page)).to_have_text(["get-p1", sides, "set-p1"])
    expect(page.locator(".plots li").nth(1)).to_contain_text(": get-p1 and 1 more")
    assert page.evaluate(OVERFLOW) <= 0

    page.locator(".plots li").nth(2).get_by_role("button", name="Move earlier").press("Enter")
    expect(heads(page).nth(1)).to_have_text("set-p1")
    page.locator(".plots li").nth(0).get_by_role("button", name="Move later").press("Enter")
    expect(heads(page).nth(0)).to_have_text("set-p1")

    page.get_by_role("button", name="Full screen").click()
    page.wait_for_function("() => document.fullscreenElement !== null")
    expect(page.locator("header.top")).to_be_hidden()
    expect(page.get_by_role("button", name="Unpin").first).to_be_hidden()
    page.evaluate("document.exitFullscreen()")

    before = page.locator(".plots li .spark > path").first.get_attribute("d") or ""
    made.push(1)
    made.measure()
    expect(page.locator(".plots li .spark > path").first).not_to_have_attribute("d", before)

    Project.objects.update(is_public=False)
    page.reload()
    expect(page.get_by_text("The project kvd was deleted, or it is private now")).to_have_count(3)
    page.get_by_role("button", name="Unpin").first.click()
    expect(page.locator(".plots li")).to_have_count(2)
    Project.objects.update(is_public=True)
    page.reload()
    page.locator(".plots li a").first.click()
    page.wait_for_url(f"**{LINE}?from=*")
    chart_is_drawn(page)
    assert complaints == []


def test_a_board_of_hostile_names_is_accessible(
    live_server: Any, settings: Any, tmp_path: Path, chromium: Browser
) -> None:
    settings.LIVE_URL = ""
    made, alert = slowed(settings, tmp_path)
    ada = User.objects.create_superuser("ada")
    hostile(made, alert, ada)
    for address in (
        reverse("timeline", args=["kvd", UNBROKEN, CPU]),
        f"/p/kvd/compare/?base={made.shas[4]}&head={UNBROKEN}",
        f"/p/{'gone' * 12}/compare/",
    ):
        pins.pin(ada, address)
    page = watched(chromium, 390, [])
    log_in(page, live_server.url, ada)
    page.goto(f"{live_server.url}/board/")
    expect(page.locator(".plots .spark")).to_have_count(1)
    expect(page.locator(".plots").get_by_text(re.compile("Slower"))).to_have_count(1)
    assert faults_of(page) == []
