"""Stored first-parent histories: each commit once on a line, and each branch as segments of lines.

Since the histories of a repository are a tree, a branch that has a commit of a line has all commits before it, too: a
segment is the beginning of a line, and what leads to a line is the same for all branches. ``Position`` shows the rows.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, pairwise
from typing import Any, NamedTuple

from django.db import connection

from speedtrack.projects.models import Branch, Commit, Line, Project, Segment

BLOCK = 5000  # commits that are stored at once, so that a long history needs little memory

# A place without a segment counts as none: its branch was removed.
SPOTS = """
SELECT c.sha, p.line_id, p.number
  FROM projects_commit c JOIN projects_place p ON p.commit_id = c.id
 WHERE c.project_id = %s AND c.sha = ANY(%s)
   AND EXISTS (SELECT FROM projects_segment s WHERE s.line_id = p.line_id AND s.last >= p.number)
"""
COMMITS = """
SELECT path.branch, c.sha
  FROM unnest(%s::bigint[], %s::int[]) AS path (branch, kept)
  JOIN projects_position p ON p.branch_id = path.branch AND p.number >= path.kept
  JOIN projects_commit c ON c.id = p.commit_id
 ORDER BY path.branch, p.number
"""
ENDED = """
DELETE FROM projects_segment s USING unnest(%s::bigint[], %s::int[]) AS gone (branch, line)
 WHERE s.branch_id = gone.branch AND s.line_id = gone.line
"""
CUT = """
DELETE FROM projects_place p USING unnest(%s::int[], %s::int[]) AS line (id, last)
 WHERE p.line_id = line.id AND p.number > line.last
"""
PLACED = """
INSERT INTO projects_place (line_id, number, commit_id)
SELECT new.line, new.number, c.id
  FROM unnest(%s::int[], %s::int[], %s::text[]) AS new (line, number, sha)
  JOIN projects_commit c ON c.project_id = %s AND c.sha = new.sha
    ON CONFLICT (commit_id) DO UPDATE SET line_id = EXCLUDED.line_id, number = EXCLUDED.number
"""
TAKEN = "UPDATE projects_place SET line_id = %s WHERE line_id = %s AND number <= %s"
BEGUN = """
INSERT INTO projects_segment (branch_id, line_id, first, last)
SELECT * FROM unnest(%s::bigint[], %s::int[], %s::int[], %s::int[])
"""
LINES = "SELECT nextval(pg_get_serial_sequence('projects_line', 'id')) FROM generate_series(1, %s)"


class Unplaced(Exception):
    """A commit from which a history goes on has no place: the histories must be given from their roots on."""


class Stretch(NamedTuple):
    """The commits of a line from the number at which it begins to ``last``."""

    line: int
    first: int
    last: int


class Spot(NamedTuple):
    """A place on a line."""

    line: int
    number: int


class NewHistory(NamedTuple):
    """``kept`` of a branch's former positions stay, ``new`` ones follow, and the commits ``removed`` left it."""

    kept: int
    new: int
    removed: list[str]


class Take(NamedTuple):
    """What a line ``source`` has up to ``last`` goes over to the line ``target``, which ends before it."""

    target: int
    source: int
    last: int


Path = tuple[Stretch, ...]  # a history, from its root on


