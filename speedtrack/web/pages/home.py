"""The home page: is each project measured up to its head, and did it get slower?"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from django.contrib.postgres.fields import ArrayField
from django.db import connection
from django.db.models import Count, F, FilteredRelation, IntegerField, OuterRef, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce

from speedtrack.accounts.access import Access
from speedtrack.alerts.lines.linecolumns import Array, array_of
from speedtrack.alerts.lines.lines import sql
from speedtrack.alerts.models import Alert
from speedtrack.benchmarks.metrics import HEADLINE, METRICS, Metric
from speedtrack.projects import positions
from speedtrack.projects.models import Branch, Project
from speedtrack.web.pages import changes, releasepoints
from speedtrack.web.pages.changes import ChangeGroup
from speedtrack.web.pages.releasepoints import ReleaseChange, ReleasePair
from speedtrack.web.pages.running import machines
from speedtrack.web.pages.running.machines import Health

WINDOW = 60  # commits of the default branch that the trend shows
LISTED_CHANGES = 10
LISTED_TRENDS = 60  # benchmarks of a project that is alone: its own page has the others
MOST_RUNS = 200  # of a project on a machine that are counted: however many wait, they are read from an index
# How far each machine measured the newest commits of each branch, and the newest one that it measured. Of a machine
# without a runner, the metric that most of its series have.
COVERAGE = f"""
    SELECT found.*, c.sha, c.subject, c.committed_at,
           CASE WHEN found.outside
                THEN (SELECT s.metric FROM runs_series s
                       WHERE s.project_id = found.project_id AND s.machine_id = found.machine_id
                    GROUP BY s.metric ORDER BY count(*) DESC, s.metric LIMIT 1) END
      FROM (SELECT b.project_id, b.id, r.machine_id, machine.name, machine.outside, count(*), max(p.number),
                   max(p.head), (array_agg(p.commit_id ORDER BY p.number DESC))[1] AS commit_id
              FROM projects_branch b
        CROSS JOIN LATERAL (
                    SELECT number, commit_id, max(number) OVER () AS head
                      FROM ({positions.newest("b.id", "%(window)s")}) newest) p
              JOIN runs_run r ON r.commit_id = p.commit_id AND r.base_id IS NULL AND r.canary_id IS NULL
               AND r.status = 'succeeded'
              JOIN runs_machine machine ON machine.id = r.machine_id
             WHERE b.id = ANY(%(branches)s)
          GROUP BY b.project_id, b.id, r.machine_id, machine.name, machine.outside) found
      JOIN projects_commit c ON c.id = found.commit_id
"""  # noqa: S608 - constants
# Of each project the newest commits, its series, and the clean points that these measured of those. Each path is read
# once, not for each series, and sorted where it is used.
HEADLINES = sql(f"""
      WITH path AS MATERIALIZED (
        SELECT a.project_id, a.machine_id, a.metric, array_agg(p.commit_id) AS commits, array_agg(p.number) AS numbers
          FROM unnest(%(projects)s::bigint[], %(branches)s::bigint[], %(machines)s::bigint[], %(metrics)s::text[])
               AS a(project_id, branch_id, machine_id, metric)
    CROSS JOIN LATERAL ({positions.newest("a.branch_id", "%(window)s")}) p
      GROUP BY a.project_id, a.machine_id, a.metric)
    SELECT path.project_id, path.commits, path.numbers, own.ids, own.names, found.*
      FROM path
CROSS JOIN LATERAL (
        SELECT array_agg(s.id ORDER BY s.id) AS ids, array_agg(benchmark.name::text ORDER BY s.id) AS names
          FROM runs_series s
          JOIN benchmarks_benchmark benchmark ON benchmark.id = s.benchmark_id AND benchmark.ladder = ''
         WHERE s.project_id = path.project_id AND s.machine_id = path.machine_id AND s.metric = path.metric
        OFFSET 0) own
CROSS JOIN LATERAL (
        SELECT array_send(array_agg(m.series_id::bigint)), array_send(array_agg(m.commit_id::bigint)),
               array_send(array_agg(m.attempt_id::bigint)), array_send(array_agg(m.value))
          FROM unnest(own.ids) AS s (id)
    CROSS JOIN LATERAL (
                SELECT m.* FROM runs_measurement m
                 WHERE m.series_id = s.id AND m.commit_id = ANY (path.commits) AND IS_CLEAN_POINT OFFSET 0) m
        HAVING count(*) > 0) found
