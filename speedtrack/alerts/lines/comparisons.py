"""Compare each measured commit with the last clean one before it in its series, and store the answer.

This is done with detection, under its lock on the series: measurements that are accepted later mark the series again. A
commit that is measured between two others, or measured again, also changes what the next one is compared with.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection

from speedtrack.alerts.lines import lines
from speedtrack.alerts.lines.effects import EffectsOfProjects
from speedtrack.alerts.models import ComparisonBatch
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.projects import positions
from speedtrack.runs.models import Series
from speedtrack.stats.comparing.compare import (
    Comparison,
    ComparisonAnswer,
    IndependentSets,
    compare_exact,
    compare_many,
)

REACH = 500  # commits that are searched for the one measured before
AT_ONCE = 2000  # comparisons

# The points of runs that have ended since then, and the next clean point after each of them on every branch; with each,
# the last clean point before it: a flag voids what would be compared with it. A commit has the same points before it
# on all its branches. Arrays rather than joins, and OFFSET 0: PostgreSQL then looks up each row, and stops at the first
# neighbour, rather than read all attempts and REACH positions for each series.
HAS_POINT = """EXISTS (SELECT FROM runs_measurement m
                        WHERE m.series_id = {0}.series_id AND m.commit_id = p.commit_id AND IS_CLEAN_POINT OFFSET 0)"""
AFTER = "least(n.number + %(reach)s, ends.head)"
BEFORE = "changed.number - %(reach)s", "changed.number - 1"
CHANGED = lines.sql(f"""
      WITH new AS MATERIALIZED (
        SELECT s.id AS series_id, p.branch_id, p.number, p.commit_id
          FROM unnest(%(series)s::bigint[], %(since)s::timestamptz[]) AS s (id, since)
          JOIN projects_position p
            ON p.commit_id = ANY (ARRAY(
                   SELECT m.commit_id FROM runs_measurement m
                    WHERE m.series_id = s.id AND NOT m.paired
                      AND m.attempt_id = ANY (ARRAY(
                              SELECT other.id FROM runs_attempt other
                               WHERE other.run_id = ANY (ARRAY(
                                         SELECT a.run_id FROM runs_attempt a WHERE a.ended_at >= s.since))))))),
           ends AS MATERIALIZED (
        SELECT b.id AS branch_id, {positions.head("b.id")} AS head FROM (SELECT DISTINCT branch_id AS id FROM new) b)
    SELECT changed.series_id, changed.commit_id, before.commit_id, changed.number - before.number
      FROM (SELECT DISTINCT ON (series_id, commit_id) *
              FROM (SELECT * FROM new
                     UNION ALL
                    SELECT n.series_id, n.branch_id, later.number, later.commit_id
                      FROM new n JOIN ends USING (branch_id)
                CROSS JOIN LATERAL (
                        {positions.first(HAS_POINT.format("n"), "n.branch_id", "n.number + 1", AFTER)}
                           ) later) both_kinds
          ORDER BY series_id, commit_id) changed
CROSS JOIN LATERAL ({positions.last(HAS_POINT.format("changed"), "changed.branch_id", *BEFORE)}) before
     WHERE EXISTS (SELECT FROM runs_measurement m
                    WHERE m.series_id = changed.series_id AND m.commit_id = changed.commit_id AND IS_POINT)
""")  # noqa: S608 - constants

# Batches of these commits of which each series is compared anew.
REPLACED = """
    DELETE FROM alerts_comparisonbatch b
     WHERE b.commit_id = ANY (%s::int[])
       AND NOT EXISTS (SELECT FROM unnest(b.series) AS own (id)
                        WHERE (b.commit_id, own.id) NOT IN (SELECT * FROM unnest(%s::int[], %s::int[])))
"""

SeriesCommit = tuple[int, int]  # series and commit


class Neighbours(NamedTuple):
    """A measured commit and the last clean one before it, ``distance`` commits back."""

    series_id: int
    commit_id: int
    before_id: int
    distance: int


class MeasuredCommit(NamedTuple):
    """The finite samples of a commit in one series, of its clean runs, and one value with its 95% interval."""

    samples: list[float]
    value: float
    low: float
    high: float


class Sides(NamedTuple):
    """Two measured commits to be compared. ``seed``: the id of the series; if there are two, of the newer commit's."""

    seed: int
    metric: Metric
    old: MeasuredCommit
    new: MeasuredCommit
    smallest_effect: float

    @property
    def has_samples(self) -> bool:
        return bool(self.old.samples and self.new.samples) and not self.metric.needs_no_trials


class Answer(NamedTuple):
    """The result of a comparison."""

    ratio: float
    low: float
    high: float
    answer: str


def compare_new(news: Sequence[tuple[Series, datetime]], effects: EffectsOfProjects) -> None:
    """Compare commits that were measured since the given times, and those that follow them, with the commits before."""
    parameters: dict[str, Any] = {
        "series": [series.pk for series, _ in news],
        "since": [since for _, since in news],
        "reach": REACH,
    }
    with connection.cursor() as cursor:
        cursor.execute(CHANGED, parameters)
        neighbours = [Neighbours._make(row) for row in cursor]
    by_id = {series.pk: series for series, _ in news}
    smallest = {pk: effects.of(by_id[pk]) for pk in {pair.series_id for pair in neighbours}}
    for begin in range(0, len(neighbours), AT_ONCE):
        batch = neighbours[begin : begin + AT_ONCE]
        store([(pair, by_id[pair.series_id], smallest[pair.series_id]) for pair in batch])


