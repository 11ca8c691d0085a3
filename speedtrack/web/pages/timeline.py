"""One metric of one benchmark over the commits of a branch: as columns for the chart, rows for the table and CSV."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db import connection
from django.http import Http404, QueryDict

from speedtrack.alerts import series as lines
from speedtrack.alerts.models import ChangePoint
from speedtrack.alerts.series import Drawn
from speedtrack.benchmarks.models import Benchmark
from speedtrack.projects.models import Branch, Position, Tag
from speedtrack.runs.models import Run, Series, Status
from speedtrack.web.gaps import UNMEASURED, Gap, gap_of
from speedtrack.web.pages import changes
from speedtrack.web.scope import Scope, chosen, scope_of
from speedtrack.web.text import cell

RANGES = (50, 200, 1000)
DEFAULT_LAST = 200
AROUND = 20  # commits to each side of a commit looked at
TABLE_ROWS = 200
SUBJECT = 100  # characters of a subject that the chart gets
COMMITS = """
    SELECT p.number, c.id, c.sha, left(c.subject, %(subject)s), c.author_name,
           extract(epoch FROM c.committed_at)::bigint
      FROM projects_position p JOIN projects_commit c ON c.id = p.commit_id
     WHERE p.branch_id = %(branch)s AND p.number BETWEEN %(first)s AND %(last)s
  ORDER BY p.number
"""


class Step(NamedTuple):
    """A commit of the branch."""

    number: int
    id: int
    sha: str
    subject: str
    author: str
    at: int

    @property
    def time(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)


@dataclass(frozen=True)
class View:
    """What a timeline shows. ``first`` and ``last`` are positions; ``others``: further machines to compare with."""

    scope: Scope
    benchmark: Benchmark
    branch: Branch
    series: list[Series]
    first: int
    last: int

    @property
    def machine_names(self) -> list[str]:
        return sorted({s.machine.name for s in self.series})


@dataclass(frozen=True)
class Timeline:
    """The loaded timeline."""

    view: View
    path: list[Step]
    points: list[Drawn]
    gaps: dict[int, Gap]
    change_points: list[ChangePoint]
    tags: list[Tag]


def view_of(slug: str, benchmark: str, metric: str, query: QueryDict) -> View:
    """Read an address. Raises Http404 for what does not exist."""
    scope = scope_of(slug, query, metric)
    newest = Benchmark.objects.filter(project=scope.project, name=benchmark).order_by("-pk").first()
    if newest is None or scope.branch is None:
        raise Http404(f"{slug} has no benchmark {benchmark!r}.")
    machines = [chosen("machine", name, scope.machines, "") for name in query.getlist("machine")] or [scope.machine]
    series = Series.objects.filter(
        project=scope.project, benchmark__name=benchmark, metric=metric, machine__in=[m for m in machines if m]
    )
    found = list(series.select_related("machine", "environment", "benchmark").order_by("machine__name", "pk"))
    first, last = range_of(scope, scope.branch, query)
    return View(scope, newest, scope.branch, found, first, last)


def range_of(scope: Scope, branch: Branch, query: QueryDict) -> tuple[int, int]:
    """The first and last position: around a commit, from one commit to another, or the last so many."""
    around, begin, end = (query.get(key) for key in ("around", "from", "to"))
    if around:
        middle = position_of(branch, around)
        return max(0, middle - AROUND), min(scope.head, middle + AROUND)
    if begin or end:
        first = position_of(branch, begin) if begin else 0
        last = position_of(branch, end) if end else scope.head
        return min(first, last), max(first, last)
    last_n = query.get("last") or str(DEFAULT_LAST)
    if last_n == "all":
        return 0, scope.head
    return max(
        0, scope.head - (int(last_n) if last_n.isdecimal() and len(last_n) < 8 else DEFAULT_LAST) + 1
    ), scope.head


def position_of(branch: Branch, sha: str) -> int:
    """The position of a commit, named by the beginning of its hash."""
    numbers = Position.objects.filter(branch=branch, commit__project=branch.project_id, commit__sha__startswith=sha)
    number: int | None = numbers.order_by("number").values_list("number", flat=True).first() if len(sha) >= 7 else None
    if number is None:
        raise Http404(f"There is no commit {sha!r} on branch {branch}.")
    return number


def load(view: View) -> Timeline:
    """All that the page draws, in a number of queries that does not depend on the length of the history."""
    path = steps(view)
    points = lines.drawn([s.pk for s in view.series], view.branch, view.first, view.last)
    return Timeline(view, path, points, gaps(view), change_points_of(view), tags_of(view, path))


def steps(view: View) -> list[Step]:
    wanted = {"branch": view.branch.pk, "first": view.first, "last": view.last, "subject": SUBJECT}
    with connection.cursor() as cursor:
        cursor.execute(COMMITS, wanted)
        return [Step._make(row) for row in cursor]


def gaps(view: View) -> dict[int, Gap]:
    """By commit: its newest own run that did not succeed, on the machines shown."""
    runs = Run.objects.filter(
        project=view.scope.project,
        base=None,
        machine__in={s.machine_id for s in view.series},
        commit__positions__branch=view.branch,
        commit__positions__number__range=(view.first, view.last),
    ).exclude(status=Status.SUCCEEDED)
    return {r.commit_id: gap_of(r) for r in runs.only("commit_id", "status", "error").order_by("id")}


def change_points_of(view: View) -> list[ChangePoint]:
    found = changes.change_points().filter(
        series__in=[s.pk for s in view.series],
        branch=view.branch,
        commit__positions__branch=view.branch,
        commit__positions__number__range=(view.first, view.last),
    )
    return list(found.order_by("commit__positions__number"))


def tags_of(view: View, path: list[Step]) -> list[Tag]:
    """The tags of the shown commits."""
    shown = {step.sha for step in path}
    tags = Tag.objects.filter(project=view.scope.project)
    if len(path) <= max(RANGES):
        tags = tags.filter(sha__in=shown)
    return [tag for tag in tags.order_by("name") if tag.sha in shown]


def document(timeline: Timeline) -> dict[str, Any]:
    """The chart's data: columns rather than an object per point; ``at`` counts commits from the first one shown."""
    view, metric = timeline.view, timeline.view.scope.metric
    authors: dict[str, int] = {}
    return {
        "schema": "speedtrack.timeline/1",
        "project": view.scope.project.slug,
        "benchmark": view.benchmark.name,
        "branch": view.branch.name,
        "metric": {"name": metric.name, "title": metric.title, "unit": metric.unit, "better": metric.better.value},
        "first": view.first,
        "commits": {
            "sha": [s.sha[:12] for s in timeline.path],
            "subject": [s.subject for s in timeline.path],
            "author": [authors.setdefault(s.author, len(authors)) for s in timeline.path],
            "time": [s.at for s in timeline.path],
        },
        "authors": list(authors),
        "lines": [line_document(timeline, s, points) for s, points in by_series(timeline)],
        "gaps": gap_document(timeline),
        "changes": [change_document(timeline, cp) for cp in timeline.change_points if cp.status in changes.SHOWN],
        "tags": [{"at": at, "name": tag.name} for tag in timeline.tags for at in [place(timeline, tag.sha)]],
    }


