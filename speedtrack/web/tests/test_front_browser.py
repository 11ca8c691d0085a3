"""Search and the grid's filter with real keys: the box on every page, its list, and rows that come and go."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from speedtrack.projects.models import Annotation
from speedtrack.web.tests.test_browser import OVERFLOW, chromium, shown, watched
from speedtrack.web.tests.world import HOSTILE, World

pytestmark = pytest.mark.browser
__all__ = ["chromium", "shown"]  # fixtures


def test_search_and_filter_by_keys(shown: tuple[World, Any, str], chromium: Browser) -> None:
    made, alert, url = shown
    complaints: list[str] = []
    page = watched(chromium, 390, complaints)
    page.set_default_timeout(20_000)
    page.goto(f"{url}/p/kvd/")
    page.keyboard.press("/")
    box = page.get_by_role("combobox", name=re.compile("Search"))
    expect(box).to_be_focused()
    page.keyboard.type(made.shas[5][:9])
    option = page.get_by_role("listbox", name="Suggestions").get_by_role("option")
    expect(option).to_have_count(1)
    expect(option).to_contain_text(HOSTILE.split()[0])
    assert page.evaluate(OVERFLOW) <= 0
    expect(box).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowDown")
    expect(option).to_have_attribute("aria-selected", "true")
    assert box.get_attribute("aria-activedescendant") == option.get_attribute("id")
    page.keyboard.press("Escape")
    expect(page.get_by_role("listbox", name="Suggestions")).to_be_hidden()
    page.keyboard.press("ArrowDown")  # opens it again, at its first line
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/c/{made.shas[5]}/")

    page.keyboard.press("/")
    page.keyboard.type(f"{alert.pk}")
    page.keyboard.press("Enter")  # nothing is chosen: the page of results
    page.wait_for_url("**/search/?q=*")
    page.get_by_role("link", name=f"Alert {alert.pk}", exact=True).click()
    page.wait_for_url(f"**/alerts/{alert.pk}/")

    page.goto(f"{url}/p/kvd/")
    rows = page.locator("table.grid tr[data-name]:visible")
    expect(rows).to_have_count(2)
    page.get_by_label("Name").fill("GET")
    expect(rows).to_have_count(1)
    expect(page.locator("table.grid").get_by_text("writes", exact=True)).to_be_hidden()
    assert page.url.endswith("/p/kvd/?q=GET")
    page.get_by_label("Name").fill("/")  # text here, no shortcut
    expect(page.get_by_text("No benchmark has such a name")).to_be_visible()
    page.goto(f"{url}/p/kvd/?q=get")
    expect(rows).to_have_count(1)
    page.get_by_label("Tag").select_option("writes")
    page.wait_for_url("**tag=writes*")
    page.get_by_text("show all 2").click()
    expect(rows).to_have_count(2)
    assert complaints == []


def test_moments_are_in_the_readers_time(shown: tuple[World, Any, str], chromium: Browser) -> None:
    made, _, url = shown
    Annotation.objects.create(project=made.project, moment=datetime(2026, 1, 1, 23, 30, tzinfo=UTC), text="disk moved")
    page = chromium.new_page(timezone_id="Asia/Tokyo", locale="en-GB")
    page.goto(f"{url}/p/kvd/annotations/")
    moment = page.locator("time.moment")
    expect(moment).to_have_text("2 Jan 2026, 08:30")
    expect(moment).to_have_attribute("title", "2026-01-01 23:30 UTC")
