"""Ladders: a metric over clients, payload and the like, with a line per commit, release or project."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from django.db.models import Exists, Max, OuterRef, Q, QuerySet
from django.http import Http404, QueryDict

from speedtrack.accounts.access import Access
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.benchmarks.models import Benchmark
from speedtrack.projects.models import Commit, Position, Tag
from speedtrack.projects.releases import version_of
from speedtrack.runs.models import Attempt, Machine, Measurement, Run, Series
from speedtrack.web.drawing.linecharts import MOST_LINES, LineChart, LineValue, chart_over_numbers
from speedtrack.web.scope import named_or_default

USUAL_METRIC = "throughput_rps"
LISTED = 20  # of the commits of a project that can be chosen as lines, besides what is tagged or asked for
SHORTEST = 7  # digits of a commit id in an address
TITLES = {
    "clients": "Connections",
    "pipeline": "Requests in flight per connection",
    "value_bytes": "Bytes of a value",
    "key_bytes": "Bytes of a key",
    "keys": "Keys",
    "rate": "Requests/s asked for",
}


class Summarized(Protocol):
    """What a chart shows of a measured commit."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def flags(self) -> list[str]: ...


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

    def is_at(self, revision: str) -> bool:
        return revision == self.release or (len(revision) >= SHORTEST and self.commit.sha.startswith(revision))

    @property
    def label(self) -> str:
        return f"{self.commit.project.name} {self.release or self.commit.short}"


@dataclass(frozen=True)
class LadderRow:
    """A value of the axis, with the measurements of the lines there, or why the machine cannot reach it."""

    value: float
    cells: list[Measurement | None]
    reasons: list[str]

    @property
    def pairs(self) -> Iterator[tuple[Measurement | None, str]]:
        return zip(self.cells, self.reasons, strict=True)


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
    absent: list[str]  #: the lines asked for that were not measured here
    rows: list[LadderRow]
    asked: set[tuple[int, float]]  #: the commits, by key, and the values that runs were to measure
    chart: LineChart | None

    @property
    def lines(self) -> list[LadderLine]:
        return [line for line in self.choices if line.shown]

    @property
    def most_lines(self) -> int:
        return MOST_LINES

    @property
    def axis_title(self) -> str:
        return TITLES[self.ladder.axis] if self.ladder else ""


def load(query: QueryDict, access: Access) -> LaddersPage:
    """The page that an address names. Raises Http404 for a name that does not exist."""
    ladders = ladder_names(query.get("project"), access)
    ladder = named_or_default("ladder", query.get("ladder"), ladders, "")
    rungs = series_of(ladder, access)
    machines = list(Machine.objects.filter(series__in=rungs).distinct().order_by("name"))
    machine = named_or_default("machine", query.get("machine"), machines, "")
    metrics = list(METRICS.values())
    metric = named_or_default("metric", query.get("metric"), metrics, USUAL_METRIC)
    assert metric
    series = rungs.filter(machine=machine, metric=metric.name)
    points = Measurement.objects.filter(series__in=series, accepted=True, paired=False)
    choices, absent = choices_of(points, query.getlist("line"), query.get("project"), access)
    lines = [line for line in choices if line.shown]
    asked = values_asked(ladder, machine, lines)
    rows = rows_of(points, lines, {value for _, value in asked}, reasons_of(ladder, machine, lines))
    scale = query.get("scale", "")
    page = LaddersPage(ladders, ladder, machines, machine, metrics, metric, scale, choices, absent, rows, asked, None)
    return replace(page, chart=chart_of(page))


def ladder_names(slug: str | None, access: Access) -> list[LadderName]:
    """All ladders, those of the project first; of ladders with one name and different axes, the first."""
    found = access.among(Benchmark.objects.exclude(ladder="")).values_list("ladder", "axis", "project__slug").distinct()
    own_first = sorted(found, key=lambda row: (row[2] != slug, row[:2]))
    ladders: dict[str, LadderName] = {}
    for name, axis, _ in own_first:
        ladders.setdefault(name, LadderName(name, axis))
    return list(ladders.values())


