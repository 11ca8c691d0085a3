"""One metric of one benchmark over the commits of a branch: as columns for the chart, rows for the table and CSV."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db import connection
from django.http import Http404, QueryDict

from speedtrack.alerts import floors, lines
from speedtrack.alerts.lines import LineColumns, LinePoint
from speedtrack.alerts.models import ChangePoint, NoiseFloor
from speedtrack.benchmarks.metrics import Metric
from speedtrack.benchmarks.models import Benchmark
from speedtrack.projects.models import Branch, Commit, Position
from speedtrack.runs.models import Run, Series
from speedtrack.text import cell, plain_json, plain_values
from speedtrack.web.breaks import Break, find_breaks
from speedtrack.web.gaps import LEFT_OUT, TOLD, UNMEASURED, Gap, gap_of
from speedtrack.web.pages import changes
from speedtrack.web.scope import Scope, chosen, scope_of

RANGES = (50, 200, 1000)
DEFAULT_LAST = 200
AROUND = 20  # commits to each side of a commit looked at
TABLE_ROWS = 200
SUBJECT = 100  # characters of a subject that the chart gets
COMMITS = """
    SELECT p.number, c.id, c.sha, c.subject, c.author_name, extract(epoch FROM c.committed_at)::bigint
      FROM projects_position p JOIN projects_commit c ON c.id = p.commit_id
     WHERE p.branch_id = %(branch)s AND p.number BETWEEN %(first)s AND %(last)s
  ORDER BY p.number
"""
# The chart's columns, as PostgreSQL writes them: a row per commit would cost Python more than the whole answer may.
COMMIT_COLUMNS = """
    SELECT json_build_object(
             'sha', coalesce(json_agg(sha), '[]'),
             'subject', coalesce(json_agg(subject), '[]'),
             'author', coalesce(json_agg(author_name), '[]'),
             'time', coalesce(json_agg(time), '[]'))::text
      FROM (SELECT left(c.sha, 12) AS sha, left(c.subject, %(subject)s) AS subject, c.author_name,
                   extract(epoch FROM c.committed_at)::bigint AS time
              FROM projects_position p JOIN projects_commit c ON c.id = p.commit_id
             WHERE p.branch_id = %(branch)s AND p.number BETWEEN %(first)s AND %(last)s
          ORDER BY p.number) path
"""
TAGS = """
    SELECT p.number, t.name
      FROM projects_tag t
      JOIN projects_commit c ON c.project_id = t.project_id AND c.sha = t.sha
      JOIN projects_position p ON p.commit_id = c.id
     WHERE t.project_id = %(project)s
       AND p.branch_id = %(branch)s AND p.number BETWEEN %(first)s AND %(last)s
  ORDER BY p.number, t.name
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
    """What a timeline shows: these series, from position ``first`` to ``last``. Several machines can be compared."""

    scope: Scope
    benchmark: Benchmark
    branch: Branch
    series: list[Series]
    first: int
    last: int

    @property
    def machine_names(self) -> list[str]:
        return sorted({s.machine.name for s in self.series})

    @property
    def commits(self) -> int:
        return self.last - self.first + 1

    def newest(self, count: int) -> "View":
        """The same, of the newest commits only."""
        return replace(self, first=max(self.first, self.last - count + 1))

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of one of the queries above."""
        with connection.cursor() as cursor:
            cursor.execute(
                query,
                {
                    "project": self.scope.project.pk,
                    "branch": self.branch.pk,
                    "first": self.first,
                    "last": self.last,
                    "subject": SUBJECT,
                },
            )
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows


@dataclass(frozen=True)
class Rows:
    """A timeline commit by commit."""

    view: View
    path: list[Step]
    points: list[LinePoint]
    gaps: dict[int, Gap]
    change_points: list[ChangePoint]


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


def load(view: View, newest: int | None = None) -> Rows:
    """The commits of a view (or its newest) with their points, in a number of queries that does not depend on both."""
    shown = view.newest(newest) if newest else view
    points = lines.points([s.pk for s in view.series], view.branch, shown.first, shown.last)
    return Rows(view, [Step._make(row) for row in shown.ask(COMMITS)], points, gaps(shown), change_points_of(view))


def gaps(view: View) -> dict[int, Gap]:
    """By position: the newest own run that left its commit without a point, on the machines shown."""
    runs = (
        Run.objects.own()
        .filter(
            project=view.scope.project,
            machine__in={s.machine_id for s in view.series},
            commit__positions__branch=view.branch,
            commit__positions__number__range=(view.first, view.last),
        )
        .filter(LEFT_OUT)
    )
    rows = runs.order_by("id").values_list("commit__positions__number", *TOLD)
    return {number: gap_of(*told) for number, *told in rows}


def change_points_of(view: View) -> list[ChangePoint]:
    """The change points of the view, in commit order."""
    found = changes.on(view.branch, view.first, view.last).filter(series__in=[s.pk for s in view.series])
    return sorted(found, key=lambda cp: (getattr(cp, "place"), cp.pk))  # noqa: B009 (an annotation)


def document(view: View) -> bytes:
    """The chart's data as JSON: columns rather than an object per point; ``at`` counts commits from the first shown."""
    metric = view.scope.metric
    columns = list(columns_of(view))
    measured = {at for _, line in columns for at in line.at}
    content = {
        "schema": "speedtrack.timeline/1",
        "project": view.scope.project.slug,
        "benchmark": view.benchmark.name,
        "branch": view.branch.name,
        "metric": {"name": metric.name, "title": metric.title, "unit": metric.unit, "better": metric.better.value},
        "first": view.first,
        "gaps": gap_documents(view, measured),
        "changes": [change_document(view, cp) for cp in change_points_of(view) if cp.status in changes.SHOWN],
        "breaks": [break_document(view, one) for one in breaks_among(view, columns)],
        "tags": [{"at": number - view.first, "name": name} for number, name in view.ask(TAGS)],
    }
    ((commits,),) = view.ask(COMMIT_COLUMNS)
    drawn_lines = ",".join(line_document(series, line) for series, line in columns)
    return joined(plain_values(content), commits=plain_json(commits), lines=f"[{drawn_lines}]").encode()


