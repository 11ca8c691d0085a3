"""Update rows from the repository: fetch, then store first-parent histories as positions."""

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from speedtrack.ground.observing import failpoints
from speedtrack.ground.postgres import pgsession, pgvalues
from speedtrack.projects import chains, heads, successors
from speedtrack.projects.chains import NewHistory
from speedtrack.projects.mirrors import fetching, git
from speedtrack.projects.mirrors.directories import has_mirror
from speedtrack.projects.mirrors.fetching import FetchResult, head_ref
from speedtrack.projects.mirrors.remotes import remote_of
from speedtrack.projects.models import SYNC_LOCK, Branch, Commit, Position, Project, Tag

LONGEST_BRANCH = 250  # as Branch.name
MOST_BRANCHES = 50  # of a project that patterns add
ADOPTED = 1  # newest commits of such a branch that are measured immediately
NEW_FOR = timedelta(days=30)  # before the last fetch: a new tag on a commit of that time is still new
LEFT_OUT_AGAIN = timedelta(days=1)  # then references that could not be fetched are tried again in any case

HEADS = """
UPDATE projects_branch b SET head_id = c.id, deleted_at = NULL
  FROM unnest(%s::bigint[], %s::text[]) AS path (branch, sha)
  JOIN projects_commit c ON c.project_id = %s AND c.sha = path.sha
 WHERE b.id = path.branch
RETURNING b.id, b.head_id
"""
# As JSON, since Django would write each value of 5,000 rows into the statement by itself.
ADD_COMMITS = """
INSERT INTO projects_commit (project_id, COLUMNS)
SELECT %s, COLUMNS
  FROM json_to_recordset(%s::json) AS revision (
       sha text, parents text[], author_name text, author_email text, authored_at timestamptz,
       committed_at timestamptz, subject text, reverts text[])
    ON CONFLICT DO NOTHING
""".replace("COLUMNS", "sha, parents, author_name, author_email, authored_at, committed_at, subject, reverts")
# The commits that only deleted branches have.
LOST = """
SELECT c.sha
  FROM (SELECT s.chain_id, coalesce(max(s.last) FILTER (WHERE b.deleted_at IS NULL), -1) AS last
          FROM projects_branch b JOIN projects_segment s ON s.branch_id = b.id
         WHERE b.project_id = %s
         GROUP BY s.chain_id HAVING bool_or(b.deleted_at IS NOT NULL)) chain
  JOIN projects_chaincommit cc ON cc.chain_id = chain.chain_id AND cc.number > chain.last
  JOIN projects_commit c ON c.id = cc.commit_id
"""


@dataclass(frozen=True)
class BranchChange:
    """What one fetch changed of a branch: ``kept`` of its positions stay, and ``new`` ones follow them.

    ``removed``: the ids of the commits that left it, oldest first. ``first``: the branch is fetched for the first time,
    so its whole history is new. ``moved``: it has another head, was deleted, or is back.
    """

    branch: Branch
    kept: int = 0
    new: int = 0
    removed: Sequence[str] = ()
    first: bool = False
    moved: bool = False

    @property
    def added(self) -> QuerySet[Commit]:
        """Its new commits."""
        positions = self.branch.positions.filter(number__gte=self.kept, number__lt=self.kept + self.new)
        return Commit.objects.filter(project=self.branch.project_id, pk__in=positions.values("commit"))


def project_lock(project: Project, wait: bool = False) -> AbstractContextManager[bool]:
    """Hold the project's advisory lock; False if another session holds it. A fetch is too long for a transaction."""
    return pgsession.holding(SYNC_LOCK, project.pk, wait)


