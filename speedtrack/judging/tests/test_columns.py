"""Judgements as columns are those of the judge, whatever evidence there is."""

import math
import struct
from collections import defaultdict
from random import Random
from typing import Any

import numpy as np
import pytest

from speedtrack.alerts.lines.comparisons import Answer
from speedtrack.benchmarks.definitions import BUILD
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.judging.evidence import OF_INITIALS, Rows, evidence_from
from speedtrack.judging.judge import judge_points_by, judged_as_stored
from speedtrack.judging.judgedcolumns import judged_by
from speedtrack.judging.neighbours import Neighbour, neighbours_by
from speedtrack.judging.points import CommitOnMachine, PointRow, combined
from speedtrack.judging.seriescolumns import MeasuringMachine, SeriesColumns
from speedtrack.judging.sidecolumns import (
    NamedIds,
    Runs,
    SideColumns,
    SideNames,
    keys_of_one,
    matched_columns,
    of_metrics,
)
from speedtrack.judging.sides import ComparedRows
from speedtrack.judging.storedcolumns import ANSWERS, stored_columns
from speedtrack.judging.verdicts import ORDER, Basis, Ruling, ruling_of, rulings_of

BASE, HEAD, MACHINE, OTHER_MACHINE = 7, 9, 1, 2
COUNT = 120  # series; those of the head are others from APART on
APART = 110
NAMES = SideNames(sorted([BUILD, *(f"b{number:03}" for number in range(150))]), sorted(METRICS), {3: "ladder"})


def side(commit: int, series: list[int], benchmarks: list[int], random: Random, machine: int = MACHINE) -> SideColumns:
    """The points of these series, a tenth of them flagged. The id of a benchmark is the place of its name."""
    count = len(series)
    is_flagged = np.array([random.random() < 0.1 for _ in series], int)
    flags = {(pk, commit): ["steal"] for pk, flagged in zip(series, is_flagged, strict=True) if flagged}
    runs = Runs(np.array(series), np.full(count, commit), flags)
    metrics = np.array([pk % len(METRICS) for pk in benchmarks], int)
    pks, names = np.array(series), np.array(benchmarks)
    values = np.array([random.uniform(1, 9) for _ in series])
    columns = (pks, names, pks >= APART, np.full(count, commit), is_flagged, values, values * 0.9, values * 1.1)
    return SideColumns(CommitOnMachine(commit, machine), NAMES, runs, *columns, names, metrics)


def stored_row(random: Random, series: list[int]) -> tuple[list[int], list[str], list[list[float]]]:
    ratios = [random.choice([random.uniform(0.5, 2), 1.0, math.inf, 0.0]) for _ in series]
    numbers = [[random.uniform(1, 9) for _ in ratios], ratios, [r * 0.9 for r in ratios], [r * 1.1 for r in ratios]]
    return [BASE, HEAD, 3, *series], random.choices([*OF_INITIALS], k=len(series)), numbers


