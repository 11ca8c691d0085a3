"""The two sides of a comparison: the commits that an address names, and the machines that measured them."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import QuerySet, Value
from django.http import Http404

from speedtrack.accounts.access import Access
from speedtrack.alerts.lines import lines
from speedtrack.ground.postgres.plainrows import among
from speedtrack.ground.postgres.preparedquery import PreparedQuery
from speedtrack.projects import positions
from speedtrack.projects.models import Branch, Commit, Project, Tag
from speedtrack.projects.releases import version_of
from speedtrack.reports.readings.choices import machines_of, named_or_default

LONGEST_NAME = 250  # as Branch.name and Tag.name
HASH = re.compile(r"[0-9a-f]{6,64}")
WHOLE = 40  # digits of a commit id; more of a repository with SHA-256
SUGGESTED = 400  # names in the list of the form
RECENT, LONGEST_SUBJECT = 20, 60  # commits in that list, and characters of their subjects
TRIED_RELEASES = 5  # the newest ones, of which the newest that was measured is the usual base
REACH = 500  # commits that are searched for a measured one
IS_MEASURED = lines.sql("EXISTS (SELECT FROM runs_measurement m WHERE m.commit_id = p.commit_id AND IS_POINT)")

# A whole commit id comes first, then a tag (as for git), a branch of that name, and the beginning of an id. A branch
# stands for its newest measured commit.
NAMED = f"""
      WITH asked AS (
        SELECT * FROM unnest(%(projects)s::bigint[], %(names)s::text[], %(hashes)s::text[])
               WITH ORDINALITY AS a (project_id, name, hash, place))
    SELECT a.place, 1 AS kind, c.id, 0 AS behind
      FROM asked a
      JOIN projects_tag t ON t.project_id = a.project_id AND t.name = a.name
      JOIN projects_commit c ON c.project_id = a.project_id AND c.sha = t.sha
 UNION ALL
    SELECT a.place, 2, coalesce(near.commit_id, b.head_id), coalesce(near.behind, 0)
      FROM asked a
      JOIN projects_branch b ON b.project_id = a.project_id AND b.name = a.name
 LEFT JOIN LATERAL (
        SELECT last.commit_id, h.number - last.number AS behind
          FROM projects_position h
    CROSS JOIN LATERAL ({positions.last(IS_MEASURED, "h.branch_id", f"h.number - {REACH - 1}", "h.number")}) last
         WHERE h.branch_id = b.id AND h.commit_id = b.head_id) near ON true
     WHERE b.head_id IS NOT NULL
 UNION ALL
    SELECT a.place, CASE WHEN length(a.hash) >= {WHOLE} THEN 0 ELSE 3 END, c.id, 0
      FROM asked a
      JOIN projects_commit c ON c.project_id = a.project_id AND c.sha >= a.hash AND c.sha < a.hash || 'g'
     WHERE a.hash <> ''
  ORDER BY 1, 2
"""  # noqa: S608 - constants
# The measured commits around others, on any of their branches: the nearest before, and the nearest after.
NEAREST = f"""
    SELECT DISTINCT ON (h.commit_id, way.sign) h.commit_id, near.commit_id, way.sign * near.apart
      FROM unnest(%(commits)s::int[]) AS c (id)
      JOIN projects_position h ON h.commit_id = c.id
CROSS JOIN (VALUES (-1), (1)) AS way (sign)
CROSS JOIN LATERAL (
        SELECT p.commit_id, abs(p.number - h.number) AS apart
          FROM projects_position p
         WHERE p.branch_id = h.branch_id AND {IS_MEASURED}
           AND p.number BETWEEN h.number + CASE way.sign WHEN 1 THEN 1 ELSE -{REACH} END
                            AND h.number + CASE way.sign WHEN 1 THEN {REACH} ELSE -1 END
      ORDER BY abs(p.number - h.number) LIMIT 1) near
  ORDER BY h.commit_id, way.sign, near.apart
"""  # noqa: S608 - constants
# All series of an attempt belong to one machine, so any of them names it.
MEASURED_BY = lines.sql("""
    SELECT m.commit_id, s.machine_id, x.name, sum(m.points)::bigint
      FROM unnest(%(commits)s::int[]) AS c (id)