""")  # noqa: S608 - constants
# Of a project: the runs that wait or run, and the most that one machine has.
UNFINISHED = """
    SELECT ARRAY[sum(counted.runs), max(counted.runs)]::int[]
      FROM runs_machine m CROSS JOIN LATERAL (
        SELECT count(*) AS runs
          FROM (SELECT FROM runs_run r
                 WHERE r.machine_id = m.id AND r.project_id = projects_project.id
                   AND r.status IN ('queued', 'leased', 'running')
                 LIMIT %s) few) counted
"""


class NewestMeasured(NamedTuple):
    sha: str
    subject: str
    committed_at: datetime


class Coverage(NamedTuple):
    """How much of the newest commits of a branch a machine measured, and up to which commit, at position ``newest``."""

    project_id: int
    branch_id: int
    machine_id: int
    machine: str
    is_outside: bool
    commits: int
    newest: int
    head: int
    commit_id: int
    sha: str
    subject: str
    committed_at: datetime
    outside_metric: str | None

    @property
    def metric(self) -> Metric:
        """The metric of a card with this machine."""
        return METRICS[self.outside_metric or HEADLINE]

    @property
    def measured(self) -> NewestMeasured:
        return NewestMeasured(self.sha, self.subject, self.committed_at)


class Trend(NamedTuple):
    """A benchmark's headline metric at the newest commits of a branch, oldest first.

    ``line``: NaN is a gap; ``commit_id``: the commit of its ``newest`` value.
    """

    series_id: int
    benchmark: str
    line: Array
    commit_id: int
    newest: float

    @property
    def values(self) -> list[float | None]:
        """The line; None is a gap."""
        return [None if math.isnan(value) else value for value in self.line.tolist()]


@dataclass
class Card:
    """One project. ``lag``: by how many commits the newest measured one is behind the head; None: none is measured.

    ``machine``: the one whose lines are shown, that which measured the most of the newest commits. ``line``: the
    geometric mean of the ``trends``, ``newest`` its newest value. ``release``: the last release against the one before;
    ``since``: the newest values against the last release. ``unfinished``: runs that wait or run; ``or_more``:
    there may be more of them.
    """

    project: Project
    branch: Branch | None
    open_alerts: int
    unfinished: int
    or_more: bool
    metric: Metric
    machine: str = ""
    lag: int | None = None
    measured: NewestMeasured | None = None
    line: list[float | None] = field(default_factory=list)
    newest: float | None = None
    trends: list[Trend] = field(default_factory=list)
    change: ChangeGroup | None = None
    release: ReleaseChange | None = None
    since: ReleaseChange | None = None

    @property
    def fresh(self) -> bool:
        return self.lag == 0

    @property
    def listed(self) -> list[Trend]:
        """The first of its trends, which have a row each."""
        return self.trends[:LISTED_TRENDS]

    @property
    def behind(self) -> float | None:
        """Seconds from the newest measured commit to the head; None if their times are not plausible."""
        if self.measured is None or self.branch is None or self.branch.head is None:
            return None
        return max(0.0, (self.branch.head.committed_at - self.measured.committed_at).total_seconds())


@dataclass(frozen=True)
class HomePage:
    cards: list[Card]
    changes: list[ChangeGroup]
    machines: Health

    @property
    def alone(self) -> bool:
        """Return whether there is only one project, whose card has the whole width."""
        return len(self.cards) == 1


def load(access: Access) -> HomePage:
    """The number of queries does not depend on how many projects there are."""
    cards = project_cards(access)
    groups_by_branch = changes.newest_groups([card.branch.pk for card in cards if card.branch], LISTED_CHANGES)
    for card in cards:
        card.change = next(iter(groups_by_branch.get(card.branch.pk, [])), None) if card.branch else None
    newest = sorted((group for groups in groups_by_branch.values() for group in groups), key=committed_at, reverse=True)
    return HomePage(cards, newest[:LISTED_CHANGES], machines.health(access))


committed_at = attrgetter("commit.committed_at")


def card_of(project: Project) -> Card:
    """What was measured of the newest commits of one project, without its runs, changes and releases."""
    branch = project.branches.filter(name=project.default_branch).select_related("head").first()
    card = Card(project, branch, Alert.objects.work().filter(project=project).count(), 0, False, METRICS[HEADLINE])
    if branch:
        fill_cards({branch.pk: card})
    return card


def project_cards(access: Access) -> list[Card]:
    """One card per project, without its changes."""
    alerts = Alert.objects.work().filter(project=OuterRef("pk")).order_by().values("project")
    unfinished = RawSQL(UNFINISHED, [MOST_RUNS], ArrayField(IntegerField()))  # noqa: S611 (no text of others)
    projects = Project.objects.tracked().annotate(
        open_alerts=Coalesce(alerts.values(count=Count("pk")), 0),
        unfinished=unfinished,
        followed=FilteredRelation("branches", condition=Q(branches__name=F("default_branch"))),
    )
    shown: QuerySet[Any] = access.among(projects, "pk").order_by("name")
    rows: list[Any] = list(shown.select_related("followed__head"))
    cards = [card_of_row(project) for project in rows]
    fill_cards({card.branch.pk: card for card in cards if card.branch})
    compare_releases(cards)
    return cards


def card_of_row(project: Any) -> Card:
    """The card of a project with the annotations of ``project_cards``."""
    runs, most = (count or 0 for count in project.unfinished)
    followed = getattr(project, "followed", None)  # Django sets nothing where there is no such branch
    return Card(project, followed, project.open_alerts, runs, most == MOST_RUNS, METRICS[HEADLINE])


def fill_cards(cards: dict[int, Card]) -> None:
    """Set on the cards what was measured of the newest commits of their branches."""
    coverages: dict[int, list[Coverage]] = defaultdict(list)
    for row in fetch(COVERAGE, branches=list(cards), window=WINDOW):
        coverage = Coverage._make(row)
        coverages[coverage.branch_id].append(coverage)
    best = [min(rows, key=lambda coverage: (-coverage.commits, coverage.machine)) for rows in coverages.values()]
    trends = headline_trends(best)
    for coverage in best:
        card, newest = cards[coverage.branch_id], max(coverages[coverage.branch_id], key=attrgetter("newest"))
        card.machine, card.metric = coverage.machine, coverage.metric
        card.lag, card.measured = coverage.head - newest.newest, newest.measured
        card.trends = trends[coverage.branch_id]
        card.line, card.newest = mean_line([trend.line for trend in card.trends])


def fetch(query: str, **parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def headline_trends(coverages: Sequence[Coverage]) -> dict[int, list[Trend]]:
    """By branch: the clean values of each project's metric on its machine; of each benchmark, of its newest line."""
    rows = fetch(
        HEADLINES,
        metrics=[coverage.metric.name for coverage in coverages],
        window=WINDOW,
        projects=[coverage.project_id for coverage in coverages],
        branches=[coverage.branch_id for coverage in coverages],
        machines=[coverage.machine_id for coverage in coverages],
    )
    by_project = {coverage.project_id: coverage for coverage in coverages}
    trends: dict[int, list[Trend]] = defaultdict(list)
    for project, *columns in rows:
        trends[by_project[project].branch_id] = trends_of(by_project[project].head, *columns)
    return trends


