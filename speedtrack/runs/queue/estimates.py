"""Estimate how long runs take, by phase, and when they begin and end, from the newest runs of a suite on a machine.

A run builds its sides, measures trials or pairs of each benchmark, and spends some time around that: fetching the
source, setting up, reporting. For each of these the median of the newest runs is used, so that one odd run has no
influence.

Paired runs are estimated from paired runs: a pair keeps both servers running, and takes longer than two trials. As long
as a machine has measured no pairs, a pair counts as two trials. A commit that the machine has built before comes from
its store of artifacts.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median
from typing import Any, NamedTuple

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import BooleanField, Count, Exists, ExpressionWrapper, OuterRef, Q, Subquery
from django.utils import timezone

from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.models import SetMember, Suite
from speedtrack.runs.models import ACTIVE, Build, Reason, Run, RunQuerySet, Status
from speedtrack.runs.queue import durations
from speedtrack.runs.queue.durations import RunDurations
from speedtrack.runs.scheduling import standing

LATE_S, LATE_SHARE = 30.0, 0.1  # an estimate is not more exact than this: what is later is called late
SIDES = {"single": 1, "canary": 1, "paired": 2, "profile": 2}
#: For a kind of run that the machine has not done with a benchmark yet: another kind whose trials are used, and the
#: factor.
INSTEAD: dict[str, tuple[tuple[str, float], ...]] = {
    "single": (("single", 1.0), ("canary", 1.0), ("paired", 0.5)),
    "canary": (("canary", 1.0), ("single", 1.0), ("paired", 0.5)),
    "paired": (("paired", 1.0), ("single", 2.0), ("canary", 2.0)),
    "profile": (("profile", 1.0),),
}
#: The ids of a run's benchmarks.
BENCHMARKS = ArraySubquery(SetMember.objects.filter(benchmark_set=OuterRef("benchmark_set_id")).values("benchmark_id"))


class RunWork(NamedTuple):
    """The properties of a run that determine its duration.

    ``built``: for each side, whether the machine had built it before.

    ``trials``: the number of trials per benchmark; of a paired run, of pairs.
    """

    machine_id: int
    suite: str
    kind: str
    benchmarks: tuple[int, ...]
    trials: int
    built: tuple[bool, ...]


@dataclass(frozen=True)
class DurationEstimate:
    """The expected phases of a run, in seconds. ``pairs``: its trials are pairs."""

    build_s: float
    trials_s: float
    around_s: float
    pairs: bool = False

    @property
    def seconds(self) -> float:
        return self.build_s + self.trials_s + self.around_s

    @property
    def trials_name(self) -> str:
        return "pairs" if self.pairs else "trials"


@dataclass
class Usual:
    """How long the newest runs of one kind took, in seconds, one value per run.

    ``spans``: from claim to end. ``around``: without builds and measuring. ``per_trial``: one trial, by benchmark.
    ``trials``: their number, by benchmark. ``stretch``: the time from the first trial to the last, divided by the sum
    of the trials.
    """

    spans: list[float] = field(default_factory=list)
    around: list[float] = field(default_factory=list)
    stretch: list[float] = field(default_factory=list)
    per_trial: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    trials: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))


@dataclass
class Learned:
    """How long the newest runs of some machines took, by machine, suite and kind; builds by machine and suite."""

    usual: dict[tuple[int, str, str], Usual] = field(default_factory=lambda: defaultdict(Usual))
    built_s: dict[tuple[int, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    cached_s: dict[tuple[int, str], list[float]] = field(default_factory=lambda: defaultdict(list))

    def estimate(self, work: RunWork) -> DurationEstimate | None:
        """How long a run will take; None if the machine has done nothing like it."""
        machine_suite = work.machine_id, work.suite
        like = [
            (self.usual[*machine_suite, kind], times)
            for kind, times in INSTEAD[work.kind]
            if (*machine_suite, kind) in self.usual
        ]
        if not like:
            return None
        first, _ = like[0]
        pairs = SIDES[work.kind] == 2
        trials_s = trials_of(work, like)
        if trials_s is None:  # they were deleted, or it is a profile run, which has none
            return DurationEstimate(0.0, 0.0, median(first.spans), pairs)
        return DurationEstimate(self.build_s(work), trials_s, median(first.around or [0.0]), pairs)

    def longer_s(self, work: RunWork, trials: int) -> float | None:
        """How much longer a run of one side takes if each benchmark gets at least so many trials; None: not known."""
        usual = self.usual[work.machine_id, work.suite, "single"]
        samples = [(usual.trials[pk], usual.per_trial[pk]) for pk in work.benchmarks if usual.trials.get(pk)]
        if not samples:
            return None
        longer = sum(max(0.0, trials - median(counts)) * median(seconds) for counts, seconds in samples)
        return median(usual.stretch or [1.0]) * longer

    def build_s(self, work: RunWork) -> float:
        machine_suite = work.machine_id, work.suite
        anew, cached = (
            median(durations[machine_suite]) if durations[machine_suite] else 0.0
            for durations in (self.built_s, self.cached_s)
        )
        return sum(cached if is_built else anew for is_built in work.built)


def trials_of(work: RunWork, like: Sequence[tuple[Usual, float]]) -> float | None:
    """Seconds from the first trial to the last, estimated from similar runs; None if no trial of them is known."""
    durations = [seconds_of(work, benchmark, like) for benchmark in work.benchmarks]
    estimates = [seconds for seconds in durations if seconds is not None]
    if not estimates:
        return None
    new = sum(estimates) / len(estimates)  # a benchmark that the machine has not measured yet is like the others
    stretch = next(usual.stretch for usual, _ in like if usual.stretch)
    return median(stretch) * sum(new if seconds is None else seconds for seconds in durations)


def seconds_of(work: RunWork, benchmark: int, like: Sequence[tuple[Usual, float]]) -> float | None:
    """Seconds that all trials of one benchmark take, without the time between them; None if it was never measured."""
    for usual, times in like:
        if per_trial := usual.per_trial.get(benchmark):
            # Runs of one side end when the median is known well enough; pairs are as many as were asked for.
            count = median(usual.trials[benchmark]) if SIDES[work.kind] == 1 and times == 1 else work.trials
            return times * count * median(per_trial)
    return None


def learn(machine_ids: Iterable[int]) -> Learned:
    """Learn from the newest runs of these machines, in one statement."""
    learned = Learned()
    for machine_id, suite, kind, run_durations in durations.newest(machine_ids):
        learned.cached_s[machine_id, suite] += run_durations.cached or []
        learned.built_s[machine_id, suite] += run_durations.built or []
        note(learned.usual[machine_id, suite, kind], run_durations)
    return learned


def note(usual: Usual, run_durations: RunDurations) -> None:
    """Add the durations of one run."""
    usual.spans.append(run_durations.span)
    if not run_durations.benchmarks:
        return
    own = sum(run_durations.seconds)
    measuring = max(own, run_durations.lasting)
    building = sum([*(run_durations.cached or []), *(run_durations.built or [])])
    usual.around.append(max(0.0, run_durations.span - building - measuring))
    if own > 0:
        usual.stretch.append(measuring / own)
    for benchmark, count, seconds in zip(
        run_durations.benchmarks, run_durations.trials, run_durations.seconds, strict=True
    ):
        usual.per_trial[benchmark].append(seconds / count)
        usual.trials[benchmark].append(count)


def kind_of(reason: str, base_id: int | None) -> str:
    if reason in (Reason.CANARY, Reason.PROFILE):
        return str(reason)
    return "single" if base_id is None else "paired"


def works_of(runs: RunQuerySet) -> dict[int, RunWork]:
    """By run id: the properties that determine its duration. One statement, however many runs there are."""
    columns = ("pk", "machine_id", "suite__name", "reason", "base_id", "commit_id", "trials")
    works = {}
    rows = runs.values_list(*columns, BENCHMARKS, built_before("base"), built_before("commit"))
    for pk, machine, suite, reason, base, commit, trials, benchmarks, base_built, commit_built in rows:
        # An A/A run builds once, a canary run never.
        built = [base_built, commit_built or base == commit] if base else [commit_built]
        built = [True for _ in built] if reason == Reason.CANARY else built
        works[pk] = RunWork(machine, suite, kind_of(reason, base), tuple(benchmarks), trials, tuple(built))
    return works


def built_before(side: str) -> Exists:
    """Whether the machine of a run had built this side of it in an earlier run."""
    earlier = Build.objects.filter(commit=OuterRef(side), succeeded=True)
    return Exists(earlier.filter(attempt__run__machine=OuterRef("machine"), attempt__run__lt=OuterRef("pk")))


class WaitingTotal(NamedTuple):
    """How many runs wait on a machine, and the seconds that they take altogether; None: not known."""

    runs: int
    seconds: float | None


def totals(learned: Learned, runs: RunQuerySet) -> dict[int, WaitingTotal]:
    """By machine id: the total of these runs. One statement.

    For so many runs, whether the machine has built their commits is assumed rather than looked up: pairs mostly measure
    commits that it has built, other runs new ones.
    """
    # By ids alone: a hundred thousand rows are grouped, and then the few groups get their suites and benchmarks.
    alike = ("machine_id", "suite_id", "reason", "benchmark_set_id", "trials")
    is_single = ExpressionWrapper(Q(base=None), BooleanField())
    suite = Subquery(Suite.objects.filter(pk=OuterRef("suite_id")).values("name"))
    groups = runs.annotate(single=is_single).order_by().values(*alike, "single").annotate(count=Count("pk"))
    rows = groups.values_list("machine_id", suite, "reason", "trials", "single", "count", BENCHMARKS)
    totals_by_machine: dict[int, WaitingTotal] = {}
    for machine, suite, reason, trials, single, count, benchmarks in rows:
        kind = kind_of(reason, None if single else 1)
        built = (kind != "single",) * SIDES[kind]
        estimate = learned.estimate(RunWork(machine, suite, kind, tuple(benchmarks), trials, built))
        before = totals_by_machine.get(machine, WaitingTotal(0, 0.0))
        seconds = None if estimate is None or before.seconds is None else before.seconds + count * estimate.seconds
        totals_by_machine[machine] = WaitingTotal(before.runs + count, seconds)
    return totals_by_machine


def of_runs(runs: RunQuerySet) -> dict[int, DurationEstimate | None]:
    """By run id: the expected duration of a run from its claim to its end; None if it is not known."""
    works = works_of(runs)
    learned = learn({work.machine_id for work in works.values()})
    return {pk: learned.estimate(work) for pk, work in works.items()}


def left_s(run: Run, expected: DurationEstimate, now: datetime) -> float:
    """Seconds that a run under way still takes: by its progress once trials are done, until then by its start."""
    return max(0.0, estimated_left_s(run, expected, now))


def late_s(run: Run, expected: DurationEstimate, now: datetime) -> float:
    """For how many seconds a run under way should have ended; 0 if the estimate has not passed, or only just."""
    over_s = -estimated_left_s(run, expected, now)
    return over_s if over_s > max(LATE_S, LATE_SHARE * expected.seconds) else 0.0


def estimated_left_s(run: Run, expected: DurationEstimate, now: datetime) -> float:
    """As ``left_s``, but below zero once the estimate has passed."""
    progress: Mapping[str, Any] = run.progress or {}
    trial_count, total = progress.get("done", 0), progress.get("total", 0)
    if run.status in ACTIVE and 0 < trial_count <= total:
        around_s = expected.around_s / 2  # half of it was before the trials
        return float(expected.trials_s * (1 - trial_count / total) + around_s - progress.get("age_s", 0.0))
    passed = (now - run.started_at).total_seconds() if run.started_at else 0.0
    return expected.seconds - passed


@dataclass(frozen=True)
class ExpectedTimes:
    """When a run is expected to begin and to end.

    ``phases`` is None if the machine has done nothing like it. ``starts_at`` is None once the run has started; both
    times are None while they are not known, or the machine takes no work. ``ahead``: how many runs go before it.
    ``why``: why it waits, as a sentence. ``late_s``: for how many seconds it should have begun, or have ended.
    """

    phases: DurationEstimate | None
    starts_at: datetime | None
    ends_at: datetime | None
    ahead: int = 0
    why: str = ""
    late_s: float = 0.0

    @property
    def late(self) -> str:
        return f"late by {numbers.about(self.late_s)}" if self.late_s else ""


def runs_ahead(run: Run) -> RunQuerySet:
    """The waiting runs that the machine would take before this one now."""
    higher = Q(priority__gt=run.priority)
    newer = Q(priority=run.priority, rank__gt=run.rank)
    older = Q(priority=run.priority, rank=run.rank, pk__lt=run.pk)
    ahead: RunQuerySet = Run.objects.filter(higher | newer | older, machine=run.machine, status=Status.QUEUED)
    return ahead


def expected_times(run: Run) -> ExpectedTimes | None:
    """When a run is expected to begin and to end; None once it has ended."""
    if run.done:
        return None
    learned, now = learn([run.machine_id]), timezone.now()
    active = [run] if run.status in ACTIVE else list(Run.objects.active().filter(machine=run.machine_id))
    works = works_of(Run.objects.filter(pk__in={run.pk, *(active_run.pk for active_run in active)}))
    phases = {pk: learned.estimate(work) for pk, work in works.items()}
    remaining_s = sum(
        left_s(active_run, expected, now) for active_run in active if (expected := phases.get(active_run.pk))
    )
    own = phases[run.pk]
    if run.status in ACTIVE:
        late = late_s(run, own, now) if own else 0.0
        return ExpectedTimes(own, None, now + timedelta(seconds=remaining_s) if own and not late else None, late_s=late)
    ahead = totals(learned, runs_ahead(run)).get(run.machine_id, WaitingTotal(0, 0.0))
    stands = standing.of_machine(run.machine)
    why = standing.why_waits(run, stands, ahead.runs)
    if own is None or ahead.seconds is None or not stands.may_be_estimated:
        return ExpectedTimes(own, None, None, ahead.runs, why, stands.late_s)
    begins = max(now + timedelta(seconds=remaining_s), run.not_before)
    if stands.opens_at and not standing.is_by_hand(run.priority):
        begins = max(begins, stands.opens_at)
    starts_at = begins + timedelta(seconds=ahead.seconds)
    return ExpectedTimes(own, starts_at, starts_at + timedelta(seconds=own.seconds), ahead.runs, why)
