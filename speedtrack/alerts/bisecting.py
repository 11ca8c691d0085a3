"""Bisections that people ask for: find the commit between two at which each of some benchmarks changed.

All pairs of a bisection have its older end as their base, so that benchmarks which changed at different commits share
runs. ``step`` does whatever is next, at any time, any number of times:

1. Both ends are measured in pairs until they are found to differ or to be the same, or 160 pairs have not decided.

2. For a benchmark whose ends differ, the commit that halves its range is measured: it runs on the level of one end, or
its pairs do not decide, or it cannot be built. If it gives no answer, its nearest neighbour is measured instead.

3. While the machine has no other work, the commits that would be next after either answer are queued as well, and taken
back once the answer is known: so the machine need not wait for it.
"""

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from speedtrack.alerts import pairing
from speedtrack.alerts.effects import SmallestEffects
from speedtrack.alerts.measuring import MOST_BENCHMARKS, NotMeasurable
from speedtrack.alerts.models import Bisection, BisectionAnswer
from speedtrack.alerts.trouble import DATABASE_AWAY
from speedtrack.benchmarks.metrics import HEADLINE, METRICS, WATCHED
from speedtrack.benchmarks.models import Benchmark
from speedtrack.benchmarks.storing import store_set, store_suite, usual_benchmarks
from speedtrack.benchmarks.suitefiles import load_suite
from speedtrack.projects.models import Commit, Position
from speedtrack.runs import estimates, planning, queue
from speedtrack.runs.models import ACTIVE, Machine, Reason, Run, Side, Status
from speedtrack.runs.order import PRIORITY
from speedtrack.runs.progress import about
from speedtrack.stats import bisect, compare, narrow, sequential
from speedtrack.stats.bisect import CommitRange
from speedtrack.stats.narrow import CommitLevel

log = logging.getLogger(__name__)

MOST_COMMITS = 4096  # of a path: twelve steps
MOST_PAIRS = narrow.MOST  # of two commits
MOST_ROUNDS = 8  # of two commits: on a noisy machine many pairs are flagged, and do not count
LEVEL = 0.01  # probability that ends without a change are taken for different
WRONG_COMMIT = 0.005  # probability that it ends at a wrong commit, over all its steps

Answer = BisectionAnswer.Answer
Pairs = list[tuple[float, float]]
LEVELS = {
    Answer.OLD: CommitLevel.OLD,
    Answer.NEW: CommitLevel.NEW,
    Answer.DIFFERENT: CommitLevel.NEW,
    Answer.UNDECIDED: CommitLevel.UNKNOWN,
    Answer.FAILED: CommitLevel.UNKNOWN,
}


@transaction.atomic
def start(
    before: Commit,
    commit: Commit,
    machine: Machine,
    names: Sequence[str] = (),
    metric: str = HEADLINE,
    asked_by: User | None = None,
) -> Bisection:
    """Begin to look for the commit after ``before`` and up to ``commit`` at which these benchmarks changed.

    ``names``: without any, the usual benchmarks of the suite; at most the first MOST_BENCHMARKS are measured. If an
    equal bisection is under way, it is returned. Raises NotMeasurable, or DefinitionError for an invalid suite.
    """
    Machine.objects.select_for_update().get(pk=machine.pk)  # of two equal requests, the second sees the first's
    path = path_between(before, commit)
    known = METRICS.get(metric) if metric in WATCHED else None
    if known is None or not known.watched or known.counted:
        raise NotMeasurable(f"pairs do not measure {metric!r}: take {HEADLINE}, or another metric that is watched")
    if commit.project.untracked_at is not None or machine.retired_at is not None or machine.outside:
        raise NotMeasurable(f"{commit.project.name} must be tracked, and {machine} in service, with a runner")
    definition = load_suite(commit.project.suite)
    suite, stored = store_suite(commit.project, definition)
    by_name = {one.name: one for one in stored}
    if unknown := [name for name in names if name not in by_name]:
        raise NotMeasurable(f"the suite {suite.name} has no benchmark {', '.join(unknown)}")
    chosen = [by_name[name] for name in dict.fromkeys(names)] or usual_benchmarks(definition, stored)
    place = {
        "machine": machine,
        "before": before,
        "commit": commit,
        "benchmark_set": store_set(suite, chosen[:MOST_BENCHMARKS]),
        "metric_name": metric,
    }
    if under_way := Bisection.objects.measuring().filter(**place).first():
        return under_way
    bisection = Bisection.objects.create(project=commit.project, suite=suite, path=path, asked_by=asked_by, **place)
    go_on(bisection)
    return bisection


