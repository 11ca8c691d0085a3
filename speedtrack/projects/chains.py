"""Stored first-parent histories: each commit once on a chain, and each branch as segments of chains.

Since the histories of a repository are a tree, a branch that has a commit of a chain has all commits before it, too: a
segment is the beginning of a chain, and what leads to a chain is the same for all branches. ``Position`` shows the
rows.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, pairwise
from typing import Any, NamedTuple

from django.db import connection

from speedtrack.projects.models import Branch, Chain, Commit, Project, Segment

BLOCK = 5000  # commits that are stored at once, so that a long history needs little memory

# A commit of a chain without a segment that has it counts as absent: its branch was removed. OFFSET 0 makes PostgreSQL
# look up each commit of a block; without, it may read the chains of all projects for each block.
POSITIONS_OF_COMMITS = """
SELECT c.sha, cc.chain_id, cc.number
  FROM projects_commit c
 CROSS JOIN LATERAL (SELECT chain_id, number FROM projects_chaincommit WHERE commit_id = c.id OFFSET 0) cc
 WHERE c.project_id = %s AND c.sha = ANY(%s)
   AND EXISTS (SELECT FROM projects_segment s WHERE s.chain_id = cc.chain_id AND s.last >= cc.number)
"""
COMMITS_FROM = """
SELECT path.branch, c.sha
  FROM unnest(%s::bigint[], %s::int[]) AS path (branch, kept)
  JOIN projects_position p ON p.branch_id = path.branch AND p.number >= path.kept
  JOIN projects_commit c ON c.id = p.commit_id
 ORDER BY path.branch, p.number
"""
DELETE_SEGMENTS = """
DELETE FROM projects_segment s USING unnest(%s::bigint[], %s::int[]) AS gone (branch, chain)
 WHERE s.branch_id = gone.branch AND s.chain_id = gone.chain
"""
CUT_CHAINS = """
DELETE FROM projects_chaincommit cc USING unnest(%s::int[], %s::int[]) AS chain (id, last)
 WHERE cc.chain_id = chain.id AND cc.number > chain.last
"""
STORE_COMMITS = """
INSERT INTO projects_chaincommit (chain_id, number, commit_id)
SELECT new.chain, new.number, c.id
  FROM unnest(%s::int[], %s::int[], %s::text[]) AS new (chain, number, sha)
  JOIN projects_commit c ON c.project_id = %s AND c.sha = new.sha
    ON CONFLICT (commit_id) DO UPDATE SET chain_id = EXCLUDED.chain_id, number = EXCLUDED.number
"""
TAKE_OVER = "UPDATE projects_chaincommit SET chain_id = %s WHERE chain_id = %s AND number <= %s"
INSERT_SEGMENTS = """
INSERT INTO projects_segment (branch_id, chain_id, first, last)
SELECT * FROM unnest(%s::bigint[], %s::int[], %s::int[], %s::int[])
"""
NEW_CHAIN_IDS = "SELECT nextval(pg_get_serial_sequence('projects_chain', 'id')) FROM generate_series(1, %s)"


class NotOnChain(Exception):
    """A commit from which a history goes on is on no chain: the histories must be given from their roots on."""


class ChainPart(NamedTuple):
    """The commits of a chain from the number at which it begins to ``last``."""

    chain: int
    first: int
    last: int


class ChainPosition(NamedTuple):
    """Where a commit is: its chain, and how many commits lead to it along first parents."""

    chain: int
    number: int


class NewHistory(NamedTuple):
    """``kept`` of a branch's former positions stay, ``new`` ones follow, and the commits ``removed`` left it."""

    kept: int
    new: int
    removed: list[str]


class Takeover(NamedTuple):
    """What a chain ``source`` has up to ``last`` goes over to the chain ``target``, which ends before it."""

    target: int
    source: int
    last: int


BranchPath = tuple[ChainPart, ...]  # a history, from its root on


