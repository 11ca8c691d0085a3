"""What the sentence of a commit is made of: its series, the judgements on them, its change points and its runs."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from django.db.models import OuterRef, Q, Subquery

from speedtrack.alerts.lines import lines
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.ground.postgres.plainrows import among_selected
from speedtrack.judging.judge import Neighbour, judge_neighbours
from speedtrack.judging.verdicts import Judgement, Ruling
from speedtrack.projects.models import Position
from speedtrack.runs.models import Deferral, Run, Status
from speedtrack.runs.queue.progress import progress_of
from speedtrack.runs.scheduling import standing

Changed = ChangePoint.Status
#: The columns of a series that ``SeriesAtCommit`` is made of.
COLUMNS = (
    *("pk", "machine__name", "machine__outside", "benchmark__name", "benchmark__ladder", "metric"),
    *("undetected_since", "sensitivity__visible", "sensitivity__visible_within"),
)
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


class SeriesAtCommit(NamedTuple):
    """A series with a measurement of a commit. ``is_new``: detection has not read its newest measurements yet.

    ``visible``: the smallest change that its line shows within ``visible_within`` commits; None: not known.
    """

    series_id: int
    machine: str
    is_outside: bool
    benchmark: str
    ladder: str
    metric: str
    is_new: bool
    visible: float | None
    visible_within: int | None


@dataclass
class CommitFacts:
    """What a commit's sentence is made of.

    ``neighbours``: by series, what is known against the commit before; ``changes``: change points that it caused or may
    have caused; ``runs``: those without a point of a line, newest first; ``progress``: of those under way, in words;
    ``waits``: why others wait.
    """

    series: list[SeriesAtCommit] = field(default_factory=list)
    neighbours: dict[int, Neighbour] = field(default_factory=dict)
    changes: list[ChangePoint] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    progress: dict[int, str] = field(default_factory=dict)
    waits: dict[int, str] = field(default_factory=dict)
    deferral: str = ""

    @property
    def watched(self) -> list[SeriesAtCommit]:
        names = {name for name in {series.metric for series in self.series} if METRICS[name].watched}
        return [series for series in self.series if series.metric in names]

    @property
    def judged(self) -> list[JudgedBenchmark]:
        """The watched ones of its series, as far as detection has compared them."""
        return [
            JudgedBenchmark(series.benchmark, self.neighbours[series.series_id].judgement)
            for series in self.watched
            if series.series_id in self.neighbours
        ]


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
    points = lines.point_measurements().filter(commit__in=commits)
    rows = points.values_list("commit", *(f"series__{column}" for column in COLUMNS)).distinct()
    for commit, *names, undetected_since, visible, within in rows.order_by("series"):
        facts[commit].series.append(SeriesAtCommit._make((*names, undetected_since is not None, visible, within)))
    judged_series = {pk for own in facts.values() for pk in (*(row.series_id for row in own.watched), *judged_too(own))}
    for head, neighbour in (judge_neighbours(judged_series, commits) if judged_series else {}).items():
        facts[head.commit_id].neighbours[head.series_id] = neighbour


def changes_of(commits: Collection[int]) -> Iterable[ChangePoint]:
    """The change points whose newest possible cause is one of these commits, by detection or by a person.

    ``width``: how many commits may be the cause.
    """
    positions = Position.objects.filter(branch=OuterRef("branch"))
    first, last = (Subquery(positions.filter(commit=OuterRef(end)).values("number")) for end in ("before", "commit"))
    alerts = Alert.objects.standing().filter(commit__in=commits).values("pk")
    own = Q(alert=None, commit__in=commits) | Q(among_selected("alert_id", alerts))
    rows = ChangePoint.objects.filter(own, status__in=CERTAINTY).select_related("alert", "series__benchmark")
    return rows.defer("series__benchmark__definition").annotate(width=last - first).order_by("-pk")


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
