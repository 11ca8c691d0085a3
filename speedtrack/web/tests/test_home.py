"""The home page: lag behind the head, open alerts, recent changes."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.db.models.functions import Now
from django.test import Client

from speedtrack.alerts.models import Alert
from speedtrack.benchmarks.metrics import HEADLINE
from speedtrack.projects.models import Tag
from speedtrack.runs.models import Machine, Measurement
from speedtrack.tests import builders
from speedtrack.web.pages import changes, home, trends
from speedtrack.web.tests.world import World, html_of, queries, world


def test_without_projects_it_says_how_to_begin(client: Client, db: None) -> None:
    page = html_of(client.get("/"))
    assert "Log in to track a repository" in page and 'href="/help/logins/#the-first-account"' in page


def test_a_measured_head_is_fresh_and_new_commits_are_a_lag(client: Client, kvd: World) -> None:
    assert "head is measured" in html_of(client.get("/"))
    kvd.push(2)
    page = html_of(client.get("/"))
    assert re.search(r"2 commits, \d.{1,12} behind", page)
    assert "2 runs to do" in page


def test_an_unmeasured_project(client: Client, db: None, settings: Any, tmp_path: Path) -> None:
    world(settings, tmp_path)
    assert "none of the newest commits is measured" in html_of(client.get("/"))


def test_a_project_without_its_default_branch_is_shown(client: Client, kvd: World) -> None:
    kvd.project.default_branch = "trunk"  # as after a renaming at the forge
    kvd.project.save()
    page, document = client.get("/"), client.get("/home.json")
    assert 'href="/p/kvd/"' in html_of(page)
    assert [card["project"] for card in document.json()["projects"]] == ["kvd"]


def test_it_shows_open_alerts_and_changes(client: Client, slow: tuple[World, Alert]) -> None:
    page = html_of(client.get("/"))
    assert "1 open alert" in page
    assert "slower +20.1%" in page
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_a_failed_look_at_the_repository_is_told(client: Client, kvd: World) -> None:
    kvd.project.error = "fatal: could not read from remote"
    kvd.project.save()
    assert "could not read from remote" in html_of(client.get("/"))


def test_the_number_of_queries_does_not_grow(client: Client, kvd: World, settings: Any, tmp_path: Path) -> None:
    few = queries(client, "/")
    kvd.push(6)
    other = world(settings, tmp_path / "other", commits=6, machines=2, name="other")
    kvd.measure()
    other.measure()
    assert queries(client, "/") == few <= 12


def test_lines_of_different_height_weigh_the_same() -> None:
    nothing = math.nan
    joined = trends.joint_line(np.array([[100.0, 100.0, 200.0], [10.0, 10.0, 5.0], [nothing, nothing, nothing]]))
    assert joined == ([1.0, 1.0, 1.0], pytest.approx(math.sqrt(1000)))
    assert trends.joint_line(np.array([[nothing, 4.0]])) == ([None, 1.0], pytest.approx(4.0))
    assert trends.joint_line(np.array([[nothing, -4.0]]))[0] == [None, None]
    assert trends.medians_of(np.array([[3.0, nothing, 1.0], [nothing, 9.0, nothing]])).tolist() == [2.0, 9.0]
    assert trends.mean_line([[4.0, None], [9.0, 9.0]])[0] == [pytest.approx(6.0), pytest.approx(6.0)]


def test_the_newest_measurement_of_a_commit_counts_and_flagged_ones_are_gaps(kvd: World) -> None:
    older, newer = [commit.pk for commit in map(kvd.commit, (-2, -1))]
    points = Measurement.objects.filter(paired=False, series__metric=HEADLINE)
    points.filter(commit=newer).update(flags=["steal"])
    (series, *_) = points.filter(commit=older).order_by("series").values_list("series", flat=True)
    points.filter(commit=newer, series=series).update(commit=older, flags=[])
    first, last = points.filter(commit=older, series=series).order_by("attempt")
    for point, value in ((first, 5.0), (last, 7.0)):
        points.filter(pk=point.pk).update(value=value)
    trend = next(trend for trend in home.card_of(kvd.project).trends if trend.series_id == series)
    assert (trend.values[-2:], trend.newest, trend.commit_id) == ([7.0, None], 7.0, older)


def test_of_very_many_waiting_runs_it_says_that_there_may_be_more(
    client: Client, kvd: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home, "MOST_RUNS", 2)
    kvd.push(3)
    assert "2 or more runs to do" in html_of(client.get("/"))


def test_a_card_has_the_newest_value_the_last_change_and_the_releases(
    client: Client, slow: tuple[World, Alert]
) -> None:
    made, _ = slow
    Tag.objects.create(project=made.project, name="v1.0", sha=made.shas[1])
    Tag.objects.create(project=made.project, name="v1.1", sha=made.shas[6])
    page = html_of(client.get("/"))
    mean = "geometric mean of 2 benchmarks"
    assert re.search(rf"<strong>7\.\d\d µs</strong> <span .{{1,20}}>Server CPU per request, {mean} on kvd-m1", page)
    assert re.search(r"<dt>Last change</dt>.{1,200}slower \+20\.1%", page)
    both = 'href="/p/kvd/compare/\\?base=v1.0&amp;head=v1.1&amp;machine=kvd-m1">against v1.0</a>'
    assert re.search(rf">v1\.1</a>.{{1,200}}! \+20\.0%</span> <span .{{1,20}}><a {both}, {mean}", page)
    assert "since v1.1" in page and made.commit(7).short in page


def test_a_release_is_compared_with_the_newest_one_before_it_that_has_the_same_lines(
    slow: tuple[World, Alert],
) -> None:
    made, _ = slow
    tags = {"v1.0": 1, "v1.1": 3, "v1.2": 6, "v1.2.0": 6}  # of two tags of a commit the higher version counts
    Tag.objects.bulk_create(Tag(project=made.project, name=name, sha=made.shas[at]) for name, at in tags.items())

    def compared() -> list[tuple[str, str]]:
        card = home.card_of(made.project)
        home.compare_releases([card])
        return [(change.tag, change.before) for change in (card.release, card.since) if change]

    assert compared() == [("v1.2.0", "v1.1"), ("", "v1.2.0")]
    for at, benchmark in ((6, "set-p1"), (3, "get-p1")):
        Measurement.objects.filter(series__benchmark__name=benchmark, commit__sha=made.shas[at]).delete()
    assert compared() == [("v1.2.0", "v1.0"), ("", "v1.2.0")]


def test_one_project_has_the_width_and_a_row_per_benchmark(
    client: Client, kvd: World, settings: Any, tmp_path: Path
) -> None:
    page = html_of(client.get("/"))
    assert 'class="cards only"' in page and 'timeline/set-p1/server_cpu_ns_per_request?machine=kvd-m1"' in page
    world(settings, tmp_path / "other", name="other")
    page = html_of(client.get("/"))
    assert 'class="cards only"' not in page and "timeline/set-p1" not in page


def test_the_machine_that_measured_most_is_shown_and_the_lag_is_that_of_any(
    client: Client, db: None, settings: Any, tmp_path: Path
) -> None:
    made = world(settings, tmp_path, machines=2)
    builders.work(made.machines[1], made.speed)
    made.push(1)
    builders.work(made.machines[0], made.speed, until=1)
    page = html_of(client.get("/"))
    assert "on kvd-m2" in page and "head is measured" in page


def test_the_health_of_the_machines_is_one_line(client: Client, kvd: World) -> None:
    builders.machine("spare")
    Machine.objects.filter(name="kvd-m1").update(last_seen_at=Now(), quarantined_at=Now(), quarantined_why="its canary")
    page = html_of(client.get("/"))
    assert "2 machines" in page and "1 quarantine" in page and "1 never seen" in page


def test_changes_are_listed_by_commit_and_reach_back_so_far(
    client: Client, slow: tuple[World, Alert], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = slow
    branch = made.project.branches.get()
    (group,) = changes.newest_groups([branch.pk], 5)[branch.pk]
    assert (group.commit.sha, group.width, group.alert_id is None) == (made.shas[5], 1, False)
    assert len(group.points) > 1 and group.worst.ratio == pytest.approx(1.2, rel=0.01)
    monkeypatch.setattr(changes, "REACH", 2)
    assert changes.newest_groups([branch.pk], 5) == {}
