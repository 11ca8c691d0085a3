"""Ladders: a metric over clients, payload and the like, with one line per commit, release or project."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from django.contrib.postgres.fields import ArrayField
from django.db.models import Exists, F, Func, JSONField, Max, OuterRef, Q, QuerySet, TextField, Value
from django.http import Http404, QueryDict

from speedtrack.accounts.access import Access
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.benchmarks.models import Benchmark
from speedtrack.projects.models import Commit, Position, Tag
from speedtrack.projects.releases import version_of
from speedtrack.runs.models import Attempt, Machine, Measurement, Run, Series, Status
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
    """The columns of a measurement that a chart shows."""

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
    """A commit that a ladder was measured for.

    ``key``: its name in addresses. ``beside``: two ladders are shown.
    """

    commit: Commit
    release: str
    shown: bool = False
    ladder: str = ""
    beside: bool = False

    @property
    def place(self) -> "Place":
        return self.commit.pk, self.ladder

    @property
    def key(self) -> str:
        return f"{self.commit.project.slug}@{self.commit.short}"

    def is_at(self, revision: str) -> bool:
        return revision == self.release or (len(revision) >= SHORTEST and self.commit.sha.startswith(revision))

    @property
    def label(self) -> str:
        name = f"{self.commit.project.name} {self.release or self.commit.short}"
        return f"{name}, {self.ladder}" if self.beside else name


Place = tuple[int, str]  # a commit, by key, and a ladder, by name


@dataclass(frozen=True)
class LadderRow:
    """A value of the axis, with the measurement of each line there, or why the machine cannot reach it."""

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
    others: list[LadderName]  #: those that differ from it in their transport only
    beside: LadderName | None  #: the one of these that is on the same chart
    machines: list[Machine]
    machine: Machine | None
    metrics: list[Metric]
    metric: Metric
    scale: str
    choices: list[LadderLine]
    absent: list[str]  #: the lines asked for that were not measured here
    rows: list[LadderRow]
    asked: set[tuple[Place, float]]  #: what runs were to measure
    chart: LineChart | None
    failed: list[tuple[LadderLine, Run]]  #: the lines without a measurement at a value, and the run that failed there

    @property
    def lines(self) -> list[LadderLine]:
        return lines_of(self.choices, self.shown)

    @property
    def chosen_count(self) -> int:
        return sum(line.shown for line in self.choices)

    @property
    def shown(self) -> list[LadderName]:
        """The ladder, and the one shown beside it, if any."""
        return [one for one in (self.ladder, self.beside) if one]

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
    others = transports_of(ladder, access)
    asked_beside = query.get("beside")
    beside = named_or_default("ladder", asked_beside, others, "") if asked_beside else None
    both = [one for one in (ladder, beside) if one]
    rungs = series_of(both, access)
    machines = list(Machine.objects.filter(series__in=rungs).distinct().order_by("name"))
    machine = named_or_default("machine", query.get("machine"), machines, "")
    metrics = list(METRICS.values())
    metric = named_or_default("metric", query.get("metric"), metrics, USUAL_METRIC)
    assert metric
    series = rungs.filter(machine=machine, metric=metric.name)
    points = Measurement.objects.filter(series__in=series, accepted=True, paired=False)
    choices, absent = choices_of(points, query.getlist("line"), query.get("project"), access)
    lines = lines_of(choices, both)
    asked = values_asked(both, machine, lines)
    rows = rows_of(points, lines, {value for _, value in asked}, reasons_of(both, machine, lines))
    failed = failed_runs(both, machine, lines, rows, asked)
    scale = query.get("scale", "")
    of_ladder = (ladders, ladder, others, beside)
    page = LaddersPage(
        *of_ladder, machines, machine, metrics, metric, scale, choices, absent, rows, asked, None, failed
    )
    return replace(page, chart=chart_of(page))


def ladder_names(slug: str | None, access: Access) -> list[LadderName]:
    """All ladders, those of the project first.

    Of ladders that have one name but different axes, only the first is included.
    """
    found = access.among(Benchmark.objects.exclude(ladder="")).values_list("ladder", "axis", "project__slug").distinct()
    own_first = sorted(found, key=lambda row: (row[2] != slug, row[:2]))
    ladders: dict[str, LadderName] = {}
    for name, axis, _ in own_first:
        ladders.setdefault(name, LadderName(name, axis))
    return list(ladders.values())


def transports_of(ladder: LadderName | None, access: Access) -> list[LadderName]:
    """The ladders that differ from this one only in their transport."""
    if ladder is None:
        return []
    path = Value(["workload", "transport"], output_field=ArrayField(TextField()))
    rest = Func(F("definition"), path, template="(%(expressions)s)", arg_joiner=" #- ", output_field=JSONField())
    own = rungs_of([ladder]).annotate(rest=rest).filter(rest=OuterRef("rest"), project=OuterRef("project"))
    others = access.among(Benchmark.objects.filter(axis=ladder.axis).exclude(ladder__in=["", ladder.name]))
    found = others.annotate(rest=rest).filter(Exists(own)).order_by("ladder").values_list("ladder", flat=True)
    return [LadderName(name, ladder.axis) for name in found.distinct()]


def series_of(ladders: list[LadderName], access: Access) -> QuerySet[Series]:
    return access.among(Series.objects.filter(benchmark__in=rungs_of(ladders)))


def lines_of(choices: list[LadderLine], ladders: list[LadderName]) -> list[LadderLine]:
    """The lines to draw: each selected commit on each of these ladders."""
    chosen = [line for line in choices if line.shown]
    beside = len(ladders) > 1
    every = [replace(line, ladder=ladder.name, beside=beside) for line in chosen for ladder in ladders]
    return every[:MOST_LINES]


def choices_of(
    points: QuerySet[Measurement], asked: list[str], slug: str | None, access: Access
) -> tuple[list[LadderLine], list[str]]:
    """The measured commits, each with whether it is shown; and the requested lines that are not among them.

    Of each project these are the commits measured last, the tagged ones (releases) and those requested. They are
    ordered by project, those on its default branch first, the newest first. Raises Http404 for a line that does not
    exist.
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
    """The condition for measured commits that can be selected as lines."""
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
    """By (project id, commit id): the name of the release."""
    tags = Tag.objects.filter(sha__in=[commit.sha for commit in commits]).values_list("project", "sha", "name")
    return {(project, sha): name for project, sha, name in tags if version_of(name)}