def evidence_rows(random: Random, old: SideColumns, new: SideColumns, same_program: bool) -> Rows:
    """Rows of EVIDENCE: stored answers of most series, samples of the others, and a few flags, changes and pairs."""
    rows: Rows = defaultdict(list)
    benchmark_of = dict(zip(new.series.tolist(), new.benchmark.tolist(), strict=True))
    benchmark_of |= dict(zip(old.series.tolist(), old.benchmark.tolist(), strict=True))
    metric_of = {pk: NAMES.metrics[benchmark % len(METRICS)] for pk, benchmark in benchmark_of.items()}
    pks = [*benchmark_of]
    ids = [*pks, *[MACHINE] * len(pks), *(benchmark_of[pk] for pk in pks)]
    rows["series"].append((ids, [metric_of[pk] for pk in pks], []))
    rows["benchmark"].append(([*range(len(NAMES.benchmarks))], NAMES.benchmarks, []))
    without_answer = random.sample(range(APART), 20)
    rows["stored"].append(stored_row(random, [pk for pk in range(APART) if pk not in without_answer]))
    for column in (old, new):
        for pk, benchmark in zip(column.series.tolist(), column.benchmark.tolist(), strict=True):
            names = [NAMES.benchmarks[benchmark], metric_of[pk], ""]
            samples = [random.uniform(1, 9) for _ in range(6)]
            point = [column.side.commit_id, MACHINE, pk, benchmark, int(pk >= APART), column.side.commit_id]
            if pk in without_answer or pk >= APART or pk not in new.series:
                rows["point"].append((point, names, [samples[0], 1.0, 9.0, *samples]))
    rows["flagged"] += [([random.randrange(APART), random.choice([BASE, HEAD, 5])], [], []) for _ in range(8)]
    for _ in range(8):
        change = [random.randrange(APART), HEAD, random.choice([1, 3, 4])]
        rows["change"].append((change, ["du"[len(rows["change"]) % 2]], [random.uniform(1.5, 2), 1.2, 2.5]))
    (_, _, _, *answered), _, (_, ratios, *_) = rows["stored"][0]
    usual = [pk for pk, ratio in zip(answered, ratios, strict=True) if 0 < ratio < math.inf]
    for run, pk in enumerate([*random.sample(usual, 6), *without_answer[:2]]):
        base, head = random.choice([(BASE, HEAD), (HEAD, BASE)])
        machine = random.choice([MACHINE, MACHINE, OTHER_MACHINE])
        for end in ("base", "head"):
            measured = [run, 0, machine, base, head, benchmark_of[pk]]
            rows["pair"].append((measured, [metric_of[pk], end], [random.uniform(1, 2) for _ in range(8)]))
    if same_program:
        rows["build"] += [([MACHINE, commit], ["server 1"], []) for commit in (BASE, HEAD)]
    return rows


@pytest.mark.parametrize("seed", range(12))
def test_columns_and_objects_give_the_same_judgements(seed: int) -> None:
    random = Random(seed)
    benchmarks = random.sample(range(len(NAMES.benchmarks)), COUNT)
    new = side(HEAD, [*range(COUNT)], benchmarks, random)
    old = side(BASE, [*range(APART), *range(500, 500 + COUNT - APART)], benchmarks, random)
    rows = evidence_rows(random, old, new, same_program=seed % 4 == 0)
    points = zip(old.points, new.points, strict=True)
    expected = judge_points_by(evidence_from(rows), list(points))
    judgements = judged_by(rows, old, new)
    assert judgements.objects == expected
    assert [ORDER[place] for place in judgements.ruling.tolist()] == [judgement.verdict for judgement in expected]
    numbers = np.array([judgements.ratio, judgements.low, judgements.high]).T.tolist()
    assert numbers == [list(judgement[2:5]) for judgement in expected]
    assert judgements.doubtful == [index for index, judgement in enumerate(expected) if judgement.doubts]
    order = np.array(random.sample(range(COUNT), 50))
    assert judgements.chosen(order).objects == [expected[i] for i in order.tolist()]
    if seed % 4:
        assert {judgement.basis for judgement in expected} == set(Basis)
        assert 0 < len(judgements.evident) < COUNT
    else:
        assert Ruling.SAME_PROGRAM in {judgement.verdict for judgement in expected}


@pytest.mark.parametrize("seed", range(6))
def test_neighbours_as_columns_are_judged_as_stored(seed: int) -> None:
    random = Random(seed)
    benchmarks = random.sample(range(len(NAMES.benchmarks)), COUNT)
    old, new = (side(commit, [*range(COUNT)], benchmarks, random) for commit in (BASE, HEAD))
    rows = evidence_rows(random, old, new, same_program=seed % 3 == 0)
    nothing = np.zeros(COUNT, int)
    columns = (new.series, new.benchmark, nothing, np.zeros(COUNT), nothing, new.name, new.metric, nothing)
    series = SeriesColumns(NAMES, [MeasuringMachine("m", False)], *columns)
    evidence = evidence_from(rows)
    expected = {
        answered.series_id: Neighbour(judged_as_stored(answered, evidence), answer.distance, answer.old)
        for answered, answer in evidence.stored.items()
    }
    neighbours = neighbours_by(rows, HEAD, series, stored_columns(rows))
    assert 0 < len(neighbours) < COUNT and neighbours.by_index == expected
    is_shown = np.array([random.random() < 0.5 for _ in range(COUNT)])
    assert neighbours.among(is_shown).by_index == {pk: own for pk, own in expected.items() if is_shown[pk]}


