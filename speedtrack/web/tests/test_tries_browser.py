"""A patch is pasted into the project's page in a real browser, and its page follows the pairs until the verdict."""

import os
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Browser, expect

from speedtrack.accounts import members
from speedtrack.accounts.models import Role
from speedtrack.runs.models import PairedComparison, Run
from speedtrack.runs.queue import queue
from speedtrack.tests import builders
from speedtrack.tests.duels import report_pairs
from speedtrack.web.tests.test_browser import OVERFLOW, chromium, watched
from speedtrack.web.tests.test_triage_browser import log_in
from speedtrack.web.tests.test_tries import patch_of
from speedtrack.web.tests.world import world

__all__ = ["chromium"]
pytestmark = pytest.mark.browser
SLOW_MS = 60_000  # a busy machine


def test_a_patch_is_pasted_and_followed(live_server: Any, settings: Any, tmp_path: Path, chromium: Browser) -> None:
    settings.LIVE_URL = ""
    made = world(settings, tmp_path)
    made.measure()
    ada = User.objects.create_user("ada")
    members.give_role(made.project, ada, Role.MAINTAINER)
    complaints: list[str] = []
    page = watched(chromium, 390, complaints)
    page.set_default_timeout(SLOW_MS)
    expect.set_options(timeout=SLOW_MS)
    log_in(page, live_server.url, ada)
    page.goto(f"{live_server.url}/p/kvd/")
    page.get_by_text("Try a patch or a branch").click()
    good = patch_of(made)
    bad = good.replace("file.txt", "nosuch.txt")
    page.get_by_label("Patch").fill(bad)
    photographed(page, "form")
    page.get_by_role("button", name="Try it").click()
    expect(page.locator("ul.messages")).to_contain_text("which has no nosuch.txt")
    expect(page.get_by_label("Patch")).to_have_value(bad)
    photographed(page, "refused")
    page.get_by_label("Patch").fill(good)
    page.get_by_role("button", name="Try it").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Try a patch of file.txt")
    expect(page.locator(".verdictline")).to_contain_text("Being measured in pairs.")
    comparison = PairedComparison.objects.get()
    run = builders.claim(made.machines[0])
    assert comparison.head and run == comparison.runs.get()
    Run.objects.filter(pk=run.pk).update(trials=12)
    run.refresh_from_db()
    report_pairs(run, 8)
    expect(page.locator("td.standing").first).to_contain_text("after 8 of 12 pairs")
    photographed(page, "duel")
    made.slow |= {comparison.head.sha}
    builders.expire_lease(run)
    queue.reap()
    made.measure()
    expect(page.get_by_role("heading", name="Result of its pairs")).to_be_visible()
    expect(page.locator(".verdictline")).to_have_text("Slower +19.9%: get-p1 and 1 more, by pairs")
    expect(page.locator("details pre")).to_be_hidden()
    page.get_by_text("The change").click()
    expect(page.locator("details pre")).to_contain_text("+slower")
    photographed(page, "verdict")
    assert page.evaluate(OVERFLOW) <= 0 and complaints == []


def photographed(page: Any, name: str) -> None:
    """Take pictures for whoever looks at the pages, if the environment names a folder for them."""
    if folder := os.environ.get("SPEEDTRACK_PICTURES"):
        for width in (1280, 390):
            for theme in ("light", "dark"):
                page.set_viewport_size({"width": width, "height": 800})
                page.emulate_media(color_scheme=theme)
                page.screenshot(path=f"{folder}/{name}-{width}-{theme}.png", full_page=True)
        page.emulate_media(color_scheme="light")
