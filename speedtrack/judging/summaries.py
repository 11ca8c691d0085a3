"""What a commit or a pull request did, in one sentence: pages, the API and messages say the same one."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from django.db.models import OuterRef, Q, Subquery

from speedtrack.alerts.headlines import Change, headline
from speedtrack.alerts.lines import lines
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import HEADLINE, METRICS, Metric
from speedtrack.ground.texts.text import plain
from speedtrack.judging.judge import Neighbour, judge_neighbours
from speedtrack.judging.pulls import PairedJudgement, judge_pulls
from speedtrack.judging.verdicts import COUNTED, DIFFERING, Basis, Judgement, Ruling
from speedtrack.projects.models import Position
from speedtrack.runs.models import ACTIVE, Deferral, PairedComparison, Run, Status
from speedtrack.runs.queue.progress import progress_of
from speedtrack.runs.requests import comparing
from speedtrack.runs.scheduling import standing

Changed = ChangePoint.Status
#: The columns of a series that ``SeriesAtCommit`` is made of.
COLUMNS = (
    *("pk", "machine__name", "machine__outside", "benchmark__name", "benchmark__ladder", "metric"),
    *("undetected_since", "sensitivity__visible", "sensitivity__visible_within"),
)
#: How certain a change point is, as the end of a sentence; the most certain status first.
CERTAINTY = {
    Changed.CONFIRMED: "confirmed",
    Changed.HISTORY: "shown by the history of its line",
    Changed.SETTLING: "suspected, being measured again",
    Changed.SUSPECTED: "suspected, to be measured again",
    Changed.UNSETTLED: "suspected, and pairs did not decide it",
}
#: What people or later commits made of a confirmed change.
SETTLED = {Alert.Status.EXPECTED: "expected", Alert.Status.FIXED: "fixed since"}


class State(StrEnum):
    """The state of a commit that its sentence describes, for colours and programs."""

    WORSE = "worse"
    BETTER = "better"
    SAME = "same"  #: measured, and no change that is certain and still matters
    OPEN = "open"  #: waits, is being measured, or a suspicion is
    UNKNOWN = "unknown"  #: not measured, or nothing that can be trusted


class Summary(NamedTuple):
    state: State  #: also the CSS class
    sentence: str


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
    def is_slowdown(self) -> bool:
        return self.judgement.verdict == Ruling.WORSE


class SeriesAtCommit(NamedTuple):
    """A series that measured a commit. ``is_new``: detection has not seen its newest measurements.

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

    @property
    def is_watched(self) -> bool:
        return METRICS[self.metric].watched


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
        return [one for one in self.series if one.is_watched]

    @property
    def judged(self) -> list[JudgedBenchmark]:
        """The watched ones of its series, as far as detection has compared them."""
        pairs = ((one.benchmark, self.neighbours.get(one.series_id)) for one in self.watched)
        return [JudgedBenchmark(name, neighbour.judgement) for name, neighbour in pairs if neighbour]


def summaries_of(commits: Collection[int]) -> dict[int, Summary]:
    """The summary of each of these commits, over all machines, by a fixed number of statements."""
    return {pk: summary_of(facts) for pk, facts in facts_of(commits).items()}


def facts_of(commits: Collection[int], only_watched: bool = True) -> dict[int, CommitFacts]:
    """What the summaries of these commits are made of. ``only_watched``: no other series is judged."""
    facts: dict[int, CommitFacts] = defaultdict(CommitFacts)
    read_series(commits, facts, only_watched)
    for change in changes_of(commits):
        facts[(change.alert or change).commit_id].changes.append(change)
    read_runs([pk for pk in commits if not facts[pk].series], facts)
    return facts


def read_series(commits: Collection[int], facts: dict[int, CommitFacts], only_watched: bool) -> None:
    """Add the series of these commits, and the judgements on them."""
    points = lines.point_measurements().filter(commit__in=commits)
    rows = points.values_list("commit", *(f"series__{column}" for column in COLUMNS)).distinct()
    for commit, *names, undetected_since, visible, within in rows.order_by("series"):
        facts[commit].series.append(SeriesAtCommit._make((*names, undetected_since is not None, visible, within)))
    every = (one for found in facts.values() for one in found.series)
    series = {one.series_id for one in every if one.is_watched or not only_watched}
    for place, neighbour in (judge_neighbours(series, commits) if series else {}).items():
        facts[place.commit_id].neighbours[place.series_id] = neighbour


