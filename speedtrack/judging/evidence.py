"""What is known of two commits besides the samples of their own runs: programs, pairs, and confirmed changes."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import cycle, islice, product
from operator import attrgetter
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Q

from speedtrack.alerts.lines import effects, lines
from speedtrack.alerts.lines.comparisons import Answer
from speedtrack.alerts.pairs import pairing
from speedtrack.alerts.pairs.pairing import Pair
from speedtrack.benchmarks.metrics import HEADLINE, METRICS, Metric
from speedtrack.benchmarks.models import Benchmark
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
    was confirmed between them.
    """

    distance: int
    old: float
    own: Answer
    flagged: bool
    change: Answer | None


FEW = 20  # series, of which batches are searched; of more, all batches of a commit are read
# Of a stored array that is long, PostgreSQL unpacks the whole for each element that is read; not of a computed one.
UNPACKED = ", ".join(f"{column} || '{{}}' AS {column}" for column in ("distances", "old", "ratios", "lows", "highs"))
# Of many series at few commits, flags are read by commit, although that has the points of other series as well.
MANY = 300  # for each commit
BY_COMMIT = "(SELECT count(*) FROM watched) > %(many)s * (SELECT count(*) FROM stored_ends)"
# A judgement that is not stored needs the smallest effect.
COMPARES = "(EXISTS (SELECT FROM paired) OR EXISTS (SELECT FROM asked WHERE wanted = 'either'))"
OF_INITIALS = {answer[0]: answer for answer in ComparisonAnswer}
PairsOfEnds = dict[tuple[Ends, int, str], tuple[Pair, ...]]  # by ends, benchmark and metric


@dataclass(frozen=True)
class Known:
    """What is known: series, stored answers, points without these, the ends of one program, and pairs.

    The last two are from both commits' points of view.
    """

    series: dict[int, JudgedSeries] = field(default_factory=dict)
    stored: dict[TwoSides, StoredAnswer] = field(default_factory=dict)
    points: dict[Place, SidePoint] = field(default_factory=dict)
    same_program: frozenset[Ends] = frozenset()
    pairs: PairsOfEnds = field(default_factory=dict)

    @cached_property
    def ends_with_evidence(self) -> frozenset[Ends]:
        """The ends of one program, and those with pairs."""
        return self.same_program | {ends for ends, *_ in self.pairs}


class Wanted(StrEnum):
    """How two sides are to be answered."""

    STORED = "stored"  #: by what detection stored
    EITHER = "either"  #: by their points where nothing is stored