def path_between(before: Commit, commit: Commit) -> list[int]:
    """The ids of the commits after ``before`` up to ``commit``, on a branch that has both. Raises NotMeasurable."""
    both = Position.objects.filter(commit=before).values("branch")
    end = Position.objects.filter(commit=commit, branch__in=both).order_by("branch__deleted_at", "branch").first()
    if before.pk == commit.pk:
        raise NotMeasurable(f"{commit.short} is both ends: name two commits")
    if end is None:
        raise NotMeasurable(f"no tracked branch has both {before.short} and {commit.short} on its first-parent line")
    begin = Position.objects.get(commit=before, branch=end.branch_id)
    if begin.number > end.number:
        raise NotMeasurable(f"{commit.short} is older than {before.short}: swap them")
    if end.number - begin.number > MOST_COMMITS:
        raise NotMeasurable(
            f"{end.number - begin.number:,} commits lie between them: at most {MOST_COMMITS:,} are searched"
        )
    between = Position.objects.filter(branch=end.branch_id, number__gt=begin.number, number__lte=end.number)
    return list(between.order_by("number").values_list("commit_id", flat=True))


def bisection_in_words(bisection: Bisection) -> str:
    """The bisection in words, and how long it will take. Its number is left out: a dry run uses up numbers."""
    ends = f"{bisection.before.short}..{bisection.commit.short}"
    names = ", ".join(bisection.benchmark_set.names)
    return (
        f"a bisection of {ends} on {bisection.machine} by {names}: {expected(bisection, searches_of(bisection)).words}"
    )


@transaction.atomic
def stop(bisection: Bisection, why: str) -> str:
    """End a bisection, and cancel what is queued or measured for it alone. Return a sentence for people."""
    bisection = Bisection.objects.select_for_update(of=("self",)).get(pk=bisection.pk)
    if bisection.ended_at is not None:
        return f"{bisection} has ended already"
    end(bisection, why)
    return f"{bisection} has ended"


def step() -> int:
    """Go on with every bisection of which a run has ended. Return the number of bisections.

    Safe to run any number of times at once, like ``queue.reap``.
    """
    looked = 0
    for pk in Bisection.objects.ripe().values_list("pk", flat=True):
        try:
            with transaction.atomic():
                ripe = Bisection.objects.ripe().select_for_update(skip_locked=True, of=("self",))
                if bisection := ripe.filter(pk=pk).first():
                    go_on(bisection)
                    looked += 1
        except DATABASE_AWAY:
            raise
        except Exception as e:  # one bisection that fails must not hold up the others
            log.exception("bisection %s is ended", pk)
            stop(Bisection.objects.get(pk=pk), f"{type(e).__name__}: {e} (a defect of SpeedTrack: its log says where)")
    return looked


def go_on(bisection: Bisection) -> None:
    """Read what was measured, then queue what is wanted next, or end the bisection."""
    Bisection.objects.filter(pk=bisection.pk).update(stepped_at=Now())
    searches = searches_of(bisection)
    write_answers(bisection, searches)
    why_not = why_not_measurable(bisection)
    wanted = {} if why_not else wanted_next(bisection, searches)
    if not wanted:
        end(bisection, why_not)
        return
    withdraw(bisection, keep=wanted.keys())
    at_work = set(bisection.runs.unfinished().values_list("commit_id", flat=True))
    for commit, asked in wanted.items():
        if commit not in at_work:
            bisection.runs.add(plan_pairs(bisection, commit, asked))