def changes_of(commits: Collection[int]) -> Iterable[ChangePoint]:
    """The change points whose newest possible cause is one of these commits, by detection or by a person.

    ``width``: how many commits may be the cause.
    """
    positions = Position.objects.filter(branch=OuterRef("branch"))
    first, last = (Subquery(positions.filter(commit=OuterRef(end)).values("number")) for end in ("before", "commit"))
    own = Q(alert=None, commit__in=commits) | Q(alert__commit__in=commits, alert__merged_into=None)
    rows = ChangePoint.objects.filter(own, status__in=CERTAINTY).select_related("alert", "series__benchmark")
    return rows.defer("series__benchmark__definition").annotate(width=last - first).order_by("-pk")


def read_runs(commits: Collection[int], facts: dict[int, CommitFacts]) -> None:
    """Add the runs of commits that have no point, or why none was queued."""
    if not commits:
        return
    without_point = ~Q(status=Status.SUCCEEDED) | Q(linked__isnull=False)
    runs = Run.objects.own().filter(without_point, commit__in=commits).order_by("-pk")
    rows = list(runs.select_related("machine", "linked__commit").defer("machine__facts"))
    progress, waits = progress_of(rows), standing.why_wait(rows)
    for run in rows:
        found = facts[run.commit_id]
        found.runs.append(run)
        if run.pk in progress:
            found.progress[run.pk] = progress[run.pk].said
        if run.pk in waits:
            found.waits[run.pk] = waits[run.pk]
    if unplanned := [pk for pk in commits if not facts[pk].runs]:
        for commit, detail in Deferral.objects.filter(commit__in=unplanned).values_list("commit", "detail"):
            facts[commit].deferral = detail


def summary_of(facts: CommitFacts) -> Summary:
    """The summary by changes, without any by judgements, and without results by runs."""
    return capitalised(of_changes(facts) or of_judgements(facts) or of_runs(facts))


def capitalised(summary: Summary) -> Summary:
    return summary._replace(sentence=summary.sentence[:1].upper() + summary.sentence[1:])


def of_changes(facts: CommitFacts) -> Summary | None:
    """The most certain changes that nobody called invalid."""
    changes = [change for change in facts.changes if not (change.alert and change.alert.status == Alert.Status.INVALID)]
    status = next((status for status in CERTAINTY if any(change.status == status for change in changes)), None)
    if status is None:
        return None
    certain = [change for change in changes if change.status == status]
    made_of_it = {SETTLED.get(Alert.Status(change.alert.status), "") if change.alert else "" for change in certain}
    settled = made_of_it.pop() if len(made_of_it) == 1 else ""
    width = min(getattr(change, "width", None) or 1 for change in certain)
    causes = f", by one of {width} commits up to this one" if width > 1 else ""
    sentence = f"{headline(certain)}{causes}, {', '.join(filter(None, (CERTAINTY[status], settled)))}"
    if status not in (Changed.CONFIRMED, Changed.HISTORY):
        return Summary(State.OPEN, sentence)
    return Summary(State.SAME if settled else way_of(certain), sentence)


def way_of(changes: Sequence[Change]) -> State:
    return State.WORSE if any(change.is_slowdown for change in changes) else State.BETTER


def of_judgements(facts: CommitFacts) -> Summary | None:
    """What the comparison with the commit before shows, if nothing is suspected."""
    watched, judged = facts.watched, facts.judged
    if not watched:
        return None
    if not judged and any(one.is_new for one in watched):
        return Summary(State.OPEN, "measured, and now compared with the commit before")
    if not judged:
        return Summary(State.SAME, f"the first measurement of {count_of(one.benchmark for one in watched)}")
    return by_pairs(judged) or unchanged(judged, seen_by([one for one in watched if one.metric == HEADLINE]))


def by_pairs(judged: Iterable[JudgedBenchmark]) -> Summary | None:
    """What pairs of exactly these two commits show; None if they show no difference."""
    moved = [one for one in judged if one.judgement.basis == Basis.PAIRS and one.judgement.verdict in DIFFERING]
    return Summary(way_of(moved), f"{headline(moved)}, by pairs") if moved else None