def breaks_among(view: View, columns: list[tuple[Series, LineColumns]]) -> list[Break]:
    """The breaks of the lines drawn; none where each machine has one."""
    if len({series.machine_id for series, _ in columns}) == len(columns):
        return []
    return find_breaks((series, [view.first + at for at in line.at]) for series, line in columns)


def break_document(view: View, one: Break) -> dict[str, Any]:
    facts = [changed._asdict() for changed in one.changed]
    return {"at": one.position - view.first, "machine": one.machine, "what": one.what, "facts": facts}


def columns_of(view: View) -> Iterator[tuple[Series, LineColumns]]:
    """The series that have points here, in the order in which they begin."""
    known = {s.pk: s for s in view.series}
    for line in lines.columns(known, view.branch, view.first, view.last):
        yield known[line.series_id], line


def floors_of(view: View) -> list[NoiseFloor]:
    """What each machine of the view sees at least, by the newest A/A run of this benchmark and metric on it."""
    found = sorted(floors.newest_floors(s.pk for s in view.series).values(), key=lambda floor: floor.pk)
    return list({floor.series.machine_id: floor for floor in found}.values())


def line_document(series: Series, line: LineColumns) -> str:
    names = {
        "machine": series.machine.name,
        "environment": short(series.environment.digest),
        "definition": short(series.benchmark.digest),
        "at": line.at,
    }
    return joined(names, value=line.value, low=line.low, high=line.high, n=line.n, flags=line.flags)


def joined(content: dict[str, Any], **ready: str) -> str:
    """One JSON object of values, and of values that are JSON already."""
    more = "".join(f',"{name}":{text}' for name, text in ready.items())
    return f"{json.dumps(content, separators=(',', ':'))[:-1]}{more}}}"


def short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]


def gap_documents(view: View, measured: set[int]) -> list[dict[str, Any]]:
    """The commits without a point that have something to say; all others are plainly not measured."""
    found = sorted((number - view.first, gap) for number, gap in gaps(view).items())
    return [{"at": at, "state": gap.state, "reason": gap.reason} for at, gap in found if at not in measured]


def change_document(view: View, cp: ChangePoint) -> dict[str, Any]:
    return {
        "at": getattr(cp, "place") - view.first,  # noqa: B009 (annotated by change_points_of)
        "machine": cp.series.machine.name,
        "status": cp.status,
        "width": changes.width_of(cp),
        "worse": cp.is_slowdown,
        "ratio": cp.ratio,
        "low": cp.low,
        "high": cp.high,
        "alert": cp.alert_id,
    }


@dataclass(frozen=True)
class NamedBreak:
    """A break with its commit."""

    at: Break
    commit: Commit