def series_of(ladder: LadderName | None, access: Access) -> QuerySet[Series]:
    if ladder is None:
        return Series.objects.none()
    return access.among(Series.objects.filter(benchmark__ladder=ladder.name, benchmark__axis=ladder.axis))


def choices_of(
    points: QuerySet[Measurement], asked: list[str], slug: str | None, access: Access
) -> tuple[list[LadderLine], list[str]]:
    """The commits that were measured, each with whether it is shown, and which lines asked for are not among them.

    Of each project those that were measured last, the tagged ones (releases) and those asked for. They are ordered by
    project, those on its default branch first, the newest first. Raises Http404 for a line that does not exist.
    """
    on_default = Position.objects.filter(commit=OuterRef("pk"), branch__name=OuterRef("project__default_branch"))
    commits = Commit.objects.select_related("project").filter(choosable(points, asked))
    commits = commits.order_by("project__name", "project", Exists(on_default).desc(), "-committed_at", "-pk")
    releases = releases_of(commits)
    lines = [LadderLine(commit, releases.get((commit.project_id, commit.sha), "")) for commit in commits]
    found = {name: line_named(lines, name) for name in asked}
    absent = [name for name, line in found.items() if line is None]
    require_known(absent, access)
    chosen = [line for line in lines if line in found.values()] or usual_lines(lines, slug)
    return [replace(line, shown=line in chosen[:MOST_LINES]) for line in lines], absent


def choosable(points: QuerySet[Measurement], asked: list[str]) -> Q:
    """The condition for measured commits that can be chosen as lines."""
    latest = points.values("commit").annotate(latest=Max("pk")).order_by("-latest")
    measured: dict[int, list[int]] = defaultdict(list)
    for project, commit in latest.values_list("commit__project", "commit"):
        measured[project].append(commit)
    chosen = Q(pk__in=[commit for own in measured.values() for commit in own[:LISTED]])
    chosen |= Q(Exists(Tag.objects.filter(project=OuterRef("project"), sha=OuterRef("sha"))))
    for slug, _, revision in (name.partition("@") for name in asked):
        if len(revision) >= SHORTEST:
            chosen |= Q(project__slug=slug, sha__startswith=revision)
    return chosen & Q(pk__in=[commit for own in measured.values() for commit in own])


def releases_of(commits: Any) -> dict[tuple[int, str], str]:
    """The release that a commit is, by project and commit id."""
    tags = Tag.objects.filter(sha__in=[commit.sha for commit in commits]).values_list("project", "sha", "name")
    return {(project, sha): name for project, sha, name in tags if version_of(name)}


def line_named(lines: list[LadderLine], name: str) -> LadderLine | None:
    """Find the line that is named as ``project@commit``, ``project@release`` or ``project``, which is its newest."""
    slug, _, revision = name.partition("@")
    for line in lines:
        if line.commit.project.slug == slug and (not revision or line.is_at(revision)):
            return line
    return None


def require_known(names: list[str], access: Access) -> None:
    """Raise Http404 for a line that is neither a project nor one of its commits."""
    for name in names:
        slug, _, revision = name.partition("@")
        commits = access.among(Commit.objects.filter(project__slug=slug))
        if revision:
            tags = Tag.objects.filter(project__slug=slug, name=revision)
            commits = commits.filter(Q(sha__startswith=revision) | Q(sha__in=tags.values("sha")))
        if not commits.exists():
            raise Http404(f"There is no line {name!r}: name a project, or one as PROJECT@RELEASE or PROJECT@COMMIT.")


