"""The ten commonest tasks from the home page, with real clicks: as many as docs/pages.md says."""

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings as live_settings
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Browser, Locator, expect

from speedtrack.alerts.models import Alert, Mute
from speedtrack.notices.models import Subscription
from speedtrack.projects.models import Commit, Tag
from speedtrack.runs.fleet import machines
from speedtrack.tests import builders
from speedtrack.web.tests.test_browser import chromium, shown, watched  # noqa: F401 - fixtures
from speedtrack.web.tests.test_triage_browser import log_in
from speedtrack.web.tests.world import World

pytestmark = pytest.mark.browser
ROW = re.compile(r"^\| ([a-zA-Z ]+) \| ([\d to]+) \| (\d+) \|$", re.M)
Finger = Callable[[Locator], None]


def counted_tasks() -> dict[str, int]:
    """By task: how many clicks the table promises."""
    text = (live_settings.BASE_DIR / "docs" / "pages.md").read_text()
    return {task: int(now) for task, _, now in ROW.findall(text)}


@pytest.fixture
def ada(shown: tuple[World, Alert, str]) -> User:  # noqa: F811
    """An operator, who made the server slower lately and has the alert, and two releases around it."""
    made, alert, _ = shown
    user = User.objects.create_superuser("ada", "ada@example.org")
    Alert.objects.filter(pk=alert.pk).update(assignee=user)
    for name, place in (("1.0.0", 4), ("1.1.0", 5)):
        Tag.objects.create(project=made.project, name=name, sha=made.shas[place])
    date(made.shas[5], 10)
    return user


def date(sha: str, minutes_ago: int) -> None:
    Commit.objects.filter(sha=sha).update(committed_at=timezone.now() - timedelta(minutes=minutes_ago))


def test_each_task_takes_as_many_clicks_as_the_table_says(
    shown: tuple[World, Alert, str],  # noqa: F811
    ada: User,
    chromium: Browser,  # noqa: F811
    tmp_path: Path,
) -> None:
    made, alert, url = shown
    complaints: list[str] = []
    page = watched(chromium, 1280, complaints)
    log_in(page, url, ada)
    counts: dict[str, int] = {}

    def at_home(task: str) -> Finger:
        """Begin a task on the home page. Each use of the answer is a click that counts for it."""
        counts[task] = 0
        page.goto(url)

        def click(target: Locator) -> None:
            counts[task] += 1
            target.click()

        return click

    at_home("which commit made GET slower")
    change = page.locator(".changes > li").first
    expect(change).to_contain_text(re.compile(r"slower\s+\+20.*get-p1.*" + made.shas[5][:10], re.S))

    at_home("who works on it")
    expect(change).to_contain_text("ada has it")

    click = at_home("compare two releases")
    click(page.get_by_role("link", name="against 1.0.0"))
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile(r"1\.1\.0\s+against\s+1\.0\.0"))
    expect(page.locator(".verdictline")).to_contain_text("get-p1")

    click = at_home("is the machine healthy")
    click(page.get_by_role("navigation").get_by_role("link", name="Machines"))
    expect(page.locator(".sound")).to_be_visible()

    click = at_home("silence a series")
    click(page.locator(".changes").get_by_role("link", name=f"alert {alert.pk}"))
    click(page.get_by_role("link", name="Mute this series for a while"))
    page.get_by_label("Why").fill("a new kernel next week")
    click(page.get_by_role("button", name="Mute", exact=True))
    expect(page.get_by_text("a new kernel next week")).to_be_visible()
    assert Mute.objects.count() == 1

    click = at_home("subscribe")
    click(page.get_by_role("link", name="kvd", exact=True).first)
    click(page.get_by_role("button", name="Notify me"))
    expect(page.get_by_role("button", name="Notified")).to_be_visible()
    assert Subscription.objects.count() == 1

    at_home("did my push get slower")
    push = page.locator(".pushes li").first
    expect(push).to_contain_text(re.compile(made.shas[5][:10] + r".*Slower \+20.*confirmed", re.S))

    machines.pause(made.machines[0])
    (waiting,) = made.push(1)
    date(waiting, 1)
    at_home("why not measured")
    expect(push).to_contain_text(re.compile(waiting[:10] + ".*Waits to be measured.*paused", re.S))

    click = at_home("add a repository")
    click(page.get_by_role("link", name="Track a repository"))
    other = builders.Repository(tmp_path / "other")
    other.commits(2)
    page.locator("input[name=url]").fill(str(other.path))
    page.locator("select[name=suite]").select_option("tiny")
    click(page.get_by_role("button", name="Track it"))
    expect(page.get_by_text("Copy it now")).to_be_visible()

    click = at_home("add a machine")
    click(page.get_by_role("navigation").get_by_role("link", name="Machines"))
    page.get_by_label("Name", exact=True).fill("bench-9")
    click(page.get_by_role("button", name="Make an enrolment code"))
    expect(page.get_by_role("heading", name="The code of bench-9")).to_be_visible()

    assert counts == counted_tasks()
    assert complaints == []
