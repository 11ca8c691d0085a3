"""Ladders: a metric over clients, payload and the like, with a line per commit, release or project."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Max, QuerySet
from django.http import Http404, QueryDict

from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.benchmarks.models import Benchmark
from speedtrack.projects.models import Commit, Tag
from speedtrack.projects.releases import version_of
from speedtrack.runs.models import Machine, Measurement
from speedtrack.web.drawing.linecharts import MOST_LINES, LineChart, LineValue, chart_over_numbers
from speedtrack.web.scope import named_or_default

USUAL_METRIC = "throughput_rps"
LISTED = 60  # commits that can be chosen as lines
TITLES = {
    "clients": "Connections",
    "pipeline": "Requests in flight per connection",
    "value_bytes": "Bytes of a value",
    "key_bytes": "Bytes of a key",
    "keys": "Keys",
    "rate": "Requests/s asked for",
}


@dataclass(frozen=True)
class LadderName:
    name: str
    axis: str


@dataclass(frozen=True)
class LadderLine:
    """A commit that the ladder was measured for. ``key``: how addresses name it."""

    commit: Commit
    release: str
    shown: bool = False

    @property
    def key(self) -> str:
        return f"{self.commit.project.slug}@{self.commit.short}"

    @property
    def label(self) -> str:
        return f"{self.commit.project.name} {self.release or self.commit.short}"


@dataclass(frozen=True)
class LadderRow:
    """A value of the axis, with the measurements of the lines there."""

    value: float
    cells: list[Measurement | None]


@dataclass(frozen=True)
class LaddersPage:
    ladders: list[LadderName]
    ladder: LadderName | None
    machines: list[Machine]
    machine: Machine | None
    metrics: list[Metric]
    metric: Metric
    scale: str
    choices: list[LadderLine]
    lines: list[LadderLine]
    rows: list[LadderRow]
    chart: LineChart | None

    @property
    def axis_title(self) -> str:
        return TITLES[self.ladder.axis] if self.ladder else ""


def load(query: QueryDict) -> LaddersPage:
    """The page that an address names. Raises Http404 for a name that does not exist."""
    ladders = ladder_names(query.get("project"))
    ladder = named_or_default("ladder", query.get("ladder"), ladders, "")
    name = ladder.name if ladder else ""
    measured = Machine.objects.filter(series__benchmark__ladder=name) if name else Machine.objects.none()
    machines = list(measured.distinct().order_by("name"))
    machine = named_or_default("machine", query.get("machine"), machines, "")
    metrics = list(METRICS.values())
    metric = named_or_default("metric", query.get("metric"), metrics, USUAL_METRIC)
    assert metric
    points = points_of(name, machine, metric)
    choices = choices_of(points, query.getlist("line"), query.get("project"))
    lines = [line for line in choices if line.shown][:MOST_LINES]
    rows = rows_of(points, lines)
    scale = query.get("scale", "")
    page = LaddersPage(ladders, ladder, machines, machine, metrics, metric, scale, choices, lines, rows, None)
    return replace(page, chart=chart_of(page))


def ladder_names(slug: str | None) -> list[LadderName]:
    """All ladders; those of the project first."""
    found = Benchmark.objects.exclude(ladder="").values_list("ladder", "axis", "project__slug").distinct()
    own_first = sorted(found, key=lambda row: (row[2] != slug, row[0]))
    return list(dict.fromkeys(LadderName(ladder, axis) for ladder, axis, _ in own_first))


def points_of(ladder: str, machine: Machine | None, metric: Metric) -> QuerySet[Measurement]:
    if not ladder or machine is None:
        return Measurement.objects.none()
    rungs = Measurement.objects.filter(series__benchmark__ladder=ladder, series__machine=machine)
    return rungs.filter(series__metric=metric.name, accepted=True, paired=False)


def choices_of(points: QuerySet[Measurement], asked: list[str], slug: str | None) -> list[LadderLine]:
    """The commits measured last, newest first, each with whether it is shown. Raises Http404 for an unknown line."""
    newest = points.values("commit").annotate(newest=Max("pk")).order_by("-newest").values_list("commit", flat=True)
    ids = list(newest[:LISTED])
    commits = Commit.objects.select_related("project").in_bulk(ids)
    releases = releases_of(commits.values())
    lines = [LadderLine(commits[pk], releases.get((commits[pk].project_id, commits[pk].sha), "")) for pk in ids]
    shown = {line.key for line in (asked_lines(lines, asked) if asked else usual_lines(lines, slug))}
    return [LadderLine(line.commit, line.release, line.key in shown) for line in lines]


def releases_of(commits: Any) -> dict[tuple[int, str], str]:
    """The release that a commit is, by project and commit id."""
    tags = Tag.objects.filter(sha__in=[commit.sha for commit in commits]).values_list("project", "sha", "name")
    return {(project, sha): name for project, sha, name in tags if version_of(name)}


def asked_lines(lines: list[LadderLine], asked: list[str]) -> list[LadderLine]:
    """The lines named as ``project@commit``, ``project@release`` or ``project``, which is its newest."""
    return [named_line(lines, name) for name in asked]


def named_line(lines: list[LadderLine], name: str) -> LadderLine:
    slug, _, revision = name.partition("@")
    for line in lines:
        if line.commit.project.slug == slug and (
            not revision or revision == line.release or (len(revision) >= 7 and line.commit.sha.startswith(revision))
        ):
            return line
    raise Http404(f"There is no line {name!r} here: there are {', '.join(line.key for line in lines[:12]) or 'none'}.")


def usual_lines(lines: list[LadderLine], slug: str | None) -> list[LadderLine]:
    """The newest commit of each project; of one project, its newest commit and releases."""
    own = [line for line in lines if line.commit.project.slug == slug]
    if own:
        return [own[0], *[line for line in own[1:] if line.release][: MOST_LINES - 1]]
    newest = {line.commit.project_id: line for line in reversed(lines)}
    return list(newest.values())


def rows_of(points: QuerySet[Measurement], lines: list[LadderLine]) -> list[LadderRow]:
    """The newest measurement of each line at each value."""
    found = points.filter(commit__in=[line.commit.pk for line in lines]).select_related("series__benchmark")
    cells: dict[float, dict[int, Measurement]] = defaultdict(dict)
    for one in found.order_by("pk"):
        value = one.series.benchmark.rung
        if value is not None:
            cells[value][one.commit_id] = one
    return [LadderRow(value, [cells[value].get(line.commit.pk) for line in lines]) for value in sorted(cells)]


def chart_of(page: LaddersPage) -> LineChart | None:
    lines = []
    for place, line in enumerate(page.lines):
        measured = [(row.value, row.cells[place]) for row in page.rows]
        lines.append((line.label, [line_value(page.metric, line, value, one) for value, one in measured if one]))
    return chart_over_numbers(lines, page.metric, page.axis_title, page.scale)


def line_value(metric: Metric, line: LadderLine, value: float, one: Measurement) -> LineValue:
    title = f"{line.label}, {value:g}: {numbers.quantity(metric, one.value)}"
    title += f" ({numbers.interval(metric, one.low, one.high)})"
    if one.flags:
        title += f"; unreliable: {', '.join(one.flags)}"
    return LineValue(value, one.value, one.low, one.high, title, bool(one.flags))


def ladders_document(page: LaddersPage) -> dict[str, Any]:
    return {
        "schema": "speedtrack.ladders/1",
        "ladder": page.ladder.name if page.ladder else None,
        "axis": page.ladder.axis if page.ladder else None,
        "machine": page.machine.name if page.machine else None,
        "metric": page.metric.name,
        "lines": [
            {
                "project": line.commit.project.slug,
                "commit": line.commit.sha,
                "release": line.release,
                "points": [
                    {"value": row.value, "median": one.value, "low": one.low, "high": one.high, "flags": one.flags}
                    for row in page.rows
                    if (one := row.cells[place])
                ],
            }
            for place, line in enumerate(page.lines)
        ],
    }


def csv_rows(page: LaddersPage) -> Iterator[list[str]]:
    """A header, then a row per line and value."""
    axis = page.ladder.axis if page.ladder else "value"
    yield ["project", "commit", "release", axis, page.metric.name, "low", "high", "n", "flags"]
    for place, line in enumerate(page.lines):
        for row in page.rows:
            if one := row.cells[place]:
                start = [line.commit.project.slug, line.commit.sha, line.release, f"{row.value:g}"]
                yield [*start, *(str(v) for v in (one.value, one.low, one.high, one.n)), " ".join(one.flags)]
