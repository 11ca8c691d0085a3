"""The smallest change that each series would show now, its noise, and likely reasons for the noise.

It is computed and stored when detection has judged a series, and when an A/A run has shown its noise; pages read the
rows.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Count, Func, OuterRef, Q, QuerySet, Subquery

from speedtrack.alerts.lines import lines
from speedtrack.alerts.lines.effects import EffectsOfProjects
from speedtrack.alerts.lines.linecolumns import LineColumns, columns
from speedtrack.alerts.lines.lines import LinePoint
from speedtrack.alerts.models import ChangePoint, NoiseFloor, SeriesSensitivity
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.projects.models import Branch, Position
from speedtrack.projects.positions import head_of
from speedtrack.runs.models import Series, Trial
from speedtrack.stats.changes.explain import LevelLine, smallest_visible_changes
from speedtrack.stats.noise.noise import LineNoise, line_noise

COMMITS = 100  # the newest of the branch, by which a series is judged
FLAGGED_RUNS = 30  # the newest of a machine, whose trials are checked for flags
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


class LevelPoints(NamedTuple):
    """The points of one level: the logarithms of their medians, with the errors of these, and their numbers of trials.

    The error of a single trial is NaN.
    """

    level: list[float]
    error: list[float]
    trials: list[int]


class PairedNoise(NamedTuple):
    """The results of A/A runs.

    ``smallest``: the smallest change that ten pairs confirm, as a share; how many runs there were, and how many of them
    differed.
    """

    smallest: float | None = None
    runs: int = 0
    different: int = 0


def judge(series: Iterable[Series], effects: EffectsOfProjects) -> None:
    """Store the sensitivity of each watched series with points among the newest commits of its default branch."""
    by_project: dict[int, list[Series]] = defaultdict(list)
    for member in series:
        if METRICS[member.metric].watched:
            by_project[member.project_id].append(member)
    rows = [row for project, members in by_project.items() for row in judged_rows(project, members, effects)]
    columns = [field.attname for field in SeriesSensitivity._meta.concrete_fields if not field.primary_key]
    SeriesSensitivity.objects.bulk_create(rows, update_conflicts=True, unique_fields=["series"], update_fields=columns)


def judged_rows(project_id: int, series: Sequence[Series], effects: EffectsOfProjects) -> list[SeriesSensitivity]:
    """The sensitivity of series of one project; the noisy ones with causes."""
    branch = default_branch(project_id)
    if branch is None:
        return []
    head = head_of(branch)
    first = head - COMMITS + 1
    newest_points = {line.series_id: line for line in columns([member.pk for member in series], branch, first, head)}
    paired, levels = paired_noise(newest_points), level_starts(newest_points, branch)
    by_id = {member.pk: member for member in series}
    rows = judge_lines(
        [
            (by_id[pk], on_one_level(line, [start - first for start in levels[pk]]), effects.of(by_id[pk]))
            for pk, line in newest_points.items()
        ]
    )
    for row in rows:
        row.position = first + int(newest_points[row.series_id].at[-1])
        row.paired, row.aa_runs, row.aa_different = paired.get(row.series_id, PairedNoise())
    noisy = [row for row in rows if row.too_noisy]
    if noisy:
        of_noisy = lines.points([row.series_id for row in noisy], branch, first, head)
        flags = FlagCounts([row.series for row in noisy], of_noisy)
        for row in noisy:
            row.causes = list(causes_of(row, flags, int(newest_points[row.series_id].n[-1])))
    return rows


def newest(branch: Branch, series: QuerySet[Series]) -> QuerySet[SeriesSensitivity]:
    """The stored sensitivity of those of these series that still have points among the newest commits of the branch."""
    return SeriesSensitivity.objects.filter(series__in=series.values("pk"), position__gt=head_of(branch) - COMMITS)


def default_branch(project_id: int) -> Branch | None:
    """The default branch of a project, or else another live one."""
    return default_among(Branch.objects.filter(project=project_id).select_related("project").order_by("name"))


def default_among(branches: Iterable[Branch]) -> Branch | None:
    """The default one of a project's branches, or else the first live one."""
    live = (branch for branch in branches if branch.deleted_at is None)
    return min(live, key=lambda branch: branch.name != branch.project.default_branch, default=None)


def level_starts(series: Iterable[int], branch: Branch) -> dict[int, list[int]]:
    """By series id: the positions on the branch at which settled changes began new levels."""
    starts: dict[int, list[int]] = defaultdict(list)
    for pk, number in settled_changes(branch).filter(series__in=list(series)).values_list("series", "place"):
        if number is not None:
            starts[pk].append(number)
    return starts


def settled_changes(branch: Branch) -> QuerySet[Any]:
    """The changes that began new levels. ``place``: the position on the branch, None if the commit is not on it."""
    statuses = (ChangePoint.Status.CONFIRMED, ChangePoint.Status.HISTORY)
    numbers = Position.objects.filter(branch=branch, commit=OuterRef("commit")).values("number")
    return ChangePoint.objects.filter(status__in=statuses).annotate(place=Subquery(numbers))


def with_level_starts(branch: Branch) -> QuerySet[SeriesSensitivity]:
    """The stored rows, with ``starts``: the ``level_starts`` of their series."""
    starts = ArraySubquery(settled_changes(branch).filter(series=OuterRef("series")).values("place"))
    return SeriesSensitivity.objects.annotate(starts=Func(starts, None, function="array_remove"))