CROSS JOIN LATERAL (
        SELECT m.commit_id, max(m.series_id) AS series_id, count(*) AS points
          FROM runs_measurement m WHERE m.commit_id = c.id AND IS_POINT
      GROUP BY m.commit_id, m.attempt_id OFFSET 0) m
      JOIN runs_series s ON s.id = m.series_id
      JOIN runs_machine x ON x.id = s.machine_id
  GROUP BY 1, 2, 3
""")


class MachineChoice(NamedTuple):
    pk: int
    name: str

    def __str__(self) -> str:
        return self.name


#: By commit: the machines that measured it, each with the number of its measurements.
Counts = dict[int, dict[MachineChoice, int]]


@dataclass(frozen=True)
class NearCommit:
    """A measured commit ``apart`` commits after another one; below zero: before it."""

    commit: Commit
    apart: int

    @property
    def words(self) -> str:
        count = abs(self.apart)
        return f"{count} commit{'' if count == 1 else 's'} {'earlier' if self.apart < 0 else 'later'}"


@dataclass(frozen=True)
class ComparedSide:
    """One side.

    ``name``: as requested; ``behind``: if that is a branch, how many commits before its head this one is.
    """

    project: Project
    name: str
    commit: Commit
    behind: int = 0
    machines: list[MachineChoice] = field(default_factory=list)
    machine: MachineChoice | None = None
    nearest: list[NearCommit] = field(default_factory=list)

    @property
    def is_measured(self) -> bool:
        return self.machine is not None

    @property
    def short_name(self) -> str:
        """The name; of a whole hash its beginning."""
        return self.commit.short if self.name == self.commit.sha else self.name


@dataclass(frozen=True)
class Names:
    """The names that can be entered: projects; branches, tags and commits of the head's project, the newest first."""

    projects: list[Project]
    branches: list[str]
    tags: list[str]
    commits: list[tuple[str, str]]  #: the beginning of a hash and the subject

    @property
    def suggestions(self) -> list[tuple[str, str]]:
        """(name, what it is) of branches, tags and commits."""
        branches = [(name, "branch") for name in self.branches]
        tags = [(name, "release" if version_of(name) else "tag") for name in self.tags]
        return [*branches, *self.commits, *tags][:SUGGESTED]

    @property
    def releases(self) -> list[str]:
        return [tag for tag in self.tags if version_of(tag)]


@dataclass(frozen=True)
class SidePlace:
    """A commit that a name stands for."""

    commit_id: int
    behind: int = 0


def names_in(project: int, default_branch: str) -> QuerySet[Any]:
    """(name, kind, subject, position) of the branches, the tags and the newest commits."""
    kinds = (Value("tag"), Value(""), Value(0)), (Value("branch"), Value(""), Value(0))
    tags = Tag.objects.filter(project=project).values_list("name", *kinds[0])
    branches = Branch.objects.filter(project=project, deleted_at=None).values_list("name", *kinds[1])
    newest = positions.newest_of(Branch.objects.filter(project=project, name=default_branch), RECENT)
    commits = newest.values_list("commit__sha", Value("commit"), "commit__subject", "number")
    return branches.union(tags, commits, all=True)


def commits_among(ids: list[int]) -> QuerySet[Commit]:
    return Commit.objects.filter(among("pk", ids)).select_related("project")


NAMES, COMMITS = PreparedQuery(names_in), PreparedQuery(commits_among)


def names_of(project: Project, projects: list[Project]) -> Names:
    by_kind: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
    for name, kind, subject, number in NAMES.tuples(project=project.pk, default_branch=project.default_branch):
        by_kind[kind].append((name, subject, number))
    return Names(
        projects,
        sorted((name for name, *_ in by_kind["branch"]), key=lambda name: (name != project.default_branch, name)),
        sorted((name for name, *_ in by_kind["tag"]), key=lambda tag: (version_of(tag) or (), tag), reverse=True),
        [(sha[:10], text[:LONGEST_SUBJECT]) for sha, text, _ in sorted(by_kind["commit"], key=lambda c: -c[2])],
    )