def why_not_measurable(bisection: Bisection) -> str:
    """Why nothing more can be measured for the bisection; empty if something can."""
    if bisection.project.untracked_at is not None:
        return f"{bisection.project.name} is no longer tracked"
    return f"{bisection.machine} is retired" if bisection.machine.retired_at is not None else ""


@dataclass
class Search:
    """The search for the change of one benchmark: by commit id, the answers and the pairs that they rest on."""

    benchmark: Benchmark
    answers: dict[int, BisectionAnswer]
    pairs: dict[int, Pairs]

    def levels(self, bisection: Bisection) -> list[CommitLevel | None]:
        """The level of the older end, then of each commit of the path: old, new, or None where it is not known."""
        found = (self.answers.get(commit) for commit in bisection.path)
        return [CommitLevel.OLD, *(LEVELS.get(Answer(one.answer)) if one else None for one in found)]

    def is_at(self, bisection: Bisection) -> CommitRange | None:
        """The range of commits that may hold the change; None while the ends are not known to differ."""
        end = self.answers.get(bisection.commit_id)
        if end is None or end.answer != Answer.DIFFERENT:
            return None
        return bisect.range_left(self.levels(bisection))


def searches_of(bisection: Bisection) -> list[Search]:
    """The searches of all benchmarks, by the pairs of the ended runs; the largest change first."""
    runs = [run for run in bisection.runs.order_by("pk").select_related("benchmark_set") if run.done]
    measured = pairs_by_place(bisection, runs)
    smallest = SmallestEffects(bisection.project_id).of(bisection.metric_name)
    searches = []
    for benchmark in bisection.benchmark_set.benchmarks.order_by("pk"):
        own = [run for run in runs if benchmark.name in run.benchmark_set.names]
        pairs = {run.commit_id: measured.get((benchmark.pk, run.commit_id), []) for run in own}
        searches.append(Search(benchmark, answers_by_commit(bisection, benchmark, pairs, own, smallest), pairs))
    return sorted(searches, key=lambda one: (-size_of(one.answers.get(bisection.commit_id)), one.benchmark.pk))


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
    sides = pairing.samples_by_side(commits, series__metric=bisection.metric_name)
    found: dict[tuple[int, int], Pairs] = defaultdict(list)
    for run, benchmark, metric in sorted({place[:3] for place in sides}):
        base, head = (sides.get((run, benchmark, metric, side), {}) for side in (Side.BASE, Side.HEAD))
        found[benchmark, commits[run]] += [(base[trial], head[trial]) for trial in sorted(base.keys() & head.keys())]
    return found


def answers_by_commit(
    bisection: Bisection, benchmark: Benchmark, pairs: dict[int, Pairs], runs: Sequence[Run], smallest: float
) -> dict[int, BisectionAnswer]:
    """The answers about one benchmark, by commit id: of every commit with pairs that were measured for it."""
    answers: dict[int, BisectionAnswer] = {}
    change = None
    why = {run.commit_id: run.error or f"its run was {run.status}" for run in runs if run.status != Status.SUCCEEDED}
    rounds = Counter(run.commit_id for run in runs)
    for commit in sorted(pairs, key=lambda one: one != bisection.commit_id):  # the newer end first
        answer = BisectionAnswer(bisection=bisection, benchmark=benchmark, commit_id=commit, pairs=len(pairs[commit]))
        if not pairs[commit]:
            answer.answer = Answer.FAILED
            answer.why = why.get(commit) or "none of its pairs is clean"
        elif commit == bisection.commit_id:
            judge_ends(answer, pairs[commit], smallest)
            change = answer if answer.answer == Answer.DIFFERENT else None
        elif change is not None:
            judge_commit(answer, pairs[commit], change, len(bisection.path))
        else:
            continue  # it was measured for another benchmark
        if answer.answer == Answer.UNKNOWN and (answer.pairs >= MOST_PAIRS or rounds[commit] >= MOST_ROUNDS):
            answer.answer = Answer.UNDECIDED
        answers[commit] = answer
    return answers


