"""Update rows from the repository: fetch, then store first-parent histories as positions."""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from itertools import islice, takewhile
from typing import Any

from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef
from django.db.models.functions import Now
from django.utils import timezone

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
BLOCK = 5000  # commits or positions that are stored at once, so that a long history needs little memory

# For all moved branches at once: where they went on from their own commits, what goes and what comes.
FORKS = """
SELECT fork.branch, p.number
  FROM unnest(%s::bigint[], %s::text[]) AS fork (branch, sha)
  JOIN projects_commit c ON c.project_id = %s AND c.sha = fork.sha
  JOIN projects_position p ON p.branch_id = fork.branch AND p.commit_id = c.id
"""
# From each branch's end on (OFFSET 0), which is short; its length is estimated as a third of the history.
REMOVED = """
WITH gone AS MATERIALIZED (
    SELECT p.ctid, p.branch_id, p.number, (SELECT sha FROM projects_commit c WHERE c.id = p.commit_id) AS sha
      FROM unnest(%s::bigint[], %s::int[]) AS path (branch, kept)
     CROSS JOIN LATERAL (SELECT p.ctid, p.* FROM projects_position p
                          WHERE p.branch_id = path.branch AND p.number >= path.kept OFFSET 0) p
), deleted AS (
    DELETE FROM projects_position WHERE ctid = ANY(ARRAY(SELECT ctid FROM gone))
)
SELECT branch_id, number, sha FROM gone ORDER BY branch_id, number
"""
PLACED = """
INSERT INTO projects_position (branch_id, number, commit_id)
SELECT path.branch, path.number, c.id
  FROM unnest(%s::bigint[], %s::int[], %s::text[]) AS path (branch, number, sha)
  JOIN projects_commit c ON c.project_id = %s AND c.sha = path.sha
"""
HEADS = """
UPDATE projects_branch b SET head_id = c.id, deleted_at = NULL
  FROM unnest(%s::bigint[], %s::text[]) AS path (branch, sha)
  JOIN projects_commit c ON c.project_id = %s AND c.sha = path.sha
 WHERE b.id = path.branch
RETURNING b.id, b.head_id
"""


@dataclass(frozen=True)
class BranchChange:
    """The ids of a branch's new commits, oldest first, and of those that left it, at one fetch.

    ``first``: the branch is fetched for the first time, so its whole history is new. ``moved``: it has another head,
    was deleted, or is back.
    """

    branch: Branch
    added: list[str]
    removed: list[str]
    first: bool = False
    moved: bool = False


@dataclass(frozen=True)
class NewPath:
    """The history of a branch that has moved: ``kept`` of its positions stay, and these commits follow them."""

    branch: Branch
    head: str
    kept: int
    shas: list[str]


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
        with transaction.atomic():
            changes = update_branches(project, branches, fetched)
            moved = [change for change in changes if change.moved]
            new_tags, retagged = update_tags(project, {change.branch.pk for change in moved if change.first})
            if moved or retagged:
                mark_unreachable(project, retagged | {sha for change in moved for sha in change.removed})
            then(moved, new_tags)
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
    moved = {branch: mirrored[ref] for branch, ref in fetched_refs.items() if has_moved(branch, mirrored[ref])}
    changes = {change.branch: change for change in move(project, moved)} if moved else {}
    return [changes.get(branch, BranchChange(branch, [], [], moved=branch in deleted)) for branch in branches]


def has_moved(branch: Branch, head: str) -> bool:
    return branch.head is None or branch.head.sha != head or branch.deleted_at is not None


def move(project: Project, heads: Mapping[Branch, str]) -> list[BranchChange]:
    """Store the histories of these branches, which lead to the heads now, in a few statements for all of them."""
    paths = new_paths(project, heads)
    first = {path.branch for path in paths if path.branch.head is None}
    add_commits(project, (sha for path in paths for sha in path.shas))
    removed = store_paths(project, paths)
    return [
        BranchChange(path.branch, path.shas, removed[path.branch.pk], path.branch in first, moved=True)
        for path in paths
    ]


