"""The story of a release: headline, losses and gains with their commits, and the same as Markdown."""

import pytest
from django.test import Client
from playwright.sync_api import Browser

from speedtrack.alerts.models import Alert
from speedtrack.projects.models import Commit, Project, Tag
from speedtrack.tests import builders
from speedtrack.web.tests.test_browser import OVERFLOW, chromium, shown, watched
from speedtrack.web.tests.test_releases import tag
from speedtrack.web.tests.world import World, html_of, queries

__all__ = ["chromium", "shown"]

STORY, TEXT = "/p/kvd/story/", "/p/kvd/story.md"
AUTHOR = "Mallory *bold* ![x](https://evil.example.org/x.png)"


def test_a_release_against_the_one_before(client: Client, slow: tuple[World, Alert]) -> None:
    made, alert = slow
    tag(made, v1_0=1, v1_1=3, v1_2=6)
    page = html_of(client.get(STORY))
    assert "<h1>1.2 against 1.1" in page, "the newest, and the one before it"
    assert "Slower: Server CPU per request +20.0% (" in page and "the mean of 2 benchmarks." in page
    assert "Benchmarks: 2 slower." in page and "Largest gains" not in page
    losses = page[page.index("Largest losses") :]
    assert f'/c/{alert.commit.sha}/">{alert.commit.short}</a>' in losses
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in losses and alert.commit.author_name in losses
    assert page.count('class="mark"') == 2 and 'href="/p/kvd/compare/?base=1.1&amp;head=1.2' in page
    assert "/p/kvd/story/?base=1.1&amp;head=1.2&amp;machine=kvd-m1" in html_of(client.get("/p/kvd/releases/"))
    calm = html_of(client.get(f"{STORY}?head=1.1"))
    assert "1.1 against 1.0" in calm and "No change: Server CPU per request" in calm and "2 same" in calm


def test_a_change_that_a_person_called_invalid_is_no_cause_of_a_loss(client: Client, slow: tuple[World, Alert]) -> None:
    made, alert = slow
    tag(made, v1_1=3, v1_2=6)
    Alert.objects.update(status="invalid")
    page = html_of(client.get(STORY))
    losses = page[page.index("Largest losses") :]
    assert f"/c/{alert.commit.sha}/" not in losses and "No single commit is known" in losses


def test_any_two_and_what_cannot_be_told(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    assert "No release was measured yet" in html_of(client.get(STORY))
    back = html_of(client.get(STORY, {"base": "main", "head": made.shas[0]}))
    assert "Faster: " in back and "Largest losses" not in back
    assert "No single commit is known" in back, "there is no way back in the history"
    unmeasured = made.repository.commit("Later")
    made.push(0)
    answer = html_of(client.get(STORY, {"base": made.shas[0], "head": unmeasured}))
    assert "No benchmark was measured of both, so they cannot be compared." in answer
    for query in ({"head": "nosuch"}, {"base": "nosuch", "head": "main"}, {"head": "main", "metric": "nosuch"}):
        assert client.get(STORY, query).status_code == 404
    same = html_of(client.get(STORY, {"base": "main", "head": "main"}))
    assert "No change: " in same
    Project.objects.update(is_public=False)
    assert client.get(STORY).status_code == client.get(TEXT).status_code == 404


def test_the_markdown_says_the_same_and_nothing_of_others_is_markup(client: Client, slow: tuple[World, Alert]) -> None:
    made, alert = slow
    tag(made, v1_0=1, v1_2=6)
    Commit.objects.filter(pk=alert.commit.pk).update(author_name=AUTHOR, subject="a\x1b[31m\n# <b>b</b>")
    answer = client.get(TEXT, {"base": "1.0", "head": "1.2"})
    assert answer.headers["Content-Type"] == "text/markdown; charset=utf-8"
    text = answer.content.decode()
    lines = text.splitlines()
    assert lines[0] == "# kvd 1.2 against 1.0" and lines[2].startswith("**Slower: Server CPU per request +20.0% (")
    assert lines[3] == "Benchmarks: 2 slower." and "## Largest losses" in lines and "## Largest gains" not in lines
    told = next(line for line in lines if line.startswith("- get-p1: +20."))
    assert f"since [{alert.commit.short}](http" in told and f"/p/kvd/c/{alert.commit.sha}/)" in told
    assert r"a \# \<b\>b\</b\> by Mallory \*bold\* !\[x\](https" in told
    assert lines[-1].startswith("[Chart and numbers](http") and "/p/kvd/story/?base=1.0&head=1.2)" in lines[-1]
    assert client.get("/p/kvd/story.html").status_code == 404


def test_the_number_of_queries_does_not_grow(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    tag(made, v1_0=1, v1_2=6)
    few = queries(client, STORY)
    tag(made, v1_3=7, v1_1=3)
    builders.work(made.machines[0], made.speed)
    assert queries(client, STORY) <= few <= 20


@pytest.mark.browser
@pytest.mark.parametrize("has_clipboard", [True, False])
def test_copy_as_markdown(shown: tuple[World, Alert, str], chromium: Browser, has_clipboard: bool) -> None:
    made, _, url = shown
    Tag.objects.create(project=made.project, name="1.0", sha=made.shas[1])
    Tag.objects.create(project=made.project, name="1.1", sha=made.shas[6])
    complaints: list[str] = []
    page = watched(chromium, 390, complaints)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    if not has_clipboard:  # as on a page without https
        page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.goto(f"{url}/p/kvd/releases/")
    page.get_by_role("link", name="story").first.click()
    page.wait_for_url("**/story/?base=1.0&head=1.1*")
    assert page.evaluate(OVERFLOW) <= 0
    page.get_by_role("button", name="Copy as Markdown").click()
    page.get_by_role("button", name="Copied").wait_for()
    page.get_by_role("button", name="Copy as Markdown").wait_for()
    text = page.request.get(f"{url}{page.get_by_role('link', name='Markdown').get_attribute('href')}").text()
    if has_clipboard:
        assert page.evaluate("navigator.clipboard.readText()") == text
    page.locator("#search").focus()
    page.keyboard.press("Control+V")
    assert page.locator("#search").input_value().startswith("# kvd 1.1 against 1.0")
    assert complaints == []
