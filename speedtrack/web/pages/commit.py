"""A commit: its builds, its results, and how these compare with the commit measured before it."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Exists, OuterRef
from django.http import Http404

from speedtrack.alerts import lines
from speedtrack.alerts.effects import SmallestEffects
from speedtrack.alerts.lines import LinePoint
from speedtrack.alerts.models import ChangePoint
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.definitions import BUILD
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.benchmarks.models import Benchmark
from speedtrack.projects.models import Branch, Commit, Position, Project, Tag
from speedtrack.runs.models import Build, LogChunk, Machine, Run, Series
from speedtrack.stats.compare import Comparison, compare_exact, compare_samples
from speedtrack.text import plain
from speedtrack.web.pages import changes
from speedtrack.web.scope import named_or_default, project_or_404

REACH = 500  # commits of the branch that are searched for the one measured before
FEW_RESULTS = 120  # of a machine, up to which the page has the numbers of all metrics
LOG_TAIL = 12_000  # characters of the build log that the page shows


@dataclass(frozen=True)
class SeriesResult:
    """The result of one series at the commit, compared with the commit that the series measured before."""

    series: Series
    metric: Metric
    point: LinePoint
    before: Commit | None
    before_point: LinePoint | None
    comparison: Comparison | None
    change: ChangePoint | None

    @property
    def look(self) -> str:
        if self.comparison is None or self.comparison.answer != "different":
            return "same"
        return "worse" if (self.comparison.ratio > 1) == (self.metric.better == "lower") else "better"

    @property
    def answer(self) -> str:
        """The result of the comparison, in a word or two."""
        if self.comparison is None:
            return "first measurement"
        if self.comparison.answer == "different":
            return numbers.effect(self.metric, self.look == "worse")
        return "same" if self.comparison.answer == "same" else "uncertain"


@dataclass(frozen=True)
class MetricResults:
    """The results of one metric on one machine."""

    metric: Metric
    results: list[SeriesResult]

    @property
    def moved(self) -> int:
        return sum(r.look != "same" for r in self.results)


@dataclass(frozen=True)
class MachineResults:
    """All results of one machine as a table of benchmarks by metrics, without those of the build.

    ``groups``: the numbers by metric; of many results, those of one metric. ``moved``: those that differ, if they are
    not all in ``groups``.
    """

    machine: str
    groups: list[MetricResults]
    columns: list[MetricResults]
    rows: list[tuple[str, list[SeriesResult | None]]]
    moved: list[SeriesResult]
    others: list[Metric]  #: the metrics whose numbers another request shows


@dataclass(frozen=True)
class BuildWithLog:
    build: Build
    run: Run
    log: str


@dataclass(frozen=True)
class CommitPage:
    project: Project
    commit: Commit
    branch: Branch | None
    branches: list[Branch]
    tags: list[Tag]
    parents: list[Commit | str]
    earlier: Commit | None
    later: Commit | None
    machines: list[str]  #: those that measured the commit; the results are of the one that was asked for
    results: MachineResults | None
    builds: list[BuildWithLog]
    runs: list[Run]
    changes: list[changes.ChangeGroup]
    ladders: list[str]


def commit_or_404(slug: str, sha: str) -> tuple[Project, Commit]:
    """A commit by its hash, or by the beginning of it (at least seven characters)."""
    project = project_or_404(slug)
    found = list(Commit.objects.filter(project=project, sha__startswith=sha.lower())[:2]) if len(sha) >= 7 else []
    if len(found) != 1:
        raise Http404(f"{slug} has {'more than one' if found else 'no'} commit {sha!r}.")
    return project, found[0]


def ladders_of(commit: Commit) -> list[str]:
    """The ladders that were measured for a commit."""
    rungs = Benchmark.objects.filter(series__measurements__commit=commit, series__measurements__accepted=True)
    return list(rungs.exclude(ladder="").values_list("ladder", flat=True).distinct().order_by("ladder"))


@dataclass(frozen=True)
class Asked:
    """What the address of the page asks for; None: the usual."""

    branch: str | None = None
    machine: str | None = None
    metric: str | None = None


def load(slug: str, sha: str, asked: Asked) -> CommitPage:
    project, commit = commit_or_404(slug, sha)
    places = {p.branch: p.number for p in commit.positions.select_related("branch").order_by("branch__name")}
    branch = named_or_default("branch", asked.branch, places, project.default_branch)
    related = ("machine", "base", "linked__commit")
    runs = list(
        project.runs.filter(commit=commit).select_related(*related).defer("machine__facts").order_by("-id")[:50]
    )
    points = list(change_points_around(branch, places[branch])) if branch else []
    earlier, later = neighbours(branch, places[branch]) if branch else (None, None)
    machines = machines_of(commit)
    machine = named_or_default("machine", asked.machine, machines, "")
    results = None
    if branch and machine:
        found = results_on(machine, commit, branch, places[branch], SmallestEffects(project.pk), points)
        results = machine_results(machine, found, asked.metric) if found else None
    return CommitPage(
        project,
        commit,
        branch,
        list(places),
        list(project.tags.filter(sha=commit.sha).order_by("name")),
        parents_of(project, commit),
        earlier,
        later,
        [one.name for one in machines],
        results,
        builds_of(commit),
        runs,
        changes.group_by_cause(cp for cp in points if cp.status in changes.VISIBLE),
        ladders_of(commit),
    )


def parents_of(project: Project, commit: Commit) -> list[Commit | str]:
    """The parents; of a parent that is not stored, the hash."""
    known = {c.sha: c for c in Commit.objects.filter(project=project, sha__in=commit.parents)}
    return [known.get(sha, sha) for sha in commit.parents]


def neighbours(branch: Branch, number: int) -> tuple[Commit | None, Commit | None]:
    near = Position.objects.filter(branch=branch, number__in=[number - 1, number + 1]).select_related("commit")
    found = {p.number: p.commit for p in near}
    return found.get(number - 1), found.get(number + 1)


def change_points_around(branch: Branch, number: int) -> Iterable[ChangePoint]:
    """The change points whose range includes the commit at this position, so that it may be their cause."""
    starts_before = Position.objects.filter(branch=branch, commit=OuterRef("before"), number__lt=number)
    return changes.on_branch(branch, first=number).filter(Exists(starts_before)).order_by("id")


def machines_of(commit: Commit) -> list[Machine]:
    """The machines with results of a commit, by name."""
    measured = Series.objects.filter(pk__in=lines.point_measurements().filter(commit=commit).values("series"))
    return list(Machine.objects.filter(pk__in=measured.values("machine")).defer("facts").order_by("name"))


def results_on(
    machine: Machine,
    commit: Commit,
    branch: Branch,
    number: int,
    effects: SmallestEffects,
    points: list[ChangePoint],
) -> list[SeriesResult]:
    """The results of one machine."""
    measured = lines.point_measurements().filter(commit=commit, series__machine=machine).values("series")
    rows = Series.objects.filter(pk__in=measured).select_related("benchmark").defer("benchmark__definition", "error")
    series = list(rows.order_by("pk"))
    for one in series:
        one.machine = machine
    here = {p.series_id: p for p in lines.points([s.pk for s in series], branch, number, number)}
    before = measured_before(series, branch, number)
    samples = samples_of_points([*here.values(), *(p for _, p in before.values())])
    marks = {cp.series_id: cp for cp in points if cp.commit_id == commit.pk}
    return [
        series_result(s, here[s.pk], before.get(s.pk), samples, effects, marks.get(s.pk))
        for s in series
        if s.pk in here
    ]


def machine_results(machine: Machine, results: list[SeriesResult], asked: str | None) -> MachineResults:
    """The results of a machine in the metrics' order; where environments differ, the table has the newest."""
    results = sorted(results, key=lambda r: (r.series.benchmark.name, r.series.pk))
    by_metric = [MetricResults(metric, [r for r in results if r.metric is metric]) for metric in METRICS.values()]
    groups = [group for group in by_metric if group.results]
    newest = {(r.series.benchmark.name, r.series.metric): r for r in results}
    names = dict.fromkeys(r.series.benchmark.name for r in results)
    columns = [g for g in groups if any(r.series.benchmark.name != BUILD for r in g.results)]
    rows = [(name, [newest.get((name, g.metric.name)) for g in columns]) for name in names if name != BUILD]
    if len(results) <= FEW_RESULTS:
        return MachineResults(machine.name, groups, columns, rows, [], [])
    shown = next((group for group in groups if group.metric.name == asked), groups[0])
    moved = [r for r in results if (r.look != "same" or r.change) and r.metric is not shown.metric]
    others = [group.metric for group in groups if group is not shown]
    return MachineResults(machine.name, [shown], columns, rows, moved, others)


