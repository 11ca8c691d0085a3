"""Many projects, some of which fail or hang: each look is noted, and none delays another."""

import threading
import zlib
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now
from django.test import Client

from speedtrack.projects.models import Delivery, Project
from speedtrack.projects.sync import project_lock
from speedtrack.runs.models import Machine, Run
from speedtrack.runs.planning import pushes
from speedtrack.tests import builders
from speedtrack.tests.builders import Repository

EVERY_S = 300
EVERYBODY = Project.objects.all


@pytest.fixture
def two(machine: Machine, suites: Path, tmp_path: Path) -> list[Repository]:
    """Two tracked repositories, projects ``a`` and ``b``."""
    repositories = [Repository(tmp_path / name) for name in "ab"]
    for repository in repositories:
        repository.commits(1)
        builders.track(repository, last=0)
    return repositories


def tell(slug: str, body: bytes = b"{}") -> None:
    Delivery.objects.create(
        project=Project.objects.get(slug=slug),
        provider="github",
        delivery_id=str(Delivery.objects.count()),
        event="push",
        headers={},
        packed_body=zlib.compress(body),
        body_digest=str(Delivery.objects.count()),
    )


def wait(**long: int) -> None:
    """Shift everything that was noted into the past by this time."""
    Project.objects.update(polled_at=F("polled_at") - timedelta(**long))
    Delivery.objects.update(received_at=F("received_at") - timedelta(**long))


def told() -> list[str]:
    return [project.slug for project in Project.objects.with_deliveries()]


def due() -> list[str]:
    return [project.slug for project in Project.objects.due(EVERY_S)]


def raising(error: Exception) -> Callable[[Project], int]:
    def look(project: Project) -> int:
        if project.slug == "a":
            raise error
        return pushes.sync_and_plan(project)

    return look


@pytest.mark.parametrize("error", [ValueError("a line of git\0"), KeyError("x"), AssertionError(), RecursionError()])
def test_whatever_a_project_raises_is_written_on_it_and_the_next_has_its_turn(
    two: list[Repository], client: Client, error: Exception, caplog: Any
) -> None:
    new = two[1].commit()
    pushes.look_at_each(EVERYBODY, raising(error))
    assert Run.objects.get().commit.sha == new
    a, b = Project.objects.order_by("slug")
    assert (a.failures, b.failures, b.error) == (1, 0, "")
    assert type(error).__name__ in a.error and "defect of SpeedTrack" in a.error
    assert "Traceback" in caplog.text
    for page in ("/", "/p/a/"):
        assert type(error).__name__ in client.get(page).content.decode()


def test_a_mistake_in_the_suite_is_no_defect(two: list[Repository], suites: Path) -> None:
    two[0].commit()
    tell("a")
    (suites / "tiny.toml").write_text("name = 1")
    pushes.look_at_each(Project.objects.with_deliveries, pushes.sync_and_plan)
    project = Project.objects.get(slug="a")
    assert "tiny.toml" in project.error or "suite" in project.error
    assert "defect" not in project.error
    assert Delivery.objects.get().status == "received"


def test_the_pauses_of_a_project_that_fails_grow_up_to_an_hour(two: list[Repository]) -> None:
    tell("a")
    look = raising(ValueError("no"))
    for pause in (30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600):
        assert told() == ["a"]
        pushes.look_at_each(Project.objects.with_deliveries, look)
        assert told() == []
        wait(seconds=pause - 25)  # a busy machine takes some seconds for a round
        assert told() == []
        wait(seconds=26)


def test_polls_keep_the_pause_too(two: list[Repository]) -> None:
    for _ in range(8):
        pushes.look_at_each(EVERYBODY, raising(ValueError("no")))
    Project.objects.update(poll_jitter=0)
    wait(seconds=EVERY_S + 1)
    assert due() == ["b"]
    wait(hours=1)
    assert sorted(due()) == ["a", "b"]


def test_a_new_delivery_shortens_the_pause_but_not_to_nothing(two: list[Repository]) -> None:
    tell("a")
    for _ in range(8):
        pushes.look_at_each(EVERYBODY, raising(ValueError("no")))
    tell("a")
    assert told() == []
    wait(seconds=31)
    assert told() == ["a"]
    pushes.look_at_each(Project.objects.with_deliveries, raising(ValueError("no")))
    wait(seconds=31)
    assert told() == []


def test_a_success_forgets_the_failures(two: list[Repository]) -> None:
    for _ in range(3):
        pushes.look_at_each(EVERYBODY, raising(ValueError("no")))
    pushes.look_at_each(EVERYBODY, pushes.look_for_news)
    project = Project.objects.get(slug="a")
    assert (project.failures, project.error) == (0, "")


def test_a_remote_that_is_away_is_noted_and_its_deliveries_wait(two: list[Repository]) -> None:
    two[0].path.rename(two[0].path.with_name("away"))
    tell("a")
    tell("b")
    pushes.look_at_each(Project.objects.with_deliveries, pushes.sync_and_plan)
    assert "Check the address" in Project.objects.get(slug="a").error
    assert dict(Delivery.objects.values_list("project__slug", "status")) == {"a": "received", "b": "processed"}