def sync(
    project: Project, then: Callable[[list[BranchChange], set[str]], object] = lambda changes, shas: None
) -> list[BranchChange]:
    """Fetch the repository and update branches, commits, positions and tags.

    ``then`` is called with the branches that moved and the commits of new tags, in the same transaction: if it raises,
    or the process dies, the next sync has the same changes again. Syncs of one project never overlap: the second one
    waits. A branch or tag that cannot be fetched is not changed, and ``project.left_out`` has the reason. If it raises
    RepositoryError, nothing is changed.
    """
    with project_lock(project, wait=True):
        adopt_branches(project)
        branches = list(project.branches.filter(tracked=True).select_related("head"))
        fetched = fetching.fetch(project.slug, remote_of(project), [branch.name for branch in branches])
        successor = successors.successor_of(project, fetched)
        with transaction.atomic():
            changes = update_branches(project, branches, fetched)
            moved_branches = [change for change in changes if change.moved]
            new_tags, retagged = update_tags(project, {change.branch.pk for change in moved_branches if change.first})
            if moved_branches or retagged:
                mark_unreachable(project, retagged | {sha for change in moved_branches for sha in change.removed})
            successors.note(project, successor)
            then(moved_branches, new_tags)
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
    if not has_mirror(project.slug) or left_out_for_long(project):
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


def update_branches(project: Project, branches: Sequence[Branch], fetched: FetchResult) -> list[BranchChange]:
    """Update the branches' positions from the mirror. A deleted branch is marked, and keeps its history.

    A branch counts as deleted only if the remote does not list it; no other failure marks it. Branches that have not
    moved cost nothing.
    """
    refs = {branch: head_ref(branch.name) for branch in branches}
    deleted = [branch for branch, ref in refs.items() if ref not in fetched.remote and not branch.deleted_at]
    Branch.objects.filter(pk__in=[branch.pk for branch in deleted]).update(deleted_at=Now())
    for branch in deleted:
        branch.deleted_at = timezone.now()
    mirrored = git.local_refs(project.slug)
    fetched_refs = {branch: ref for branch, ref in refs.items() if ref in fetched.remote and ref not in fetched.faults}
    new_heads = {branch: mirrored[ref] for branch, ref in fetched_refs.items() if has_moved(branch, mirrored[ref])}
    changes = {change.branch: change for change in move(project, new_heads)} if new_heads else {}
    return [changes.get(branch, BranchChange(branch, moved=branch in deleted)) for branch in branches]


def has_moved(branch: Branch, head: str) -> bool:
    return branch.head is None or branch.head.sha != head or branch.deleted_at is not None


def move(project: Project, heads: Mapping[Branch, str]) -> list[BranchChange]:
    """Store the histories of these branches, which lead to the heads now, in a few statements for all of them."""
    first = {branch for branch in heads if branch.head is None}
    forgotten = chains.forget(project, first)
    try:
        histories = store_since(project, heads, stored_heads(project))
    except chains.NotOnChain:  # such as a merged commit, from which a branch goes on
        histories = store_since(project, heads, ())
    store_heads(project, heads)
    changes = [BranchChange(branch, *histories[branch], branch in first, moved=True) for branch in heads]
    return [replace(change, removed=gone(change, forgotten)) for change in changes]


def stored_heads(project: Project) -> list[str]:
    return list(project.branches.filter(head__isnull=False).values_list("head__sha", flat=True))


def store_since(project: Project, heads: Mapping[Branch, str], former: Iterable[str]) -> dict[Branch, NewHistory]:
    """Store these branches' histories from the former heads on. Raises NotOnChain if they go on from elsewhere."""
    first_parents = git.new_first_parents(project.slug, heads.values(), former)
    add_commits(project, reversed(first_parents))  # oldest first
    return chains.store(project, heads, first_parents)


def gone(change: BranchChange, forgotten: Mapping[int, list[str]]) -> list[str]:
    """The commits that left a branch, whose whole history may have been forgotten before."""
    if not (former := forgotten.get(change.branch.pk)):
        return [*change.removed]
    again = set(change.added.values_list("sha", flat=True))
    return [sha for sha in former if sha not in again]