def measured_before(series: list[Series], branch: Branch, number: int) -> dict[int, tuple[Commit, LinePoint]]:
    """By series: the last commit before this one that it measured, and its point."""
    ids = [s.pk for s in series]
    places = lines.nearest_before(ids, branch, number, REACH)
    if not places:
        return {}
    commits = Commit.objects.in_bulk({commit_id for commit_id, _ in places.values()})
    numbers = [at for _, at in places.values()]
    points = {(p.series_id, p.commit_id): p for p in lines.points(places, branch, min(numbers), max(numbers))}
    return {s: (commits[c], points[s, c]) for s, (c, _) in places.items()}


Samples = dict[tuple[int, int], list[float]]


def samples_of_points(points: list[LinePoint]) -> Samples:
    """By series and commit: the samples of all measurements of these points; the value where they have been deleted."""
    found: Samples = {}
    for (series_id, commit_id, _), values in sorted(lines.samples_by_attempt(points).items()):
        found.setdefault((series_id, commit_id), []).extend(values)
    return {(point.series_id, point.commit_id): [point.value] for point in points} | found


def series_result(
    series: Series,
    point: LinePoint,
    before: tuple[Commit, LinePoint] | None,
    samples: Samples,
    effects: SmallestEffects,
    change: ChangePoint | None,
) -> SeriesResult:
    metric = METRICS[series.metric]
    if before is None:
        return SeriesResult(series, metric, point, None, None, None, change)
    commit, old = before
    smallest = effects.of(metric.name)
    if metric.exact:
        exact = compare_exact(old.value, point.value, smallest_effect=smallest)
        return SeriesResult(series, metric, point, commit, old, exact, change)
    comparison = compare_samples(
        samples[series.pk, commit.pk], samples[series.pk, point.commit_id], smallest_effect=smallest, seed=series.pk
    )
    return SeriesResult(series, metric, point, commit, old, comparison, change)


def builds_of(commit: Commit) -> list[BuildWithLog]:
    """The builds, newest first; the newest with the end of its log."""
    builds = list(commit.builds.select_related("attempt__run__machine").order_by("-id")[:10])
    if not builds:
        return []
    log = build_log_tail(builds[0])
    return [BuildWithLog(b, b.attempt.run, log if b is builds[0] else "") for b in builds]


def build_log_tail(build: Build) -> str:
    chunks = LogChunk.objects.filter(attempt=build.attempt, phase=build.phase).order_by("-seq")
    return plain("".join(reversed(chunks.values_list("text", flat=True)[:4])))[-LOG_TAIL:]