def test_a_delivery_that_comes_while_the_look_is_under_way_is_looked_into_afterwards(two: list[Repository]) -> None:
    tell("a")
    Delivery.objects.update(received_at=Now() + timedelta(seconds=100))  # an equal one has come in between
    pushes.look_at_each(Project.objects.with_deliveries, pushes.sync_and_plan)
    assert Delivery.objects.get().status == "received"
    wait(seconds=200)
    pushes.look_at_each(Project.objects.with_deliveries, pushes.sync_and_plan)
    assert Delivery.objects.get().status == "processed"


def test_what_was_left_out_stands_in_the_outcome_and_on_the_page(two: list[Repository], client: Client) -> None:
    two[0].commit_object(b"tree TREE\nauthor A 1 +0000\ncommitter A <a@b> 1 +0000\n\nodd\n")
    tell("a")
    pushes.look_at_each(Project.objects.with_deliveries, pushes.sync_and_plan)
    delivery = Delivery.objects.get()
    assert delivery.status == "processed"
    assert "refs/heads/main was left out: object" in delivery.outcome
    for page in ("/", "/p/a/"):
        text = client.get(page).content.decode()
        assert "refs/heads/main" in text and "missingEmail" in text
    assert Project.objects.get(slug="a").failures == 0


def in_thread(work: Callable[[], object]) -> threading.Thread:
    def run() -> None:
        try:
            work()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.django_db(transaction=True)
def test_a_project_that_is_looked_at_is_left_to_who_does_and_the_others_are_not(two: list[Repository]) -> None:
    tell("a")
    tell("b")
    began, go_on = threading.Event(), threading.Event()

    def hang(project: Project) -> None:
        began.set()
        go_on.wait(60)
        pushes.sync_and_plan(project)

    first = in_thread(lambda: pushes.look_at_each(lambda: Project.objects.with_deliveries().filter(slug="a"), hang))
    try:
        assert began.wait(60)
        assert {p.slug for p in Project.objects.with_deliveries().at_rest()} == {"b"}
        pushes.look_at_each(Project.objects.with_deliveries, pushes.sync_and_plan)
        assert told() == ["a"]
        with project_lock(Project.objects.get(slug="a")) as is_mine:
            assert not is_mine
    finally:
        go_on.set()
        first.join()
    assert told() == []
    with connection.cursor() as cursor:
        here = "database = (SELECT oid FROM pg_database WHERE datname = current_database())"  # other tests have theirs
        cursor.execute(f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND {here}")
        assert cursor.fetchone() == (0,)


def test_a_poll_without_news_fetches_nothing(two: list[Repository]) -> None:
    Project.objects.update(polled_at=None)
    before = Project.objects.get(slug="a").synced_at
    pushes.look_at_each(partial(Project.objects.due, EVERY_S), pushes.look_for_news)
    project = Project.objects.get(slug="a")
    assert project.synced_at == before
    assert project.polled_at is not None


def test_all_that_was_missed_while_the_service_was_down_is_found_by_one_poll(two: list[Repository]) -> None:
    """No delivery came: pushes, a forced push, new and deleted branches and tags, as polls alone find them."""
    repository = two[0]
    project = Project.objects.order_by("pk")[0]
    Project.objects.filter(pk=project.pk).update(branch_patterns="release/*")
    pushes.look_for_news(Project.objects.get(pk=project.pk))
    start = repository.git("rev-parse", "HEAD")
    lost = repository.commit("lost")
    pushes.look_for_news(Project.objects.get(pk=project.pk))
    repository.git("reset", "--quiet", "--hard", start)
    new = [repository.commit(f"missed {i}") for i in range(3)]
    repository.git("tag", "v1", new[1])
    repository.git("branch", "release/1", new[2])
    pushes.look_for_news(Project.objects.get(pk=project.pk))
    assert Run.objects.filter(commit__sha__in=new, status="queued").count() == 3
    assert Run.objects.get(commit__sha=lost).status == "cancelled"
    assert list(project.commits.filter(unreachable_since__isnull=False).values_list("sha", flat=True)) == [lost]
    assert project.tags.get(name="v1").sha == new[1]
    assert project.branches.get(name="release/1").head.sha == new[2]
    assert Project.objects.get(pk=project.pk).error == ""


def test_polls_of_several_projects_spread_over_time(two: list[Repository]) -> None:
    """Each look draws its own jitter, by up to a quarter of the interval, so that not all are due at once."""
    drawn = set()
    for _ in range(8):
        for project in Project.objects.all():
            pushes.look_for_news(project)
        drawn |= set(Project.objects.values_list("poll_jitter", flat=True))
    assert len(drawn) > 8
    assert all(0 <= jitter <= 0.25 for jitter in drawn)
