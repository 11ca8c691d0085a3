"""A commit: its builds, its results, and how these compare with the last commit measured before it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from django.db.models import Count, Exists, F, FilteredRelation, IntegerField, OuterRef, Q, Subquery, Value, Window
from django.http import Http404

from speedtrack.alerts import lines
from speedtrack.alerts.lines import LinePoint
from speedtrack.alerts.models import Alert, ChangePoint, CommitComparison, look_of
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.definitions import BUILD
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.projects import git
from speedtrack.projects.git import ChangedFile, Description
from speedtrack.projects.models import Annotation, Branch, Commit, Position, Project, Tag
from speedtrack.projects.releases import version_of
from speedtrack.runs.models import Build, Deferral, LogChunk, Run, Series, Status
from speedtrack.text import plain
from speedtrack.web import forges
from speedtrack.web.forges import ForgePages
from speedtrack.web.pages import changes
from speedtrack.web.scope import named_or_default, project_or_404

FEW_RESULTS = 120  # of a machine, up to which the page has the numbers of all metrics
PARENT = -1  # instead of a position
MOST_FILES = 500  # that the page lists
FEW_RUNS = 8  # the others are folded
MOST_RUNS = 50  # that the page lists
#: What a commit is to an alert, by the alert's field.
ROLES = {"commit_id": "moved here", "fixed_by_id": "fixed by this commit", "reverted_by_id": "reverted by this commit"}
LOG_TAIL = 12_000  # characters of the build log that the page shows
UNSETTLED_ANSWERS = {CommitComparison.Answer.SAME: "same", CommitComparison.Answer.UNKNOWN: "uncertain"}


class StoredComparison(NamedTuple):
    """The columns of a CommitComparison that the page shows."""

    distance: int
    old: float
    ratio: float
    low: float
    high: float
    answer: str


class SeriesResult(NamedTuple):
    """The result of one series at the commit, compared with the commit that the series measured before.

    ``is_first``: detection has seen it, and found nothing before it.
    """

    series_id: int
    benchmark: str
    metric: Metric
    point: LinePoint
    comparison: StoredComparison | None
    is_first: bool
    change: ChangePoint | None

    @property
    def look(self) -> str:
        found = self.comparison
        return look_of(found.answer, found.ratio, self.metric.name) if found else "same"

    @property
    def answer(self) -> str:
        """The result of the comparison in a word or two."""
        if self.comparison is None:
            return "first measurement" if self.is_first else "not compared yet"
        settled = UNSETTLED_ANSWERS.get(CommitComparison.Answer(self.comparison.answer))
        return settled or numbers.effect(self.metric, self.look == "worse")


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

    ``groups``: the numbers by metric; of many results, those of one metric. ``moved``: of many, those that differ: the
    page shows them before all others.
    """

    machine: str
    groups: list[MetricResults]
    columns: list[MetricResults]
    rows: list[tuple[str, list[SeriesResult | None]]]
    moved: list[SeriesResult]
    others: list[Metric]  #: the metrics whose numbers another request shows
    count: int


@dataclass(frozen=True)
class BuildWithLog:
    """A build with the end of its log.

    ``same_as``: those of the parents and the last release for which the machine built the same program.
    """

    build: Build
    run: Run
    log: str
    same_as: list[Commit]

    @property
    def sizes(self) -> list[tuple[str, int]]:
        """(name, bytes) of each program."""
        return [(name, one["bytes"]) for name, one in self.build.artifacts.items() if one.get("bytes")]


class LastRelease(NamedTuple):
    """The release that was committed last before a commit."""

    tag: str
    sha: str


class CommitAlert(NamedTuple):
    """An alert with the role that the page's commit has in it, in words."""

    alert: Alert
    roles: list[str]

    @property
    def is_work(self) -> bool:
        return self.alert.status in Alert.OPEN and not self.alert.improvement


class FileLink(NamedTuple):
    """A changed file; ``url`` is empty where the forge is not known."""

    file: ChangedFile
    url: str


