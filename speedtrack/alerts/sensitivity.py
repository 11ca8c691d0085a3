"""The smallest change that each series would show now, its noise, and the reasons for that noise."""

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from django.db.models import Count, Q

from speedtrack.alerts import floors, lines
from speedtrack.alerts.effects import SmallestEffects
from speedtrack.alerts.lines import LinePoint
from speedtrack.alerts.models import ChangePoint, NoiseFloor
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.projects.models import Branch
from speedtrack.runs.models import Series, Trial
from speedtrack.stats.explain import VisibleChange, smallest_visible_change
from speedtrack.stats.noise import LineNoise, line_noise

COMMITS = 100  # the newest of the branch, by which a series is judged
FLAGGED_RUNS = 30  # the newest of a machine, whose trials are checked for flags
TOO_NOISY = 0.05  # a smallest change above this, and above TIMES the metric's smallest effect, is of no use
TIMES = 5
OFTEN = 0.1  # share of trials with a flag above which it is a likely reason
SHORT_S = 1.0
FEW_TRIALS = 5
TO_95 = 1.96

#: what can be done about a flag, where it is not the trial's own noise
REMEDIES = {
    "client_bound": "the driver is at its limit: give it more cores, or watch the server's CPU per request instead",
    "client_delayed": "the driver was kept waiting: give it cores of its own",
    "slipped": "the driver fell behind its schedule: lower the rate or give it more cores",
    "steal": "the hypervisor takes time away: move the machine, or have its cores reserved",
    "delayed": "the server was kept waiting for its core: keep other work off it (docs/methodology.md, the quiet gate)",
    "foreign": "another process runs on the measured cores: isolate them",
    "frequency": "the clock speed changes: fix it (`python -m runners tune`)",
    "unsteady": "the rate moves within the window: lengthen the warm-up or the window",
    "no_steady_state": "it never becomes steady: lengthen the warm-up (`warmup_most_s`)",
    "paging": "the machine pages: give it memory, or the benchmark fewer keys",
}


class NoiseCause(NamedTuple):
    """A likely reason for the noise, and what to do."""

    what: str
    remedy: str


@dataclass(frozen=True)
class SeriesSensitivity:
    """A series: its noise, the smallest lasting change that its line shows, and what A/A runs showed.

    ``smallest``: the smallest change that is both suspected by the line and confirmed by ten pairs.
    """

    series: Series
    points: int
    noise: LineNoise | None
    sight: VisibleChange | None
    floor: NoiseFloor | None
    aa_runs: int
    aa_different: int
    smallest_effect: float
    causes: tuple[NoiseCause, ...] = ()

    @property
    def metric(self) -> Metric:
        return METRICS[self.series.metric]

    @property
    def smallest(self) -> float | None:
        known = [self.sight.smallest if self.sight else None, self.floor.smallest if self.floor else None]
        return max((value for value in known if value is not None), default=None)

    @property
    def limit(self) -> float:
        """A smallest change above this is of no use."""
        return max(TOO_NOISY, TIMES * self.smallest_effect)

    @property
    def too_noisy(self) -> bool:
        return self.smallest is not None and self.smallest > self.limit


def sensitivities(branch: Branch, series: Iterable[Series]) -> list[SeriesSensitivity]:
    """The sensitivity of each series with points among the newest commits of a branch; the noisy ones with causes."""
    known = {one.pk: one for one in series if METRICS[one.metric].watched}
    head = branch.positions.order_by("-number").values_list("number", flat=True).first()
    if head is None or not known:
        return []
    points: dict[int, list[LinePoint]] = defaultdict(list)
    for point in lines.points(known, branch, max(0, head - COMMITS + 1), head):
        points[point.series_id].append(point)
    found_floors, rates, effects = floors.newest_floors(points), aa_rates(points), SmallestEffects(branch.project_id)
    levels = level_starts(points, branch)
    judged = [
        judge_sensitivity(
            known[pk],
            on_one_level(found, levels[pk]),
            (found_floors.get(pk), rates.get(pk, (0, 0)), effects.of(known[pk].metric)),
        )
        for pk, found in points.items()
    ]
    noisy = [one for one in judged if one.too_noisy]
    flags = FlagCounts({point.attempt_id for one in noisy for point in points[one.series.pk][-FLAGGED_RUNS:]})
    trials = {pk: found[-1].n for pk, found in points.items()}
    return [
        SeriesSensitivity(**{**vars(one), "causes": tuple(causes_of(one, flags, trials[one.series.pk]))})
        if one.too_noisy
        else one
        for one in judged
    ]


def level_starts(series: Iterable[int], branch: Branch) -> dict[int, list[int]]:
    """By series: the positions on the branch where confirmed changes began new levels."""
    confirmed = ChangePoint.objects.filter(series__in=list(series), status=ChangePoint.Status.CONFIRMED)
    starts: dict[int, list[int]] = defaultdict(list)
    on_branch = confirmed.filter(commit__positions__branch=branch)
    for pk, number in on_branch.values_list("series", "commit__positions__number"):
        starts[pk].append(number)
    return starts