def judge_ends(answer: BisectionAnswer, pairs: Pairs, smallest: float) -> None:
    seed = answer.commit_id
    found = compare.settle_pairs(pairs, smallest_effect=smallest, level=LEVEL, seed=seed)
    answer.answer, answer.ratio, answer.low, answer.high = Answer(found.answer), found.ratio, found.low, found.high


def judge_commit(answer: BisectionAnswer, pairs: Pairs, change: BisectionAnswer, commits: int) -> None:
    found = narrow.place_commit(pairs, ratio=cautious(change), error=error_per_step(commits))
    answer.answer, answer.ratio, answer.low, answer.high = Answer(found.side), found.ratio, found.low, found.high


def cautious(change: BisectionAnswer) -> float:
    assert change.ratio is not None and change.low is not None and change.high is not None
    return narrow.cautious_ratio(change.ratio, change.low, change.high)


def error_per_step(commits: int) -> float:
    return WRONG_COMMIT / (1 + math.ceil(math.log2(commits + 1)))


def write_answers(bisection: Bisection, searches: Sequence[Search]) -> None:
    """Store the present answers in place of earlier ones."""
    rows = [answer for search in searches for answer in search.answers.values()]
    BisectionAnswer.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["bisection", "benchmark", "commit"],
        update_fields=["answer", "ratio", "low", "high", "pairs", "why"],
    )


@dataclass
class WantedPairs:
    """How many pairs to measure of a commit, and of which benchmarks."""

    pairs: int
    benchmarks: list[Benchmark]


def wanted_next(bisection: Bisection, searches: Sequence[Search]) -> dict[int, WantedPairs]:
    """By commit id: the pairs to measure next, of the ends, otherwise of the clearest change that is still open.

    Empty if everything is known.
    """
    first = [one for one in searches if is_open(one.answers.get(bisection.commit_id))]
    if first:
        most = max(pairs_for_ends(bisection, one) for one in first)
        return {bisection.commit_id: WantedPairs(most, [one.benchmark for one in first])}
    for search in searches:
        if found := next_of(bisection, search):
            sharing = [one for one in searches if one is search or one.is_at(bisection)]
            return {
                commit: WantedPairs(
                    pairs, [one.benchmark for one in sharing if one is search or commit not in one.answers]
                )
                for commit, pairs in found.items()
            }
    return {}


def is_open(end: BisectionAnswer | None) -> bool:
    return end is None or end.answer == Answer.UNKNOWN


def pairs_for_ends(bisection: Bisection, search: Search) -> int:
    pairs = search.pairs.get(bisection.commit_id, [])
    smallest = SmallestEffects(bisection.project_id).of(bisection.metric_name)
    more = compare.pairs_to_settle(pairs, smallest_effect=smallest, level=LEVEL) if pairs else sequential.FEWEST
    return max(1, min(more, MOST_PAIRS - len(pairs)))


def next_of(bisection: Bisection, search: Search) -> dict[int, int]:
    """By commit id: the number of pairs that a benchmark's search needs next; empty if the search has ended."""
    left = search.is_at(bisection)
    if left is None:
        return {}
    change = search.answers[bisection.commit_id]
    ends = search.pairs[bisection.commit_id]
    usual = narrow.pairs_needed(ends, ratio=cautious(change), error=error_per_step(len(bisection.path)))
    levels = search.levels(bisection)
    undecided = {one.commit_id: one.pairs for one in search.answers.values() if one.answer == Answer.UNKNOWN}
    place = bisect.next_place(levels, left)
    if place is None:
        return {}
    places = [place, *(bisect.places_after(levels, left, place) if has_time(bisection) else ())]
    commits = [bisection.path[one - 1] for one in places]
    return {commit: max(1, min(max(usual, undecided.get(commit, 0)), MOST_PAIRS)) for commit in commits}