@dataclass(frozen=True)
class CommitPage:
    project: Project
    commit: Commit
    branch: Branch | None
    branches: list[Branch]
    tags: list[str]
    release: LastRelease | None
    description: Description | None
    forge: ForgePages | None
    parents: list[Commit | str]
    named: dict[int, Commit]  #: commits near it on the branch, by how many commits they are before it
    machines: list[str]  #: those that measured the commit; the results are of the one that was asked for
    results: MachineResults | None
    measured: list[SeriesResult]  #: all that the machine measured
    builds: list[BuildWithLog]
    runs: list[Run]
    changes: list[changes.ChangeGroup]
    alerts: list[CommitAlert]
    ladders: list[str]
    deferrals: list[Deferral]  #: why policies do not measure it now

    @property
    def body(self) -> str:
        """The message without its first line."""
        return self.description.message.partition("\n")[2].strip() if self.description else ""

    @property
    def files(self) -> list[FileLink]:
        """The changed files, with their pages at the forge."""
        files = self.description.files[:MOST_FILES] if self.description else []
        forge, sha = self.forge, self.commit.sha
        return [FileLink(one, forge.file(sha, one.path) if forge else "") for one in files]

    @property
    def is_annotated(self) -> bool:
        return bool(getattr(self.commit, "is_annotated"))  # noqa: B009 (an annotation)

    @property
    def forge_url(self) -> str:
        return self.forge.commit(self.commit.sha) if self.forge else ""

    @property
    def first_runs(self) -> list[Run]:
        return self.runs[:FEW_RUNS]

    @property
    def more_runs(self) -> list[Run]:
        return self.runs[FEW_RUNS:]

    @property
    def all_runs(self) -> str:
        """How many runs the page lists, and how many there are, in words."""
        total: int = getattr(self.runs[0], "total") if self.runs else 0  # noqa: B009 (an annotation)
        return f"All {total}" if total <= MOST_RUNS else f"The newest {MOST_RUNS} of {total}"

    @property
    def repeatable(self) -> Run | None:
        """The newest run whose scripts repeat what it measured of this commit alone."""
        own = (run for run in self.runs if run.status == Status.SUCCEEDED and not run.paired and not run.linked)
        return next(own, None)

    @property
    def latency_benchmarks(self) -> list[str]:
        return [name for name, _ in self.results.rows] if self.results else []

    @property
    def earlier(self) -> Commit | None:
        return self.named.get(1)

    @property
    def later(self) -> Commit | None:
        return self.named.get(-1)


def commit_or_404(slug: str, sha: str) -> Commit:
    """A commit by its hash, or by the beginning of it (at least seven characters); with ``is_annotated``."""
    commits = Commit.objects.filter(project__slug=slug, sha__startswith=sha.lower()).select_related("project")
    annotated = Exists(Annotation.objects.filter(commit=OuterRef("pk")))
    found = list(commits.annotate(is_annotated=annotated)[:2]) if len(sha) >= 7 else []
    if len(found) != 1:
        project_or_404(slug)
        raise Http404(f"{slug} has {'more than one' if found else 'no'} commit {sha!r}.")
    return found[0]


@dataclass(frozen=True)
class CommitPageQuery:
    """The parameters of the page's address; None means the default."""

    branch: str | None = None
    machine: str | None = None
    metric: str | None = None


class BranchPlace(NamedTuple):
    """A commit's place on a branch, with the change points there whose range includes the commit."""

    commit: Commit
    branch: Branch
    number: int
    points: list[ChangePoint]


class MeasuringMachine(NamedTuple):
    pk: int
    name: str


def load(slug: str, sha: str, asked: CommitPageQuery) -> CommitPage:
    commit = commit_or_404(slug, sha)
    project = commit.project
    places = {p.branch: p.number for p in commit.positions.select_related("branch").order_by("branch__name")}
    branch = named_or_default("branch", asked.branch, places, project.default_branch)
    place = (
        BranchPlace(commit, branch, places[branch], list(change_points_around(branch, places[branch])))
        if branch
        else None
    )
    machines, ladders = measured_by(commit)
    machine = named_or_default("machine", asked.machine, machines, "")
    results = results_on(machine, place) if place and machine else []
    parents, named = commits_around(commit, place, results)
    tags, release = tags_around(commit)
    return CommitPage(
        project=project,
        commit=commit,
        branch=branch,
        branches=list(places),
        tags=tags,
        release=release,
        description=described(project.slug, commit.sha),
        forge=forges.forge_of(project.url),
        parents=parents,
        named=named,
        machines=[one.name for one in machines],
        results=machine_results(machine.name, results, asked.metric) if machine and results else None,
        measured=results,
        builds=builds_of(commit, [*commit.parents, *([release.sha] if release else [])]),
        runs=runs_of(commit),
        changes=changes.groups_of(cp for cp in place.points if cp.status in changes.VISIBLE) if place else [],
        alerts=alerts_of(commit),
        ladders=ladders,
        deferrals=[] if results else deferrals_of(commit),
    )


def deferrals_of(commit: Commit) -> list[Deferral]:
    return list(Deferral.objects.filter(commit=commit).select_related("branch").order_by("branch__name"))


def change_points_around(branch: Branch, number: int) -> Iterable[ChangePoint]:
    """The change points whose range includes this position, so that the commit may be their cause."""
    starts_before = Position.objects.filter(branch=branch, commit=OuterRef("before"), number__lt=number)
    return changes.on_branch(branch, first=number).filter(Exists(starts_before)).order_by("id")


