"""What pages say first, and why a commit raised no alert, in a real browser with clicks and keys."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Browser, Page, expect

from speedtrack.alerts.models import Alert
from speedtrack.projects.models import Commit
from speedtrack.runs.models import Run
from speedtrack.web.tests.test_browser import OVERFLOW, chromium, shown, watched  # noqa: F401
from speedtrack.web.tests.test_timeline_browser import LINE, hover, is_ready
from speedtrack.web.tests.world import World

pytestmark = pytest.mark.browser

DRAWN = """
    () => {
        const canvas = document.querySelector("canvas.front");
        const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
        const context = copy.getContext("2d", { willReadFrequently: true });
        context.drawImage(canvas, 0, 0);
        const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
        let count = 0;
        for (let i = 3; i < data.length; i += 4) count += data[i] > 0;
        return count;
    }
"""
BAND = 2000  # pixels: a pin's line and letter have fewer


def log_in(page: Page, url: str, user: User) -> None:
    client = Client()
    client.force_login(user)
    page.context.add_cookies([{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": url}])


def test_a_click_on_a_point_draws_its_test_and_a_button_decides(
    shown: tuple[World, Alert, str],  # noqa: F811
    chromium: Browser,  # noqa: F811
) -> None:
    made, _, url = shown
    complaints: list[str] = []
    page = watched(chromium, 1280, complaints)
    page.goto(f"{url}{LINE}?last=200")
    is_ready(page)
    page.mouse.click(*hover(page, made.shas[3]))
    card = page.locator("#pins article .test")
    expect(card.get_by_role("heading")).to_have_text("Why no alert?")
    expect(card.locator("strong")).to_have_text(re.compile(r"Not suspected: needs 3\.\d%, saw [+−]0\.\d+%"))
    assert card.get_by_role("button").count() == 0, "nobody is logged in"
    page.mouse.move(0, 0)
    assert page.evaluate(DRAWN) > BAND
    page.get_by_role("button", name=f"Unpin {made.shas[3][:10]}").click()
    assert page.evaluate(DRAWN) < BAND

    # With keys, as a person who may decide.
    log_in(page, url, User.objects.create_superuser("ada"))
    page.reload()
    is_ready(page)
    page.locator("canvas#chart").focus()
    for key in ("End", "ArrowLeft", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    expect(card.get_by_role("heading")).to_have_text("Why suspected?")
    assert "confirmed" in card.locator("ol").inner_text()
    runs = Run.objects.count()
    card.get_by_role("button", name="Measure both in pairs").press("Enter")
    page.wait_for_url("**/compare/**")
    expect(page.get_by_text(re.compile(r"Run \d+ is queued on kvd-m1"))).to_be_visible()
    run = Run.objects.latest("pk")
    assert Run.objects.count() == runs + 1 and run.base
    assert (run.base.sha, run.commit.sha) == (made.shas[4], made.shas[5])
    assert complaints == []


def test_a_push_is_followed_on_home_and_on_its_page(
    shown: tuple[World, Alert, str],  # noqa: F811
    chromium: Browser,  # noqa: F811
) -> None:
    made, _, url = shown
    complaints: list[str] = []
    page = watched(chromium, 390, complaints)
    log_in(page, url, User.objects.create_user("ada", "ada@example.org"))
    (sha,) = made.push(1, slow=True)
    Commit.objects.filter(sha=sha).update(committed_at=timezone.now() - timedelta(minutes=1))
    page.goto(url)
    line = page.locator(".pushes li")
    expect(line).to_contain_text("Waits to be measured")
    assert page.evaluate(OVERFLOW) <= 0
    line.get_by_role("link").click()
    expect(page.locator(".verdictline")).to_contain_text("Waits to be measured")
    assert page.locator("#numbers").count() == 0
    made.measure()
    # There is no stream here: the page asks every few seconds.
    expect(page.locator(".verdictline")).to_contain_text("No change in 2 benchmarks", timeout=60_000)
    page.get_by_role("link", name="Show the results").click()
    results = page.locator("#numbers")
    expect(results).to_be_visible()
    assert results.get_attribute("open") is None
    results.locator("> summary").press("Enter")
    expect(results.get_by_role("cell").first).to_be_visible()
    assert page.evaluate(OVERFLOW) <= 0
    page.goto(url)
    expect(line).to_contain_text("No change in 2 benchmarks")
    assert complaints == []
