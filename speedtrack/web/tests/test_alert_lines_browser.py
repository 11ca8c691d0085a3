"""The lines that did it, in a real browser: hunk and costs beside each other only where there is room."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from speedtrack.web.tests.test_alert_lines import SOURCE, changed, counting_world, raised
from speedtrack.web.tests.test_browser import chromium, watched  # noqa: F401 - a fixture

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(("width", "beside"), [(1280, True), (390, False)])
def test_a_hunk_stands_beside_what_its_functions_cost(
    width: int,
    beside: bool,
    live_server: Any,
    settings: Any,
    tmp_path: Path,
    chromium: Browser,  # noqa: F811
) -> None:
    alert = raised(counting_world(settings, tmp_path), {"hash.c": SOURCE}, {"hash.c": changed(SOURCE)})
    complaints: list[str] = []
    page = watched(chromium, width, complaints)
    page.goto(f"{live_server.url}/alerts/{alert.pk}/")
    section = page.locator("#lines")
    expect(section.locator(".patch ins")).to_have_count(1)
    expect(section.locator(".patch ins")).to_contain_text('<img src=x onerror="x">')
    expect(section.locator(".patch img")).to_have_count(0)
    patch, costs = section.locator(".patch").bounding_box(), section.locator(".hunk table").bounding_box()
    assert patch and costs
    assert (costs["x"] > patch["x"] + patch["width"]) == beside
    further = section.get_by_text("2 further hunks touch no function whose count changed")
    expect(section.get_by_text("hash.c:11")).to_be_hidden()
    further.click()
    expect(section.get_by_text("hash.c:11")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert complaints == []
