"""The settings in a real browser: a suite is edited, and a repository is tracked from the first page on."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, Page

from speedtrack.benchmarks.suitefiles import load_suite
from speedtrack.projects.models import Project
from speedtrack.runs.planning import pushes
from speedtrack.tests import builders
from speedtrack.web.tests.test_browser import OVERFLOW, chromium, watched

pytestmark = pytest.mark.browser
__all__ = ["chromium"]


@pytest.fixture
def newcomer(live_server: Any, settings: Any, tmp_path: Path, chromium: Browser) -> tuple[Page, list[str]]:
    """A browser of somebody who is logged in, at a server that tracks nothing yet."""
    builders.use_suite(settings, tmp_path / "suites")
    client = Client()
    client.force_login(User.objects.create_superuser("ada"))
    complaints: list[str] = []
    page = watched(chromium, 390, complaints)
    session = client.cookies["sessionid"].value
    page.context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
    page.goto(live_server.url)
    return page, complaints


def test_a_suite_is_edited(newcomer: tuple[Page, list[str]], live_server: Any) -> None:
    page, complaints = newcomer
    page.goto(f"{live_server.url}/settings/suites/tiny/")
    text = page.locator("textarea")
    text.evaluate("(area) => area.setSelectionRange(area.value.indexOf('50'), area.value.indexOf('50') + 2)")
    text.press("x")
    wrong = page.locator(".gutter .wrong")
    wrong.wait_for()
    assert (wrong.text_content() or "").split() == ["✖", "15"]
    assert "line 15" in (page.locator(".mistakes").text_content() or "")
    text.press("Home")
    page.locator(".mistakes a").first.click()
    begin = text.evaluate("(area) => area.value.slice(area.selectionStart, area.selectionEnd)")
    assert begin.startswith("workload = ") and "clients = x" in begin

    text.evaluate("(area) => area.setSelectionRange(area.value.indexOf('= x') + 2, area.value.indexOf('= x') + 3)")
    page.keyboard.type("60")
    page.get_by_text("workload.clients: 50 → 60").wait_for()
    assert page.locator(".gutter .wrong").count() == 0
    assert page.evaluate(OVERFLOW) <= 0
    page.locator("input[name=agreed]").check()
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Version 1 of tiny is saved").wait_for()
    assert load_suite("tiny").benchmark[0].workload.clients == 60  # type: ignore[union-attr]
    assert complaints == []


def test_a_suite_is_written_from_the_first_key_to_its_repository(
    newcomer: tuple[Page, list[str]], live_server: Any
) -> None:
    page, complaints = newcomer
    page.goto(f"{live_server.url}/settings/new-suite/")
    page.get_by_text("It is checked as you type").wait_for()
    assert page.locator(".mistakes, .wrong").count() == 0
    text = page.locator("textarea")
    text.evaluate(
        "area => { const at = area.value.indexOf('name =') + 8; area.focus(); area.setSelectionRange(at, at); }"
    )
    page.keyboard.type("My Suite")
    page.get_by_text("use 1 to 61 lower-case letters").first.wait_for()
    text.fill(builders.SUITE.replace('"tiny"', '"mine"').replace("clients =", "client ="))
    page.get_by_text("no such key: did you mean clients?").first.wait_for()
    text.fill(builders.SUITE.replace('"tiny"', '"mine"'))
    page.get_by_text("A new suite with 2 benchmarks").wait_for()
    page.get_by_role("button", name="Save").click()
    page.get_by_role("link", name="Track a repository with it").click()
    assert page.locator("select[name=suite]").input_value() == "mine"
    assert complaints == []


def test_a_suite_is_edited_without_scripts(
    newcomer: tuple[Page, list[str]], live_server: Any, chromium: Browser
) -> None:
    context = chromium.new_context(java_script_enabled=False, viewport={"width": 390, "height": 800})
    context.add_cookies(newcomer[0].context.cookies())  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(f"{live_server.url}/settings/suites/tiny/")
    text = page.locator("textarea")
    longer = builders.SUITE.replace("trials = 5", "trials = 4") + "# a comment\n" * 30
    text.fill(longer)
    page.get_by_role("button", name="Check").click()
    assert "line 3" in page.locator(".mistakes").inner_text()
    assert page.locator(".gutter span").count() == longer.count("\n") + 1, "lines have numbers"
    text.fill(builders.SUITE + "\n" * 60 + "# the end")
    text.press("End")
    assert text.evaluate("area => area.scrollHeight <= area.clientHeight || getComputedStyle(area).overflowY == 'auto'")
    text.fill(builders.SUITE.replace("clients = 50", "clients = 60"))
    page.get_by_role("button", name="Save").click()
    page.locator("input[name=agreed]").first.check()
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Version 1 of tiny is saved").wait_for()
    context.close()


def test_the_first_repository_is_tracked(newcomer: tuple[Page, list[str]], tmp_path: Path) -> None:
    repository = builders.Repository(tmp_path / "kvd")
    repository.commits(2)
    page, complaints = newcomer
    page.get_by_role("link", name="Track a repository").click()
    address = page.locator("input[name=url]")
    address.fill("/nowhere")
    page.get_by_text("there is no directory").wait_for()
    address.fill(str(repository.path))
    page.get_by_text("It answers: 1 branch").wait_for()
    page.locator("select[name=suite]").select_option("tiny")
    page.get_by_role("button", name="What would be queued?").click()
    page.get_by_text("Nothing was done. It would be: kvd: main of").wait_for()
    assert page.locator("select[name=suite]").input_value() == "tiny" and page.evaluate(OVERFLOW) <= 0
    page.get_by_role("button", name="Track it").click()
    page.get_by_text("Copy it now").wait_for()
    assert page.evaluate(OVERFLOW) <= 0
    page.get_by_role("link", name="The project's page").click()
    page.get_by_text("No machine measures yet").wait_for()
    page.get_by_role("link", name="Add one").click()
    page.locator("#name").fill("bench-1")
    page.get_by_role("button", name="Add it with a token").click()
    page.get_by_text("It is not shown again").wait_for()
    assert page.evaluate(OVERFLOW) <= 0
    project = Project.objects.get()
    pushes.look_at_each(lambda: Project.objects.due(0), pushes.look_for_news)
    page.goto(page.url.partition("/settings/")[0] + f"/p/{project.slug}/")
    page.get_by_text("2 runs were queued").wait_for()
    page.get_by_text("Machine bench-1 has never called").wait_for()
    assert complaints == []
