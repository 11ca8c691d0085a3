"""The steps between the ends of a drift, and how much of it they explain."""

import math
from collections.abc import Iterable, Sequence
from statistics import median

from speedtrack.alerts.detection.driftreferences import LEFT_STANDING
from speedtrack.alerts.lines.effects import smallest_effect
from speedtrack.alerts.lines.known import PlacedStep, steps_on
from speedtrack.alerts.models import Alert, ChangePoint, Verdict
from speedtrack.alerts.pairs import sizes
from speedtrack.alerts.pairs.brackets import positions_of
from speedtrack.alerts.pairs.pairing import measured_runs, sample_pairs
from speedtrack.benchmarks.metrics import HEADLINE
from speedtrack.runs.models import Series

THROUGHPUT = "throughput_rps"

Kind = ChangePoint.Kind
Status = ChangePoint.Status


def steps_in(cp: ChangePoint) -> list[PlacedStep]:
    """The steps between the ends of a drift that may be real, each with its size in the drift's series.

    Those of the series itself; and those that another metric of the benchmark shows at other commits, as far as it is
    known what they did to the series. Steps that a person has called invalid are none.
    """
    ends = positions_of(cp.branch, [cp.before_id, cp.commit_id])
    if len(ends) < 2:
        return []
    first, last = ends[cp.before_id], ends[cp.commit_id]
    placed = [step for step in steps_on(cp.series, cp.branch).placed if first < step.last <= last]
    standing = [step for step in placed if step.status in LEFT_STANDING]
    invalid = set(
        ChangePoint.objects.filter(
            pk__in=[step.id for step in standing], alert__status=Alert.Status.INVALID
        ).values_list("pk", flat=True)
    )
    own = [step for step in standing if step.id not in invalid]
    return own + steps_beside(cp, own, first, last)


def steps_beside(cp: ChangePoint, own: Sequence[PlacedStep], first: int, last: int) -> list[PlacedStep]:
    """Steps of other metrics of a drift's benchmark, at commits of ``first`` to ``last`` without a step of its own.

    Metrics that moved with one commit have one cause, of which one step is taken: confirmed ones first, then the
    headline.
    """
    beside = ChangePoint.objects.filter(
        series__benchmark=cp.series.benchmark_id,
        series__machine=cp.series.machine_id,
        kind=Kind.STEP,
        status__in=(Status.CONFIRMED, Status.HISTORY, *ChangePoint.OPEN),
        commit__positions__branch=cp.branch_id,
        commit__positions__number__range=(first + 1, last),
        ratio__gt=0,
    )
    candidates = list(
        beside.exclude(series=cp.series_id)
        .exclude(alert__status=Alert.Status.INVALID)
        .select_related("series")
        .distinct()
    )
    positions = positions_of(
        cp.branch, [commit for change in candidates for commit in (change.before_id, change.commit_id)]
    )
    steps: list[PlacedStep] = []
    for change in sorted(
        candidates, key=lambda change: (change.status != Status.CONFIRMED, change.series.metric != HEADLINE, change.pk)
    ):
        begin, end = positions.get(change.before_id), positions[change.commit_id]
        has_step = any(begin is None or shares_place(step, begin, end) for step in (*own, *steps))
        if not has_step and (ratio := ratio_in(change, cp.series)):
            steps.append(PlacedStep(change.pk, change.status, ratio, begin, end))
    return steps


def shares_place(step: PlacedStep, begin: int, end: int) -> bool:
    """Return whether a commit of a step's range is among those after ``begin`` and up to ``end``."""
    return (step.last - 1 if step.first is None else step.first) < end and begin < step.last


def ratio_in(step: ChangePoint, series: Series) -> float | None:
    """What a step of another metric of the benchmark did to a series: the median of the pairs that measured both.

    Without such pairs, CPU time per request and throughput are taken for reciprocals; other metrics are not known.
    """
    pairs = [(base, head) for base, head in pairs_of_step(step, series) if base > 0 and head > 0]
    if pairs:
        return median(head / base for base, head in pairs)
    if {step.series.metric, series.metric} == {HEADLINE, THROUGHPUT}:
        return 1 / step.ratio
    return None


def pairs_of_step(step: ChangePoint, series: Series) -> list[tuple[float, float]]:
    """The pairs of a series in the runs of another series' step: of its commit, or else of its bracket."""
    own_pairs = sample_pairs(measured_runs(step, step.before_id, step.commit_id), series)
    bracket = step.verdicts.filter(answer=Verdict.Answer.DIFFERENT).order_by("-id").first()
    if own_pairs or bracket is None or sizes.is_part_of(step, bracket):
        return own_pairs
    return sample_pairs(measured_runs(step, bracket.base_id, bracket.commit_id), series)


def product(steps: Iterable[PlacedStep]) -> float:
    return math.prod(step.ratio for step in steps if step.ratio > 0)


def is_explained(cp: ChangePoint) -> bool:
    """Return whether steps that were suspected after a drift explain it."""
    remains = cp.ratio / product(step for step in steps_in(cp) if step.id > cp.pk)
    return (remains - 1) * (cp.ratio - 1) <= 0 or abs(remains - 1) < smallest_effect(cp.series)


def waits_for_a_step(cp: ChangePoint) -> bool:
    """Return whether a step between the ends of a drift is not settled yet, so it is not known how much it explains."""
    return cp.kind == Kind.DRIFT and any(step.status in ChangePoint.OPEN for step in steps_in(cp))


def steps_seen_by_pairs(cp: ChangePoint) -> float:
    """The product of the ratios of the code's steps between a drift's ends: that part of its ratio is no drift."""
    return product(step for step in steps_in(cp) if step.status in (Status.CONFIRMED, Status.HISTORY))
