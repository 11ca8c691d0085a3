"""What it would take, in a real browser: the slider by keys and by mouse, one press, and the form without scripts."""

import re
from itertools import product
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, Page, expect

from speedtrack.benchmarks.suitefiles import load_suite
from speedtrack.web.tests.test_browser import OVERFLOW, chromium, watched
from speedtrack.web.tests.test_takes import TRIALS, scattered
from speedtrack.web.tests.world import measured

__all__ = ["chromium"]
pytestmark = pytest.mark.browser
ADDRESS = f"{TRIALS}/?machine=kvd-m1"


@pytest.fixture
def served(live_server: Any, settings: Any, tmp_path: Any) -> str:
    scattered(measured(settings, tmp_path))
    return str(live_server.url)


def login(page: Page, url: str) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("ada"))
    page.context.add_cookies([{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": url}])


def answer_of(page: Page) -> str:
    return page.locator("ol.takes > li:not([hidden]) > p").first.inner_text()


def trials_in(answer: str) -> int:
    return int(answer.split()[0])


def test_the_slider_answers_at_once_and_a_press_puts_it_into_the_suite(served: str, chromium: Browser) -> None:
    complaints: list[str] = []
    page = watched(chromium, 1280, complaints)
    login(page, served)
    page.goto(f"{served}{ADDRESS}")
    slider, output = page.get_by_role("slider", name="See a change of"), page.locator("output")
    expect(page.get_by_role("button", name="Show")).to_be_hidden()
    first, words = answer_of(page), output.inner_text()
    slider.focus()
    page.keyboard.press("ArrowLeft")
    expect(output).not_to_have_text(words)
    assert trials_in(answer_of(page)) > trials_in(first), "a smaller change takes more trials"
    expect(slider).to_have_attribute("aria-valuetext", output.inner_text())
    page.keyboard.press("End")
    expect(slider).to_have_js_property("value", slider.get_attribute("max"))
    end = output.inner_text()
    assert trials_in(answer_of(page)) < trials_in(first), "a larger one fewer"
    box = slider.bounding_box()
    assert box
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(output).not_to_have_text(end)
    page.wait_for_url("**see=*")
    trials = trials_in(answer_of(page))
    assert page.locator("ol.takes > li:not([hidden])").count() == 1
    page.locator("ol.takes > li:not([hidden])").get_by_role("button", name="Only try").click()
    expect(page.locator(".messages")).to_contain_text("Nothing was done")
    assert trials_in(answer_of(page)) == trials, "the address keeps the change"
    page.get_by_role("button", name=f"Put {trials} trials into tiny").click()
    expect(page.locator(".messages")).to_contain_text(f"with {trials} trials instead of 5")
    assert load_suite("tiny").trials == trials
    expect(page.locator("ol.takes > li:not([hidden])")).to_contain_text(f"The suite tiny has {trials} trials")
    assert complaints == []


def test_the_form_needs_no_scripts(served: str, chromium: Browser) -> None:
    context = chromium.new_context(java_script_enabled=False, viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(f"{served}{ADDRESS}")
    first = answer_of(page)
    page.get_by_role("slider").focus()
    page.keyboard.press("ArrowLeft")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url(re.compile("see="))
    assert trials_in(answer_of(page)) > trials_in(first)
    context.close()


def test_it_fits_in_light_and_dark(served: str, chromium: Browser) -> None:
    for width, theme in product((1280, 390, 320), ("light", "dark")):
        complaints: list[str] = []
        page = watched(chromium, width, complaints)
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        page.goto(f"{served}{ADDRESS}")
        expect(page.locator("ol.takes > li:not([hidden])")).to_be_visible()
        assert page.evaluate(OVERFLOW) == 0 and complaints == []
