"""A commit: how it was built, what was measured, and what that says against the commit measured before it."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Exists, OuterRef
from django.http import Http404

from speedtrack.alerts import lines
from speedtrack.alerts.lines import LinePoint
from speedtrack.alerts.models import ChangePoint
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.definitions import BUILD
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.benchmarks.models import Suite
from speedtrack.projects.models import Branch, Commit, Position, Project, Tag
from speedtrack.runs.models import Build, LogChunk, Run, Series
from speedtrack.stats.compare import Comparison, compare, compare_exact
from speedtrack.text import plain
from speedtrack.web.pages import changes
from speedtrack.web.scope import chosen, project_named

REACH = 500  # commits of the branch among which the measured one before is looked for
TAIL = 12_000  # characters of the build log that the page shows


@dataclass(frozen=True)
class Result:
    """One series at the commit, against the commit that it measured before."""

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
        """The comparison in a word or two."""
        if self.comparison is None:
            return "first measurement"
        if self.comparison.answer == "different":
            return numbers.effect(self.metric, self.look == "worse")
        return "same" if self.comparison.answer == "same" else "cannot be told"


@dataclass(frozen=True)
class Group:
    """The results of one metric on one machine."""

    metric: Metric
    results: list[Result]

    @property
    def moved(self) -> int:
        return sum(r.look != "same" for r in self.results)


@dataclass(frozen=True)
class Post:
    """All results of one machine: by metric, and as rows of benchmarks by metrics, without those of the build."""

    machine: str
    groups: list[Group]
    columns: list[Group]
    rows: list[tuple[str, list[Result | None]]]


@dataclass(frozen=True)
class BuildShown:
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
    posts: list[Post]
    builds: list[BuildShown]
    runs: list[Run]
    changes: list[changes.Change]


def commit_named(slug: str, sha: str) -> tuple[Project, Commit]:
    """A commit by its hash, or the beginning of it (seven characters at least). Raises Http404."""
    project = project_named(slug)
    found = list(Commit.objects.filter(project=project, sha__startswith=sha.lower())[:2]) if len(sha) >= 7 else []
    if len(found) != 1:
        raise Http404(f"{slug} has {'more than one' if found else 'no'} commit {sha!r}.")
    return project, found[0]


def load(slug: str, sha: str, branch_name: str | None) -> CommitPage:
    project, commit = commit_named(slug, sha)
    places = {p.branch: p.number for p in commit.positions.select_related("branch").order_by("branch__name")}
    branch = chosen("branch", branch_name, places, project.default_branch)
    related = ("machine", "suite", "base", "linked__commit")
    runs = list(project.runs.filter(commit=commit).select_related(*related).order_by("-id")[:50])
    points = list(change_points_of(branch, places[branch])) if branch else []
    earlier, later = neighbours(branch, places[branch]) if branch else (None, None)
    posts = posts_of(commit, branch, places[branch], runs, points) if branch else []
    return CommitPage(
        project,
        commit,
        branch,
        list(places),
        list(project.tags.filter(sha=commit.sha).order_by("name")),
        parents_of(project, commit),
        earlier,
        later,
        posts,
        builds_of(commit),
        runs,
        changes.grouped(cp for cp in points if cp.status in changes.SHOWN),
    )


def parents_of(project: Project, commit: Commit) -> list[Commit | str]:
    """The parents; one that is not stored only by its hash."""
    known = {c.sha: c for c in Commit.objects.filter(project=project, sha__in=commit.parents)}
    return [known.get(sha, sha) for sha in commit.parents]


def neighbours(branch: Branch, number: int) -> tuple[Commit | None, Commit | None]:
    near = Position.objects.filter(branch=branch, number__in=[number - 1, number + 1]).select_related("commit")
    found = {p.number: p.commit for p in near}
    return found.get(number - 1), found.get(number + 1)


def change_points_of(branch: Branch, number: int) -> Iterable[ChangePoint]:
    """Those whose range holds the commit at this position: it is their cause, or one of those that may be."""
    starts_before = Position.objects.filter(branch=branch, commit=OuterRef("before"), number__lt=number)
    return changes.on(branch, first=number).filter(Exists(starts_before)).order_by("id")


def posts_of(commit: Commit, branch: Branch, number: int, runs: list[Run], points: list[ChangePoint]) -> list[Post]:
    """All results, by machine."""
    measured = lines.point_measurements().filter(commit=commit).values("series")
    series = list(
        Series.objects.filter(pk__in=measured).select_related("benchmark", "machine", "environment").order_by("pk")
    )
    here = {p.series_id: p for p in lines.points([s.pk for s in series], branch, number, number)}
    before = measured_before(series, branch, number)
    samples = samples_of_points([*here.values(), *(p for _, p in before.values())])
    suite = runs[0].suite if runs else None
    marks = {cp.series_id: cp for cp in points if cp.commit_id == commit.pk}
    results = [
        result_of(s, here[s.pk], before.get(s.pk), samples, suite, marks.get(s.pk)) for s in series if s.pk in here
    ]
    machines = sorted({r.series.machine.name for r in results})
    return [post_of(name, [r for r in results if r.series.machine.name == name]) for name in machines]


def post_of(machine: str, results: list[Result]) -> Post:
    """The results of a machine in the metrics' order; of several environments each benchmark's newest in the rows."""
    results = sorted(results, key=lambda r: (r.series.benchmark.name, r.series.pk))
    groups = [Group(metric, [r for r in results if r.metric is metric]) for metric in METRICS.values()]
    shown = [group for group in groups if group.results]
    newest = {(r.series.benchmark.name, r.series.metric): r for r in results}
    names = dict.fromkeys(r.series.benchmark.name for r in results)
    table = [g for g in shown if any(r.series.benchmark.name != BUILD for r in g.results)]
    rows = [(name, [newest.get((name, g.metric.name)) for g in table]) for name in names if name != BUILD]
    return Post(machine, shown, table, rows)


def measured_before(series: list[Series], branch: Branch, number: int) -> dict[int, tuple[Commit, LinePoint]]:
    """By series: the nearest commit before this one that it measured, and its point."""
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
    """By series and commit: the samples of all its measurements of these points."""
    found: Samples = {}
    for (series_id, commit_id, _), values in sorted(lines.samples_by_attempt(points).items()):
        found.setdefault((series_id, commit_id), []).extend(values)
    return found


def result_of(
    series: Series,
    point: LinePoint,
    before: tuple[Commit, LinePoint] | None,
    samples: Samples,
    suite: Suite | None,
    change: ChangePoint | None,
) -> Result:
    metric = METRICS[series.metric]
    if before is None:
        return Result(series, metric, point, None, None, None, change)
    commit, old = before
    smallest = suite.smallest_effect(metric.name, metric.smallest_effect) if suite else metric.smallest_effect
    if metric.exact:
        exact = compare_exact(old.value, point.value, smallest_effect=smallest)
        return Result(series, metric, point, commit, old, exact, change)
    comparison = compare(
        samples[series.pk, commit.pk], samples[series.pk, point.commit_id], smallest_effect=smallest, seed=series.pk
    )
    return Result(series, metric, point, commit, old, comparison, change)


def builds_of(commit: Commit) -> list[BuildShown]:
    """The builds, newest first; with the end of the newest one's log."""
    builds = list(commit.builds.select_related("attempt__run__machine").order_by("-id")[:10])
    if not builds:
        return []
    log = log_tail(builds[0])
    return [BuildShown(b, b.attempt.run, log if b is builds[0] else "") for b in builds]


def log_tail(build: Build) -> str:
    chunks = LogChunk.objects.filter(attempt=build.attempt, phase=build.phase).order_by("-seq")
    return plain("".join(reversed(chunks.values_list("text", flat=True)[:4])))[-TAIL:]
