"""Update rows from the repository: fetch, then store first-parent histories as positions."""

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from speedtrack.ground.observing import failpoints
from speedtrack.ground.postgres import pgsession
from speedtrack.projects import heads
from speedtrack.projects.mirrors import fetching, git
from speedtrack.projects.mirrors.fetching import FetchResult, head_ref
from speedtrack.projects.mirrors.remotes import remote_of
from speedtrack.projects.models import SYNC_LOCK, Branch, Commit, Position, Project, Tag

LONGEST_BRANCH = 250  # as Branch.name
MOST_BRANCHES = 50  # of a project that patterns add
ADOPTED = 1  # newest commits of such a branch that are measured immediately
NEW_FOR = timedelta(days=30)  # before the last fetch: a new tag on a commit of that time is still new
LEFT_OUT_AGAIN = timedelta(days=1)  # then references that could not be fetched are tried again in any case


@dataclass(frozen=True)
class BranchChange:
    """The ids of a branch's new commits, oldest first, and of those that left it, at one fetch.

    ``first``: the branch is fetched for the first time, so its whole history is new.
    """

    branch: Branch
    added: list[str]
    removed: list[str]
    first: bool = False


def project_lock(project: Project, wait: bool = False) -> AbstractContextManager[bool]:
    """Hold the project's advisory lock; False if another session holds it. A fetch is too long for a transaction."""
    return pgsession.holding(SYNC_LOCK, project.pk, wait)


def sync(
    project: Project,
    then: Callable[[BranchChange], object] = lambda changes: None,
    tagged: Callable[[set[str]], object] = lambda shas: None,
) -> list[BranchChange]:
    """Fetch the repository and update branches, commits, positions and tags.

    ``then`` is called for each branch, and ``tagged`` with the commits of new tags, in the same transaction: if one
    raises, or the process dies, the next sync has the same changes again. Syncs of one project never overlap: the
    second one waits. A branch or tag that cannot be fetched is not changed, and ``project.left_out`` has the reason. If
    it raises RepositoryError, nothing is changed.
    """
    with project_lock(project, wait=True):
        adopt_branches(project)
        branches = list(project.branches.filter(tracked=True).select_related("project", "head"))
        fetched = fetching.fetch(project.slug, remote_of(project), [branch.name for branch in branches])
        with transaction.atomic():
            changes = [update_branch(branch, fetched) for branch in branches]
            new_tags, old_tags = update_tags(
                project, {sha for change in changes if change.first for sha in change.added}
            )
            mark_unreachable(project, old_tags | {sha for change in changes for sha in change.removed})
            for change in changes:
                then(change)
            tagged(new_tags)
            heads.complete_listed(project, fetched.remote)
            failpoints.reach("sync.before_commit")
        failpoints.reach("sync.after_commit")
        left_out = {ref: {"sha": fetched.remote[ref], "why": why} for ref, why in fetched.faults.items()}
        note_success(project, synced_at=Now(), left_out=left_out)
    project.left_out = left_out
    return changes


def adopt_branches(project: Project) -> None:
    """Track the branches of the remote that match the project's patterns and were never tracked."""
    if project.branch_patterns:
        new = new_matches(project, git.remote_refs(remote_of(project)))
        Branch.objects.bulk_create([Branch(project=project, name=name, first_commits=ADOPTED) for name in new])


def new_matches(project: Project, remote: dict[str, str]) -> list[str]:
    """The remote's branches that match the project's patterns, without those that are or were tracked.

    At most MOST_BRANCHES are tracked by patterns, so that `*` does not add thousands.
    """
    patterns = project.branch_patterns.split()
    if not patterns:
        return []
    tracked_names = set(project.branches.values_list("name", flat=True))
    names = [ref.removeprefix("refs/heads/") for ref in remote if ref.startswith("refs/heads/")]
    fitting = [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]
    room = max(0, MOST_BRANCHES - len(tracked_names))
    return sorted(name for name in fitting if name not in tracked_names and len(name) <= LONGEST_BRANCH)[:room]


def note_success(project: Project, **changes: Any) -> None:
    """Store that the remote was reached."""
    note_look(project, error="", failures=0, **changes)


def note_failure(project: Project, why: str) -> None:
    """Store why the remote could not be read. The pause before the next attempt grows with every failure."""
    note_look(project, error=why.replace("\0", ""), failures=F("failures") + 1)


def note_look(project: Project, **changes: Any) -> None:
    Project.objects.filter(pk=project.pk).update(polled_at=Now(), poll_jitter=random.uniform(0, 0.25), **changes)


def has_news(project: Project) -> bool:
    """Return whether the remote's references differ from the stored ones. Much cheaper than a fetch.

    A reference that could not be fetched counts as news when it changes at the remote, and once a day.
    """
    if not git.has_mirror(project.slug) or left_out_for_long(project):
        return True
    remote = git.remote_refs(remote_of(project))
    if new_matches(project, remote):
        return True
    tracked = project.branches.filter(tracked=True).select_related("head")
    branches = {head_ref(branch.name): branch for branch in tracked}
    stored_refs = {ref: branch.head.sha for ref, branch in branches.items() if branch.head and not branch.deleted_at}
    stored_refs |= {ref: sha for ref, sha in git.local_refs(project.slug).items() if ref.startswith("refs/tags/")}
    stored_refs |= {ref: fault["sha"] for ref, fault in project.left_out.items()}
    now = {ref: remote[ref] for ref in branches if ref in remote} | fetching.tags_to_fetch(project.slug, remote)
    return now != stored_refs or git.tags_by_name(project.slug) != dict(project.tags.values_list("name", "sha"))


