"""The page of a project in a real browser: it follows the first measurement, and its bell subscribes."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Browser, expect

from speedtrack.notices.models import Subscription
from speedtrack.runs.queue import queue
from speedtrack.tests import builders
from speedtrack.web.pages import paging
from speedtrack.web.tests.test_browser import OVERFLOW, chromium, watched
from speedtrack.web.tests.test_triage_browser import log_in
from speedtrack.web.tests.world import world

pytestmark = pytest.mark.browser
__all__ = ["chromium"]


def test_the_page_follows_the_first_measurement(
    live_server: Any, settings: Any, tmp_path: Path, chromium: Browser
) -> None:
    settings.LIVE_URL = ""  # the page asks by itself
    made = world(settings, tmp_path, commits=1)
    complaints: list[str] = []
    page = watched(chromium, 390, complaints)
    page.goto(f"{live_server.url}/p/kvd/")
    expect(page.get_by_role("heading", name="What happens now")).to_be_visible()
    run = builders.claim(made.machines[0])
    page.get_by_text("measures the first run").wait_for()
    expect(page.locator(f"[data-progress='{run.pk}'] progress")).to_be_visible()
    assert page.evaluate(OVERFLOW) <= 0
    builders.measure(run)
    queue.complete(run.machine, run.pk, run.lease_token)
    page.get_by_role("link", name="get-p1", exact=True).first.wait_for()
    expect(page.get_by_role("heading", name="What happens now")).to_have_count(0)
    assert complaints == []


def test_rows_that_are_not_loaded_are_added_and_found(
    live_server: Any, settings: Any, tmp_path: Path, chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "MOST", 1)
    world(settings, tmp_path).measure()
    page = watched(chromium, 1280, [])
    page.goto(f"{live_server.url}/p/kvd/")
    names = page.locator("table.grid tr[data-name]")
    expect(names).to_have_count(1)
    page.locator("input[data-filter]").fill("set")
    expect(page.get_by_role("link", name="set-p1", exact=True)).to_be_visible()
    expect(names).to_have_count(1)
    page.locator("input[data-filter]").fill("")
    expect(page.get_by_role("link", name="get-p1", exact=True)).to_be_visible()
    page.get_by_role("link", name="Show the next 1").click()
    expect(names).to_have_count(2)
    expect(page.get_by_role("link", name="set-p1", exact=True)).to_be_focused()
    expect(page.locator(".morerows")).to_have_text("2 of 2 benchmarks")


def test_the_bell_subscribes_and_ends_it(live_server: Any, settings: Any, tmp_path: Path, chromium: Browser) -> None:
    world(settings, tmp_path, commits=1)
    ada = User.objects.create_user("ada", "ada@example.org")
    page = watched(chromium, 1280, [])
    page.goto(f"{live_server.url}/p/kvd/")
    expect(page.get_by_role("link", name="Notify me")).to_have_attribute("href", "/login/?next=/p/kvd/")
    log_in(page, live_server.url, ada)
    page.goto(f"{live_server.url}/p/kvd/")
    page.get_by_role("button", name="Notify me").click()
    expect(page.get_by_role("button", name="Notified")).to_have_attribute("aria-pressed", "true")
    subscription = Subscription.objects.get()
    assert (subscription.project.slug, subscription.direction, subscription.subscriber.user) == ("kvd", "worse", ada)
    page.get_by_role("button", name="Notified").click()
    expect(page.get_by_role("button", name="Notify me")).to_be_visible()
    assert not Subscription.objects.exists()
    page.get_by_role("link", name="Measure", exact=True).click()
    page.wait_for_url("**/p/kvd/measure/**")
