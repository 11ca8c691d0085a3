"""The whole triage by keyboard, and words that explain themselves, in a real browser."""

from typing import Any

import pytest
from django.conf import settings as live_settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, Page, expect

from speedtrack.alerts.models import Alert
from speedtrack.web.tests.test_browser import chromium, watched  # noqa: F401 - a fixture
from speedtrack.web.tests.world import slowed

pytestmark = pytest.mark.browser


def log_in(page: Page, url: str, user: User) -> None:
    client = Client()
    client.force_login(user)
    name = live_settings.SESSION_COOKIE_NAME
    page.context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": url}])


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def test_the_whole_triage_by_keyboard(live_server: Any, settings: Any, tmp_path: Any, chromium: Browser) -> None:  # noqa: F811
    made, alert = slowed(settings, tmp_path)
    made.push(2)
    ada = User.objects.create_superuser("ada")
    complaints: list[str] = []
    page = watched(chromium, 1280, complaints)
    log_in(page, live_server.url, ada)
    page.goto(f"{live_server.url}/alerts/")

    press(page, "j", "?")
    dialog = page.get_by_role("dialog", name="Keys of this page")
    expect(dialog).to_contain_text("expected: real and intended (say why)")
    press(page, "Escape")
    expect(dialog).to_be_hidden()

    press(page, "a")  # no row is selected, so the active one is meant
    expect(page.get_by_text("Saved: 1 alert.")).to_be_visible()
    assert Alert.objects.values_list("assignee__username", "status").get() == ("ada", "confirmed")
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)
    expect(page.get_by_text("Saved: 1 alert.")).to_be_visible()
    assert Alert.objects.values_list("assignee__username", "status").get() == (None, "confirmed")

    press(page, "j", "x")
    expect(page.locator("[data-selected]")).to_have_text("1 selected")
    press(page, "i")
    expect(page.get_by_placeholder("Why is this not real?")).to_be_focused()
    hint = "label => getComputedStyle(label, '::after').content"
    assert page.locator("label[data-hint]").evaluate(hint) == '"Ctrl+Enter saves"'
    page.keyboard.type("jkx is noise of the test")  # keys are letters in a field
    press(page, "Enter")
    expect(page.get_by_text("no slowdown waits for a decision")).to_be_visible()
    assert Alert.objects.get().status == "invalid"

    page.goto(f"{live_server.url}/alerts/?status=all")
    press(page, "j", "o")
    page.wait_for_url(f"**/alerts/{alert.pk}/")
    press(page, "a")
    expect(page.get_by_text("Saved.")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)
    assert Alert.objects.get().assignee is None
    press(page, "f")
    page.keyboard.type("mended since")
    press(page, "Control+Enter")
    expect(page.locator(".statusbox .badge").first).to_have_text("fixed")
    press(page, "e")
    page.keyboard.type("the price of durability")
    press(page, "Control+Enter")
    expect(page.locator(".statusbox .badge").first).to_have_text("expected")
    event = Alert.objects.get().events.latest("pk")
    assert (event.after, event.note, event.who) == ("expected", "the price of durability", ada)

    page.goto(f"{live_server.url}/queue/")
    press(page, "j", "j", "k")
    first = page.locator(".active th a")
    expect(first).to_be_focused()
    expect(page.locator(".active")).to_have_count(1)
    address = first.get_attribute("href")
    press(page, "o")
    page.wait_for_url(f"**{address}")
    page.goto(f"{live_server.url}/p/kvd/c/{made.shas[5]}/")
    press(page, "j")
    expect(page.locator(".active")).to_have_count(1)

    page.goto(f"{live_server.url}/alerts/{alert.pk}/")
    page.locator("a.term", has_text="expected").first.focus()
    expect(page.locator("#explanation")).to_have_text("True and intended; a note says why.")
    press(page, "Escape")
    expect(page.locator("#explanation")).to_be_hidden()
    page.locator("a.term", has_text="95% interval").first.hover()
    expect(page.locator("#explanation")).to_contain_text("An interval without 0% excludes chance.")
    assert complaints == []