def test_rulings_are_those_of_each_answer() -> None:
    random, metrics = Random(1), [*METRICS.values()]
    ratios = [
        0.0,
        1.0,
        math.nextafter(1, 2),
        math.nextafter(1, 0),
        math.inf,
        math.nan,
        *(random.uniform(0, 3) for _ in range(9)),
    ]
    kinds: list[tuple[int, int, float]] = [
        (metric, answer, ratio) for metric in range(len(metrics)) for answer in range(len(ANSWERS)) for ratio in ratios
    ]
    random.shuffle(kinds)
    metric, answer, ratio = (np.array(column) for column in zip(*kinds, strict=True))
    rulings = rulings_of(metrics, metric, ANSWERS, answer, ratio)
    expected = [ruling_of(metrics[m], Answer(r, r, r, ANSWERS[a])) for m, a, r in kinds]
    assert [ORDER[place] for place in rulings.tolist()] == expected


def test_points_of_several_series_are_matched_as_points_to_compare_says() -> None:
    """Of one series where both have one, else of the newest of each; the others are of one side only."""
    random: Any = Random(2)
    old = side(BASE, [1, 2, 3, 6, 8], [0, 0, 1, 2, 4], random)
    new = side(HEAD, [2, 1, 9, 4, 7, 5], [0, 0, 0, 1, 3, 2], random)
    base, head = matched_columns(old, new)
    assert (base.series.tolist(), head.series.tolist()) == ([2, 3, 6], [2, 4, 5])
    assert keys_of_one(old, new) == [(NAMES.benchmarks[4], NAMES.metrics[4])]
    assert keys_of_one(new, old) == [(NAMES.benchmarks[3], NAMES.metrics[3])]


def encoded(values: list[Any]) -> bytes:
    """An array in PostgreSQL's binary form."""
    oid, kind = (701, "d") if isinstance(values[0], float) else (20, "q")
    head = struct.pack(">iiiii", 1, 0, oid, len(values), 1)
    return head + b"".join(struct.pack(f">i{kind}", 8, value) for value in values)


def test_several_runs_of_a_series_are_one_point_as_of_objects() -> None:
    random = Random(4)
    rows: list[PointRow] = []
    for attempt in range(1, 200):
        pk, flags = random.randrange(60), random.choice([[], [], ["steal"], ["paging", "steal"]])
        numbers = [random.uniform(1, 9) for _ in range(3)]
        names = ("b000", NAMES.metrics[pk % 2], "", 1)
        rows.append(PointRow(HEAD, MACHINE, pk, 11, *names, attempt, flags, *numbers))
    expected = {point.series_id: point for point in combined(rows)}
    random.shuffle(rows)
    by_metric = []
    for metric in NAMES.metrics[:2]:
        own = [row for row in rows if row.metric == metric]
        numbers = [[row[index] for row in own] for index in (2, 3, 7, 8)]
        values = [[row[index] for row in own] for index in (10, 11, 12)]
        columns = [*numbers, [int(bool(row.flags)) for row in own], *values]
        flags_of = [[row.series_id, row.attempt_id, row.flags] for row in own if row.flags]
        by_metric.append((metric, flags_of, list(map(encoded, columns))))
    points = of_metrics(CommitOnMachine(HEAD, MACHINE), by_metric, NAMES, NamedIds(np.array([11]), np.array([0])))
    assert {point.series_id: point for point in points.points} == expected
    assert any(len(point.attempts) > 1 and point.flags for point in expected.values())


def test_a_side_without_points_has_rows_with_none() -> None:
    nothing = of_metrics(CommitOnMachine(HEAD, MACHINE), [], NAMES, NamedIds(np.array([11]), np.array([0])))
    measured = side(BASE, [1, 2], [0, 1], Random(1))
    old, new = matched_columns(measured, nothing)
    rows = ComparedRows(old, new, judged_by(defaultdict(list), old, new)).ranked
    assert (list(rows), rows.metrics, rows.counts, rows.doubtful, rows.ladders) == ([], [], {}, [], [])
    assert keys_of_one(measured, nothing) == [(NAMES.benchmarks[place], NAMES.metrics[place]) for place in (0, 1)]
