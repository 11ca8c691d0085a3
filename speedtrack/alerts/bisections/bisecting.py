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
from collections.abc import Iterable, Sequence

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models.functions import Now

from speedtrack.alerts.bisections.remaining import remaining_time
from speedtrack.alerts.bisections.searches import (
    MOST_PAIRS,
    Answer,
    Search,
    cautious,
    error_of,
    is_open,
    searches_of,
    write_answers,
)
from speedtrack.alerts.lines.effects import SmallestEffects
from speedtrack.alerts.lines.trouble import DATABASE_AWAY
from speedtrack.alerts.models import Bisection
from speedtrack.alerts.triage.measuring import MOST_BENCHMARKS, NotMeasurable
from speedtrack.benchmarks.metrics import HEADLINE, METRICS, WATCHED
from speedtrack.benchmarks.storing import store_set, store_suite, usual_benchmarks
from speedtrack.benchmarks.suitefiles import load_suite
from speedtrack.projects.models import Commit, Position, Project
from speedtrack.runs.models import Machine, Reason, Run
from speedtrack.runs.planning.questions import Question, plan_pairs
from speedtrack.runs.queue import queue
from speedtrack.runs.scheduling.order import PRIORITY
from speedtrack.stats.comparing import bisect, compare, narrow, sequential

log = logging.getLogger(__name__)

MOST_COMMITS = 4096  # of a path: twelve steps


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
    check_measurable(commit.project, machine, metric)
    definition = load_suite(commit.project.suite)
    suite, benchmarks = store_suite(commit.project, definition)
    by_name = {benchmark.name: benchmark for benchmark in benchmarks}
    if unknown := [name for name in names if name not in by_name]:
        raise NotMeasurable(f"the suite {suite.name} has no benchmark {', '.join(unknown)}")
    selection = [by_name[name] for name in dict.fromkeys(names)] or usual_benchmarks(definition, benchmarks)
    identity = {
        "machine": machine,
        "before": before,
        "commit": commit,
        "benchmark_set": store_set(suite, selection[:MOST_BENCHMARKS]),
        "metric_name": metric,
    }
    if under_way := Bisection.objects.measuring().filter(**identity).first():
        return under_way
    bisection = Bisection.objects.create(project=commit.project, suite=suite, path=path, asked_by=asked_by, **identity)
    go_on(bisection)
    return bisection


def check_measurable(project: Project, machine: Machine, metric: str) -> None:
    """Raise NotMeasurable if the machine cannot measure this metric of the project in pairs."""
    definition = METRICS.get(metric) if metric in WATCHED else None
    if definition is None or not definition.watched or definition.counted:
        raise NotMeasurable(f"pairs do not measure {metric!r}: take {HEADLINE}, or another metric that is watched")
    if project.untracked_at is not None or machine.retired_at is not None or machine.outside:
        raise NotMeasurable(f"{project.name} must be tracked, and {machine} in service, with a runner")


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
    takes = remaining_time(bisection, searches_of(bisection)).words
    return f"a bisection of {ends} on {bisection.machine} by {names}: {takes}"


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
    count = 0
    for pk in Bisection.objects.ripe().values_list("pk", flat=True):
        try:
            with transaction.atomic():
                ripe = Bisection.objects.ripe().select_for_update(skip_locked=True, of=("self",))
                if bisection := ripe.filter(pk=pk).first():
                    go_on(bisection)
                    count += 1
        except DATABASE_AWAY:
            raise
        except Exception as e:  # one bisection that fails must not hold up the others
            log.exception("bisection %s is ended", pk)
            stop(Bisection.objects.get(pk=pk), f"{type(e).__name__}: {e} (a defect of SpeedTrack: its log says where)")
    return count


def go_on(bisection: Bisection) -> None:
    """Read what was measured, then queue what is wanted next, or end the bisection."""
    Bisection.objects.filter(pk=bisection.pk).update(stepped_at=Now())
    searches = searches_of(bisection)
    write_answers(bisection, searches)
    why_not = why_not_measurable(bisection)
    questions = [] if why_not else next_questions(bisection, searches)
    if not questions:
        end(bisection, why_not)
        return
    withdraw(bisection, keep=[question.head_id for question in questions])
    at_work = set(bisection.runs.unfinished().values_list("commit_id", flat=True))
    bisection.runs.add(*[plan_pairs(question) for question in questions if question.head_id not in at_work])


def why_not_measurable(bisection: Bisection) -> str:
    """Why nothing more can be measured for the bisection; empty if something can."""
    if bisection.project.untracked_at is not None:
        return f"{bisection.project.name} is no longer tracked"
    return f"{bisection.machine} is retired" if bisection.machine.retired_at is not None else ""


def next_questions(bisection: Bisection, searches: Sequence[Search]) -> list[Question]:
    """What to measure next: the ends, otherwise commits for the clearest change that is still open.

    Empty if everything is known.
    """
    first = [search for search in searches if is_open(search.answers.get(bisection.commit_id))]
    if first:
        pairs = max(pairs_for_ends(bisection, search) for search in first)
        return [question_of(bisection, bisection.commit_id, first, pairs)]
    for leader in searches:
        if pairs_by_commit := next_of(bisection, leader):
            open_still = [search for search in searches if search is leader or search.range_left(bisection)]
            return [
                question_of(bisection, commit, [s for s in open_still if s is leader or commit not in s.answers], pairs)
                for commit, pairs in pairs_by_commit.items()
            ]
    return []


def question_of(bisection: Bisection, commit: int, searches: Sequence[Search], pairs: int) -> Question:
    """The question on which level a commit runs, by the benchmarks of some searches."""
    benchmarks = store_set(bisection.suite, [search.benchmark for search in searches])
    ends, metrics = (bisection.before_id, commit), [bisection.metric_name]
    machine, priority = bisection.machine, PRIORITY["manual"]
    return Question(*ends, machine, bisection.suite, benchmarks, Reason.BISECT, pairs, metrics, priority)


def pairs_for_ends(bisection: Bisection, search: Search) -> int:
    pairs = search.pairs.get(bisection.commit_id, [])
    smallest = SmallestEffects(bisection.project_id).of(bisection.metric_name)
    missing = sequential.FEWEST_UNDIRECTED
    if pairs:
        missing = compare.pairs_to_settle(pairs, smallest_effect=smallest, level=compare.LEVEL)
    return max(1, min(missing, MOST_PAIRS - len(pairs)))


def next_of(bisection: Bisection, search: Search) -> dict[int, int]:
    """By commit id: the number of pairs that a benchmark's search needs next; empty if the search has ended."""
    commit_range = search.range_left(bisection)
    if commit_range is None:
        return {}
    change = search.answers[bisection.commit_id]
    ends = search.pairs[bisection.commit_id]
    usual = narrow.pairs_needed(ends, ratio=cautious(change), error=error_of(bisection))
    levels = search.levels(bisection)
    undecided = {
        answer.commit_id: answer.pairs for answer in search.answers.values() if answer.answer == Answer.UNKNOWN
    }
    position = bisect.next_place(levels, commit_range)
    if position is None:
        return {}
    positions = [position, *(bisect.places_after(levels, commit_range, position) if has_time(bisection) else ())]
    commits = [bisection.path[number - 1] for number in positions]
    return {commit: max(1, min(max(usual, undecided.get(commit, 0)), MOST_PAIRS)) for commit in commits}


def has_time(bisection: Bisection) -> bool:
    """Return whether the machine has no work but this bisection."""
    unfinished = Run.objects.unfinished().filter(machine=bisection.machine_id)
    return not unfinished.exclude(bisections=bisection).exists()


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