def usual_lines(lines: list[LadderLine], slug: str | None) -> list[LadderLine]:
    """The newest commit of each project; of one project, its newest commit and releases."""
    own = [line for line in lines if line.commit.project.slug == slug]
    if own:
        return [own[0], *(line for line in own[1:] if line.release)]
    newest = {line.commit.project_id: line for line in reversed(lines)}
    return [line for line in lines if line in newest.values()]


def rungs_of(ladder: LadderName | None) -> QuerySet[Benchmark]:
    if ladder is None:
        return Benchmark.objects.none()
    return Benchmark.objects.filter(ladder=ladder.name, axis=ladder.axis)


def values_asked(ladder: LadderName | None, machine: Machine | None, lines: list[LadderLine]) -> set[tuple[int, float]]:
    """The values that runs of these commits were to measure: one without a measurement has failed, or waits."""
    commits = [line.commit.pk for line in lines]
    runs = Run.objects.filter(commit__in=commits, machine=machine, benchmark_set__benchmarks__in=rungs_of(ladder))
    pairs = runs.values_list("commit", "benchmark_set__benchmarks__rung").distinct()
    return {(commit, value) for commit, value in pairs if value is not None}


def reasons_of(
    ladder: LadderName | None, machine: Machine | None, lines: list[LadderLine]
) -> dict[tuple[int, float], str]:
    """Why the machine could not reach a value, by commit and value: what its newest attempt said."""
    commits = [line.commit.pk for line in lines]
    attempts = Attempt.objects.filter(run__commit__in=commits, run__machine=machine).exclude(out_of_reach={})
    found = list(attempts.order_by("pk").values_list("run__commit", "out_of_reach"))
    names = {name for _, reasons in found for name in reasons}
    if not names:
        return {}
    rungs = rungs_of(ladder).filter(name__in=names).values_list("name", "rung")
    values = {name: value for name, value in rungs if value is not None}
    return {(commit, values[name]): why for commit, reasons in found for name, why in reasons.items() if name in values}


def rows_of(
    points: QuerySet[Measurement],
    lines: list[LadderLine],
    values: set[float],
    reasons: Mapping[tuple[int, float], str],
) -> list[LadderRow]:
    """The newest measurement of each line at each value, among them ``values``."""
    found = points.filter(commit__in=[line.commit.pk for line in lines]).select_related("series__benchmark")
    cells: dict[float, dict[int, Measurement]] = {value: {} for value in values}
    for one in found.order_by("pk"):
        value = one.series.benchmark.rung
        if value is not None:
            cells.setdefault(value, {})[one.commit_id] = one
    commits = [line.commit.pk for line in lines]
    return [
        LadderRow(value, [cells[value].get(one) for one in commits], [reasons.get((one, value), "") for one in commits])
        for value in sorted(cells)
    ]


def chart_of(page: LaddersPage) -> LineChart | None:
    """A line per commit, with gaps where a rung failed."""
    lines = []
    for place, line in enumerate(page.lines):
        cells = [(row.value, row.cells[place]) for row in page.rows]
        own = [(value, one) for value, one in cells if one or (line.commit.pk, value) in page.asked]
        lines.append((line.label, [value_of(page, line, value, one) for value, one in own]))
    return chart_over_numbers(lines, page.metric, page.axis_title, page.scale)


def value_of(page: LaddersPage, line: LadderLine, value: float, one: Measurement | None) -> LineValue | None:
    return line_value(page.metric, f"{line.label}, {value:g}", value, one) if one else None


def line_value(metric: Metric, name: str, place: float, one: Summarized) -> LineValue:
    """A measurement as a point; ``name`` says of what."""
    title = f"{name}: {numbers.quantity(metric, one.value)} ({numbers.interval(metric, one.low, one.high)})"
    if one.flags:
        title += f"; unreliable: {', '.join(one.flags)}"
    return LineValue(place, one.value, one.low, one.high, title, bool(one.flags))


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
                "out_of_reach": [
                    {"value": row.value, "reason": row.reasons[place]}
                    for row in page.rows
                    if row.reasons[place] and not row.cells[place]
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