def left_out_for_long(project: Project) -> bool:
    long_ago = Project.objects.filter(pk=project.pk, synced_at__lt=Now() - LEFT_OUT_AGAIN)
    return bool(project.left_out) and long_ago.exists()


def update_branch(branch: Branch, fetched: FetchResult) -> BranchChange:
    """Update the branch's positions from the mirror. A deleted branch is marked, and keeps its history.

    A branch counts as deleted only if the remote does not list it; no other failure marks it.
    """
    slug, ref = branch.project.slug, head_ref(branch.name)
    if ref not in fetched.remote:
        Branch.objects.filter(pk=branch.pk, deleted_at=None).update(deleted_at=Now())
    if ref not in fetched.remote or ref in fetched.faults:
        return BranchChange(branch, [], [])
    head = git.resolve_revision(slug, ref)
    if branch.head and branch.head.sha == head and not branch.deleted_at:
        return BranchChange(branch, [], [])
    path = git.first_parents(slug, head)
    numbers_by_sha = dict(branch.positions.values_list("commit__sha", "number"))
    removed = [sha for sha, number in numbers_by_sha.items() if number >= len(path) or path[number] != sha]
    branch.positions.filter(commit__sha__in=removed).delete()
    new_shas = [sha for number, sha in enumerate(path) if numbers_by_sha.get(sha) != number]
    rows = store_commits(branch.project, new_shas)
    numbers = {sha: number for number, sha in enumerate(path)}
    Position.objects.bulk_create(
        [Position(branch=branch, commit=rows[sha], number=numbers[sha]) for sha in new_shas], batch_size=5000
    )
    Branch.objects.filter(pk=branch.pk).update(
        head=Commit.objects.get(project=branch.project, sha=head), deleted_at=None
    )
    return BranchChange(branch, new_shas, removed, first=branch.head is None)


def mark_unreachable(project: Project, removed: set[str]) -> None:
    """Mark commits that no branch or tag contains any more, and unmark those that one contains again.

    It checks the commits that have just left a branch or lost a tag, those of deleted branches, and the marked ones.
    """
    commits = Commit.objects.filter(project=project)
    unreachable = commits.filter(unreachable_since__isnull=False)
    lost = commits.filter(positions__branch__deleted_at__isnull=False).exclude(positions__branch__deleted_at=None)
    unreachable_shas = set(unreachable.values_list("sha", flat=True))
    candidates = removed | unreachable_shas | set(lost.values_list("sha", flat=True))
    gone = git.unreachable(project.slug, candidates) if candidates else set()
    commits.filter(sha__in=gone - unreachable_shas).update(unreachable_since=Now())
    unreachable.filter(sha__in=unreachable_shas - gone).update(unreachable_since=None)


def store_commits(project: Project, shas: list[str]) -> dict[str, Commit]:
    """By commit id: the rows of these commits, created if they are missing."""
    present = set(Commit.objects.filter(project=project, sha__in=shas).values_list("sha", flat=True))
    missing = [sha for sha in shas if sha not in present]
    Commit.objects.bulk_create(
        [Commit(project=project, **vars(r)) for r in git.revisions(project.slug, missing)],
        batch_size=2000,
        ignore_conflicts=True,
    )
    return {c.sha: c for c in Commit.objects.filter(project=project, sha__in=shas)}


def update_tags(project: Project, first_seen: set[str]) -> tuple[set[str], set[str]]:
    """Update the project's tags from the mirror, including moved ones.

    Returns the commit ids of new tags, and those that have lost a tag. ``first_seen``: the commits of branches that are
    fetched for the first time.
    """
    now = git.tags_by_name(project.slug)
    before = dict(project.tags.values_list("name", "sha"))
    new_tags = {name: sha for name, sha in now.items() if before.get(name) != sha}
    stale = [name for name, sha in before.items() if now.get(name) != sha]
    new = newly_tagged(project, set(new_tags.values()), first_seen)
    project.tags.filter(name__in=stale).delete()
    Tag.objects.bulk_create(
        [Tag(project=project, name=name, sha=sha, is_new=sha in new) for name, sha in new_tags.items()]
    )
    return new, {before[name] for name in stale}


def newly_tagged(project: Project, shas: set[str], first_seen: set[str]) -> set[str]:
    """Return the commits among these whose tags were made after the last fetch; none at the first fetch.

    An old tag may appear only now because its branch is new here, or is not tracked. Such a tag is as old as its
    commit.
    """
    synced_at = Project.objects.values_list("synced_at", flat=True).get(pk=project.pk)
    if synced_at is None or not shas:
        return set()
    placed = Commit.objects.filter(project=project, sha__in=shas, positions__isnull=False)
    on_branches = set(placed.values_list("sha", flat=True)) - first_seen
    rows = store_commits(project, sorted(shas - on_branches))
    return on_branches | {sha for sha, row in rows.items() if row.committed_at > synced_at - NEW_FOR}
