"""What the sentence of a commit is made of: its series, the judgements on them, its change points and its runs."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from django.db.models import OuterRef, Q, QuerySet, Subquery

from speedtrack.alerts.lines.linecolumns import Array
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.ground.postgres.plainrows import among, among_selected
from speedtrack.ground.postgres.preparedquery import PreparedQuery
from speedtrack.judging.neighbours import NeighbourColumns, judge_neighbours, no_neighbours
from speedtrack.judging.seriescolumns import SeriesColumns, no_series, series_of_commits
from speedtrack.judging.verdicts import Judgement, Ruling
from speedtrack.projects.models import Position
from speedtrack.runs.models import Deferral, Run, Status
from speedtrack.runs.queue.progress import progress_of
from speedtrack.runs.scheduling import standing

Changed = ChangePoint.Status
#: How certain a change point is, as the end of a sentence; the most certain first.
CERTAINTY = {
    Changed.CONFIRMED: "confirmed",
    Changed.HISTORY: "shown by the history of its line",
    Changed.SETTLING: "suspected, being measured again",
    Changed.SUSPECTED: "suspected, to be measured again",
    Changed.UNSETTLED: "suspected, and pairs did not decide it",
}


class JudgedBenchmark(NamedTuple):
    """A benchmark and metric of a commit, judged against the commit before it. It is a ``headlines.Change``."""

    benchmark_name: str
    judgement: Judgement

    @property
    def metric(self) -> Metric:
        return self.judgement.metric

    @property
    def ratio(self) -> float:
        return self.judgement.ratio

    @property
    def change_in_words(self) -> str:
        return numbers.change(self.ratio)

    @property
    def interval_in_words(self) -> str:
        return numbers.change_interval(self.ratio, self.judgement.low, self.judgement.high)

    @property
    def is_slowdown(self) -> bool:
        return self.judgement.verdict == Ruling.WORSE


@dataclass
class CommitFacts:
    """What a commit's sentence is made of.

    ``neighbours``: what is known against the commit before; ``changes``: change points that it caused or may
    have caused; ``runs``: those without a point of a line, newest first; ``progress``: of those under way, in words;
    ``waits``: why others wait.
    """

    series: SeriesColumns = field(default_factory=no_series)
    neighbours: NeighbourColumns = field(default_factory=no_neighbours)
    changes: list[ChangePoint] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    progress: dict[int, str] = field(default_factory=dict)
    waits: dict[int, str] = field(default_factory=dict)
    deferral: str = ""

    @property
    def is_watched(self) -> Array:
        """Whether each of its series is of a metric that may raise alerts."""
        watched = [METRICS[name].watched for name in self.series.names.metrics]
        is_watched: Array = np.array(watched, bool)[self.series.metric]
        return is_watched


def facts_of(
    commits: Collection[int],
    judged_too: Callable[[CommitFacts], Collection[int]] = lambda facts: (),
    with_progress: bool = True,
) -> dict[int, CommitFacts]:
    """The facts that the summaries of these commits state.

    ``judged_too``: which series of a commit are judged besides those that are watched. ``with_progress``: also how far
    runs are, and why others wait.
    """
    facts = facts_by_changes(commits)
    complete(facts, judged_too, with_progress)
    return facts


def facts_by_changes(commits: Collection[int]) -> dict[int, CommitFacts]:
    """The facts of these commits with nothing but their change points."""
    facts = {pk: CommitFacts() for pk in commits}
    for change in changes_of(commits):
        facts[(change.alert or change).commit_id].changes.append(change)
    return facts


def complete(
    facts: dict[int, CommitFacts],
    judged_too: Callable[[CommitFacts], Collection[int]] = lambda facts: (),
    with_progress: bool = True,
) -> None:
    """Add to ``facts_by_changes`` all that ``facts_of`` has besides."""
    read_series(facts.keys(), facts, judged_too)
    read_runs([pk for pk, own in facts.items() if not own.series], facts, with_progress)


def read_series(
    commits: Collection[int], facts: dict[int, CommitFacts], judged_too: Callable[[CommitFacts], Collection[int]]
) -> None:
    """Add the series of these commits, and the judgements on them."""
    by_commit = series_of_commits(commits)
    for commit, series in by_commit.items():
        facts[commit].series = series
    judged_ids = {pk for own in facts.values() for pk in judged_too(own)}
    judged_ids.update(*(own.series.series[own.is_watched].tolist() for own in facts.values()))
    for commit, neighbours in (judge_neighbours(judged_ids, by_commit) if judged_ids else {}).items():
        facts[commit].neighbours = neighbours


def changes_of(commits: Collection[int]) -> Iterable[ChangePoint]:
    """The change points whose newest possible cause is one of these commits, by detection or by a person.

    ``width``: how many commits may be the cause.
    """
    return CHANGES.rows(commits=list(commits))


def changes_by_commit(commits: list[int]) -> QuerySet[ChangePoint]:
    positions = Position.objects.filter(branch=OuterRef("branch"))
    first, last = (Subquery(positions.filter(commit=OuterRef(end)).values("number")) for end in ("before", "commit"))
    alerts = Alert.objects.standing().filter(among("commit_id", commits)).values("pk")
    own = Q(among("commit_id", commits), alert=None) | Q(among_selected("alert_id", alerts))
    rows = ChangePoint.objects.filter(own, status__in=CERTAINTY).select_related("alert", "series__benchmark")
    return rows.defer("series__benchmark__definition").annotate(width=last - first).order_by("-pk")


CHANGES = PreparedQuery(changes_by_commit)


def read_runs(commits: Collection[int], facts: dict[int, CommitFacts], with_progress: bool) -> None:
    """Add the runs of commits that have no point, or why none was queued."""
    if not commits:
        return
    without_point = ~Q(status=Status.SUCCEEDED) | Q(linked__isnull=False)
    runs = Run.objects.own().filter(without_point, commit__in=commits).order_by("-pk")
    rows = list(runs.select_related("machine", "linked__commit").defer("machine__facts"))
    commit_of = {run.pk: run.commit_id for run in rows}
    for run in rows:
        facts[run.commit_id].runs.append(run)
    if with_progress:
        for pk, progress in progress_of(rows).items():
            facts[commit_of[pk]].progress[pk] = progress.said
        for pk, reason in standing.why_wait(rows).items():
            facts[commit_of[pk]].waits[pk] = reason
    if unplanned := [pk for pk in commits if not facts[pk].runs]:
        for commit, detail in Deferral.objects.filter(commit__in=unplanned).values_list("commit", "detail"):
            facts[commit].deferral = detail
