"""What the measured pairs of a bisection say: for each benchmark, the answers by commit and the range that is left."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from speedtrack.alerts.lines.effects import SmallestEffects
from speedtrack.alerts.models import Bisection, BisectionAnswer
from speedtrack.alerts.pairs import pairing
from speedtrack.benchmarks.models import Benchmark
from speedtrack.runs.models import Run, Status
from speedtrack.stats.comparing import bisect, compare, narrow
from speedtrack.stats.comparing.bisect import CommitLevel, CommitRange
from speedtrack.stats.comparing.compare import Comparison
from speedtrack.stats.comparing.narrow import CommitPlacement

MOST_PAIRS = narrow.MOST  # of two commits
MOST_ROUNDS = 8  # of two commits: on a noisy machine many pairs are flagged, and do not count

Answer = BisectionAnswer.Answer
Pairs = list[tuple[float, float]]
LEVELS = {
    Answer.OLD: CommitLevel.OLD,
    Answer.NEW: CommitLevel.NEW,
    Answer.DIFFERENT: CommitLevel.NEW,
    Answer.UNDECIDED: CommitLevel.UNKNOWN,
    Answer.FAILED: CommitLevel.UNKNOWN,
}


@dataclass
class Search:
    """The search for the change of one benchmark: by commit id, the answers and the pairs that they rest on."""

    benchmark: Benchmark
    answers: dict[int, BisectionAnswer]
    pairs: dict[int, Pairs]

    def levels(self, bisection: Bisection) -> list[CommitLevel | None]:
        """The level of the older end, then of each commit of the path: old, new, or None where it is not known."""
        answers = (self.answers.get(commit) for commit in bisection.path)
        return [CommitLevel.OLD, *(LEVELS.get(Answer(answer.answer)) if answer else None for answer in answers)]

    def range_left(self, bisection: Bisection) -> CommitRange | None:
        """The range that the change lies in; None until its two ends have been found to differ."""
        end = self.answers.get(bisection.commit_id)
        if end is None or end.answer != Answer.DIFFERENT:
            return None
        return bisect.range_left(self.levels(bisection))


def searches_of(bisection: Bisection) -> list[Search]:
    """The searches of all benchmarks, by the pairs of the ended runs; the largest change first."""
    runs = [run for run in bisection.runs.order_by("pk").select_related("benchmark_set") if run.done]
    by_place = pairs_by_place(bisection, runs)
    smallest = SmallestEffects(bisection.project_id).of(bisection.metric_name)
    searches = []
    for benchmark in bisection.benchmark_set.benchmarks.order_by("pk"):
        own = [run for run in runs if benchmark.name in run.benchmark_set.names]
        pairs = {run.commit_id: by_place.get((benchmark.pk, run.commit_id), []) for run in own}
        searches.append(Search(benchmark, answers_by_commit(bisection, benchmark, pairs, own, smallest), pairs))
    return sorted(searches, key=lambda search: (-size_of(search.answers.get(bisection.commit_id)), search.benchmark.pk))


def stored_searches(bisection: Bisection) -> list[Search]:
    """The searches of all benchmarks by their stored answers, without the pairs: for pages."""
    of_benchmarks: dict[int, dict[int, BisectionAnswer]] = defaultdict(dict)
    for answer in bisection.answers.select_related("commit"):
        of_benchmarks[answer.benchmark_id][answer.commit_id] = answer
    benchmarks = bisection.benchmark_set.benchmarks.order_by("pk")
    return [Search(benchmark, of_benchmarks[benchmark.pk], {}) for benchmark in benchmarks]


def size_of(answer: BisectionAnswer | None) -> float:
    return abs(math.log(answer.ratio)) if answer and answer.ratio and answer.answer == Answer.DIFFERENT else 0.0


def pairs_by_place(bisection: Bisection, runs: Sequence[Run]) -> dict[tuple[int, int], Pairs]:
    """By (benchmark id, commit id): the (older end, commit) samples, in the order of measuring."""
    commits = {run.pk: run.commit_id for run in runs}
    pairs: dict[tuple[int, int], Pairs] = defaultdict(list)
    for (run, benchmark, _), own in pairing.pairs_by_run(commits, series__metric=bisection.metric_name).items():
        pairs[benchmark, commits[run]] += own
    return pairs


def answers_by_commit(
    bisection: Bisection, benchmark: Benchmark, pairs: dict[int, Pairs], runs: Sequence[Run], smallest: float
) -> dict[int, BisectionAnswer]:
    """The answers about one benchmark, by commit id: of every commit with pairs that were measured for it."""
    answers: dict[int, BisectionAnswer] = {}
    change = None
    why = {run.commit_id: run.error or f"its run was {run.status}" for run in runs if run.status != Status.SUCCEEDED}
    rounds = Counter(run.commit_id for run in runs)
    for commit in sorted(pairs, key=lambda pk: pk != bisection.commit_id):  # the newer end first
        answer = BisectionAnswer(bisection=bisection, benchmark=benchmark, commit_id=commit, pairs=len(pairs[commit]))
        if not pairs[commit]:
            answer.answer = Answer.FAILED
            answer.why = why.get(commit) or "none of its pairs is clean"
        elif commit == bisection.commit_id:
            ends = pairing.compared(bisection.metric, pairs[commit], smallest, level=compare.LEVEL, seed=commit)
            assert ends is not None  # bisections measure no counts
            fill(answer, ends)
            change = answer if answer.answer == Answer.DIFFERENT else None
        elif change is not None:
            placement = narrow.place_commit(pairs[commit], ratio=cautious(change), error=error_of(bisection))
            fill(answer, placement)
        else:
            continue  # it was measured for another benchmark
        if answer.answer == Answer.UNKNOWN and (answer.pairs >= MOST_PAIRS or rounds[commit] >= MOST_ROUNDS):
            answer.answer = Answer.UNDECIDED
        answers[commit] = answer
    return answers


def fill(answer: BisectionAnswer, finding: Comparison | CommitPlacement) -> None:
    answer.answer = Answer(finding.answer if isinstance(finding, Comparison) else finding.side)
    answer.ratio, answer.low, answer.high = finding.ratio, finding.low, finding.high


def cautious(change: BisectionAnswer) -> float:
    assert change.ratio is not None and change.low is not None and change.high is not None
    return narrow.cautious_ratio(change.ratio, change.low, change.high)


def error_of(bisection: Bisection) -> float:
    """The probability of a wrong level that one step may have."""
    return bisect.error_per_step(len(bisection.path))


def is_open(end: BisectionAnswer | None) -> bool:
    return end is None or end.answer == Answer.UNKNOWN


def write_answers(bisection: Bisection, searches: Sequence[Search]) -> None:
    """Store the present answers in place of earlier ones."""
    rows = [answer for search in searches for answer in search.answers.values()]
    BisectionAnswer.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["bisection", "benchmark", "commit"],
        update_fields=["answer", "ratio", "low", "high", "pairs", "why"],
    )