def measured_by(commit: Commit) -> tuple[list[MeasuringMachine], list[str]]:
    """The machines with results of a commit, and the names of the ladders that were measured for it."""
    measured = lines.point_measurements().filter(commit=commit).values("series")
    rows = Series.objects.filter(pk__in=measured).values_list("machine", "machine__name", "benchmark__ladder")
    found = list(rows.distinct())
    machines = {pk: MeasuringMachine(pk, name) for pk, name, _ in found}
    return sorted(machines.values(), key=lambda one: one.name), sorted({ladder for *_, ladder in found if ladder})


def results_on(machine: MeasuringMachine, place: BranchPlace) -> list[SeriesResult]:
    """The results of one machine."""
    measured = lines.point_measurements().filter(commit=place.commit).values("series")
    series = Series.objects.filter(pk__in=measured, machine=machine.pk)
    stored = FilteredRelation("comparisons", condition=Q(comparisons__commit=place.commit))
    columns = ["pk", "benchmark__name", "metric", "undetected_since"]
    columns += [f"stored__{field}" for field in StoredComparison._fields]
    rows = list(series.annotate(stored=stored).values_list(*columns))
    ids = [pk for pk, *_ in rows]
    here = {p.series_id: p for p in lines.points(ids, place.branch, place.number, place.number)}
    marks = {cp.series_id: cp for cp in place.points if cp.commit_id == place.commit.pk}
    return [
        SeriesResult(pk, name, METRICS[metric], here[pk], compared_by(found), since is None, marks.get(pk))
        for pk, name, metric, since, *found in rows
        if pk in here
    ]


def compared_by(found: list[Any]) -> StoredComparison | None:
    """The comparison with these columns; None where there is none, so that all are null."""
    return None if found[0] is None else StoredComparison(*found)


def machine_results(machine: str, results: list[SeriesResult], asked: str | None) -> MachineResults:
    """The results of a machine in the metrics' order.

    If environments differ, the table has the results of the newest one.
    """
    results = sorted(results, key=lambda r: (r.benchmark, r.series_id))
    by_metric = {metric.name: MetricResults(metric, []) for metric in METRICS.among(one.metric.name for one in results)}
    for one in results:
        by_metric[one.metric.name].results.append(one)
    groups = [group for group in by_metric.values() if group.results]
    newest = {(r.benchmark, r.metric.name): r for r in results}
    names = dict.fromkeys(r.benchmark for r in results)
    columns = [g for g in groups if any(r.benchmark != BUILD for r in g.results)]
    rows = [(name, [newest.get((name, g.metric.name)) for g in columns]) for name in names if name != BUILD]
    if len(results) <= FEW_RESULTS:
        return MachineResults(machine, groups, columns, rows, [], [], len(results))
    shown = next((group for group in groups if group.metric.name == asked), groups[0])
    moved = [r for r in results if r.look != "same" or r.change]
    others = [group.metric for group in groups if group is not shown]
    return MachineResults(machine, [shown], columns, rows, moved, others, len(results))


def commits_around(
    commit: Commit, place: BranchPlace | None, results: list[SeriesResult]
) -> tuple[list[Commit | str], dict[int, Commit]]:
    """The parents, and other commits that the page names by their distance.

    A parent that is not stored is given as its hash. The second value: distance -> commit; positive distances are
    before this commit on its branch, negative ones after it.
    """
    known = Commit.objects.filter(project=commit.project, sha__in=commit.parents)
    found = known.annotate(number=Value(PARENT, IntegerField()))
    if place:
        distances = {1, -1, *(one.comparison.distance for one in results if one.comparison)}
        numbers = [place.number - distance for distance in distances]
        near = Commit.objects.filter(positions__branch=place.branch, positions__number__in=numbers)
        found = found.union(near.annotate(number=F("positions__number")), all=True)
    rows: list[tuple[Commit, int]] = [(row, row.number) for row in found]
    parents = {row.sha: row for row, number in rows if number == PARENT}
    named = {place.number - number: row for row, number in rows if place and number != PARENT}
    return [parents.get(sha, sha) for sha in commit.parents], named


def runs_of(commit: Commit) -> list[Run]:
    """The newest runs of a commit, newest first, each with ``total``: how many there are."""
    related = ("machine", "base", "linked__commit")
    found = Run.objects.filter(project=commit.project, commit=commit).select_related(*related)
    return list(found.annotate(total=Window(Count("pk"))).defer("machine__facts").order_by("-id")[:MOST_RUNS])


def alerts_of(commit: Commit) -> list[CommitAlert]:
    """The alerts that name a commit, newest first, each with the commit's roles in it."""
    named = Q(commit=commit) | Q(fixed_by=commit) | Q(reverted_by=commit)
    found = Alert.objects.standing().filter(named, project=commit.project)
    return [
        CommitAlert(one, [words for field, words in ROLES.items() if getattr(one, field) == commit.pk])
        for one in found.select_related("commit", "before").with_range().order_by("-pk")
    ]


