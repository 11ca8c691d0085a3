"""The sentence of a commit: the same on its page, in the page's JSON and in the API, whatever became of the commit."""

import re

import numpy as np
import pytest
from django.test import Client
from django.utils import timezone

from speedtrack.alerts.models import Alert
from speedtrack.judging.summaries import State, Summary, seen_by, summaries_of
from speedtrack.projects.models import Branch
from speedtrack.runs.models import Deferral, Machine, Run, Series
from speedtrack.runs.queue import queue
from speedtrack.tests import builders
from speedtrack.web.tests.world import CPU, World, html_of

SEEN = "3.1% or more would be seen within 4 commits"


def summary(made: World, place: int) -> Summary:
    pk = made.commit(place).pk
    return summaries_of([pk])[pk]


def test_measured_commits(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    assert summary(made, 0) == (State.SAME, "The first measurement of 2 benchmarks")
    assert summary(made, 3) == (State.SAME, f"No change in 2 benchmarks; {SEEN}")
    worse = "Slower +20.1%: get-p1 and 1 more, confirmed"
    assert summary(made, 5) == (State.WORSE, worse)
    sha = made.shas[5]
    page = html_of(client.get(f"/p/kvd/c/{sha}/"))
    assert re.search(rf'<p class="verdictline worse"> <strong>{re.escape(worse)}</strong>', page)
    assert page.index(worse) < page.index("<dt>Author</dt>") < page.index('<details class="numbers" id="numbers">')
    for address in (f"/p/kvd/c/{sha}.json", f"/api/v1/projects/kvd/commits/{sha}"):
        assert client.get(address).json()["summary"] == worse


@pytest.mark.parametrize(
    ("status", "state", "ending"),
    [
        (Alert.Status.EXPECTED, State.SAME, "confirmed, expected"),
        (Alert.Status.FIXED, State.SAME, "confirmed, fixed since"),
    ],
)
def test_a_settled_alert_is_said_and_has_no_colour(
    slow: tuple[World, Alert], status: str, state: State, ending: str
) -> None:
    made, alert = slow
    Alert.objects.filter(pk=alert.pk).update(status=status)
    assert summary(made, 5) == (state, f"Slower +20.1%: get-p1 and 1 more, {ending}")


def test_an_invalid_alert_is_no_change(slow: tuple[World, Alert]) -> None:
    made, alert = slow
    Alert.objects.filter(pk=alert.pk).update(status=Alert.Status.INVALID)
    assert summary(made, 5) == (State.SAME, f"No change in 2 benchmarks; {SEEN}")


def test_a_commit_on_its_way(client: Client, kvd: World) -> None:
    """It waits, is measured, is compared, is suspected, is confirmed; the page shows each without being asked."""
    kvd.push(1, slow=True)
    Machine.objects.update(last_seen_at=timezone.now())
    assert summary(kvd, 4) == (State.OPEN, "Waits to be measured. Machine kvd-m1 takes it next.")
    page = html_of(client.get(f"/p/kvd/c/{kvd.shas[4]}/"))
    assert 'data-live="?part=verdict" data-stream="' in page and "live.js" in page
    run = queue.claim(kvd.machines[0])
    assert run
    assert summary(kvd, 4).sentence.startswith("Being measured: start, about ")
    builders.expire_lease(run)
    queue.reap()
    builders.work(kvd.machines[0], kvd.speed)
    assert summary(kvd, 4) == (State.OPEN, "Measured, and now compared with the commit before")
    part = html_of(client.get(f"/p/kvd/c/{kvd.shas[4]}/?part=verdict"))
    assert 'data-going="yes" data-version="v' in part and "Show the results" not in part
    kvd.measure()
    assert summary(kvd, 4) == (State.OPEN, "Slower +20.0%: set-p1 and 1 more, suspected, to be measured again")
    kvd.settle()
    assert summary(kvd, 4).state == State.WORSE
    part = html_of(client.get(f"/p/kvd/c/{kvd.shas[4]}/?part=verdict"))
    assert 'data-going="no"' in part and '<a href="?">Show the results</a>' in part


def test_a_commit_that_is_not_measured(kvd: World) -> None:
    kvd.push(1)
    kvd.fail("build failed: make exited with code 2\nmore")
    assert summary(kvd, 4) == (State.UNKNOWN, "Not measured: build failed: make exited with code 2")
    Run.objects.filter(commit=kvd.commit(4)).delete()
    assert summary(kvd, 4) == (State.UNKNOWN, "Not measured: no run of it was queued")
    branch = Branch.objects.get(name="main")
    Deferral.objects.create(
        project=kvd.project, branch=branch, commit=kvd.commit(4), why="paths", detail="it changes only docs/"
    )
    assert summary(kvd, 4) == (State.UNKNOWN, "Not measured: it changes only docs/")


def test_what_would_have_been_seen_is_said_only_if_it_is_known_of_all() -> None:
    one, within = np.array([0.17, 0.05]), np.array([1, 4])
    assert seen_by(one, within) == "17% or more would have been seen"
    assert seen_by(np.array([0.25, 0.17]), within[::-1]) == "25% or more would be seen within 4 commits"
    assert seen_by(np.array([0.17, np.nan]), within) == seen_by(one[:0], within[:0]) == ""


def test_an_import_does_not_take_the_page_over(client: Client, kvd: World) -> None:
    """A machine without a runner whose name sorts first, with one result of a commit."""
    series = Series.objects.filter(metric=CPU)[0]
    laptop = Machine.objects.create(name="a-laptop", outside=True)
    point = series.measurements.filter(commit=kvd.commit(3)).get()
    copy = Series.objects.get(pk=series.pk)
    copy.pk, copy.machine = None, laptop
    copy.save()
    point.pk, point.series = None, copy
    point.save()
    page = client.get(f"/p/kvd/c/{kvd.shas[3]}.json").json()
    assert (page["machines"], page["machine"]) == (["kvd-m1", "a-laptop"], "kvd-m1")
