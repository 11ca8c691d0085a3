import pytest

from speedtrack.projects.errors import RepositoryUnreachable
from speedtrack.projects.mirrors.directories import mirror_of
from speedtrack.projects.models import Branch, Project
from speedtrack.projects.sync import has_news, sync
from speedtrack.tests.builders import Repository


@pytest.fixture
def synced(project: Project, repository: Repository) -> Project:
    repository.commits(2)
    repository.git("tag", "-a", "-m", "release", "v1")
    sync(project)
    return project


def test_nothing_new_is_no_news(synced: Project) -> None:
    assert not has_news(synced)


def test_a_new_commit_is_news(synced: Project, repository: Repository) -> None:
    repository.commit()
    assert has_news(synced)


def test_a_commit_on_a_branch_that_is_not_tracked_is_no_news(synced: Project, repository: Repository) -> None:
    repository.git("checkout", "--quiet", "-b", "topic")
    repository.commit()
    assert not has_news(synced)


def test_a_new_and_a_deleted_tag_are_news(synced: Project, repository: Repository) -> None:
    repository.git("tag", "v2")
    assert has_news(synced)
    repository.git("tag", "-d", "v2", "v1")
    assert has_news(synced)


def test_a_deleted_branch_is_news_once(synced: Project, repository: Repository) -> None:
    repository.git("checkout", "--quiet", "-b", "other")
    repository.git("branch", "-D", "main")
    assert has_news(synced)
    sync(synced)
    assert not has_news(synced)
    repository.git("branch", "main")
    assert has_news(synced)


def test_a_branch_just_tracked_is_news(synced: Project, repository: Repository) -> None:
    repository.git("branch", "stable")
    Branch.objects.create(project=synced, name="stable")
    assert has_news(synced)


def test_a_repository_that_is_away_says_so(synced: Project, repository: Repository) -> None:
    repository.path.rename(repository.path.with_name("away"))
    with pytest.raises(RepositoryUnreachable, match="Check the address"):
        has_news(synced)


def test_a_moved_tag_is_news(synced: Project, repository: Repository) -> None:
    repository.git("tag", "--force", "-a", "-m", "again", "v1", "HEAD~1")
    assert has_news(synced)
    sync(synced)
    assert not has_news(synced)


def test_tags_that_are_no_commits_or_too_long_are_no_news_twice(synced: Project, repository: Repository) -> None:
    repository.git("tag", "file", "HEAD:file.txt")
    repository.git("tag", "/".join(["long" * 20] * 4))
    assert not has_news(synced)
    sync(synced)
    assert [tag.name for tag in synced.tags.all()] == ["v1"]
    assert not has_news(synced)


def test_a_lost_mirror_is_news(synced: Project) -> None:
    mirror = mirror_of(synced.slug)
    mirror.rename(mirror.with_name("lost"))
    assert has_news(synced)
