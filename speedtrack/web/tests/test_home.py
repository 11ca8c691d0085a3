"""The home page: lag behind the head, open alerts, recent changes."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.test import Client

from speedtrack.alerts.models import Alert
from speedtrack.web.pages import home
from speedtrack.web.tests.world import World, html_of, queries, world


def test_without_projects_it_says_how_to_begin(client: Client, db: None) -> None:
    assert "manage.py track" in html_of(client.get("/"))


def test_a_measured_head_is_fresh_and_new_commits_are_a_lag(client: Client, kvd: World) -> None:
    assert "head is measured" in html_of(client.get("/"))
    kvd.push(2)
    page = html_of(client.get("/"))
    assert "2 commits behind" in page
    assert "2 runs to do" in page


def test_an_unmeasured_project(client: Client, db: None, settings: Any, tmp_path: Path) -> None:
    world(settings, tmp_path)
    assert "none of the newest 4 commits is measured" in html_of(client.get("/"))


def test_it_shows_open_alerts_and_changes(client: Client, slow: tuple[World, Alert]) -> None:
    page = html_of(client.get("/"))
    assert "1 open alert" in page
    assert "slower +20.0%" in page
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
    assert queries(client, "/") == few


def test_lines_of_different_height_weigh_the_same() -> None:
    nothing = math.nan
    joined = home.joint_line(np.array([[100.0, 100.0, 200.0], [10.0, 10.0, 5.0], [nothing, nothing, nothing]]))
    assert joined == [1.0, 1.0, 1.0]
    assert home.joint_line(np.array([[nothing, 4.0]])) == [None, 1.0]
    assert home.joint_line(np.empty((0, 3))) == [None, None, None]


def test_of_very_many_waiting_runs_it_says_that_there_may_be_more(
    client: Client, kvd: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home, "MOST_RUNS", 2)
    kvd.push(3)
    assert "2 or more runs to do" in html_of(client.get("/"))