def tags_around(commit: Commit) -> tuple[list[str], LastRelease | None]:
    """The commit's tags, and the last release before it.

    Releases are ordered by date, since many are made on branches of their own.
    """
    tagged = Commit.objects.filter(project=commit.project_id, sha=OuterRef("sha"))
    found = Tag.objects.filter(project=commit.project_id).annotate(at=Subquery(tagged.values("committed_at")[:1]))
    rows = list(found.order_by("name").values_list("name", "sha", "at"))
    releases = [
        (at, version, tag, sha)
        for tag, sha, at in rows
        if at and at < commit.committed_at and (version := version_of(tag))
    ]
    last = max(releases, default=None)
    return [tag for tag, sha, _ in rows if sha == commit.sha], LastRelease(*last[2:]) if last else None


class Undescribed(Exception):
    """Git cannot describe the commit now: it has no mirror, lacks the commit, or is too slow."""


def described(slug: str, sha: str) -> Description | None:
    try:
        return known_description(slug, sha)
    except Undescribed:
        return None


@lru_cache(maxsize=500)
def known_description(slug: str, sha: str) -> Description:
    """The description of a commit, which is cached since it never changes.

    Raises Undescribed if git cannot describe it; that is not cached.
    """
    found = git.describe(slug, sha) if git.has_mirror(slug) else None
    if found is None:
        raise Undescribed(sha)
    return found


def builds_of(commit: Commit, others: Sequence[str]) -> list[BuildWithLog]:
    """The builds, newest first; the newest has the end of its log. ``others``: commits whose programs may be equal."""
    near = Commit.objects.filter(project=commit.project_id, sha__in=[commit.sha, *others])
    rows = Build.objects.filter(commit__in=near.values("pk")).select_related("commit", "attempt__run__machine")
    found = sorted(rows.defer("attempt__run__machine__facts"), key=lambda build: -build.pk)
    builds = [build for build in found if build.commit_id == commit.pk][:10]
    if not builds:
        return []
    log = build_log_tail(builds[0])
    return [
        BuildWithLog(one, one.attempt.run, log if one is builds[0] else "", same_programs(one, found)) for one in builds
    ]


def same_programs(build: Build, found: Iterable[Build]) -> list[Commit]:
    """Other commits of which the same machine has built the same program, bit for bit."""
    if not build.succeeded or not build.artifacts:
        return []
    machine = build.attempt.run.machine_id
    same = (one for one in found if one.artifacts == build.artifacts and one.attempt.run.machine_id == machine)
    return list({one.commit_id: one.commit for one in same if one.commit_id != build.commit_id}.values())


def build_log_tail(build: Build) -> str:
    chunks = LogChunk.objects.filter(attempt=build.attempt, phase=build.phase).order_by("-seq")
    return plain("".join(reversed(chunks.values_list("text", flat=True)[:4])))[-LOG_TAIL:]


RESULT_COLUMNS = (
    *("benchmark", "metric", "unit", "value", "low", "high", "n", "flags"),
    *("commits_before", "value_before", "ratio", "ratio_low", "ratio_high", "answer"),
)


def commit_document(page: CommitPage) -> dict[str, Any]:
    """The page as JSON: the results of one machine."""
    commit = page.commit
    return {
        "schema": "speedtrack.commit/1",
        "project": page.project.slug,
        "sha": commit.sha,
        "subject": commit.subject,
        "author": commit.author_name,
        "committed_at": commit.committed_at,
        "parents": commit.parents,
        "branch": page.branch.name if page.branch else None,
        "tags": page.tags,
        "last_release": page.release.tag if page.release else None,
        "machines": page.machines,
        "machine": page.results.machine if page.results else None,
        "results": [result_document(one) for one in page.measured],
        "runs": [
            {"id": run.pk, "status": run.status, "reason": run.reason, "machine": run.machine.name} for run in page.runs
        ],
        "alerts": [{"id": one.alert.pk, "status": one.alert.status, "roles": one.roles} for one in page.alerts],
    }


def result_document(one: SeriesResult) -> dict[str, Any]:
    point, found = one.point, one.comparison
    against = (found.distance, found.old, found.ratio, found.low, found.high) if found else [None] * 5
    values = (point.value, point.low, point.high, point.n, point.flags, *against, one.answer)
    return dict(zip(RESULT_COLUMNS, (one.benchmark, one.metric.name, one.metric.unit, *values), strict=True))


def csv_rows(page: CommitPage) -> Iterator[list[Any]]:
    yield list(RESULT_COLUMNS)
    for one in map(result_document, page.measured):
        yield [" ".join(value) if isinstance(value, list) else value for value in one.values()]
