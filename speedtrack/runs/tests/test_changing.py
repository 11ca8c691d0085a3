"""What people change of tracked projects: begin, untrack, track again, branches, secrets."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.mirrors.remotes import Remote
from speedtrack.projects.models import Branch, Project
from speedtrack.runs.models import Machine, Run, Status
from speedtrack.runs.planning import pushes
from speedtrack.runs.requests import changing, tracking
from speedtrack.runs.requests.changing import Taken
from speedtrack.runs.requests.tracking import Tracked, TrackingRequest
from speedtrack.tests import builders
from speedtrack.tests.builders import Repository


@pytest.fixture
def tracked(machine: Machine, repository: Repository) -> Tracked:
    return builders.track(repository)


def look() -> None:
    """What the process `git` does with the projects that are due."""
    pushes.look_at_each(lambda: Project.objects.due(0), pushes.look_for_news)


def test_tracking_begins_without_the_history_and_the_first_look_queues_the_newest(
    machine: Machine, repository: Repository
) -> None:
    project = changing.begin_tracking(TrackingRequest(str(repository.path), "tiny", last=2))
    assert (project.synced_at, Run.objects.count()) == (None, 0)
    look()
    project.refresh_from_db()
    head = repository.git("rev-parse", "HEAD")
    assert project.synced_at and project.error == ""
    assert set(Run.objects.values_list("commit__sha", flat=True)) == {head, repository.git("rev-parse", "HEAD~1")}
    look()
    assert Run.objects.count() == 2
    with pytest.raises(Taken, match="another name"):
        changing.begin_tracking(TrackingRequest(str(repository.path), "tiny"))


@pytest.mark.parametrize(
    ("request_", "error", "words"),
    [
        (TrackingRequest("http://example.org/x", "tiny"), RepositoryError, "give an https URL"),
        (TrackingRequest("https://me:pw@example.org/x", "tiny"), RepositoryError, "leave it out"),
        (TrackingRequest("/nowhere/at/all", "tiny"), RepositoryError, "there is no directory"),
        (TrackingRequest("REPOSITORY", "nope"), DefinitionError, "there are tiny"),
        (TrackingRequest("REPOSITORY", "tiny", branch="nope"), RepositoryError, "it has main"),
    ],
)
def test_what_cannot_be_tracked_leaves_nothing_behind(
    repository: Repository, suites: Path, db: None, request_: TrackingRequest, error: type[Exception], words: str
) -> None:
    url = str(repository.path) if request_.url == "REPOSITORY" else request_.url
    with pytest.raises(error, match=words):
        changing.begin_tracking(TrackingRequest(url, request_.suite, request_.branch))
    assert not Project.objects.exists() and not Branch.objects.exists()


def test_an_untracked_project_keeps_its_results_and_gets_no_work(
    tracked: Tracked, machine: Machine, repository: Repository, client: Client
) -> None:
    builders.work(machine, lambda sha, name, trial: 5000.0, until=1)
    hook = tracking.hook_url(tracked.project)
    assert changing.untrack(tracked.project) == Run.objects.filter(status=Status.CANCELLED).count() > 0
    assert Run.objects.filter(status=Status.SUCCEEDED).count() == 1
    repository.commit()
    look()
    assert not Run.objects.unfinished().exists()
    assert client.post(hook.removeprefix("http://127.0.0.1:8000"), b"{}", content_type="x/y").status_code == 404
    tracked.project.refresh_from_db()
    assert client.post(f"/hooks/{tracked.project.hook_id}", b"{}", content_type="x/y").status_code == 404
    changing.track_again(tracked.project)
    look()
    assert Run.objects.unfinished().get().commit.sha == repository.git("rev-parse", "HEAD")


def test_a_project_that_the_command_tracks_again_is_tracked(tracked: Tracked, repository: Repository) -> None:
    changing.untrack(tracked.project)
    again = builders.track(repository).project
    assert (again.pk, again.untracked_at) == (tracked.project.pk, None)
    assert again.machines.exists()


def test_a_branch_is_tracked_dropped_and_tracked_again(
    tracked: Tracked, repository: Repository, machine: Machine
) -> None:
    repository.git("checkout", "--quiet", "-b", "topic")
    first = repository.commits(3)
    changing.add_branch(tracked.project, "topic", first_commits=2)
    look()
    topic = Branch.objects.get(name="topic")
    on_topic = Run.objects.filter(commit__sha__in=first)
    assert on_topic.count() == 2
    with pytest.raises(RepositoryError, match="already"):
        changing.add_branch(tracked.project, "topic", 2)
    changing.drop_branch(topic)
    new = repository.commit()
    look()
    topic.refresh_from_db()
    assert (topic.deleted_at, topic.head.sha if topic.head else "") == (None, first[-1])
    changing.add_branch(tracked.project, "topic", 2)
    look()
    assert Run.objects.filter(commit__sha=new).exists()


def test_new_branches_that_match_a_pattern_are_tracked(
    tracked: Tracked, repository: Repository, machine: Machine
) -> None:
    for name in ("8.0", "8.x/odd", "9.0"):
        repository.git("branch", name)
    Project.objects.update(branch_patterns="8.* none")
    look()
    assert set(Branch.objects.values_list("name", flat=True)) == {"main", "8.0", "8.x/odd"}
    before = Run.objects.count()
    repository.git("checkout", "--quiet", "-b", "8.2")
    repository.commits(3)
    look()
    assert Run.objects.count() == before + 1, "its newest commit"
    changing.drop_branch(Branch.objects.get(name="8.2"))
    look()
    assert not Branch.objects.get(name="8.2").tracked, "who stops a branch keeps it stopped"


def test_the_default_branch_and_a_branch_that_is_not_there_are_refused(tracked: Tracked) -> None:
    with pytest.raises(RepositoryError, match="the default first"):
        changing.drop_branch(Branch.objects.get())
    with pytest.raises(RepositoryError, match="has no branch"):
        changing.add_branch(tracked.project, "nope", 2)


def test_a_repository_says_its_branches(repository: Repository, settings: Any, tmp_path: Path) -> None:
    repository.git("branch", "8.0")
    assert changing.ask_remote(Remote(str(repository.path))) == changing.RemoteAnswer(
        str(repository.path), ["8.0", "main"], "main"
    )
    empty = Repository(tmp_path / "empty")
    with pytest.raises(RepositoryError, match="is empty"):
        changing.ask_remote(Remote(str(empty.path)))
    assert tracking.name_in_url("https://example.org/a/kvd.git/") == "kvd"