# All that judgements rest on, in one query, as each page judges. Of the heads of sides: the stored answers by commit
# before, which is found by its distance along any branch, as positions are the same on all; flagged points; and steps,
# with the length of their range. Of the ends of these rows and of further ends: the newest builds of both commits and
# the samples of their paired runs in either direction. Of sides without a stored answer: the points. Lists are arrays,
# of which PostgreSQL assumes few elements, and tables are read laterally: by an index, however long their history is.
KNOWN = lines.sql(f"""
      WITH asked AS MATERIALIZED (
        SELECT * FROM unnest(%(series)s::int[], %(bases)s::int[], %(heads)s::int[], %(wanted)s::text[])
                   AS asked (series_id, base_id, head_id, wanted)),
           watched AS MATERIALIZED (
        SELECT id, project_id, machine_id, benchmark_id, metric
          FROM runs_series WHERE id = ANY (ARRAY(SELECT DISTINCT series_id FROM asked))),
           both_commits AS MATERIALIZED (SELECT DISTINCT base_id, head_id FROM asked),
           stored AS MATERIALIZED (
        SELECT g.*, base.commit_id AS base_id
          FROM unnest(ARRAY(SELECT DISTINCT head_id FROM asked)) AS head (id)
    CROSS JOIN LATERAL (
            SELECT head.id AS head_id, k.machine_id, k.distance, array_agg(k.series_id) AS series,
                   array_agg(k.answer) AS answers,
                   ARRAY[array_agg(k.old), array_agg(k.ratio)::text::float8[], array_agg(k.low)::text::float8[],
                         array_agg(k.high)::text::float8[]] AS numbers
              FROM (SELECT DISTINCT ON (e.series_id)
                           e.series_id, w.machine_id, b.distances[e.at] AS distance, b.old[e.at] AS old,
                           b.ratios[e.at] AS ratio, b.lows[e.at] AS low, b.highs[e.at] AS high,
                           substr(b.answers, e.at::int, 1) AS answer
                      FROM (SELECT id, series, answers, {UNPACKED}
                              FROM alerts_comparisonbatch
                             WHERE commit_id = head.id
                               AND ((SELECT count(*) > {FEW} FROM watched) OR series && ARRAY(SELECT id FROM watched))
                            OFFSET 0) b
                CROSS JOIN LATERAL unnest(b.series) WITH ORDINALITY AS e (series_id, at)
                      JOIN watched w ON w.id = e.series_id
                  ORDER BY e.series_id, b.id DESC) k
          GROUP BY k.machine_id, k.distance OFFSET 0) g
    CROSS JOIN LATERAL (
            SELECT p.commit_id
              FROM projects_position h
              JOIN projects_position p ON p.branch_id = h.branch_id AND p.number = h.number - g.distance
             WHERE h.commit_id = g.head_id LIMIT 1) base
         WHERE EXISTS (SELECT FROM both_commits b
                        WHERE b.head_id = g.head_id AND (b.base_id IS NULL OR b.base_id = base.commit_id))),
           stored_ends AS MATERIALIZED (SELECT head_id AS commit_id FROM stored UNION SELECT base_id FROM stored),
           compared AS MATERIALIZED (
        SELECT series_id, base_id, head_id FROM asked WHERE wanted = 'either'
        EXCEPT SELECT unnest(series), base_id, head_id FROM stored),
           every_end AS MATERIALIZED (
        SELECT machine_id, base_id, head_id FROM stored
         UNION
        SELECT w.machine_id, a.base_id, a.head_id
          FROM asked a JOIN watched w ON w.id = a.series_id
         WHERE a.wanted <> 'stored' AND a.base_id <> a.head_id
         UNION
        SELECT * FROM unnest(%(machines)s::bigint[], %(old)s::int[], %(new)s::int[])),
           ends AS MATERIALIZED (
        SELECT * FROM unnest(ARRAY(SELECT machine_id FROM every_end), ARRAY(SELECT base_id FROM every_end),
                             ARRAY(SELECT head_id FROM every_end)) AS e (machine_id, base_id, head_id)),
           paired AS MATERIALIZED (
        SELECT r.id, r.machine_id, r.base_id, r.commit_id, r.metrics
          FROM (SELECT machine_id, base_id, head_id FROM ends UNION SELECT machine_id, head_id, base_id FROM ends) e
    CROSS JOIN LATERAL (
            SELECT * FROM runs_run r
             WHERE r.base_id = e.base_id AND r.commit_id = e.head_id AND r.machine_id = e.machine_id
               AND r.base_id <> r.commit_id AND r.status = ANY (%(measured)s) AND r.reason <> 'profile' OFFSET 0) r),
           {effects.STATED}
    SELECT 'series', array_agg(id::bigint) || array_agg(machine_id) || array_agg(benchmark_id), array_agg(metric::text),
           NULL::float8[]
      FROM watched HAVING count(*) > 0
 UNION ALL
    SELECT 'benchmark', array_agg(id), array_agg(name::text), NULL
      FROM benchmarks_benchmark WHERE id = ANY (ARRAY(SELECT DISTINCT benchmark_id FROM watched)) HAVING count(*) > 0
 UNION ALL
    SELECT 'stated', array_agg(w.id), NULL, array_agg(stated.effect)
      FROM stated JOIN watched w ON w.project_id = stated.project_id AND w.metric = stated.metric
     WHERE stated.effect IS NOT NULL AND {COMPARES} HAVING count(*) > 0
 UNION ALL
    SELECT 'floor', array_agg(series_id::bigint ORDER BY id), NULL, array_agg(smallest ORDER BY id)
      FROM alerts_noisefloor
     WHERE series_id = ANY (ARRAY(SELECT id FROM watched)) AND smallest IS NOT NULL AND {COMPARES} HAVING count(*) > 0
 UNION ALL
    SELECT 'stored', ARRAY[base_id, head_id, distance]::bigint[] || series::bigint[], answers, numbers FROM stored
 UNION ALL
    SELECT 'flagged', ARRAY[m.series_id, m.commit_id], NULL, NULL
      FROM unnest(ARRAY(SELECT DISTINCT unnest(series) FROM stored WHERE NOT {BY_COMMIT})) AS s (id)
CROSS JOIN LATERAL (
        SELECT m.series_id, m.commit_id
          FROM runs_measurement m
         WHERE m.series_id = s.id AND IS_POINT AND m.commit_id = ANY (ARRAY(SELECT commit_id FROM stored_ends))
      GROUP BY m.series_id, m.commit_id HAVING NOT bool_or(m.flags = '') OFFSET 0) m
 UNION ALL
    SELECT 'flagged', ARRAY[m.series_id, m.commit_id], NULL, NULL
      FROM unnest(ARRAY(SELECT commit_id FROM stored_ends WHERE {BY_COMMIT})) AS c (id)
CROSS JOIN LATERAL (
        SELECT m.series_id, m.commit_id
          FROM runs_measurement m
         WHERE m.commit_id = c.id AND IS_POINT
      GROUP BY m.series_id, m.commit_id HAVING NOT bool_or(m.flags = '') OFFSET 0) m
 UNION ALL
    SELECT 'change', ARRAY[c.series_id, c.commit_id, c.width], NULL, ARRAY[c.ratio, c.low, c.high]
      FROM unnest(ARRAY(SELECT DISTINCT head_id FROM stored)) AS head (id)
CROSS JOIN LATERAL (
        SELECT c.*, l.number - f.number AS width
          FROM alerts_changepoint c
          JOIN projects_position l ON l.commit_id = c.commit_id
          JOIN projects_position f ON f.branch_id = l.branch_id AND f.commit_id = c.before_id
         WHERE c.commit_id = head.id AND c.series_id = ANY (ARRAY(SELECT id FROM watched))
           AND c.status = 'confirmed' AND c.kind = 'step'
      ORDER BY c.id OFFSET 0) c
 UNION ALL
    SELECT 'build', ARRAY[side.machine_id, side.commit_id],
           ARRAY(SELECT key || ' ' || (value ->> 'digest') FROM jsonb_each(b.artifacts) ORDER BY 1), NULL
      FROM (SELECT machine_id, base_id AS commit_id FROM ends UNION SELECT machine_id, head_id FROM ends) side
CROSS JOIN LATERAL (
        SELECT b.artifacts
          FROM runs_build b JOIN runs_attempt a ON a.id = b.attempt_id JOIN runs_run r ON r.id = a.run_id
         WHERE b.commit_id = side.commit_id AND b.succeeded AND r.machine_id = side.machine_id
      ORDER BY b.id DESC LIMIT 1) b
 UNION ALL
    SELECT 'pair', ARRAY[r.id, m.id, r.machine_id, r.base_id, r.commit_id, s.benchmark_id] || v.flagged::bigint[],
           ARRAY[s.metric, m.side], v.values
      FROM paired r
      JOIN runs_attempt a ON a.run_id = r.id
CROSS JOIN LATERAL (SELECT * FROM runs_measurement m WHERE m.attempt_id = a.id AND m.accepted OFFSET 0) m
      JOIN runs_series s ON s.id = m.series_id
       AND s.metric = ANY (CASE WHEN cardinality(r.metrics) > 0 THEN r.metrics ELSE ARRAY[%(headline)s] END)
      JOIN runs_samples v ON v.measurement_id = m.id
 UNION ALL
    SELECT 'point', ARRAY[m.commit_id, s.machine_id, s.id, b.id, s.environment_id, m.attempt_id] || v.flagged::bigint[],
           ARRAY[b.name, s.metric, b.ladder] || string_to_array(m.flags, ','), ARRAY[m.value, m.low, m.high] || v.values
      FROM (SELECT series_id, base_id AS commit_id FROM compared UNION SELECT series_id, head_id FROM compared) place
CROSS JOIN LATERAL (
        SELECT m.* FROM runs_measurement m
         WHERE m.series_id = place.series_id AND m.commit_id = place.commit_id AND IS_POINT OFFSET 0) m
      JOIN runs_series s ON s.id = m.series_id
      JOIN benchmarks_benchmark b ON b.id = s.benchmark_id
 LEFT JOIN runs_samples v ON v.measurement_id = m.id
""")  # noqa: S608 - constants
Row = tuple[list[int], list[str], list[Any]]


