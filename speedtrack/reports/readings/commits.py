"""A commit as its page and the API show it: its place, what one machine measured of it, its runs and its alerts."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery, Window
from django.db.models.functions import Extract, JSONObject

from speedtrack.alerts.lines import lines
from speedtrack.alerts.lines.linecolumns import Array
from speedtrack.alerts.lines.lines import LinePoint
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.ground.postgres.preparedquery import PreparedQuery
from speedtrack.judging.facts import CommitFacts, facts_of
from speedtrack.judging.neighbours import Neighbour, NeighbourColumns, no_neighbours
from speedtrack.judging.seriescolumns import MeasuringMachine, SeriesColumns, no_series
from speedtrack.judging.summaries import Summary, summary_of
from speedtrack.projects.models import Branch, Commit, Tag
from speedtrack.projects.releases import version_of
from speedtrack.reports.readings.alerts import for_banners
from speedtrack.reports.readings.choices import named_or_default
from speedtrack.runs.models import Run
from speedtrack.runs.scheduling import standing

MOST_RUNS = 50
EPOCH = Extract("committed_at", "epoch")
#: What a commit is to an alert, by the alert's field.
ROLES = {"commit_id": "moved here", "fixed_by_id": "fixed by this commit", "reverted_by_id": "reverted by this commit"}


class BranchPlace(NamedTuple):
    """A commit's place on a branch, with the change points there whose range includes the commit."""

    commit: Commit
    branch: Branch
    number: int
    points: list[ChangePoint]


class SeriesResult(NamedTuple):
    """The result of one series at the commit, compared with the commit that the series measured before.

    ``is_first``: detection has seen it, and found nothing before it.
    """

    series_id: int
    benchmark: str
    metric: Metric
    point: LinePoint
    comparison: Neighbour | None
    is_first: bool
    change: ChangePoint | None

    @property
    def look(self) -> str:
        return self.comparison.judgement.look if self.comparison else "same"

    @property
    def sign(self) -> str:
        return self.comparison.judgement.sign if self.comparison else ""

    @property
    def answer(self) -> str:
        """The result of the comparison in a word or two."""
        return self.comparison.judgement.words if self.comparison else answer_without(self.is_first)


def answer_without(is_first: bool) -> str:
    """The answer of a series that was not compared."""
    return "first measurement" if is_first else "not compared yet"


@dataclass(frozen=True)
class CommitResults:
    """The results of a commit on one machine, in the order of their series: columns, of which a few become objects.

    ``branch_place``: the commit, on the branch along which it was compared; None without any. ``neighbours``: their
    indices are those of ``series``. ``changes``: by series, those that the commit caused.
    """

    branch_place: BranchPlace | None = None
    series: SeriesColumns = field(default_factory=no_series)
    neighbours: NeighbourColumns = field(default_factory=no_neighbours)
    changes: dict[int, ChangePoint] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.series)

    @cached_property
    def differs(self) -> Array:
        """Whether each certainly differs from the commit before."""
        differs: Array = np.zeros(len(self), bool)
        differs[self.neighbours.index] = self.neighbours.judgements.differs
        return differs

    @cached_property
    def is_notable(self) -> Array:
        """Whether each differs or has a change."""
        is_notable: Array = self.differs | np.isin(self.series.series, list(self.changes))
        return is_notable

    def points(self, indices: Array) -> dict[int, LinePoint]:
        """By series: the points at these indices, by one query, and a second one if some were measured repeatedly."""
        if self.branch_place is None or not len(indices):
            return {}
        branch, number = self.branch_place.branch, self.branch_place.number
        rows = lines.points(self.series.series[indices].tolist(), branch, number, number)
        return {point.series_id: point for point in rows}

    def at(self, indices: Array) -> list[SeriesResult]:
        """Those at these indices as objects."""
        series, points = self.series.chosen(indices), self.points(indices)
        is_shown = np.zeros(len(self), bool)
        is_shown[indices] = True
        neighbours = self.neighbours.among(is_shown).by_index
        names, metrics = series.names.benchmarks, [METRICS[name] for name in series.names.metrics]
        columns = (indices, series.series, series.name, series.metric, series.is_new)
        return [
            SeriesResult(
                *(pk, names[name], metrics[metric], points[pk], neighbours.get(index), not is_new, self.changes.get(pk))
            )
            for index, pk, name, metric, is_new in zip(*(column.tolist() for column in columns), strict=True)
            if pk in points
        ]


class LastRelease(NamedTuple):
    """The release that was committed last before a commit."""

    tag: str
    sha: str


class CommitAlert(NamedTuple):
    """An alert with the role that the page's commit has in it, in words."""

    alert: Alert
    roles: list[str]


@dataclass(frozen=True)
class CommitReading:
    """A commit with the results of one of the machines that measured it."""

    commit: Commit
    summary: Summary  #: over all machines
    branch: Branch | None
    position: int | None  #: on the branch
    branches: list[Branch]
    tags: list[str]
    release: LastRelease | None
    machines: list[str]  #: those that measured the commit
    machine: str | None  #: the one that was asked for, if it measured the commit on this branch
    measured: CommitResults  #: all that it measured
    points: list[ChangePoint]  #: whose range includes the commit
    ladders: list[str]
    runs: list[Run]  #: the newest, newest first
    waiting: dict[int, str]  #: by id of its queued runs: why each is not measured yet
    alerts: list[CommitAlert]