def places_of(requests: Iterable[tuple[Project, str]]) -> list[SidePlace | None]:
    """The commit of each of these names; None for a name that means no commit or several."""
    request_list = list(requests)
    hashes = [name.lower() if HASH.fullmatch(name.lower()) else "" for _, name in request_list]
    parameters: dict[str, Any] = {
        "projects": [project.pk for project, _ in request_list],
        "names": [name for _, name in request_list],
        "hashes": hashes,
    }
    candidates: dict[int, list[tuple[int, SidePlace]]] = {}
    with connection.cursor() as cursor:
        cursor.execute(NAMED, parameters)
        for number, kind, commit, behind in cursor:
            candidates.setdefault(number, []).append((kind, SidePlace(commit, behind)))
    return [single(candidates.get(i, [])) for i in range(1, len(request_list) + 1)]


def single(candidates: list[tuple[int, SidePlace]]) -> SidePlace | None:
    best = [side_place for kind, side_place in candidates if kind == candidates[0][0]]
    return best[0] if len(best) == 1 else None


def measured_by(commits: Iterable[int]) -> Counts:
    counts: Counts = {}
    with connection.cursor() as cursor:
        cursor.execute(MEASURED_BY, {"commits": list(commits)})
        for commit, pk, name, count in cursor:
            counts.setdefault(commit, {})[MachineChoice(pk, name)] = count
    return counts


def nearest_to(commits: Iterable[int]) -> dict[int, list[tuple[int, int]]]:
    """By commit id: the measured commits around it, each with its distance in commits."""
    neighbours: dict[int, list[tuple[int, int]]] = {}
    with connection.cursor() as cursor:
        cursor.execute(NEAREST, {"commits": list(commits)})
        for commit, near, apart in cursor:
            neighbours.setdefault(commit, []).append((near, apart))
    return neighbours


@dataclass(frozen=True)
class AskedSides:
    """What the address names for both sides; empty: the default."""

    slug: str
    base_slug: str = ""
    base: str = ""
    head: str = ""
    machine: str = ""
    base_machine: str = ""


class NamedSide(NamedTuple):
    """A side as requested, and the commit that its name stands for. An empty name: the commit's own."""

    project: Project
    name: str
    place: SidePlace


@dataclass(frozen=True)
class BothSides:
    """Both sides. ``notes``: sentences about what was requested but is not shown. ``names``: for a form."""

    base: ComparedSide
    head: ComparedSide
    notes: list[str] = field(default_factory=list)
    names: Names | None = None

    @property
    def labels(self) -> tuple[str, str]:
        """The names of base and head; if they are of two projects, with the projects' names."""
        base, head = self.base.short_name, self.head.short_name
        if self.base.project == self.head.project:
            return base, head
        return f"{self.base.project.name} {base}", f"{self.head.project.name} {head}"

    @property
    def are_measured(self) -> bool:
        return self.base.is_measured and self.head.is_measured


def sides_of(selection: AskedSides, access: Access) -> BothSides | None:
    """Both sides.

    None if the project has no measured history. Raises Http404 for a name that does not exist.
    """
    projects, head_project, base_project = projects_of(selection.slug, selection.base_slug or selection.slug, access)
    names = names_of(head_project, projects)
    head_name = selection.head or head_project.default_branch
    if selection.base:
        base_names = [selection.base]
    elif base_project != head_project:
        base_names = [base_project.default_branch]
    else:
        base_names = names.releases[:TRIED_RELEASES]
    head, *bases = places_of([(head_project, head_name), *((base_project, name) for name in base_names)])
    if head is None and not selection.head:
        return None
    require(head, head_project, head_name)
    assert head
    if selection.base:
        require(bases[0], base_project, selection.base)
    counts = measured_by({head.commit_id, *(side_place.commit_id for side_place in bases if side_place)})
    candidates = [(name, side_place) for name, side_place in zip(base_names, bases, strict=True) if side_place]
    base_name, base = candidates[0] if selection.base else usual_base(candidates, head, counts) or ("", None)
    if base is None:
        base = earlier_than(head)
        counts |= measured_by([base.commit_id]) if base else {}
    if base is None:
        return None
    named_sides = NamedSide(base_project, base_name, base), NamedSide(head_project, head_name, head)
    return replace(with_machines(*named_sides, counts, selection.base_machine, selection.machine), names=names)


def sides_of_commits(base: NamedSide, head: NamedSide, machine: str = "") -> BothSides:
    """Both sides of known commits, on the named machine only: a gate shall not pass on another one."""
    counts = measured_by({base.place.commit_id, head.place.commit_id})
    if machine:
        counts = {pk: {own: count for own, count in counts.get(pk, {}).items() if own.name == machine} for pk in counts}
    return with_machines(base, head, counts)


