"""A machine's page begins with whether it is sound; the list of machines, the queue and the API say the same words."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from speedtrack.projects.models import Project
from speedtrack.runs.models import CanaryCheck, Machine, Run
from speedtrack.runs.queue import queue
from speedtrack.web.tests.test_machine import PAGE, run_canary, watched
from speedtrack.web.tests.world import World, html_of

__all__ = ["watched"]


def words_of(client: Client) -> str:
    """The words, which are the same everywhere."""
    words = client.get("/api/v1/machines/kvd-m1").json()["health"]
    assert client.get("/machines/kvd-m1.json").json()["health"] == words
    (row,) = client.get("/api/v1/machines").json()["items"]
    page, listing = html_of(client.get(PAGE)), html_of(client.get("/machines/"))
    assert row["health"] == words and f">{words}" in page and f">{words}" in listing
    assert page.index(words) < page.index("<h2>")
    return str(words)


def call(machine: Machine) -> None:
    Machine.objects.filter(pk=machine.pk).update(last_seen_at=timezone.now())


def test_a_canary_that_is_steady_learning_or_off(client: Client, watched: Machine) -> None:
    call(watched)
    assert words_of(client) == "Healthy so far: its canary is learning its level"
    run_canary(watched, 5001.0)
    assert words_of(client) == "Healthy: canary within 2.0%"
    assert words_of(client) in html_of(client.get("/queue/"))
    check = CanaryCheck.objects.latest("pk")
    CanaryCheck.objects.filter(pk=check.pk).update(at=timezone.now() - timedelta(minutes=12))
    assert "Healthy: canary within 2.0%, <time" in html_of(client.get(PAGE)) and "12 min" in html_of(client.get(PAGE))
    run_canary(watched, 5400.0)
    assert words_of(client).startswith("Doubtful: canary moved +8.0%, more than 2.0%")


def test_a_private_canary_tells_no_number(client: Client, watched: Machine) -> None:
    call(watched)
    run_canary(watched, 5001.0)
    Project.objects.update(is_public=False)
    assert words_of(client) == "Healthy: canary steady"


def test_what_is_wrong_is_the_first_line(client: Client, kvd: World) -> None:
    call(kvd.machines[0])
    assert words_of(client) == "No canary watches it, so drift would go unnoticed"
    Machine.objects.update(last_seen_at=timezone.now() - timedelta(hours=3))
    assert words_of(client).startswith("Machine kvd-m1 has been silent for 3 h")
    assert html_of(client.get(PAGE)).count("has been silent for 3 h") == 1


def test_the_queue_begins_with_what_waits(client: Client, kvd: World) -> None:
    page = html_of(client.get("/queue/"))
    assert "<strong>No run waits; none is being measured</strong>" in page
    assert page.index("<h2>Ended last</h2>") < page.index("<h2>Recent failures</h2>")
    newest = Run.objects.filter(status="succeeded").latest("ended_at")
    assert f'<a href="/runs/{newest.pk}/">{newest.pk}</a>' in page
    kvd.push(2)
    page = html_of(client.get("/queue/"))
    assert (
        "<strong>2 runs wait for kvd-m1; none is being measured</strong>; the oldest of the next ones was queued <time"
        in page
    )
    queue.claim(kvd.machines[0])
    assert "<strong>1 run waits for kvd-m1; 1 is being measured</strong>" in html_of(client.get("/queue/"))
    Project.objects.update(is_public=False)
    page = html_of(client.get("/queue/"))
    assert "Ended last" not in page and "1 run waits" in page


@pytest.mark.parametrize(("begun", "buttons"), [(False, 2), (True, 1)])
def test_a_run_has_two_buttons_and_what_they_would_do_is_folded(kvd: World, begun: bool, buttons: int) -> None:
    kvd.push(1)
    run = Run.objects.latest("pk")
    if begun:
        queue.claim(kvd.machines[0])
    ada = Client()
    ada.force_login(User.objects.create_superuser("ada"))
    page = html_of(ada.get(f"/runs/{run.pk}/"))
    form = page[page.index('<form method="post" class="inline">') :].partition("</form>")[0]
    before, _, folded = form.partition('<details class="menu">')
    assert before.count("<button") == folded.count("<button") == folded.count('name="preview"') == buttons