def known_of(sides: Mapping[TwoSides, Wanted]) -> Known:
    """What is known of these sides."""
    columns = [list(column) for column in zip(*sides, strict=True)] or [[], [], []]
    return read(**dict(zip(("series", "bases", "heads"), columns, strict=True)), wanted=list(sides.values()))


def known_of_heads(series: Collection[int], heads: Collection[int]) -> Known:
    """What is known of these commits in these series against whichever commit they were compared with."""
    count = max(len(series), len(heads)) if series and heads else 0
    columns = {"series": list(islice(cycle(series), count)), "heads": list(islice(cycle(heads), count))}
    return read(**columns, bases=[None] * count, wanted=[Wanted.STORED] * count)


def known_of_ends(ends: Collection[Ends]) -> Known:
    """What is known of these ends besides what is stored."""
    machines, old, new = [list(column) for column in zip(*ends, strict=True)] or [[], [], []]
    return read(machines=machines, old=old, new=new)


LISTS = ("series", "bases", "heads", "wanted", "machines", "old", "new")  # parameters of KNOWN


def read(**lists: list[Any]) -> Known:
    """What KNOWN answers for these parameters; without any, nothing is asked."""
    if not any(lists.values()):
        return Known()
    parameters: dict[str, Any] = {name: array_text(lists.get(name, [])) for name in LISTS}
    rows: dict[str, list[Row]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(KNOWN, {**parameters, "measured": list(MEASURED), "headline": HEADLINE, "many": MANY})
        for kind, ids, texts, values in cursor:
            rows[kind].append((ids, texts, values))
    return Known(
        judged_series(rows["series"], *(by_id(rows[kind]) for kind in ("benchmark", "stated", "floor"))),
        stored_answers(rows["stored"], rows["flagged"], rows["change"]),
        points_of_rows(rows["point"]),
        same_programs(rows["build"]),
        pairs_of(rows["pair"]),
    )


def array_text(values: Iterable[int | str | None]) -> str:
    """An array as PostgreSQL reads it. psycopg takes ten times as long for a list."""
    return f"{{{','.join('NULL' if value is None else str(value) for value in values)}}}"


def by_id(rows: Iterable[Row]) -> dict[int, Any]:
    """By id: its text, or its number. ``rows``: with columns."""
    return {pk: value for ids, texts, numbers in rows for pk, value in zip(ids, texts or numbers, strict=True)}


def judged_series(
    rows: Iterable[Row], benchmarks: Mapping[int, str], stated: Mapping[int, float], detectable: Mapping[int, float]
) -> dict[int, JudgedSeries]:
    """By id: the series. ``rows``: that of KNOWN, with the columns one after another; ``benchmarks``: their names."""
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
    for (series, head, width), _, (ratio, low, high) in changes:
        steps[series, head].append((width, Answer(ratio, low, high, ComparisonAnswer.DIFFERENT)))
    answers = {}
    for (base, head, distance, *series_ids), texts, columns in rows:
        for series, initial, old, ratio, low, high in zip(series_ids, texts, *columns, strict=True):
            changes_here = steps.get((series, head), ())
            answers[TwoSides(series, base, head)] = StoredAnswer(
                distance,
                old,
                Answer(ratio, low, high, OF_INITIALS[initial]),
                (series, head) in voided or (series, base) in voided,
                next((step for width, step in reversed(changes_here) if width <= distance), None),
            )
    return answers


def points_of_rows(rows: Iterable[Row]) -> dict[Place, SidePoint]:
    """The points of these rows of KNOWN."""
    measured = sorted(map(point_row, rows), key=attrgetter("attempt_id"))
    return {point.place: point for point in combined(measured)}


def point_row(row: Row) -> PointRow:
    (commit, machine, series, benchmark_id, environment, attempt, *flagged), texts, numbers = row
    benchmark, metric, ladder, *flags = texts
    value, low, high, *samples = numbers
    names = (commit, machine, series, benchmark_id, benchmark, metric, ladder, environment, attempt)
    return PointRow(*names, flags, value, low, high, samples, flagged)


def same_programs(builds: Iterable[Row]) -> frozenset[Ends]:
    """The commits of which a machine last built the same program, bit for bit. ``builds``: rows of KNOWN."""
    commits: dict[tuple[int, tuple[str, ...]], list[int]] = defaultdict(list)
    for (machine, commit), digests, _ in builds:
        if digests:
            commits[machine, tuple(digests)].append(commit)
    return frozenset(
        Ends(machine, base, head) for (machine, _), alike in commits.items() for base, head in product(alike, repeat=2)
    )


def pairs_of(rows: Iterable[Row]) -> PairsOfEnds:
    """The clean pairs, in the order of measuring. ``rows``: those of KNOWN."""
    sides: dict[tuple[int, Ends, int, str], dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for (run, _, machine, base, head, benchmark, *flagged), (metric, side), values in sorted(rows):
        samples = Samples(values=values, flagged=flagged)
        sides[run, Ends(machine, base, head), benchmark, metric][side] |= samples.clean_by_trial
    pairs: dict[tuple[Ends, int, str], list[Pair]] = defaultdict(list)
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
    either = Q(base=ends.base_id, commit=ends.head_id) | Q(base=ends.head_id, commit=ends.base_id)
    runs = Run.objects.filter(either, machine=ends.machine_id).exclude(reason=Reason.PROFILE)
    return list(runs.order_by("-id")[:50])


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