@dataclass
class ProjectChains:
    """The chains of a project in memory, on which branches move one after another.

    ``ranks``: where several branches end, the one of the lowest rank may go on with the chain. ``stems``: what leads to
    each chain. ``ends``: the last number of each chain that a branch has. ``positions``: of commits. ``since``: of the
    new ones, the number of the first new one that leads to them.
    """

    ranks: dict[int, tuple[bool, int]]
    paths: dict[int, BranchPath]
    positions: dict[str, ChainPosition]
    new_chains: Iterator[int] = field(default_factory=partial(iter, ()))
    stems: dict[int, tuple[BranchPath, int]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    tips: dict[ChainPosition, int] = field(default_factory=dict)
    since: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path in self.paths.values():
            for at, segment in enumerate(path):
                self.stems[segment.chain] = (path[:at], segment.first)

    def release(self, branches: Iterable[int], bases: Collection[ChainPosition] = ()) -> dict[int, int]:
        """Take branches off their paths; only these positions of them stay, and what leads there.

        Returns the last number that remains of each chain concerned; -1 if nothing does.
        """
        chains = {base.chain for base in bases}
        for branch in branches:
            chains |= {segment.chain for segment in self.paths.pop(branch, ())}
        for path in (*self.paths.values(), *map(self.path_to, bases)):
            self.reach(path)
        self.find_tips()
        return {chain: self.ends.get(chain, -1) for chain in chains}

    def path_to(self, position: ChainPosition) -> BranchPath:
        stem, first = self.stems[position.chain]
        return (*stem, ChainPart(position.chain, first, position.number))

    def reach(self, path: BranchPath) -> None:
        for segment in path:
            self.ends[segment.chain] = max(segment.last, self.ends.get(segment.chain, -1))

    def find_tips(self) -> None:
        self.tips.clear()
        for branch in self.paths:
            self.end(branch)

    def end(self, branch: int) -> None:
        tip = ChainPosition(self.paths[branch][-1].chain, self.paths[branch][-1].last)
        self.tips[tip] = min(branch, self.tips.get(tip, branch), key=self.ranks.__getitem__)

    def may_extend(self, branch: int, position: ChainPosition) -> bool:
        """Return whether a chain ends at this position, and no branch of a lower rank does."""
        holder = self.tips.get(position, branch)
        return self.ends[position.chain] == position.number and self.ranks[branch] <= self.ranks[holder]

    def extend(self, branch: int, head: str, growth: Mapping[str, str]) -> Iterator[tuple[int, int, str]]:
        """Let a branch lead to a commit. Yields its new positions: chain, number and commit.

        ``growth``: the first parents of commits that are on no chain.
        """
        base, shas = follow(head, growth, self.positions)
        path = self.path_to(self.positions[base]) if base else ()
        self.paths[branch] = self.lengthened(branch, path, len(shas)) if shas else path
        self.reach(self.paths[branch])
        self.end(branch)
        chain, since = self.paths[branch][-1].chain, self.since.get(base, length(path))
        for number, sha in enumerate(shas, start=length(path)):
            self.positions[sha], self.since[sha] = ChainPosition(chain, number), since
            yield chain, number, sha

    def lengthened(self, branch: int, path: BranchPath, count: int) -> BranchPath:
        """A branch's path with so many more commits, on its last chain if it may extend it, otherwise on a new one."""
        begin = length(path)
        if path and self.may_extend(branch, ChainPosition(path[-1].chain, path[-1].last)):
            return (*path[:-1], path[-1]._replace(last=begin + count - 1))
        chain = next(self.new_chains)
        self.stems[chain] = (path, begin)
        return (*path, ChainPart(chain, begin, begin + count - 1))

    def kept(self, former: BranchPath, branch: int, head: str) -> int:
        """How many commits of its former path a branch still has."""
        path = self.paths[branch]
        return min(shared(former, path), self.since.get(head, length(path)))

    def joined(self, branch: int) -> Iterator[Takeover]:
        """Where a branch passes on from the end of a chain to another one, let it take the beginning of the other.

        So the default branch remains one chain when it follows other branches.
        """
        at = 0
        while at + 1 < len(self.paths[branch]):
            chain, following = self.paths[branch][at : at + 2]
            if self.may_extend(branch, ChainPosition(chain.chain, chain.last)):
                take = Takeover(chain.chain, following.chain, following.last)
                self.take(take)
                yield take
            else:
                at += 1

    def take(self, take: Takeover) -> None:
        for branch, path in self.paths.items():
            if any(segment.chain == take.source for segment in path):
                self.paths[branch] = tuple(after(path, take))
        self.ends[take.target] = take.last
        self.find_tips()


def after(path: BranchPath, take: Takeover) -> Iterator[ChainPart]:
    """A path that has the source, and so the target, after a chain was taken."""
    for segment, following in zip(path, (*path[1:], None), strict=True):
        if following and following.chain == take.source:
            yield segment._replace(last=min(following.last, take.last))
        elif segment.chain != take.source:
            yield segment
        elif segment.last > take.last:
            yield segment._replace(first=take.last + 1)


def length(path: BranchPath) -> int:
    """The number of commits of a path."""
    return path[-1].last + 1 if path else 0


def shared(path: BranchPath, second: BranchPath) -> int:
    """How many commits two paths have in common, from the root on."""
    for segment, counterpart in zip(path, second, strict=False):
        if segment != counterpart:
            return min(segment.last, counterpart.last) + 1 if segment.chain == counterpart.chain else segment.first
    return min(length(path), length(second))


def follow(head: str, first_parents: Mapping[str, str], known: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The nearest known commit on the way from a head to its root (empty: none), and those since, oldest first."""
    shas = []
    while head and head not in known:
        shas.append(head)
        head = first_parents[head]
    return head, shas[::-1]


def store(project: Project, heads: Mapping[Branch, str], first_parents: Mapping[str, str]) -> dict[Branch, NewHistory]:
    """Let branches lead to these commits, in a few statements for all of them.

    ``first_parents``: of all commits with rows that are on no chain yet; that of a root is empty. Raises NotOnChain.
    """
    chains = chains_of(project, {*first_parents, *first_parents.values(), *heads.values()})
    before = dict(chains.paths)
    growth = {sha: parent for sha, parent in first_parents.items() if sha not in chains.positions}
    ends = {sha for sha in (*heads.values(), *growth.values()) if sha and sha not in growth}
    if absent := ends - chains.positions.keys():
        raise NotOnChain(f"{project}: {min(absent)} is on no branch")
    bases = {chains.positions[sha] for sha in ends}
    cut = chains.release([branch.pk for branch in heads], bases)
    chains.new_chains = iter(new_chain_ids(len(heads)) if growth else ())
    order = sorted(heads, key=lambda branch: chains.ranks[branch.pk])
    new_positions = [position for branch in order for position in chains.extend(branch.pk, heads[branch], growth)]
    former = {branch: before.get(branch.pk, ()) for branch in heads}
    kept_lengths = {branch: chains.kept(former[branch], branch.pk, head) for branch, head in heads.items()}
    removed = commits_from(
        {branch: kept_lengths[branch] for branch in heads if length(former[branch]) > kept_lengths[branch]}
    )
    takeovers = [take for branch in order for take in chains.joined(branch.pk)]
    write(project, before, chains.paths, cut, new_positions, takeovers)
    return {
        branch: NewHistory(
            kept_lengths[branch], length(chains.paths[branch.pk]) - kept_lengths[branch], removed[branch.pk]
        )
        for branch in heads
    }


def forget(project: Project, branches: Collection[Branch]) -> dict[int, list[str]]:
    """Remove the positions of branches that are fetched anew. Return their commits, by the branch's id."""
    if not Segment.objects.filter(branch__in=branches).exists():
        return {}
    chains = chains_of(project, ())
    before = dict(chains.paths)
    removed = commits_from(dict.fromkeys(branches, 0))
    cut = chains.release([branch.pk for branch in branches])
    write(project, before, chains.paths, cut)
    return removed


def append_commits(branch: Branch, commits: Sequence[Commit]) -> None:
    """Let these rows follow the last commit of a branch, without a look at a repository. Its head is the last one."""
    newest = branch.positions.order_by("-number").values_list("commit__sha", flat=True).first()
    shas = [*([newest] if newest else []), *(commit.sha for commit in commits)]
    if commits:
        store(branch.project, {branch: shas[-1]}, {shas[0]: ""} | {sha: parent for parent, sha in pairwise(shas)})
        branch.head = commits[-1]
        branch.save(update_fields=["head"])


def chains_of(project: Project, shas: Iterable[str]) -> ProjectChains:
    """The project's chains, and the positions of these commits."""
    rows = project.branches.order_by("pk", "segments__first").values_list(
        "pk", "name", "segments__chain", "segments__first", "segments__last"
    )
    ranks, paths = {}, defaultdict[int, list[ChainPart]](list)
    for pk, name, *segment in rows:
        ranks[pk] = (name != project.default_branch, pk)
        if segment[0] is not None:
            paths[pk].append(ChainPart(*segment))
    return ProjectChains(ranks, {pk: tuple(path) for pk, path in paths.items()}, positions_of(project, shas))


def positions_of(project: Project, shas: Iterable[str]) -> dict[str, ChainPosition]:
    positions: dict[str, ChainPosition] = {}
    with connection.cursor() as cursor:
        for block in blocks(sha for sha in shas if sha):
            cursor.execute(POSITIONS_OF_COMMITS, [project.pk, block])
            positions |= {sha: ChainPosition(*position) for sha, *position in cursor.fetchall()}
    return positions


def new_chain_ids(count: int) -> list[int]:
    """Ids of new chains."""
    with connection.cursor() as cursor:
        cursor.execute(NEW_CHAIN_IDS, [count])
        return [pk for (pk,) in cursor.fetchall()]


def commits_from(begins: Mapping[Branch, int]) -> defaultdict[int, list[str]]:
    """By branch id: the commits of the branch from this number on, oldest first."""
    commits = defaultdict[int, list[str]](list)
    if begins:
        with connection.cursor() as cursor:
            cursor.execute(COMMITS_FROM, [[branch.pk for branch in begins], [*begins.values()]])
            for branch, sha in cursor.fetchall():
                commits[branch].append(sha)
    return commits


def write(
    project: Project,
    before: Mapping[int, BranchPath],
    now: Mapping[int, BranchPath],
    cut: Mapping[int, int],
    new_positions: Sequence[tuple[int, int, str]] = (),
    takeovers: Sequence[Takeover] = (),
) -> None:
    """Store what has changed. ``cut``: what each of these chains has left before the new positions come."""
    old, new = segments_in(before), segments_in(now)
    old_chains, new_chains = ({chain for _, chain, *_ in segments} for segments in (old, new))
    extended = {chain for chain, *_ in new_positions}
    Chain.objects.bulk_create([Chain(pk=chain, project=project) for chain in extended - old_chains])
    with connection.cursor() as cursor:
        run(cursor, DELETE_SEGMENTS, [segment[:2] for segment in old - new])
        run(cursor, CUT_CHAINS, cut.items())
        for block in blocks(new_positions):
            run(cursor, STORE_COMMITS, block, project.pk)
        for take in takeovers:
            cursor.execute(TAKE_OVER, take)
        run(cursor, INSERT_SEGMENTS, new - old)
    Chain.objects.filter(pk__in=(old_chains | extended) - new_chains).delete()


def segments_in(paths: Mapping[int, BranchPath]) -> set[tuple[int, int, int, int]]:
    return {(branch, *segment) for branch, path in paths.items() for segment in path}


def run(cursor: Any, statement: str, rows: Collection[tuple[Any, ...]], *parameters: Any) -> None:
    """Execute a statement whose first parameters are the columns of these rows, if there are any."""
    if rows:
        cursor.execute(statement, [*map(list, zip(*rows, strict=True)), *parameters])


def blocks(rows: Iterable[Any]) -> Iterator[list[Any]]:
    """The rows in lists of at most BLOCK."""
    iterator = iter(rows)
    while block := list(islice(iterator, BLOCK)):
        yield block