def trends_of(
    head: int, commits: list[int], numbers: list[int], series: list[int], names: list[str], *points: bytes
) -> list[Trend]:
    """The trends of a project from a row of HEADLINES. ``head``: the position of the newest commit.

    Of several measurements of a commit the newest counts.
    """
    first, columns = max(0, head - WINDOW + 1), np.argsort(commits)
    of_series, of_commit, attempt, value = map(array_of, points)
    place = np.array(numbers)[columns[np.searchsorted(commits, of_commit, sorter=columns)]] - first
    order = np.argsort(attempt, kind="stable")
    lines = np.full((len(series), head - first + 1), np.nan)
    lines[np.searchsorted(series, of_series)[order], place[order]] = value[order]
    commit_at = {number - first: commit for commit, number in zip(commits, numbers, strict=True)}
    is_measured = ~np.isnan(lines)
    newest = lines.shape[1] - 1 - is_measured[:, ::-1].argmax(axis=1)
    trends: dict[str, Trend] = {}
    for row in is_measured.any(axis=1).nonzero()[0].tolist():
        at = int(newest[row])
        trends[names[row]] = Trend(series[row], names[row], lines[row], commit_at[at], float(lines[row, at]))
    return list(trends.values())


def mean_line(lines: Sequence[Array | Sequence[float | None]]) -> tuple[list[float | None], float | None]:
    """The geometric mean of lines by index, and its newest value.

    Each line counts relative to its own median, so that a gap in one is no step; the mean has the level of the
    geometric mean of all medians. None where no line has a value.
    """
    if not lines:
        return [], None
    values = np.array(lines, dtype=float)  # None becomes NaN
    joint, height = joint_line(values)
    line = [None if value is None else value * height for value in joint]
    return line, next((value for value in reversed(line) if value is not None), None)