def unchanged(judged: Sequence[JudgedBenchmark], seen: str = "") -> Summary:
    """The sentence of judgements without a confirmed change. ``seen``: which change would have been seen."""
    counted = [one for one in judged if one.judgement.verdict in COUNTED]
    if not counted:
        void = count_of(one.benchmark_name for one in judged)
        return Summary(State.UNKNOWN, f"measured, but no value of {void} can be trusted or compared")
    if all(one.judgement.verdict == Ruling.SAME_PROGRAM for one in counted):
        return Summary(State.SAME, "the same program as the commit before, bit for bit")
    # A confirmed change of which no alert stands was called invalid by a person.
    moved = [one for one in counted if one.judgement.verdict in DIFFERING and one.judgement.basis != Basis.CHANGE]
    names = {one.benchmark_name for one in judged}
    number = len({one.benchmark_name for one in counted})
    of = f"{number} of {len(names)} benchmarks" if number < len(names) else count_of(names)
    opening = f"no {'confirmed ' if moved else ''}change in {of}"
    signs = f"{headline(moved)}, in a single measurement only" if moved else ""
    return Summary(State.SAME, "; ".join(filter(None, (opening, signs, seen))))


def seen_by(series: Collection[SeriesAtCommit]) -> str:
    """Which change each of these series would have shown; empty if that is not known of all."""
    known = [(one.visible, one.visible_within or 1) for one in series if one.visible is not None]
    if not series or len(known) < len(series):
        return ""
    visible, within = max(known)
    time = "have been seen" if within == 1 else f"be seen within {within} commits"
    return f"{numbers.change_seen(visible)} or more would {time}"


def count_of(benchmarks: Iterable[str]) -> str:
    number = len(set(benchmarks))
    return f"{number} benchmark{'' if number == 1 else 's'}"


def of_runs(facts: CommitFacts) -> Summary:
    """What becomes of a commit without a point."""
    active = next((run for run in facts.runs if run.status in ACTIVE), None)
    queued = next((run for run in facts.runs if run.status == Status.QUEUED), None)
    ended = next(iter(facts.runs), None)
    if active:
        return Summary(State.OPEN, f"being measured: {facts.progress[active.pk]}")
    if queued:
        return Summary(State.OPEN, f"waits to be measured. {facts.waits[queued.pk]}")
    if ended and ended.linked:
        return Summary(State.SAME, f"the same program as {ended.linked.commit.short}, so it was not measured again")
    if ended:
        why = plain(ended.error).strip().partition("\n")[0] or f"run {ended.pk} was {ended.status}"
        return Summary(State.UNKNOWN, f"not measured: {why}")
    return Summary(State.UNKNOWN, f"not measured: {facts.deferral or 'no run of it was queued'}")


def pull_summaries(runs: Sequence[Run]) -> dict[tuple[int | None, int | None], Summary]:
    """By base and head: the summary of the pairs of these runs, by a fixed number of statements.

    The runs must have their machines loaded.
    """
    if not runs:
        return {}
    waits = standing.why_wait(runs)
    judged: dict[tuple[int | None, int], list[PairedJudgement]] = defaultdict(list)
    for row in judge_pulls(runs):
        judged[row.ends.base_id, row.ends.head_id].append(row)
    by_sides: dict[tuple[int | None, int], list[Run]] = defaultdict(list)
    for run in runs:
        by_sides[run.base_id, run.commit_id].append(run)
    return {sides: pull_summary(judged[sides], own, waits) for sides, own in by_sides.items()}


#: What becomes of a comparison without runs, by its state.
UNPLANNED = {
    "unapproved": Summary(State.OPEN, "Waits for the approval of a maintainer"),
    "fetching": Summary(State.OPEN, "Its commits are being fetched"),
}


def comparison_summary(comparison: PairedComparison, rows: Sequence[PairedJudgement], runs: Sequence[Run]) -> Summary:
    """The summary of a comparison that somebody asked for. ``rows``: the judgements on its ``runs``."""
    if error := comparing.error_of(comparison, runs):
        return Summary(State.UNKNOWN, f"Not measured: {error}")
    state = comparing.state_of(comparison, runs)
    return UNPLANNED.get(state) or pull_summary(rows, runs, standing.why_wait(runs))


def pull_summary(rows: Sequence[PairedJudgement], runs: Sequence[Run], waits: Mapping[int, str]) -> Summary:
    """The summary of a pull request's head against its merge base, by pairs. ``waits``: why queued runs wait."""
    judged = [JudgedBenchmark(row.benchmark, row.judgement) for row in rows]
    moved = by_pairs(judged)
    if any(not run.done for run in runs):
        why = next((waits[run.pk] for run in runs if run.pk in waits), "")
        so_far = f"so far {moved.sentence}; " if moved else ""
        return capitalised(Summary(State.OPEN, f"{so_far}being measured in pairs. {why}".strip()))
    return capitalised(moved or (unchanged(judged) if judged else Summary(State.UNKNOWN, "not measured")))