@dataclass
class Layout:
    """The lines of a project in memory, on which branches move one after another.

    ``ranks``: where several branches end, the one of the lowest rank may go on with the line. ``stems``: what leads to
    each line. ``ends``: the last number of each line that a branch has. ``spots``: of commits. ``since``: of the new
    ones, the number of the first new one that leads to them.
    """

    ranks: dict[int, tuple[bool, int]]
    paths: dict[int, Path]
    spots: dict[str, Spot]
    new_lines: Iterator[int] = field(default_factory=partial(iter, ()))
    stems: dict[int, tuple[Path, int]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    tips: dict[Spot, int] = field(default_factory=dict)
    since: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path in self.paths.values():
            for at, stretch in enumerate(path):
                self.stems[stretch.line] = (path[:at], stretch.first)

    def release(self, branches: Iterable[int], bases: Collection[Spot] = ()) -> dict[int, int]:
        """Take branches off their paths; only these places of them stay, and what leads there.

        Returns the last number that remains of each line concerned; -1 if nothing does.
        """
        lines = {base.line for base in bases}
        for branch in branches:
            lines |= {stretch.line for stretch in self.paths.pop(branch, ())}
        for path in (*self.paths.values(), *map(self.path_to, bases)):
            self.reach(path)
        self.find_tips()
        return {line: self.ends.get(line, -1) for line in lines}

    def path_to(self, spot: Spot) -> Path:
        stem, first = self.stems[spot.line]
        return (*stem, Stretch(spot.line, first, spot.number))

    def reach(self, path: Path) -> None:
        for stretch in path:
            self.ends[stretch.line] = max(stretch.last, self.ends.get(stretch.line, -1))

    def find_tips(self) -> None:
        self.tips.clear()
        for branch in self.paths:
            self.end(branch)

    def end(self, branch: int) -> None:
        tip = Spot(self.paths[branch][-1].line, self.paths[branch][-1].last)
        self.tips[tip] = min(branch, self.tips.get(tip, branch), key=self.ranks.__getitem__)

    def may_extend(self, branch: int, spot: Spot) -> bool:
        """Return whether a line ends at this place, and no branch of a lower rank does."""
        holder = self.tips.get(spot, branch)
        return self.ends[spot.line] == spot.number and self.ranks[branch] <= self.ranks[holder]

    def put(self, branch: int, head: str, growth: Mapping[str, str]) -> Iterator[tuple[int, int, str]]:
        """Let a branch lead to a commit. Yields its new places: line, number and commit.

        ``growth``: the first parents of commits without a place.
        """
        base, shas = follow(head, growth, self.spots)
        path = self.path_to(self.spots[base]) if base else ()
        self.paths[branch] = self.lengthened(branch, path, len(shas)) if shas else path
        self.reach(self.paths[branch])
        self.end(branch)
        line, since = self.paths[branch][-1].line, self.since.get(base, length(path))
        for number, sha in enumerate(shas, start=length(path)):
            self.spots[sha], self.since[sha] = Spot(line, number), since
            yield line, number, sha

    def lengthened(self, branch: int, path: Path, count: int) -> Path:
        """A branch's path with so many more commits, on its last line if it may extend it, otherwise on a new one."""
        begin = length(path)
        if path and self.may_extend(branch, Spot(path[-1].line, path[-1].last)):
            return (*path[:-1], path[-1]._replace(last=begin + count - 1))
        line = next(self.new_lines)
        self.stems[line] = (path, begin)
        return (*path, Stretch(line, begin, begin + count - 1))

    def kept(self, former: Path, branch: int, head: str) -> int:
        """How many commits of its former path a branch still has."""
        path = self.paths[branch]
        return min(shared(former, path), self.since.get(head, length(path)))

    def joined(self, branch: int) -> Iterator[Take]:
        """Where a branch passes on from the end of a line to another one, let it take the beginning of the other.

        So the default branch remains one line when it follows other branches.
        """
        at = 0
        while at + 1 < len(self.paths[branch]):
            line, following = self.paths[branch][at : at + 2]
            if self.may_extend(branch, Spot(line.line, line.last)):
                take = Take(line.line, following.line, following.last)
                self.take(take)
                yield take
            else:
                at += 1

    def take(self, take: Take) -> None:
        for branch, path in self.paths.items():
            if any(stretch.line == take.source for stretch in path):
                self.paths[branch] = tuple(after(path, take))
        self.ends[take.target] = take.last
        self.find_tips()


def after(path: Path, take: Take) -> Iterator[Stretch]:
    """A path that has the source, and so the target, after a line was taken."""
    for stretch, following in zip(path, (*path[1:], None), strict=True):
        if following and following.line == take.source:
            yield stretch._replace(last=min(following.last, take.last))
        elif stretch.line != take.source:
            yield stretch
        elif stretch.last > take.last:
            yield stretch._replace(first=take.last + 1)


def length(path: Path) -> int:
    """The number of commits of a path."""
    return path[-1].last + 1 if path else 0


def shared(path: Path, other: Path) -> int:
    """How many commits two paths have in common, from the root on."""
    for stretch, same in zip(path, other, strict=False):
        if stretch != same:
            return min(stretch.last, same.last) + 1 if stretch.line == same.line else stretch.first
    return min(length(path), length(other))


def follow(head: str, first_parents: Mapping[str, str], known: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The nearest known commit on the way from a head to its root (empty: none), and those since, oldest first."""
    shas = []
    while head and head not in known:
        shas.append(head)
        head = first_parents[head]
    return head, shas[::-1]


def store(project: Project, heads: Mapping[Branch, str], first_parents: Mapping[str, str]) -> dict[Branch, NewHistory]:
    """Let branches lead to these commits, in a few statements for all of them.

    ``first_parents``: of all commits that have no place yet, but rows; that of a root is empty. Raises Unplaced.
    """
    layout = layout_of(project, {*first_parents, *first_parents.values(), *heads.values()})
    before = dict(layout.paths)
    growth = {sha: parent for sha, parent in first_parents.items() if sha not in layout.spots}
    ends = {sha for sha in (*heads.values(), *growth.values()) if sha and sha not in growth}
    if unplaced := ends - layout.spots.keys():
        raise Unplaced(f"{project}: {min(unplaced)} is on no branch")
    bases = {layout.spots[sha] for sha in ends}
    cut = layout.release([branch.pk for branch in heads], bases)
    layout.new_lines = iter(line_ids(len(heads)) if growth else ())
    order = sorted(heads, key=lambda branch: layout.ranks[branch.pk])
    places = [place for branch in order for place in layout.put(branch.pk, heads[branch], growth)]
    former = {branch: before.get(branch.pk, ()) for branch in heads}
    kept = {branch: layout.kept(former[branch], branch.pk, head) for branch, head in heads.items()}
    removed = commits_from({branch: kept[branch] for branch in heads if length(former[branch]) > kept[branch]})
    takes = [take for branch in order for take in layout.joined(branch.pk)]
    write(project, before, layout.paths, cut, places, takes)
    return {
        branch: NewHistory(kept[branch], length(layout.paths[branch.pk]) - kept[branch], removed[branch.pk])
        for branch in heads
    }


def forget(project: Project, branches: Sequence[Branch]) -> dict[int, list[str]]:
    """Remove the positions of branches that are fetched anew. Return their commits, by the branch's id."""
    if not Segment.objects.filter(branch__in=branches).exists():
        return {}
    layout = layout_of(project, ())
    before = dict(layout.paths)
    removed = commits_from(dict.fromkeys(branches, 0))
    cut = layout.release([branch.pk for branch in branches])
    write(project, before, layout.paths, cut)
    return removed


def lay(branch: Branch, commits: Sequence[Commit]) -> None:
    """Let these rows follow the last commit of a branch, without a look at a repository. Its head is the last one."""
    newest = branch.positions.order_by("-number").values_list("commit__sha", flat=True).first()
    shas = [*([newest] if newest else []), *(commit.sha for commit in commits)]
    if commits:
        store(branch.project, {branch: shas[-1]}, {shas[0]: ""} | {sha: parent for parent, sha in pairwise(shas)})
        branch.head = commits[-1]
        branch.save(update_fields=["head"])


def layout_of(project: Project, shas: Iterable[str]) -> Layout:
    """The project's lines, and the places of these commits."""
    rows = project.branches.order_by("pk", "segments__first").values_list(
        "pk", "name", "segments__line", "segments__first", "segments__last"
    )
    ranks, paths = {}, defaultdict[int, list[Stretch]](list)
    for pk, name, *stretch in rows:
        ranks[pk] = (name != project.default_branch, pk)
        if stretch[0] is not None:
            paths[pk].append(Stretch(*stretch))
    return Layout(ranks, {pk: tuple(path) for pk, path in paths.items()}, spots_of(project, shas))


def spots_of(project: Project, shas: Iterable[str]) -> dict[str, Spot]:
    spots: dict[str, Spot] = {}
    with connection.cursor() as cursor:
        for block in blocks(sha for sha in shas if sha):
            cursor.execute(SPOTS, [project.pk, block])
            spots |= {sha: Spot(*spot) for sha, *spot in cursor.fetchall()}
    return spots


def line_ids(count: int) -> list[int]:
    """Ids of new lines."""
    with connection.cursor() as cursor:
        cursor.execute(LINES, [count])
        return [pk for (pk,) in cursor.fetchall()]


def commits_from(begins: Mapping[Branch, int]) -> defaultdict[int, list[str]]:
    """By branch id: the commits of the branch from this number on, oldest first."""
    commits = defaultdict[int, list[str]](list)
    if begins:
        with connection.cursor() as cursor:
            cursor.execute(COMMITS, [[branch.pk for branch in begins], [*begins.values()]])
            for branch, sha in cursor.fetchall():
                commits[branch].append(sha)
    return commits


def write(
    project: Project,
    before: Mapping[int, Path],
    now: Mapping[int, Path],
    cut: Mapping[int, int],
    places: Sequence[tuple[int, int, str]] = (),
    takes: Sequence[Take] = (),
) -> None:
    """Store what has changed. ``cut``: what each of these lines has left before the new places come."""
    old, new = segments_in(before), segments_in(now)
    old_lines, new_lines = ({line for _, line, *_ in segments} for segments in (old, new))
    Line.objects.bulk_create([Line(pk=line, project=project) for line in {line for line, *_ in places} - old_lines])
    with connection.cursor() as cursor:
        run(cursor, ENDED, [segment[:2] for segment in old - new])
        run(cursor, CUT, cut.items())
        for block in blocks(places):
            run(cursor, PLACED, block, project.pk)
        for take in takes:
            cursor.execute(TAKEN, take)
        run(cursor, BEGUN, new - old)
    Line.objects.filter(pk__in=(old_lines | {line for line, *_ in places}) - new_lines).delete()


def segments_in(paths: Mapping[int, Path]) -> set[tuple[int, int, int, int]]:
    return {(branch, *stretch) for branch, path in paths.items() for stretch in path}


def run(cursor: Any, statement: str, rows: Collection[tuple[Any, ...]], *parameters: Any) -> None:
    """Execute a statement whose first parameters are the columns of these rows, if there are any."""
    if rows:
        cursor.execute(statement, [*map(list, zip(*rows, strict=True)), *parameters])


def blocks(rows: Iterable[Any]) -> Iterator[list[Any]]:
    """The rows in lists of at most BLOCK."""
    iterator = iter(rows)
    while block := list(islice(iterator, BLOCK)):
        yield block