def joint_line(values: Array) -> tuple[list[float | None], float]:
    """The geometric mean of several lines, each divided by its own median, and that of the medians."""
    positive = np.where(values > 0, values, np.nan)
    positive = positive[np.isfinite(positive).any(axis=1)]
    if not len(positive):
        return [None] * values.shape[1], math.nan
    medians = medians_of(positive)[:, np.newaxis]
    scaled = np.log(positive / medians)
    mask = np.isfinite(scaled)
    sums, counts = np.where(mask, scaled, 0).sum(axis=0), mask.sum(axis=0)
    line = [math.exp(total / count) if count else None for total, count in zip(sums, counts.tolist(), strict=True)]
    return line, math.exp(np.log(medians).mean())


def medians_of(rows: Array) -> Array:
    """The median of each row without its NaNs; nanmedian takes ten times as long."""
    ordered, counts = np.sort(rows, axis=1), (~np.isnan(rows)).sum(axis=1)
    each = np.arange(len(rows))
    middle: Array = (ordered[each, (counts - 1) // 2] + ordered[each, counts // 2]) / 2
    return middle


def compare_releases(cards: Iterable[Card], with_last: bool = True) -> None:
    """Set on the cards how the newest measured release compares with the one before it and with newer commits.

    ``with_last``: also the first of both.
    """
    by_project = {card.project.pk: card for card in cards if card.trends}
    if not by_project:
        return
    series = {pk: [trend.series_id for trend in card.trends] for pk, card in by_project.items()}
    last: dict[int, ReleasePair] = {}
    since: dict[int, ReleasePair] = {}
    for pk, releases in releasepoints.newest_releases(series, {}, releasepoints.FEW if with_last else 1).items():
        metric, trends, newest = by_project[pk].metric, by_project[pk].trends, releases[0]
        now = {trend.series_id: trend.commit_id for trend in trends}
        if with_last and (pair := releasepoints.last_pair(releases, metric, len(trends))):
            last[pk] = pair
        if (pair := ReleasePair(metric, "", newest.tag, newest.commits, now, len(trends))).sides:
            since[pk] = pair
    changes = iter(releasepoints.judge_releases([*last.values(), *since.values()]))
    for pk in last:
        by_project[pk].release = next(changes)
    for pk in since:
        by_project[pk].since = next(changes)


def home_document(cards: Iterable[Card]) -> dict[str, Any]:
    """The cards as JSON."""
    return {"schema": "speedtrack.home/1", "projects": [card_document(card) for card in cards]}


def card_document(card: Card) -> dict[str, Any]:
    return {
        "project": card.project.slug,
        "branch": card.branch.name if card.branch else None,
        "measured": card.measured.sha if card.measured else None,
        "commits_behind": card.lag,
        "open_alerts": card.open_alerts,
        "unfinished_runs": card.unfinished,
        "machine": card.machine or None,
        "metric": card.metric.name,
        "newest": card.newest,
        "last_release": release_document(card.release),
        "since_release": release_document(card.since),
    }


def release_document(comparison: ReleaseChange | None) -> dict[str, Any] | None:
    total = comparison.total if comparison else None
    if comparison is None or total is None or (mean := total.mean) is None:
        return None
    low, high = total.interval or (None, None)
    change = {"ratio": mean.ratio, "low": low, "high": high, "look": total.look, "verdict": total.verdict}
    names = {"tag": comparison.tag, "before": comparison.before}
    return {**names, **change, "series": total.benchmarks, "of": total.of}