def by_series(timeline: Timeline) -> Iterator[tuple[Series, list[Drawn]]]:
    """The series that have points here, in the order in which they begin."""
    points: dict[int, list[Drawn]] = defaultdict(list)
    for point in timeline.points:
        points[point.series_id].append(point)
    known = {s.pk: s for s in timeline.view.series}
    for series_id, line in points.items():
        yield known[series_id], line


def line_document(timeline: Timeline, series: Series, points: list[Drawn]) -> dict[str, Any]:
    first = timeline.view.first
    return {
        "machine": series.machine.name,
        "environment": series.environment.digest.removeprefix("sha256:")[:12],
        "definition": series.benchmark.digest.removeprefix("sha256:")[:12],
        "at": [p.position - first for p in points],
        "value": [significant(p.value) for p in points],
        "low": [significant(p.low) for p in points],
        "high": [significant(p.high) for p in points],
        "n": [p.n for p in points],
        "flags": {str(i): p.flags for i, p in enumerate(points) if p.flags},
    }


def significant(value: float) -> float:
    """Six digits say more than any measurement holds, and keep the document small."""
    return float(f"{value:.6g}")


def gap_document(timeline: Timeline) -> list[dict[str, Any]]:
    """The commits without a point that have something to say; all others are plainly not measured."""
    measured = {p.commit_id for p in timeline.points}
    first = timeline.view.first
    return [
        {"at": s.number - first, "state": gap.state, "reason": gap.reason}
        for s in timeline.path
        if s.id not in measured and (gap := timeline.gaps.get(s.id))
    ]


def change_document(timeline: Timeline, cp: ChangePoint) -> dict[str, Any]:
    return {
        "at": place(timeline, cp.commit.sha),
        "machine": cp.series.machine.name,
        "status": cp.status,
        "worse": cp.is_slowdown,
        "ratio": significant(cp.ratio),
        "low": significant(cp.low),
        "high": significant(cp.high),
        "alert": cp.alert_id,
    }