def read(
    commit: Commit,
    branch_name: str | None,
    machine_name: str | None,
    points_at: Callable[[Branch, int], Iterable[ChangePoint]] = lambda branch, number: (),
) -> CommitReading:
    """Read a commit, whose ``tags`` are TAGS. None: the default branch, and the first machine. Raises Http404."""
    positions = {p.branch: p.number for p in commit.positions.select_related("branch").order_by("branch__name")}
    branch = named_or_default("branch", branch_name, positions, commit.project.default_branch)
    facts = facts_of([commit.pk], lambda facts: series_on(machine_name, facts.series))[commit.pk]
    machines = machines_of(facts.series)
    machine = named_or_default("machine", machine_name, machines, "")
    points = list(points_at(branch, positions[branch])) if branch else []
    branch_place = BranchPlace(commit, branch, positions[branch], points) if branch else None
    results = results_on(machine, branch_place, facts) if branch_place and machine else CommitResults()
    runs = runs_of(commit)
    tags, release = tags_around(commit, getattr(commit, "tags"))  # noqa: B009 (an annotation)
    return CommitReading(
        commit=commit,
        summary=summary_of(facts),
        branch=branch,
        position=positions[branch] if branch else None,
        branches=list(positions),
        tags=tags,
        release=release,
        machines=[machine.name for machine in machines],
        machine=machine.name if machine and results else None,
        measured=results,
        points=points,
        ladders=facts.series.ladders,
        runs=runs,
        waiting=standing.why_wait(runs),
        alerts=alerts_of(commit),
    )


def machines_of(series: SeriesColumns) -> list[MeasuringMachine]:
    """The machines of these series in the order of the grid: first those with a runner, then by name.

    Of the others, the one with most results comes first: the first by name is often only a try.
    """
    numbers = np.bincount(series.machine, minlength=len(series.machines)).tolist()
    counts = dict(zip(series.machines, numbers, strict=True))
    measuring = [machine for machine in series.machines if counts[machine]]
    return sorted(measuring, key=lambda own: (own.is_outside, own.is_outside and -counts[own], own.name))


def machine_of(series: SeriesColumns, name: str | None) -> MeasuringMachine | None:
    """The machine of this name, else the first; None if none measured the commit. Raises Http404 for another name."""
    return named_or_default("machine", name, machines_of(series), "")


def indices_on(machine: MeasuringMachine | None, series: SeriesColumns) -> Array:
    """The indices of the series of one machine."""
    indices: Array = np.flatnonzero(series.machine == (series.machines.index(machine) if machine else -1))
    return indices


def series_on(name: str | None, series: SeriesColumns) -> list[int]:
    """The ids of the series of the machine of this name, or of the first."""
    pks: list[int] = series.series[indices_on(machine_of(series, name), series)].tolist()
    return pks


def results_on(machine: MeasuringMachine, branch_place: BranchPlace, facts: CommitFacts) -> CommitResults:
    """The results of one machine."""
    indices = indices_on(machine, facts.series)
    is_own = np.zeros(len(facts.series), bool)
    is_own[indices] = True
    neighbours = facts.neighbours.among(is_own)
    neighbours = replace(neighbours, index=np.searchsorted(indices, neighbours.index))
    changes = {point.series_id: point for point in branch_place.points if point.commit_id == branch_place.commit.pk}
    return CommitResults(branch_place, facts.series.chosen(indices), neighbours, changes)


#: Of a commit: the tags of its project in the order of their names, each with its commit and that one's time.
TAGS = ArraySubquery(
    Tag.objects.filter(project=OuterRef("project"))
    .annotate(
        at=Subquery(Commit.objects.filter(project=OuterRef("project"), sha=OuterRef("sha")).values_list(EPOCH)[:1])
    )
    .order_by("name")
    .values_list(JSONObject(name="name", sha="sha", at="at"))
)


def tags_around(commit: Commit, tags: list[dict[str, Any]]) -> tuple[list[str], LastRelease | None]:
    """The commit's tags, and the last release before it. ``tags``: those of TAGS.

    Releases are ordered by date, since many are made on branches of their own.
    """
    releases = [
        (tag["at"], version, tag["name"], tag["sha"])
        for tag in tags
        if tag["at"] and tag["at"] < commit.committed_at.timestamp() and (version := version_of(tag["name"]))
    ]
    last = max(releases, default=None)
    return [tag["name"] for tag in tags if tag["sha"] == commit.sha], LastRelease(*last[2:]) if last else None


def newest_runs(project: int, commit: int) -> QuerySet[Run]:
    rows = Run.objects.filter(project=project, commit=commit).select_related("machine", "base", "linked__commit")
    return rows.annotate(total=Window(Count("pk"))).defer("machine__facts").order_by("-id")[:MOST_RUNS]


NEWEST_RUNS = PreparedQuery(newest_runs)


def runs_of(commit: Commit) -> list[Run]:
    """The newest runs of a commit, newest first, each with ``total``: how many there are."""
    runs = NEWEST_RUNS.rows(project=commit.project_id, commit=commit.pk)
    for run in runs:
        run.project, run.commit = commit.project, commit
    return runs


def naming_alerts(project: int, commit: int) -> QuerySet[Alert]:
    condition = Q(commit=commit) | Q(fixed_by=commit) | Q(reverted_by=commit)
    return for_banners(Alert.objects.standing().filter(condition, project=project)).order_by("-pk")


NAMING_ALERTS = PreparedQuery(naming_alerts)


def alerts_of(commit: Commit) -> list[CommitAlert]:
    """The alerts that name a commit, newest first, each with the commit's roles in it."""
    alerts = NAMING_ALERTS.rows(project=commit.project_id, commit=commit.pk)
    return [CommitAlert(alert, roles_of(alert, commit)) for alert in alerts]


def roles_of(alert: Alert, commit: Commit | None) -> list[str]:
    return [role for field, role in ROLES.items() if commit and getattr(alert, field) == commit.pk]
