"""The evidence about two commits besides the samples of their own runs: programs, pairs, and confirmed changes."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import product, repeat
from operator import attrgetter
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet

from speedtrack.alerts.lines import effects
from speedtrack.alerts.lines.comparisons import Answer
from speedtrack.alerts.pairs import pairing
from speedtrack.alerts.pairs.pairing import Pair
from speedtrack.benchmarks.metrics import HEADLINE, METRICS, Metric
from speedtrack.benchmarks.models import Benchmark
from speedtrack.ground.postgres.pgvalues import array_text, rows_of_arrays
from speedtrack.ground.postgres.preparedquery import PreparedQuery
from speedtrack.judging.evidencequery import EVIDENCE
from speedtrack.judging.points import Place, PointRow, SidePoint, combined
from speedtrack.runs.models import MEASURED, Reason, Run, Samples, Side
from speedtrack.stats.comparing import compare, sequential
from speedtrack.stats.comparing.compare import Comparison, ComparisonAnswer


class Ends(NamedTuple):
    """Two commits on one machine."""

    machine_id: int
    base_id: int
    head_id: int


class TwoSides(NamedTuple):
    """Two commits in one series."""

    series_id: int
    base_id: int
    head_id: int

    @property
    def base(self) -> Place:
        return Place(self.series_id, self.base_id)

    @property
    def head(self) -> Place:
        return Place(self.series_id, self.head_id)


class JudgedSeries(NamedTuple):
    """What a judgement needs to know of a series. ``stated`` and ``detectable`` are those of ``effect_of``."""

    machine_id: int
    benchmark_id: int
    benchmark: str
    metric: Metric
    stated: float | None
    detectable: float | None

    @property
    def smallest(self) -> float:
        """The smallest effect, as a ratio."""
        return effects.effect_of(self.metric, self.stated, self.detectable)


class StoredAnswer(NamedTuple):
    """What detection stored of a commit against the one before it in a series, ``distance`` commits back.

    ``old``: the value of that commit. ``flagged``: the points of one of them are all flagged. ``change``: the step that
    was confirmed between them; it leaves open whether they differ if a person called it invalid.
    """

    distance: int
    old: float
    own: Answer
    flagged: bool
    change: Answer | None

    @property
    def is_plain(self) -> bool:
        """Return whether its own answer decides, unless there is evidence of both commits."""
        return not (self.flagged or self.change)


MANY = 300  # series for each commit: the flags of more are read by commit
OF_INITIALS = {answer[0]: answer for answer in ComparisonAnswer}
PairedSeries = tuple[Ends, int, str]  # ends, benchmark and metric
PairsOfEnds = dict[PairedSeries, tuple[Pair, ...]]


@dataclass(frozen=True)
class Evidence:
    """Series, stored answers, points of sides without these, ends with the same program, and pairs.

    The last three are from both commits' points of view. ``pairs``: the clean ones; ``every_pair``: also those of
    which a flag voids a side.
    """

    series: dict[int, JudgedSeries] = field(default_factory=dict)
    stored: dict[TwoSides, StoredAnswer] = field(default_factory=dict)
    points: dict[Place, SidePoint] = field(default_factory=dict)
    same_program: frozenset[Ends] = frozenset()
    pairs: PairsOfEnds = field(default_factory=dict)
    every_pair: PairsOfEnds = field(default_factory=dict)

    @cached_property
    def commits_with_evidence(self) -> frozenset[tuple[int, int]]:
        """Base and head of the ends with the same program on both sides, and of those with paired runs."""
        return frozenset((base, head) for _, base, head in (*self.same_program, *(ends for ends, *_ in self.pairs)))


class Wanted(StrEnum):
    """How two sides are to be answered."""

    STORED = "stored"  #: by what detection stored
    EITHER = "either"  #: by their points where nothing is stored


Row = tuple[list[int], list[str], list[Any]]
Rows = dict[str, list[Row]]  # by kind


def evidence_of(sides: Mapping[TwoSides, Wanted]) -> Evidence:
    """The evidence of these sides."""
    columns = [list(column) for column in zip(*sides, strict=True)] or [[], [], []]
    return read(**dict(zip(("series", "bases", "heads"), columns, strict=True)), wanted=list(sides.values()))


def evidence_of_ends(ends: Collection[Ends]) -> Evidence:
    """The builds and paired runs of these ends."""
    machines, old, new = [list(column) for column in zip(*ends, strict=True)] or [[], [], []]
    return read(machines=machines, old=old, new=new)


LISTS = ("series", "bases", "heads", "wanted", "machines", "old", "new")  # parameters of EVIDENCE


def read(**lists: list[Any]) -> Evidence:
    """The evidence that EVIDENCE returns for these parameters."""
    return evidence_from(evidence_rows(**lists))


def evidence_rows(**lists: list[Any]) -> Rows:
    """By kind: what EVIDENCE returns for these parameters; without any, nothing is asked."""
    rows: Rows = defaultdict(list)
    if not any(lists.values()):
        return rows
    parameters: dict[str, Any] = {name: array_text(lists.get(name, [])) for name in LISTS}
    constants = {"measured": list(MEASURED), "headline": HEADLINE, "many": MANY}
    for kind, ids, texts, values in rows_of_arrays(EVIDENCE, {**parameters, **constants}):
        rows[kind].append((ids, texts, values))
    return rows


def evidence_from(rows: Rows) -> Evidence:
    return Evidence(
        judged_series(rows["series"], *(by_id(rows[kind]) for kind in ("benchmark", "stated", "floor"))),
        stored_answers(rows["stored"], rows["flagged"], rows["change"]),
        points_of_rows(rows["point"]),
        same_programs(rows["build"]),
        *pairs_of(rows["pair"]),
    )


def by_id(rows: Iterable[Row]) -> dict[int, Any]:
    """By id: its text, or its number. ``rows``: with columns."""
    return {pk: value for ids, texts, numbers in rows for pk, value in zip(ids, texts or numbers, strict=True)}


def judged_series(
    rows: Iterable[Row], benchmarks: Mapping[int, str], stated: Mapping[int, float], detectable: Mapping[int, float]
) -> dict[int, JudgedSeries]:
    """By id: the series. ``rows``: of EVIDENCE, with the columns one after another; ``benchmarks``: their names."""
    series: dict[int, JudgedSeries] = {}
    for ids, metrics, _ in rows:
        count = len(metrics)
        for pk, machine, benchmark, metric in zip(ids, ids[count:], ids[2 * count :], metrics, strict=False):
            effects_of = stated.get(pk), detectable.get(pk)
            series[pk] = JudgedSeries(machine, benchmark, benchmarks[benchmark], METRICS[metric], *effects_of)
    return series


def stored_answers(rows: Iterable[Row], flagged: Iterable[Row], changes: Iterable[Row]) -> dict[TwoSides, StoredAnswer]:
    """The stored answers. A change is one between both commits if its range is no longer than the way between them."""
    voided = {tuple(place) for place, *_ in flagged}
    steps: dict[tuple[int, int], list[tuple[int, Answer]]] = defaultdict(list)
    for (series, head, width), (initial,), (ratio, low, high) in changes:
        steps[series, head].append((width, Answer(ratio, low, high, OF_INITIALS[initial])))
    answers: dict[TwoSides, StoredAnswer] = {}
    for (base, head, distance, *series_ids), texts, (old, *ratios) in rows:
        own = map(Answer, *ratios, map(OF_INITIALS.__getitem__, texts))
        stored = map(StoredAnswer, repeat(distance), old, own, repeat(False), repeat(None))
        answers.update(zip(map(TwoSides, series_ids, repeat(base), repeat(head)), stored, strict=True))
    noted = voided | steps.keys()
    for side in [side for side in answers if noted and not noted.isdisjoint((side[:2], side[::2]))]:
        series, base, head = side
        width = answers[side].distance
        change = next((step for wide, step in reversed(steps.get((series, head), ())) if wide <= width), None)
        is_void = not voided.isdisjoint(((series, base), (series, head)))
        answers[side] = answers[side]._replace(flagged=is_void, change=change)
    return answers


def points_of_rows(rows: Iterable[Row]) -> dict[Place, SidePoint]:
    """The points of these rows of EVIDENCE."""
    measured = sorted(map(point_row, rows), key=attrgetter("attempt_id"))
    return {point.place: point for point in combined(measured)}


def point_row(row: Row) -> PointRow:
    (commit, machine, series, benchmark_id, environment, attempt, *flagged), texts, numbers = row
    benchmark, metric, ladder, *flags = texts
    value, low, high, *samples = numbers
    names = (commit, machine, series, benchmark_id, benchmark, metric, ladder, environment, attempt)
    return PointRow(*names, flags, value, low, high, samples, flagged)


def same_programs(builds: Iterable[Row]) -> frozenset[Ends]:
    """The commits of which a machine last built the same program, bit for bit. ``builds``: rows of EVIDENCE."""
    commits: dict[tuple[int, tuple[str, ...]], list[int]] = defaultdict(list)
    for (machine, commit), digests, _ in builds:
        if digests:
            commits[machine, tuple(digests)].append(commit)
    return frozenset(
        Ends(machine, base, head) for (machine, _), alike in commits.items() for base, head in product(alike, repeat=2)
    )


SidesOfRuns = dict[tuple[int, Ends, int, str], dict[str, dict[int, float]]]  # each side's values by trial


def pairs_of(rows: Iterable[Row]) -> tuple[PairsOfEnds, PairsOfEnds]:
    """The clean pairs, and all, in the order of measuring. ``rows``: those of EVIDENCE."""
    clean: SidesOfRuns = defaultdict(lambda: defaultdict(dict))
    every: SidesOfRuns = defaultdict(lambda: defaultdict(dict))
    for (run, _, machine, base, head, benchmark, *flagged), (metric, side), values in sorted(rows):
        samples = Samples(values=values, flagged=flagged)
        paired = run, Ends(machine, base, head), benchmark, metric
        clean[paired][side] |= samples.clean_by_trial
        every[paired][side] |= samples.by_trial
    return pairs_of_sides(clean), pairs_of_sides(every)


def pairs_of_sides(sides: SidesOfRuns) -> PairsOfEnds:
    pairs: dict[PairedSeries, list[Pair]] = defaultdict(list)
    for (_, ends, benchmark, metric), both in sides.items():
        machine, base, head = ends
        measured = pairing.pairs_of_trials(both[Side.BASE], both[Side.HEAD])
        pairs[ends, benchmark, metric] += measured
        pairs[Ends(machine, head, base), benchmark, metric] += [(after, before) for before, after in measured]
    return {key: tuple(measured) for key, measured in pairs.items()}


def paired_runs(ends: Ends) -> list[Run]:
    """The paired runs of exactly these commits, newest first; either may be the base."""
    if ends.base_id == ends.head_id:
        return []
    return PAIRED_RUNS.rows(machine=ends.machine_id, base=ends.base_id, head=ends.head_id)


def runs_between(machine: int, base: int, head: int) -> QuerySet[Run]:
    either = Q(base=base, commit=head) | Q(base=head, commit=base)
    return Run.objects.filter(either, machine=machine).exclude(reason=Reason.PROFILE).order_by("-id")[:50]


PAIRED_RUNS = PreparedQuery(runs_between)


def other_workloads(benchmarks: Collection[tuple[int, int]]) -> set[tuple[int, int]]:
    """Those pairs of different benchmarks that cannot be compared.

    Definitions of one project differ on purpose; two projects may have the same workload under one name.
    """
    ids = {pk for both in benchmarks for pk in both}
    rows = Benchmark.objects.filter(pk__in=ids).values_list("pk", "project", "definition__workload")
    known = {pk: (project, workload) for pk, project, workload in rows}
    return {(old, new) for old, new in benchmarks if known[old][0] == known[new][0] or known[old][1] != known[new][1]}


@lru_cache(maxsize=2000)
def comparison_of_pairs(
    metric: Metric, pairs: tuple[Pair, ...], smallest: float, seed: int, suspected: float
) -> Comparison | None:
    """The comparison of pairs; None if there are too few.

    ``suspected``: the ratio that was suspected before, 1.0 if none was.
    """
    if len(pairs) < sequential.FEWEST and not metric.counted:
        return None
    return pairing.compared(metric, pairs, smallest, level=compare.LEVEL, seed=seed, suspected=suspected)


def answer_of_pairs(
    metric: Metric, pairs: tuple[Pair, ...], smallest: float, seed: int, suspected: float
) -> Answer | None:
    comparison = comparison_of_pairs(metric, pairs, smallest, seed, suspected)
    if comparison is None:
        return None
    return Answer(comparison.ratio, comparison.low, comparison.high, comparison.answer)
