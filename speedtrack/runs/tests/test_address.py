"""A project's repository gets another address: the same history somewhere else, or another one."""

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client

from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.mirrors.directories import remove_mirror
from speedtrack.projects.models import Project
from speedtrack.runs.planning import pushes
from speedtrack.runs.requests import changing
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.tests.builders import Repository


@pytest.fixture
def project(tracked: Tracked) -> Project:
    return tracked.project


@pytest.fixture
def moved(three_commits: Repository, tmp_path: Path) -> Repository:
    """A copy of the repository at another place, which has gone on and no longer lists what is known."""
    copy = Repository(tmp_path / "moved")
    copy.git("pull", "--quiet", str(three_commits.path), "main")
    copy.count = 50
    copy.commits(2)
    return copy


@pytest.fixture
def stranger(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "stranger")
    made.count = 70
    made.commits(2)
    return made


def test_a_repository_that_was_renamed_and_has_gone_on_is_the_same(project: Project, moved: Repository) -> None:
    assert changing.address_for(project, str(moved.path), unrelated=False) == str(moved.path)
    Project.objects.filter(pk=project.pk).update(url=str(moved.path))
    project.refresh_from_db()
    assert pushes.sync_and_plan(project) == 2 * project.machines.count()
    assert not project.commits.filter(unreachable_since__isnull=False).exists()


def test_another_history_needs_a_word(project: Project, stranger: Repository) -> None:
    known = project.commits.count()
    with pytest.raises(changing.Unrelated, match=f"no commit in common with the {known} commits"):
        changing.address_for(project, str(stranger.path), unrelated=False)
    assert changing.address_for(project, str(stranger.path), unrelated=True) == str(stranger.path)
    Project.objects.filter(pk=project.pk).update(url=str(stranger.path))
    project.refresh_from_db()
    pushes.sync_and_plan(project)
    assert project.commits.filter(unreachable_since__isnull=False).count() == known


def test_an_address_that_does_not_answer_changes_nothing(project: Project, tmp_path: Path) -> None:
    with pytest.raises(RepositoryError):
        changing.address_for(project, str(tmp_path), unrelated=True)


def test_a_project_that_was_never_fetched_takes_any_address(project: Project, stranger: Repository) -> None:
    remove_mirror(project.slug)
    assert changing.address_for(project, str(stranger.path), unrelated=False)


def test_the_page_says_what_will_happen_and_asks(project: Project, stranger: Repository, client: Client) -> None:
    client.force_login(User.objects.create_superuser("ada"))
    address = f"/p/{project.slug}/settings/"
    fields = {"name": project.name, "url": str(stranger.path), "suite": "tiny", "default_branch": "main"}
    fields |= {"machine_policy": "each", "lag_alarm_hours": "24"}
    page = client.post(address, fields).content.decode()
    assert "no commit in common" in page and 'name="unrelated"' in page
    assert Project.objects.get().url == project.url
    assert 'name="unrelated"' not in client.get(address).content.decode()
    assert client.post(address, fields | {"unrelated": "on"}).status_code == 302
    assert Project.objects.get().url == str(stranger.path)