def line_named(lines: list[LadderLine], name: str) -> LadderLine | None:
    """The line with this name: ``project@commit``, ``project@release``, or ``project`` for its newest one."""
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
    """The lines shown by default: the newest commit of each project; if there is one project, also its releases."""
    own = [line for line in lines if line.commit.project.slug == slug]
    if own:
        return [own[0], *(line for line in own[1:] if line.release)]
    newest = {line.commit.project_id: line for line in reversed(lines)}
    return [line for line in lines if line in newest.values()]


def rungs_of(ladders: list[LadderName]) -> QuerySet[Benchmark]:
    """The rungs of one or two ladders, which have one axis."""
    axes = {ladder.axis for ladder in ladders}
    return Benchmark.objects.filter(ladder__in=[ladder.name for ladder in ladders], axis__in=axes)


def values_asked(
    ladders: list[LadderName], machine: Machine | None, lines: list[LadderLine]
) -> set[tuple[Place, float]]:
    """The (line, value) that runs were to measure. One without a measurement has failed, or waits."""
    commits = [line.commit.pk for line in lines]
    runs = Run.objects.filter(commit__in=commits, machine=machine, benchmark_set__benchmarks__in=rungs_of(ladders))
    rung = "benchmark_set__benchmarks__"
    found = runs.values_list("commit", f"{rung}ladder", f"{rung}rung").distinct()
    return {((commit, ladder), value) for commit, ladder, value in found if value is not None}