def on_one_level(points: list[LinePoint], starts: list[int]) -> list[LinePoint]:
    """The clean points, all scaled to one level: confirmed changes are not noise."""
    clean = [point for point in points if not point.flags and point.value > 0 and point.low > 0]
    bounds = sorted(starts)
    of_level: dict[int, list[float]] = defaultdict(list)
    for point in clean:
        of_level[bisect_right(bounds, point.position)].append(point.value)
    usual = {place: median(values) for place, values in of_level.items()}
    scaled = []
    for point in clean:
        by = usual[bisect_right(bounds, point.position)]
        scaled.append(point._replace(value=point.value / by, low=point.low / by, high=point.high / by))
    return scaled


def judge_sensitivity(
    series: Series, points: list[LinePoint], known: tuple[NoiseFloor | None, tuple[int, int], float]
) -> SeriesSensitivity:
    floor, (runs, different), effect = known
    level = [math.log(point.value) for point in points]
    error = [standard_error(point) for point in points]
    return SeriesSensitivity(
        series,
        len(points),
        line_noise(level, error),
        smallest_visible_change(level, error, smallest_effect=effect),
        floor,
        runs,
        different,
        effect,
    )


def standard_error(point: LinePoint) -> float:
    """The relative standard error of a point's median, from its interval; NaN for single trials."""
    if point.n < 2:
        return math.nan
    return (math.log(point.high) - math.log(point.low)) / 2 / TO_95


def aa_rates(series: Iterable[int]) -> dict[int, tuple[int, int]]:
    """By series: how many A/A runs there are, and how many found the same program different at 95%."""
    different = Q(low__gt=1) | Q(high__lt=1)
    rows = (
        NoiseFloor.objects.filter(series__in=list(series), ratio__isnull=False)
        .values_list("series")
        .annotate(runs=Count("pk"), different=Count("pk", filter=different))
    )
    return {pk: (runs, differ) for pk, runs, differ in rows.order_by()}


class FlagCounts:
    """How many trials of each benchmark there were in some attempts, and with which flags."""

    def __init__(self, attempts: Iterable[int]) -> None:
        self.trials: Counter[tuple[int, int]] = Counter()
        self.flags: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
        rows = Trial.objects.filter(result__attempt__in=list(attempts))
        for benchmark, machine, flags in rows.values_list(
            "result__benchmark", "result__attempt__run__machine", "flags"
        ):
            self.trials[benchmark, machine] += 1
            self.flags[benchmark, machine].update(set(flags))

    def often(self, series: Series) -> list[tuple[str, float]]:
        """The flags that void the series' metric in many trials, with their share, the most frequent first."""
        key = series.benchmark_id, series.machine_id
        voids = METRICS[series.metric].voided_by
        shares = [(flag, count / self.trials[key]) for flag, count in self.flags[key].most_common() if flag in voids]
        return [(flag, share) for flag, share in shares if share >= OFTEN]


def causes_of(one: SeriesSensitivity, flags: FlagCounts, trials: int) -> Iterable[NoiseCause]:
    """Why a series is so noisy, the most likely reason first."""
    for flag, share in flags.often(one.series):
        yield NoiseCause(
            f"{flag} in {share:.0%} of its trials", REMEDIES.get(flag, "docs/methodology.md says what it means")
        )
    noise = one.noise
    if noise and noise.modes:
        yield NoiseCause(
            f"it alternates between two levels, {noise.modes:.1%} apart",
            "look for what differs between builds or processes: memory layout, placement, a random seed",
        )
    elif noise and noise.within and noise.runs_differ_more:
        yield NoiseCause(
            f"runs differ by {noise.between:.1%}, the error of a run by its own trials is {noise.within:.1%}",
            "more trials will not help: look for what differs between runs, such as temperature or other guests",
        )
    if trials < FEW_TRIALS:
        yield NoiseCause(
            f"{trials} trial{'' if trials == 1 else 's'} per run", f"raise `trials` to {FEW_TRIALS} or more"
        )
    seconds = one.series.benchmark.definition.get("workload", {}).get("duration_s")
    if isinstance(seconds, int | float) and seconds <= SHORT_S:
        yield NoiseCause(f"each trial measures {seconds:g} s", "lengthen the window (`duration_s`)")
    if noise and not noise.modes and not noise.runs_differ_more:
        yield NoiseCause(
            f"its trials scatter: the error of a run is {noise.within:.1%}", "more trials, or a longer `duration_s`"
        )
    if noise is None:
        yield NoiseCause(f"{one.points} measured commits are too few to tell", "wait for some more, or backfill")