def has_time(bisection: Bisection) -> bool:
    """Return whether the machine has no work but this bisection."""
    others = Run.objects.unfinished().filter(machine=bisection.machine_id)
    return not others.exclude(bisections=bisection).exists()


def plan_pairs(bisection: Bisection, commit: int, asked: WantedPairs) -> Run:
    whole = {one.pk for one in asked.benchmarks} == set(bisection.benchmark_set.benchmarks.values_list("pk", flat=True))
    plan = planning.Plan(
        project=bisection.project,
        suite=bisection.suite,
        benchmark_set=bisection.benchmark_set if whole else store_set(bisection.suite, asked.benchmarks),
        reason=Reason.BISECT,
        base=bisection.before,
        trials=asked.pairs,
        metrics=[bisection.metric_name],
        priority=PRIORITY["manual"],
    )
    return pairing.plan_next_round(plan, commit, bisection.machine)


def withdraw(bisection: Bisection, keep: Iterable[int] = (), why: str = "another commit tells more") -> None:
    """Cancel the unfinished runs of a bisection, except those of the commits to ``keep``.

    The runs are removed from the bisection; those that serve another one go on.
    """
    needless = list(bisection.runs.unfinished().exclude(commit__in=list(keep)))
    bisection.runs.remove(*needless)
    for run in needless:
        if not run.bisections.exists():
            queue.cancel(run, why)


def end(bisection: Bisection, note: str) -> None:
    withdraw(bisection, why="its bisection has ended")
    Bisection.objects.filter(pk=bisection.pk).update(ended_at=Now(), stepped_at=Now(), note=note[:2000])


@dataclass(frozen=True)
class RemainingTime:
    """What a bisection still needs.

    ``steps``: how many commits will be measured at most; ``seconds``: about how long that takes; None if unknown.
    """

    steps: int
    seconds: float | None

    @property
    def words(self) -> str:
        """In words, such as: about 25 min, 3 steps at most."""
        steps = f"{self.steps} step{'' if self.steps == 1 else 's'} at most"
        return steps if self.seconds is None else f"about {about(self.seconds)}, {steps}"


def expected(bisection: Bisection, searches: Sequence[Search]) -> RemainingTime:
    """The steps and the time that a bisection still needs. Benchmarks that change at one place share their steps."""
    if bisection.ended_at is not None:
        return RemainingTime(0, None)
    ranges = [(one, left) for one in searches if (left := one.is_at(bisection))]
    known = bool(searches) and not any(is_open(one.answers.get(bisection.commit_id)) for one in searches)
    steps = max((bisect.steps_left(one.levels(bisection), left) for one, left in ranges), default=0)
    if not known:
        steps = max(steps, 1 + math.ceil(math.log2(len(bisection.path))))
    steps = max(steps, 1)  # a commit that is measured again was counted already
    return RemainingTime(steps, seconds_of(bisection, steps))


def seconds_of(bisection: Bisection, steps: int) -> float | None:
    """Seconds until this number of steps is done, if each takes as long as the one under way; None if unknown.

    Runs that go before them are included.
    """
    own = bisection.runs.unfinished().select_related("machine").order_by("pk")
    run = own.filter(status__in=ACTIVE).first() or own.first()  # the others are for what may come after it
    times = estimates.expected_times(run) if run else None
    if run is None or times is None or times.ends_at is None or not bisection.machine.takes_work:
        return None
    first_s = (times.ends_at - timezone.now()).total_seconds()
    if steps == 1:
        return first_s
    by_hand = Run.objects.filter(status=Status.QUEUED, machine=bisection.machine_id, priority__gte=run.priority)
    others = by_hand.exclude(bisections=bisection)  # they go before a run that is queued after them
    if run.status == Status.QUEUED:
        others = others.exclude(pk__in=estimates.runs_ahead(run).values("pk"))
    waiting_s = estimates.total_s(estimates.learn([run.machine_id]), others).get(run.machine_id, 0.0)
    return None if waiting_s is None else first_s + waiting_s + (steps - 1) * times.phases.seconds