def projects_of(slug: str, base_slug: str, access: Access) -> tuple[list[Project], Project, Project]:
    """All projects, that of the head, and that of the base."""
    every = list(access.among(Project.objects.order_by("name", "pk"), "pk"))
    by_slug = {project.slug: project for project in every}
    for name in (slug, base_slug):
        if name not in by_slug:
            raise Http404(f"There is no project {shortened(name)!r}.")
    return every, by_slug[slug], by_slug[base_slug]


def require(side_place: SidePlace | None, project: Project, name: str) -> None:
    if side_place is None:
        raise Http404(
            f"{project.slug} has no commit, branch or tag {shortened(name)!r} here, or more than one commit that "
            "begins so: give at least seven digits of its id. "
            f"`manage.py measure {project.slug} NAME` fetches and measures one that is on no tracked branch."
        )


def shortened(name: str) -> str:
    return name if len(name) <= 80 else f"{name[:79]}…"


def usual_base(
    candidates: Sequence[tuple[str, SidePlace]], head: SidePlace, counts: Counts
) -> tuple[str, SidePlace] | None:
    """The first candidate other than the head, if possible a measured one; None if there is none."""
    remaining = [candidate for candidate in candidates if candidate[1].commit_id != head.commit_id]
    with_results = [candidate for candidate in remaining if candidate[1].commit_id in counts]
    return next(iter(with_results or remaining), None)


def earlier_than(head: SidePlace) -> SidePlace | None:
    """The last measured commit before another one."""
    earlier = [near for near, apart in nearest_to([head.commit_id]).get(head.commit_id, []) if apart < 0]
    return SidePlace(earlier[0], 0) if earlier else None


def with_machines(
    base: NamedSide, head: NamedSide, counts: Counts, base_machine: str = "", head_machine: str = ""
) -> BothSides:
    """Both sides on the requested machines, otherwise on the one that has measured most of both."""
    unmeasured = [side.place.commit_id for side in (base, head) if not counts.get(side.place.commit_id)]
    near = nearest_to(unmeasured) if unmeasured else {}
    ids = {base.place.commit_id, head.place.commit_id, *(pk for neighbours in near.values() for pk, _ in neighbours)}
    commits = {commit.pk: commit for commit in COMMITS.rows(ids=list(ids))}
    of_base, of_head = (counts.get(side.place.commit_id, {}) for side in (base, head))
    on_head = machine_of(of_head, of_base, head_machine)
    on_base = machine_of(of_base, of_head, base_machine or (on_head.name if on_head else ""))

    def side_of(side: NamedSide, machine: MachineChoice | None) -> ComparedSide:
        commit = commits[side.place.commit_id]
        return ComparedSide(
            project=side.project,
            name=side.name or commit.short,
            commit=commit,
            behind=side.place.behind,
            machines=sorted(counts.get(commit.pk, {}), key=lambda candidate: candidate.name),
            machine=machine,
            nearest=[NearCommit(commits[pk], apart) for pk, apart in near.get(commit.pk, [])],
        )

    notes = (
        other_machine("base", base.project, base_machine, on_base),
        other_machine("head", head.project, head_machine, on_head),
    )
    return BothSides(side_of(base, on_base), side_of(head, on_head), [note for note in notes if note])


def machine_of(
    own: Mapping[MachineChoice, int], opposite: Mapping[MachineChoice, int], name: str
) -> MachineChoice | None:
    """The requested machine, otherwise the one that has measured most of both sides, or most of this one.

    Of both sides the smaller count matters: only what both have measured is compared, however much one side has.
    """
    if not own:
        return None
    best = min(
        own, key=lambda candidate: (-min(own[candidate], opposite.get(candidate, 0)), -own[candidate], candidate.name)
    )
    return next((candidate for candidate in own if candidate.name == name), best)


def other_machine(side: str, project: Project, name: str, machine: MachineChoice | None) -> str:
    """A sentence if another machine is shown than was requested; otherwise empty.

    Raises Http404 for a machine that does not measure the project.
    """
    if not machine or not name or name == machine.name:
        return ""
    named_or_default(f"{side} machine", name, machines_of(project), "")
    return f"{name} has not measured the {side}: what {machine} measured is shown."