def on_one_level(line: LineColumns, starts: Sequence[int]) -> LevelPoints:
    """The clean points scaled to one level, since confirmed changes are not noise.

    ``starts``: where levels begin, counted as ``line.at`` is.
    """
    is_clean = (line.value > 0) & (line.low > 0) & ~np.isin(line.at, list(line.flags))
    at, value, low, high, n = (column[is_clean] for column in line[1:6])
    of_level = np.searchsorted(sorted(starts), at, side="right")
    usual = np.empty(len(value))
    for level in np.unique(of_level):
        usual[of_level == level] = np.median(value[of_level == level])
    trials = n.tolist()
    scaled = zip((low / usual).tolist(), (high / usual).tolist(), trials, strict=True)
    return LevelPoints(
        list(map(math.log, (value / usual).tolist())), [standard_error(*point) for point in scaled], trials
    )


def judge_lines(members: Sequence[tuple[Series, LevelPoints, float]]) -> list[SeriesSensitivity]:
    """The sensitivity of series, from the clean points on one level of each, and its smallest effect."""
    levels = [LevelLine(points.level, points.error, effect) for _, points, effect in members]
    return [
        SeriesSensitivity(
            series=series,
            points=len(line.level),
            smallest_effect=line.smallest_effect,
            **(vars(noise) if (noise := line_noise(line.level, line.error)) else {}),
            **({"visible": visible.smallest, "visible_within": visible.after} if visible else {}),
        )
        for (series, _, _), line, visible in zip(members, levels, smallest_visible_changes(levels), strict=True)
    ]


def standard_error(low: float, high: float, n: int) -> float:
    """The relative standard error of a point's median, from its interval; NaN for single trials."""
    if n < 2:
        return math.nan
    return (math.log(high) - math.log(low)) / 2 / TO_95


def paired_noise(series: Iterable[int]) -> dict[int, PairedNoise]:
    """By series id: the results of its A/A runs. The smallest change is that of the newest with enough clean pairs."""
    floors = NoiseFloor.objects.filter(series__in=list(series))
    newest = floors.filter(smallest__isnull=False).order_by("series", "-id").distinct("series")
    smallest = dict(newest.values_list("series", "smallest"))
    different = Q(low__gt=1) | Q(high__lt=1)
    rows = floors.filter(ratio__isnull=False).values_list("series").order_by()
    tallies = rows.annotate(runs=Count("pk"), different=Count("pk", filter=different))
    rates = {pk: (runs, differ) for pk, runs, differ in tallies}
    return {pk: PairedNoise(smallest.get(pk), *rates.get(pk, (0, 0))) for pk in smallest.keys() | rates.keys()}


class FlagCounts:
    """The number of trials in the newest runs and how often each flag occurs, by benchmark of these series."""

    def __init__(self, series: Sequence[Series], points: Sequence[LinePoint]) -> None:
        self.trials: Counter[tuple[int, int]] = Counter()
        self.flags: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
        by_series: dict[int, list[int]] = defaultdict(list)
        for point in points:
            by_series[point.series_id].append(point.attempt_id)
        attempts = {attempt for attempt_ids in by_series.values() for attempt in attempt_ids[-FLAGGED_RUNS:]}
        benchmarks = {member.benchmark_id for member in series}
        rows = Trial.objects.filter(result__attempt__in=attempts, result__benchmark__in=benchmarks)
        for benchmark, machine, flags in rows.values_list(
            "result__benchmark", "result__attempt__run__machine", "flags"
        ):
            self.trials[benchmark, machine] += 1
            self.flags[benchmark, machine].update(set(flags))

    def often(self, series: Series) -> list[tuple[str, float]]:
        """The (flag, share of trials) of flags that void the series' metric in many trials, the most frequent first."""
        key = series.benchmark_id, series.machine_id
        voids = METRICS[series.metric].voided_by
        shares = [(flag, count / self.trials[key]) for flag, count in self.flags[key].most_common() if flag in voids]
        return [(flag, share) for flag, share in shares if share >= OFTEN]


def noise_of(sensitivity: SeriesSensitivity) -> LineNoise | None:
    if sensitivity.between is None or sensitivity.within is None:
        return None
    return LineNoise(sensitivity.between, sensitivity.within, sensitivity.modes)


def causes_of(sensitivity: SeriesSensitivity, flags: FlagCounts, trials: int) -> Iterable[NoiseCause]:
    """Likely reasons for the noise of a series, the most likely first."""
    for flag, share in flags.often(sensitivity.series):
        yield NoiseCause(
            f"{flag} in {share:.0%} of its trials", REMEDIES.get(flag, "docs/methodology.md says what it means")
        )
    noise = noise_of(sensitivity)
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
    seconds = sensitivity.series.benchmark.definition.get("workload", {}).get("duration_s")
    if isinstance(seconds, int | float) and seconds <= SHORT_S:
        yield NoiseCause(f"each trial measures {seconds:g} s", "lengthen the window (`duration_s`)")
    if noise and not noise.modes and not noise.runs_differ_more:
        yield NoiseCause(
            f"its trials scatter: the error of a run is {noise.within:.1%}", "more trials, or a longer `duration_s`"
        )
    if noise is None:
        yield NoiseCause(
            f"{sensitivity.points} measured commits are too few to tell", "wait for some more, or backfill"
        )