@dataclass(frozen=True)
class TableRow:
    step: Step
    point: LinePoint | None
    series: Series | None
    gap: Gap
    change: ChangePoint | None
    begins: str = ""  #: what changed on the machine just before this commit


def table(timeline: Rows, breaks: Sequence[NamedBreak] = ()) -> Iterator[TableRow]:
    """The commits, newest first, each with its points, or with why it has none."""
    begins = {(b.at.position, b.at.machine): b.at.what for b in breaks}
    points: dict[int, list[LinePoint]] = defaultdict(list)
    for point in timeline.points:
        points[point.commit_id].append(point)
    marks = {(cp.commit_id, cp.series_id): cp for cp in timeline.change_points}
    series = {s.pk: s for s in timeline.view.series}
    for step in reversed(timeline.path):
        for p in points.get(step.id, []):
            one = series[p.series_id]
            what = begins.get((step.number, one.machine.name), "")
            yield TableRow(step, p, one, UNMEASURED, marks.get((step.id, p.series_id)), what)
        if step.id not in points:
            yield TableRow(step, None, None, timeline.gaps.get(step.number, UNMEASURED), None)


HEADER = [
    "position",
    "sha",
    "committed_at",
    "author",
    "subject",
    "machine",
    "environment",
    "value",
    "low",
    "high",
    "n",
    "unit",
    "flags",
    "state",
    "change",
]


def csv_rows(timeline: Rows) -> Iterator[list[str]]:
    """A header and one row per point or gap, oldest first."""
    yield HEADER
    unit = timeline.view.scope.metric.unit
    for row in reversed(list(table(timeline))):
        step = row.step
        head = [str(step.number), step.sha, step.time.isoformat(), cell(step.author), cell(step.subject)]
        if row.point and row.series:
            p, environment = row.point, short(row.series.environment.digest)
            change = row.change.status if row.change else ""
            yield [
                *head,
                row.series.machine.name,
                environment,
                *map(repr, (p.value, p.low, p.high)),
                str(p.n),
                unit,
                " ".join(p.flags),
                "measured",
                change,
            ]
        else:
            yield [*head, "", "", "", "", "", "", unit, "", row.gap.state, ""]


@dataclass(frozen=True)
class Extent:
    """How many commits of a view are measured, and which series has points where."""

    measured: int
    places: list[tuple[Series, list[int]]]


def extent(view: View) -> Extent:
    known = {s.pk: s for s in view.series}
    found = lines.positions(known, view.branch, view.first, view.last)
    places = [(known[series_id], numbers) for series_id, numbers in found.items()]
    return Extent(len({number for _, numbers in places for number in numbers}), places)


def named(view: View, found: list[Break]) -> list[NamedBreak]:
    """The breaks with their commits, newest first."""
    positions = view.branch.positions.filter(number__in=[b.position for b in found]).select_related("commit")
    commits = {p.number: p.commit for p in positions}
    return [NamedBreak(b, commits[b.position]) for b in reversed(found)]


@dataclass(frozen=True)
class Summary:
    """A timeline in words: for people who do not see the chart, and for those in a hurry."""

    commits: int
    measured: int
    newest: LinePoint | None
    newest_step: Step | None
    newest_machine: str
    last_change: ChangePoint | None


def summary(timeline: Rows, measured: int) -> Summary:
    clean = [p for p in timeline.points if not p.flags]
    newest = clean[-1] if clean else None
    step = next((s for s in reversed(timeline.path) if newest and s.id == newest.commit_id), None)
    shown = [cp for cp in timeline.change_points if cp.status in changes.SHOWN]
    machines = {s.pk: s.machine.name for s in timeline.view.series}
    machine = machines[newest.series_id] if newest else ""
    return Summary(timeline.view.commits, measured, newest, step, machine, shown[-1] if shown else None)


def benchmark_names(scope: Scope) -> list[str]:
    names: Iterable[str] = Benchmark.objects.filter(project=scope.project).values_list("name", flat=True)
    return sorted(set(names))


def metrics_of(view: View) -> list[Metric]:
    """The metrics that this benchmark has, in their usual order, and the one that is shown."""
    found = Series.objects.filter(project=view.scope.project, benchmark__name=view.benchmark.name)
    names = {view.scope.metric.name, *found.values_list("metric", flat=True).distinct()}
    return [metric for metric in view.scope.metrics if metric.name in names]
