"""Bring rows in line with the repository: fetch, then first-parent history into positions."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models.functions import Now

from speedtrack.projects import git
from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.models import Branch, Commit, Position, Project, Tag

SYNC_LOCK = 0x5337  # the class of this advisory lock; the object is the project


@dataclass(frozen=True)
class Moved:
    """What one look at a branch changed: ids of new commits on it, oldest first, and of those that left it.

    ``first``: the branch was never seen before, so its whole history is new.
    """

    branch: Branch
    added: list[str]
    removed: list[str]
    first: bool = False


def sync(project: Project, then: Callable[[Moved], object] = lambda moved: None) -> list[Moved]:
    """Fetch the repository and update branches, commits, positions and tags.

    ``then`` is called for each branch in the same transaction: if it raises, or the process dies, the next look finds
    the same news again. Two looks at one project never run side by side: the second waits. Raises RepositoryError,
    after writing the reason on the project; nothing else is changed then.
    """
    try:
        with one_at_a_time(project):
            git.fetch(project.slug, project.url)
            with transaction.atomic():
                moved = [update_branch(branch) for branch in project.branches.select_related("project", "head")]
                update_tags(project)
                for one in moved:
                    then(one)
        mark_polled(project, synced_at=Now())
    except RepositoryError as e:
        mark_polled(project, error=str(e))
        raise
    return moved


def mark_polled(project: Project, error: str = "", **changes: Any) -> None:
    """Note that the remote was looked at just now, and why that failed if it did."""
    Project.objects.filter(pk=project.pk).update(
        polled_at=Now(), poll_jitter=random.uniform(0, 0.25), error=error, **changes
    )


@contextmanager
def one_at_a_time(project: Project) -> Iterator[None]:
    """Hold the project's lock of the database session: a fetch takes minutes, too long for a transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s, %s)", [SYNC_LOCK, project.pk])
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [SYNC_LOCK, project.pk])


def has_news(project: Project) -> bool:
    """Does the remote's list of references differ from what is stored? Much cheaper than a fetch."""
    if not git.has_mirror(project.slug):
        return True
    refs = git.remote_refs(project.url)
    for branch in project.branches.select_related("head"):
        known = branch.head.sha if branch.head and not branch.deleted_at else None
        if refs.get(f"refs/heads/{branch.name}") != known:
            return True
    remote_tags = {n: sha for n, sha in refs.items() if n.startswith("refs/tags/") and not n.endswith("^{}")}
    if remote_tags != git.tag_objects(project.slug):
        return True
    return git.tags(project.slug) != dict(project.tags.values_list("name", "sha"))


def update_branch(branch: Branch) -> Moved:
    """Make the branch's positions those of the mirror. A deleted branch keeps its history and is marked."""
    slug = branch.project.slug
    try:
        head = git.resolve(slug, f"refs/heads/{branch.name}")
    except RepositoryError:
        Branch.objects.filter(pk=branch.pk, deleted_at=None).update(deleted_at=Now())
        return Moved(branch, [], [])
    if branch.head and branch.head.sha == head and not branch.deleted_at:
        return Moved(branch, [], [])
    path = git.first_parents(slug, head)
    known = dict(branch.positions.values_list("commit__sha", "number"))
    removed = [sha for sha, number in known.items() if number >= len(path) or path[number] != sha]
    branch.positions.filter(commit__sha__in=removed).delete()
    added = [sha for number, sha in enumerate(path) if known.get(sha) != number]
    rows = store_commits(branch.project, added)
    numbers = {sha: number for number, sha in enumerate(path)}
    Position.objects.bulk_create(
        [Position(branch=branch, commit=rows[sha], number=numbers[sha]) for sha in added], batch_size=5000
    )
    Branch.objects.filter(pk=branch.pk).update(
        head=Commit.objects.get(project=branch.project, sha=head), deleted_at=None
    )
    return Moved(branch, added, removed, first=branch.head is None)


def store_commits(project: Project, shas: list[str]) -> dict[str, Commit]:
    """Rows of these commits, made where they are missing."""
    present = set(Commit.objects.filter(project=project, sha__in=shas).values_list("sha", flat=True))
    missing = [sha for sha in shas if sha not in present]
    Commit.objects.bulk_create(
        [Commit(project=project, **vars(r)) for r in git.revisions(project.slug, missing)],
        batch_size=2000,
        ignore_conflicts=True,
    )
    return {c.sha: c for c in Commit.objects.filter(project=project, sha__in=shas)}


def update_tags(project: Project) -> None:
    """Make the project's tags those of the mirror; a moved tag moves."""
    now = git.tags(project.slug)
    before = dict(project.tags.values_list("name", "sha"))
    stale = [name for name, sha in before.items() if now.get(name) != sha]
    project.tags.filter(name__in=stale).delete()
    Tag.objects.bulk_create(
        [Tag(project=project, name=name, sha=sha) for name, sha in now.items() if before.get(name) != sha]
    )