def new_paths(project: Project, heads: Mapping[Branch, str]) -> list[NewPath]:
    """What remains of each branch's positions, and what follows them.

    A branch usually goes on from one of its own commits, which git lists for all branches at once. Otherwise, its whole
    history is compared.
    """
    former = {branch: branch.head.sha for branch in heads if branch.head}
    first_parents = git.new_first_parents(project.slug, [heads[branch] for branch in former], former.values())
    steps = {branch: follow(heads[branch], first_parents) for branch in former}
    numbers = fork_numbers(project, {branch: fork for branch, (fork, _) in steps.items()})
    return [
        NewPath(branch, head, numbers[branch.pk] + 1, steps[branch][1])
        if branch.pk in numbers
        else whole_path(branch, head)
        for branch, head in heads.items()
    ]


def follow(head: str, first_parents: Mapping[str, str]) -> tuple[str, list[str]]:
    """The commit from which a head goes on (empty: it begins with a root), and the commits since, oldest first."""
    shas = []
    while head in first_parents:
        shas.append(head)
        head = first_parents[head]
    return head, shas[::-1]


def fork_numbers(project: Project, forks: Mapping[Branch, str]) -> dict[int, int]:
    """By branch id: the position of its fork on that branch itself; branches whose fork is not on them are left out."""
    with connection.cursor() as cursor:
        cursor.execute(FORKS, [[branch.pk for branch in forks], list(forks.values()), project.pk])
        return dict(cursor.fetchall())


def whole_path(branch: Branch, head: str) -> NewPath:
    path = git.first_parents(branch.project.slug, head)
    stored = branch.positions.order_by("number").values_list("number", "commit__sha").iterator(chunk_size=BLOCK)
    kept = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(stored, enumerate(path), strict=False)))
    return NewPath(branch, head, kept, path[kept:])


def store_paths(project: Project, paths: Sequence[NewPath]) -> dict[int, list[str]]:
    """Replace the positions that have changed, and the heads. Return the commits that left each branch, by its id."""
    pks = [path.branch.pk for path in paths]
    with connection.cursor() as cursor:
        cursor.execute(REMOVED, [pks, [path.kept for path in paths]])
        gone = cursor.fetchall()
        positions = (
            (path.branch.pk, number, sha) for path in paths for number, sha in enumerate(path.shas, start=path.kept)
        )
        for rows in blocks(positions):
            cursor.execute(PLACED, [*map(list, zip(*rows, strict=True)), project.pk])
        cursor.execute(HEADS, [pks, [path.head for path in paths], project.pk])
        head_ids = dict(cursor.fetchall())
    for path in paths:
        path.branch.head_id, path.branch.deleted_at = head_ids[path.branch.pk], None
    again = {(path.branch.pk, sha) for path in paths for sha in path.shas} if gone else set()
    removed: dict[int, list[str]] = {pk: [] for pk in pks}
    for pk, _, sha in gone:
        if (pk, sha) not in again:
            removed[pk].append(sha)
    return removed


def blocks(rows: Iterable[Any]) -> Iterator[list[Any]]:
    """The rows in lists of at most BLOCK."""
    iterator = iter(rows)
    while block := list(islice(iterator, BLOCK)):
        yield block


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


def add_commits(project: Project, shas: Iterable[str]) -> None:
    """Create the rows of these commits that are missing."""
    for block in blocks(dict.fromkeys(shas)):
        present = set(Commit.objects.filter(project=project, sha__in=block).values_list("sha", flat=True))
        revisions = git.revisions(project.slug, [sha for sha in block if sha not in present])
        Commit.objects.bulk_create(
            [Commit(project=project, **vars(revision)) for revision in revisions], ignore_conflicts=True
        )


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