def store(neighbours: Sequence[tuple[Neighbours, Series, float]]) -> None:
    """Compare these neighbours, and store the answers in place of older ones.

    ``neighbours``: each with its series and the smallest effect.
    """
    points = measured_commits(
        (pair.series_id, commit) for pair, _, _ in neighbours for commit in (pair.commit_id, pair.before_id)
    )
    sides = [
        (points[pair.series_id, pair.before_id], points[pair.series_id, pair.commit_id]) for pair, _, _ in neighbours
    ]
    answers = compare_all(
        [
            Sides(series.pk, METRICS[series.metric], *both, smallest)
            for (_, series, smallest), both in zip(neighbours, sides, strict=True)
        ]
    )
    rows: dict[int, list[tuple[Neighbours, float, Answer]]] = defaultdict(list)
    for (pair, _, _), (old, _), answer in zip(neighbours, sides, answers, strict=True):
        rows[pair.commit_id].append((pair, old.value, answer))
    keys = [(pair.commit_id, pair.series_id) for pair, _, _ in neighbours]
    with connection.cursor() as cursor:
        cursor.execute(REPLACED, [list(rows), *map(list, zip(*keys, strict=True))])
    ComparisonBatch.objects.bulk_create([batch_of(commit, of_commit) for commit, of_commit in rows.items()])


def batch_of(commit: int, rows: Sequence[tuple[Neighbours, float, Answer]]) -> ComparisonBatch:
    """The batch of a commit. ``rows``: with each pair of commits the old value and the answer."""
    answers = [answer for _, _, answer in rows]
    return ComparisonBatch(
        commit_id=commit,
        series=[pair.series_id for pair, _, _ in rows],
        distances=[pair.distance for pair, _, _ in rows],
        old=[old for _, old, _ in rows],
        ratios=[answer.ratio for answer in answers],
        lows=[answer.low for answer in answers],
        highs=[answer.high for answer in answers],
        answers="".join(answer.answer[0] for answer in answers),
    )


def measured_commits(keys: Iterable[SeriesCommit]) -> dict[SeriesCommit, MeasuredCommit]:
    """By (series id, commit id): the samples of its clean runs and the value of the newest; of all runs if none is."""
    unique = set(keys)
    points = lines.point_measurements().filter(
        series__in={series for series, _ in unique}, commit__in={commit for _, commit in unique}
    )
    rows = points.order_by("attempt").values_list("pk", "series", "commit", "flags", "value", "low", "high")
    groups: dict[SeriesCommit, list[tuple[Any, ...]]] = defaultdict(list)
    for pk, series, commit, *columns in rows:
        if (series, commit) in unique:
            groups[series, commit].append((pk, *columns))
    sound = {key: [row for row in group if not row[1]] or group for key, group in groups.items()}
    samples = lines.samples_of_measurements([pk for group in sound.values() for pk, *_ in group])
    by_key = {}
    for key, group in sound.items():
        values = [value for pk, *_ in group for value in samples.get(pk, ()) if math.isfinite(value)]
        by_key[key] = MeasuredCommit(values, *group[-1][2:])
    return by_key


def compare_all(pairs: Sequence[Sides]) -> list[Answer]:
    """Compare the samples of each pair of commits.

    Where retention has deleted the samples of a side, summaries give a ratio, and the answer is unknown.
    """
    sampled = [index for index, pair in enumerate(pairs) if pair.has_samples]
    results = compare_many(
        [
            IndependentSets(tuple(pair.old.samples), tuple(pair.new.samples), pair.smallest_effect, pair.seed)
            for pair in (pairs[index] for index in sampled)
        ]
    )
    by_place = dict(zip(sampled, results, strict=True))
    answers = []
    for index, pair in enumerate(pairs):
        if pair.metric.needs_no_trials:
            answer = compare_values(pair)
        elif index in by_place:
            answer = by_place[index]
        else:
            answers.append(by_summaries(pair.old, pair.new))
            continue
        answers.append(Answer(answer.ratio, answer.low, answer.high, answer.answer))
    return answers


def compare_values(pair: Sides) -> Comparison:
    """Compare two values of a metric that needs no trials. Single counts differ from the smallest effect on."""
    noise = pair.smallest_effect if pair.metric.counted else 0.0
    return compare_exact(pair.old.value, pair.new.value, smallest_effect=pair.smallest_effect, noise=noise)


def by_summaries(old: MeasuredCommit, new: MeasuredCommit) -> Answer:
    """The ratio of two medians, with the widest interval that their own intervals allow."""
    unknown = ComparisonAnswer.UNKNOWN
    if min(old.low, new.low) <= 0:
        comparison = compare_exact(old.value, new.value, smallest_effect=0)
        return Answer(comparison.ratio, comparison.ratio, comparison.ratio, unknown)
    return Answer(new.value / old.value, new.low / old.high, new.high / old.low, unknown)