def place(timeline: Timeline, sha: str) -> int:
    return next(i for i, step in enumerate(timeline.path) if step.sha == sha)


@dataclass(frozen=True)
class TableRow:
    step: Step
    point: Drawn | None
    series: Series | None
    gap: Gap
    change: ChangePoint | None


def table(timeline: Timeline, limit: int | None = TABLE_ROWS) -> Iterator[TableRow]:
    """The commits, newest first, each with its points, or with why it has none."""
    points: dict[int, list[Drawn]] = defaultdict(list)
    for point in timeline.points:
        points[point.commit_id].append(point)
    marks = {(cp.commit_id, cp.series_id): cp for cp in timeline.change_points}
    series = {s.pk: s for s in timeline.view.series}
    for step in reversed(timeline.path[-limit:] if limit else timeline.path):
        for p in points.get(step.id, []):
            yield TableRow(step, p, series[p.series_id], UNMEASURED, marks.get((step.id, p.series_id)))
        if step.id not in points:
            yield TableRow(step, None, None, timeline.gaps.get(step.id, UNMEASURED), None)


HEADER = [
    "position", "sha", "committed_at", "author", "subject", "machine", "environment",
    "value", "low", "high", "n", "unit", "flags", "state", "change",
]  # fmt: skip


def csv_rows(timeline: Timeline) -> Iterator[list[str]]:
    """A header and one row per point or gap, oldest first."""
    yield HEADER
    unit = timeline.view.scope.metric.unit
    for row in reversed(list(table(timeline, limit=None))):
        step = row.step
        head = [str(step.number), step.sha, step.time.isoformat(), cell(step.author), cell(step.subject)]
        if row.point and row.series:
            p, environment = row.point, row.series.environment.digest.removeprefix("sha256:")[:12]
            change = row.change.status if row.change else ""
            yield [*head, row.series.machine.name, environment, *map(repr, (p.value, p.low, p.high)), str(p.n), unit,
                   " ".join(p.flags), "measured", change]  # fmt: skip
        else:
            yield [*head, "", "", "", "", "", "", unit, "", row.gap.state, ""]


@dataclass(frozen=True)
class Break:
    """A new line began because the machine's environment or the benchmark's definition had changed."""

    machine: str
    step: Step
    facts: list[tuple[str, str, str]]


def breaks(timeline: Timeline) -> list[Break]:
    """Where a line of a machine ends and another begins, with the facts that differ."""
    number_to_step = {s.number: s for s in timeline.path}
    before: dict[int, Series] = {}
    found = []
    for series, points in by_series(timeline):
        last = before.get(series.machine_id)
        if last:
            facts = differing(last, series)
            found.append(Break(series.machine.name, number_to_step[points[0].position], facts))
        before[series.machine_id] = series
    return found


def differing(old: Series, new: Series) -> list[tuple[str, str, str]]:
    """(fact, before, after) of what differs between two series of one machine."""
    a, b = old.environment.facts.get("series", {}), new.environment.facts.get("series", {})
    facts = [
        (k, str(a.get(k, "none")), str(b.get(k, "none"))) for k in sorted(a.keys() | b.keys()) if a.get(k) != b.get(k)
    ]
    if old.benchmark_id != new.benchmark_id:
        facts.insert(0, ("definition", old.benchmark.digest[7:19], new.benchmark.digest[7:19]))
    return facts


@dataclass(frozen=True)
class Summary:
    """A timeline in words: for people who do not see the chart, and for those in a hurry."""

    commits: int
    measured: int
    newest: Drawn | None
    newest_step: Step | None
    newest_machine: str
    last_change: ChangePoint | None


def summary(timeline: Timeline) -> Summary:
    clean = [p for p in timeline.points if not p.flags]
    newest = clean[-1] if clean else None
    step = next((s for s in reversed(timeline.path) if newest and s.id == newest.commit_id), None)
    shown = [cp for cp in timeline.change_points if cp.status in changes.SHOWN]
    measured = len({p.commit_id for p in timeline.points})
    machines = {s.pk: s.machine.name for s in timeline.view.series}
    machine = machines[newest.series_id] if newest else ""
    return Summary(len(timeline.path), measured, newest, step, machine, shown[-1] if shown else None)


def benchmark_names(scope: Scope) -> list[str]:
    names: Iterable[str] = Benchmark.objects.filter(project=scope.project).values_list("name", flat=True)
    return sorted(set(names))