def reasons_of(
    ladders: list[LadderName], machine: Machine | None, lines: list[LadderLine]
) -> dict[tuple[Place, float], str]:
    """By (line, value): why the machine could not reach it, as the newest attempt reported."""
    commits = [line.commit.pk for line in lines]
    attempts = Attempt.objects.filter(run__commit__in=commits, run__machine=machine).exclude(out_of_reach={})
    found = list(attempts.order_by("pk").values_list("run__commit", "out_of_reach"))
    names = {name for _, reasons in found for name in reasons}
    if not names:
        return {}
    rungs = rungs_of(ladders).filter(name__in=names).values_list("name", "ladder", "rung")
    rung = {name: (ladder, value) for name, ladder, value in rungs if value is not None}
    return {
        ((commit, rung[name][0]), rung[name][1]): why
        for commit, reasons in found
        for name, why in reasons.items()
        if name in rung
    }


def failed_runs(
    ladders: list[LadderName],
    machine: Machine | None,
    lines: list[LadderLine],
    rows: list[LadderRow],
    asked: set[tuple[Place, float]],
) -> list[tuple[LadderLine, Run]]:
    """For each line that lacks a value without a reason, its newest run of the ladder, if that run failed."""
    lacking = [
        line
        for place, line in enumerate(lines)
        if any(not row.cells[place] and not row.reasons[place] and (line.place, row.value) in asked for row in rows)
    ]
    commits = [line.commit.pk for line in lacking]
    runs = Run.objects.filter(commit__in=commits, machine=machine, benchmark_set__benchmarks__in=rungs_of(ladders))
    newest = {run.commit_id: run for run in runs.distinct().order_by("pk")}
    found = [(line, newest.get(line.commit.pk)) for line in lacking]
    return [(line, run) for line, run in found if run and run.status == Status.FAILED]


def rows_of(
    points: QuerySet[Measurement],
    lines: list[LadderLine],
    values: set[float],
    reasons: Mapping[tuple[Place, float], str],
) -> list[LadderRow]:
    """The newest measurement of each line at each value; ``values`` are included even if nothing was measured there."""
    found = points.filter(commit__in=[line.commit.pk for line in lines]).select_related("series__benchmark")
    cells: dict[float, dict[Place, Measurement]] = {value: {} for value in values}
    for one in found.order_by("pk"):
        value = one.series.benchmark.rung
        if value is not None:
            cells.setdefault(value, {})[one.commit_id, one.series.benchmark.ladder] = one
    places = [line.place for line in lines]
    return [
        LadderRow(value, [cells[value].get(one) for one in places], [reasons.get((one, value), "") for one in places])
        for value in sorted(cells)
    ]


def chart_of(page: LaddersPage) -> LineChart | None:
    """A line per commit, with gaps where a rung failed."""
    lines = []
    for place, line in enumerate(page.lines):
        cells = [(row.value, row.cells[place]) for row in page.rows]
        own = [(value, one) for value, one in cells if one or (line.place, value) in page.asked]
        lines.append((line.label, [value_of(page, line, value, one) for value, one in own]))
    return chart_over_numbers(lines, page.metric, page.axis_title, page.scale)


def value_of(page: LaddersPage, line: LadderLine, value: float, one: Measurement | None) -> LineValue | None:
    return line_value(page.metric, f"{line.label}, {value:g}", value, one) if one else None


def line_value(metric: Metric, name: str, place: float, one: Summarized) -> LineValue:
    """A measurement as a point of a line. ``name``: of what, for its title."""
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
                "ladder": line.ladder,
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
    """A header, then one row per line and value."""
    axis = page.ladder.axis if page.ladder else "value"
    yield ["project", "commit", "release", "ladder", axis, page.metric.name, "low", "high", "n", "flags"]
    for place, line in enumerate(page.lines):
        for row in page.rows:
            if one := row.cells[place]:
                start = [line.commit.project.slug, line.commit.sha, line.release, line.ladder, f"{row.value:g}"]
                yield [*start, *(str(v) for v in (one.value, one.low, one.high, one.n)), " ".join(one.flags)]
