"""What a commit, a pull request or any two commits are to each other, in one sentence.

Pages, the API, feeds, statuses of forges, the client and agents say the same one.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from speedtrack.alerts.headlines import Change, headline
from speedtrack.alerts.lines.linecolumns import Array
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import HEADLINE
from speedtrack.ground.texts.text import plain, shortened
from speedtrack.judging.facts import CERTAINTY, CommitFacts, JudgedBenchmark, complete, facts_by_changes
from speedtrack.judging.judgedcolumns import JudgedColumns
from speedtrack.judging.pulls import PairedJudgement, judge_pulls
from speedtrack.judging.sides import ComparedRows
from speedtrack.judging.totals import counts_of
from speedtrack.judging.verdicts import COUNTED, DIFFERING, Basis, Ruling
from speedtrack.runs.models import ACTIVE, PairedComparison, Run, Status
from speedtrack.runs.requests import comparing
from speedtrack.runs.scheduling import standing

Changed = ChangePoint.Status
#: What people or later commits made of a confirmed change.
SETTLED = {Alert.Status.EXPECTED: "expected", Alert.Status.FIXED: "fixed since"}
#: What a difference of two sides rests on, as the end of a sentence.
BASES = {
    Basis.CHANGE: "confirmed",
    Basis.PAIRS: "by pairs",
    Basis.STORED: "in single measurements",
    Basis.SAMPLES: "in single measurements",
}


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

    def within(self, longest: int) -> str:
        """The sentence in at most so many characters, cut at a word: what matters most comes first."""
        return shortened(self.sentence, longest)


def summaries_of(commits: Collection[int], with_progress: bool = True) -> dict[int, Summary]:
    """The summary of each of these commits, over all machines, by a fixed number of statements.

    What changes say needs no judgement, so only the other commits are judged.

    ``with_progress``: also what is true for a moment only, such as how far a run is.
    """
    facts = facts_by_changes(commits)
    complete({pk: own for pk, own in facts.items() if not of_changes(own)}, with_progress=with_progress)
    return {pk: summary_of(own) for pk, own in facts.items()}


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
    settled = only({SETTLED.get(Alert.Status(change.alert.status), "") if change.alert else "" for change in certain})
    width = min(getattr(change, "width", None) or 1 for change in certain)
    causes = f", by one of {width} commits up to this one" if width > 1 else ""
    sentence = f"{headline(certain)}{causes}, {', '.join(filter(None, (CERTAINTY[status], settled)))}"
    if status not in (Changed.CONFIRMED, Changed.HISTORY):
        return Summary(State.OPEN, sentence)
    return Summary(State.SAME if settled else way_of(certain), sentence)


def only(endings: set[str]) -> str:
    """The ending that all have in common; empty if they have several."""
    return next(iter(endings)) if len(endings) == 1 else ""


def way_of(changes: Sequence[Change]) -> State:
    return State.WORSE if any(change.is_slowdown for change in changes) else State.BETTER


def of_judgements(facts: CommitFacts) -> Summary | None:
    """What the comparison with the commit before shows, if nothing is suspected."""
    watched = facts.series.chosen(facts.is_watched)
    if not watched:
        return None
    neighbours = facts.neighbours.among(facts.is_watched)
    if not neighbours and watched.is_new.any():
        return Summary(State.OPEN, "measured, and now compared with the commit before")
    if not neighbours:
        return Summary(State.SAME, f"the first measurement of {benchmarks_of(len(np.unique(watched.name)))}")
    overview = overview_of_columns(neighbours.judgements, facts.series.name[neighbours.index], watched.names.benchmarks)
    headlines = watched.chosen(watched.metric == watched.names.index_of_metric(HEADLINE))
    return by_pairs(overview.differing) or unchanged(overview, seen_by(headlines.visible, headlines.within))


class Overview(NamedTuple):
    """Judgements as far as a sentence needs them: those that differ, and how many benchmarks there are and count."""

    differing: list[JudgedBenchmark]
    rulings: Collection[Ruling]
    benchmarks: int
    counted: int


def overview_of(rows: Collection[JudgedBenchmark]) -> Overview:
    return Overview(
        [row for row in rows if row.judgement.verdict in DIFFERING],
        {row.judgement.verdict for row in rows},
        len({row.benchmark_name for row in rows}),
        len({row.benchmark_name for row in rows if row.judgement.verdict in COUNTED}),
    )


def by_pairs(differing: Iterable[JudgedBenchmark]) -> Summary | None:
    """What pairs of exactly these two commits show; None if they show no difference."""
    return different([row for row in differing if row.judgement.basis == Basis.PAIRS])


def different(moved: Sequence[JudgedBenchmark]) -> Summary | None:
    """What differs, and what that rests on if all rests on the same; None if nothing differs."""
    basis = only({BASES[row.judgement.basis] for row in moved})
    return Summary(way_of(moved), ", ".join(filter(None, (headline(moved), basis)))) if moved else None


def unchanged(overview: Overview, seen: str = "", base: str = "the commit before") -> Summary:
    """The sentence of judgements without a certain difference. ``seen``: which change would have been seen."""
    _, rulings, total, number = overview
    if not number:
        return Summary(State.UNKNOWN, f"measured, but no value of {benchmarks_of(total)} can be trusted or compared")
    if COUNTED.intersection(rulings) == {Ruling.SAME_PROGRAM}:
        return Summary(State.SAME, f"the same program as {base}, bit for bit")
    # A confirmed change of which no alert stands was called invalid by a person.
    moved = [row for row in overview.differing if row.judgement.basis != Basis.CHANGE]
    benchmarks = f"{number} of {benchmarks_of(total)}" if number < total else benchmarks_of(total)
    opening = f"no {'confirmed ' if moved else ''}change in {benchmarks}"
    signs = f"{headline(moved)}, in a single measurement only" if moved else ""
    return Summary(State.SAME, "; ".join(filter(None, (opening, signs, seen))))


def seen_by(visible: Array, within: Array) -> str:
    """Which change each of these series would have shown; empty if that is not known of all.

    ``visible``, ``within``: as those of ``SeriesColumns``.
    """
    if not len(visible) or np.isnan(visible).any():
        return ""
    worst = np.lexsort((within, visible))[-1]
    size, commits = float(visible[worst]), max(1, int(within[worst]))
    time = "have been seen" if commits == 1 else f"be seen within {commits} commits"
    return f"{numbers.change_seen(size)} or more would {time}"


def benchmarks_of(number: int) -> str:
    return f"{number} benchmark{'' if number == 1 else 's'}"


def of_runs(facts: CommitFacts) -> Summary:
    """What becomes of a commit without a point."""
    active = next((run for run in facts.runs if run.status in ACTIVE), None)
    queued = next((run for run in facts.runs if run.status == Status.QUEUED), None)
    ended = next(iter(facts.runs), None)
    if active:
        return Summary(State.OPEN, ": ".join(filter(None, ("being measured", facts.progress.get(active.pk)))))
    if queued:
        return Summary(State.OPEN, ". ".join(filter(None, ("waits to be measured", facts.waits.get(queued.pk)))))
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
    by_ends: dict[tuple[int | None, int], list[PairedJudgement]] = defaultdict(list)
    for row in judge_pulls(runs):
        by_ends[row.ends.base_id, row.ends.head_id].append(row)
    by_sides: dict[tuple[int | None, int], list[Run]] = defaultdict(list)
    for run in runs:
        by_sides[run.base_id, run.commit_id].append(run)
    return {sides: pull_summary(by_ends[sides], own, waits) for sides, own in by_sides.items()}


#: By the status of a run without all of its pairs: the verb that tells of it.
INCOMPLETE: dict[str, str] = {Status.FAILED: "failed", Status.CANCELLED: "was cancelled"}
#: What becomes of a comparison without runs, by its state.
UNPLANNED = {
    "unapproved": Summary(State.OPEN, "Waits for the approval of a maintainer"),
    "fetching": Summary(State.OPEN, "Its commits are being fetched"),
}


def comparison_summary(
    comparison: PairedComparison, judgements: Sequence[PairedJudgement], runs: Sequence[Run]
) -> Summary:
    """The summary of a comparison that somebody asked for. ``judgements``: on its ``runs``."""
    if error := comparing.error_of(comparison, runs):
        return Summary(State.UNKNOWN, f"Not measured: {error}")
    state = comparing.state_of(comparison, runs)
    return UNPLANNED.get(state) or pull_summary(judgements, runs, standing.why_wait(runs))


def pull_summary(
    judgements: Iterable[PairedJudgement], runs: Collection[Run], waits: Mapping[int, str] | None = None
) -> Summary:
    """The summary of a head against its merge base, by pairs. ``waits``: why queued runs wait.

    Where nothing differs, only pairs that decide show that nothing changed. The end says which runs failed.
    """
    rows = list(judgements)
    difference = different(
        [JudgedBenchmark(row.benchmark, row.judgement) for row in rows if row.judgement.verdict in DIFFERING]
    )
    if unfinished := [run.pk for run in runs if not run.done]:
        why = next((waits[pk] for pk in unfinished if pk in waits), "") if waits else ""
        so_far = f"so far {difference.sentence}; " if difference else ""
        return capitalised(Summary(State.OPEN, f"{so_far}being measured in pairs. {why}".strip()))
    failures = failures_of(runs)
    if not rows:
        why = "; ".join(failures) or "too few pairs can be compared"
        return Summary(State.UNKNOWN, f"Not measured: {why}")
    state, sentence = difference or undecided(rows) or unchanged(overview_of_pairs(rows), base="the base")
    return capitalised(Summary(state, "; ".join((sentence, *failures))))


def failures_of(runs: Iterable[Run]) -> list[str]:
    """What became of the runs that did not measure all of their pairs."""
    ended = [(run, plain(run.error).strip().partition("\n")[0]) for run in runs if run.status in INCOMPLETE]
    return [": ".join(filter(None, (f"run {run.pk} {INCOMPLETE[run.status]}", why))) for run, why in ended]


def overview_of_pairs(rows: Iterable[PairedJudgement]) -> Overview:
    return overview_of([JudgedBenchmark(row.benchmark, row.judgement) for row in rows])


def undecided(rows: Sequence[PairedJudgement]) -> Summary | None:
    """The summary of pairs that leave benchmarks open, with the widest interval; None if there are none."""
    open_rows = [row for row in rows if row.judgement.verdict == Ruling.UNCERTAIN]
    if not open_rows:
        return None
    names = {row.benchmark for row in open_rows}
    rest = overview_of_pairs([row for row in rows if row.benchmark not in names])
    widest = max(open_rows, key=lambda row: row.judgement.high - row.judgement.low)
    metric, _, ratio, low, high, _, pairs, _ = widest.judgement
    range_left = f"{numbers.change_interval(ratio, low, high)} of {metric.title}"
    why = f"{pairs} pairs of {widest.benchmark} leave {range_left} open"
    if not rest.counted:
        return Summary(State.UNKNOWN, f"undecided in {benchmarks_of(len(names))}: {why}")
    total = benchmarks_of(len({row.benchmark for row in rows}))
    return Summary(State.SAME, f"no change in {rest.counted} of {total}; undecided in {len(names)}: {why}")


def summary_of_sides(rows: ComparedRows) -> Summary:
    """The summary of any two commits by what was measured of each: the metrics that may raise alerts, if there are."""
    if not rows:
        return Summary(State.UNKNOWN, "No benchmark was measured of both")
    watched = rows.watched
    overview = overview_of_columns(watched.judgements, watched.head.name, watched.head.names.benchmarks)
    return capitalised(different(overview.differing) or unchanged(overview, base="the base"))


def overview_of_columns(judgements: JudgedColumns, name: Array, benchmarks: Sequence[str]) -> Overview:
    """The overview of judgements. ``name``: of each the index of its benchmark among all names."""
    moved = np.flatnonzero(judgements.differs)
    names = map(benchmarks.__getitem__, name[moved].tolist())
    counts = [len(np.unique(indices)) for indices in (name, name[judgements.is_among(COUNTED)])]
    differing = list(map(JudgedBenchmark, names, judgements.chosen(moved).objects))
    return Overview(differing, counts_of(judgements.ruling).keys(), *counts)