def store_heads(project: Project, heads: Mapping[Branch, str]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(HEADS, [[branch.pk for branch in heads], [*heads.values()], project.pk])
        head_ids = dict(cursor.fetchall())
    for branch in heads:
        branch.head_id, branch.deleted_at = head_ids[branch.pk], None


def mark_unreachable(project: Project, removed: set[str]) -> None:
    """Mark commits that no branch or tag contains any more, and unmark those that one contains again.

    It checks the commits that have just left a branch or lost a tag, those of deleted branches, and the marked ones.
    """
    commits = Commit.objects.filter(project=project)
    unreachable = commits.filter(unreachable_since__isnull=False)
    unreachable_shas = set(unreachable.values_list("sha", flat=True))
    with connection.cursor() as cursor:
        cursor.execute(LOST, [project.pk])
        candidates = removed | unreachable_shas | {sha for (sha,) in cursor.fetchall()}
    gone = git.unreachable(project.slug, candidates) if candidates else set()
    commits.filter(sha__in=gone - unreachable_shas).update(unreachable_since=Now())
    unreachable.filter(sha__in=unreachable_shas - gone).update(unreachable_since=None)


def add_commits(project: Project, shas: Iterable[str]) -> None:
    """Create the rows of these commits that are missing."""
    count = 0
    for block in chains.blocks(shas):
        present = set(Commit.objects.filter(project=project, sha__in=block).values_list("sha", flat=True))
        revisions = [
            vars(revision) for revision in git.revisions(project.slug, [sha for sha in block if sha not in present])
        ]
        count += len(revisions)
        with pgvalues.apart(), connection.cursor() as cursor:
            cursor.execute(ADD_COMMITS, [project.pk, json.dumps(revisions, default=datetime.isoformat)])
    if count > chains.BLOCK:
        # Without statistics of a first history, PostgreSQL would read all of it for each block of positions.
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE (SKIP_LOCKED) projects_commit")


def store_commits(project: Project, shas: list[str]) -> dict[str, Commit]:
    """By commit id: the rows of these commits, created if they are missing."""
    add_commits(project, shas)
    return {c.sha: c for c in Commit.objects.filter(project=project, sha__in=shas)}


def update_tags(project: Project, first: set[int]) -> tuple[set[str], set[str]]:
    """Update the project's tags from the mirror, including moved ones.

    Returns the commit ids of new tags, and those that have got or lost any tag. ``first``: the ids of branches that are
    fetched for the first time.
    """
    now = git.tags_by_name(project.slug)
    before = dict(project.tags.values_list("name", "sha"))
    new_tags = {name: sha for name, sha in now.items() if before.get(name) != sha}
    stale = [name for name, sha in before.items() if now.get(name) != sha]
    new = newly_tagged(project, set(new_tags.values()), first)
    project.tags.filter(name__in=stale).delete()
    Tag.objects.bulk_create(
        [Tag(project=project, name=name, sha=sha, is_new=sha in new) for name, sha in new_tags.items()]
    )
    return new, {before[name] for name in stale} | set(new_tags.values())


def newly_tagged(project: Project, shas: set[str], first: set[int]) -> set[str]:
    """Return the commits among these whose tags were made after the last fetch; none at the first fetch.

    An old tag may appear only now because its branch is new here, or is not tracked. Such a tag is as old as its
    commit.
    """
    synced_at = Project.objects.values_list("synced_at", flat=True).get(pk=project.pk)
    if synced_at is None or not shas:
        return set()
    earlier = Position.objects.filter(commit=OuterRef("pk")).exclude(branch__in=first)
    placed = Commit.objects.filter(Exists(earlier), project=project, sha__in=shas)
    on_branches = set(placed.values_list("sha", flat=True))
    rows = store_commits(project, sorted(shas - on_branches))
    return on_branches | {sha for sha, row in rows.items() if row.committed_at > synced_at - NEW_FOR}
