"""All points of a project along a branch, as rows for programs, however many they are.

Rows come commit by commit, a stretch of the branch at a time: neither the server nor a connection pool has to keep
anything from one stretch to the next, and what was cut off goes on behind the last position that arrived.

A row repeats much of its commit, its series and its attempt. These texts are made once, and joined with the numbers.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from django.db import connection
from pydantic_core import to_json

from speedtrack.alerts.lines.linecolumns import Array, array_of
from speedtrack.alerts.lines.lines import END, sql
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.ground.texts.text import csv_cell, plain
from speedtrack.projects import positions
from speedtrack.web.pages.sharing.exports import ExportFilters
from speedtrack.web.requests.formats import cell, csv_text, number_texts

SCHEMA = "speedtrack.export/1"
STRETCH = 100  # commits that are read at once
COLUMNS = (
    *("position", "commit", "committed_at", "author", "subject", "benchmark", "metric", "machine", "environment"),
    *("value", "low", "high", "n", "flags", "run", "measured_at", "benchmark_digest", "unit", "better"),
)
# The series that a query chooses, each with its rank by the names in the order of rows.
SERIES = """
  SELECT s.id, dense_rank() OVER (ORDER BY b.name, s.metric, ma.name), b.name, s.metric, ma.name, e.digest, b.digest,
         ma.outside
    FROM runs_series s
    JOIN benchmarks_benchmark b ON b.id = s.benchmark_id
    JOIN runs_machine ma ON ma.id = s.machine_id
    JOIN runs_environment e ON e.id = s.environment_id
   WHERE s.project_id = %(project)s
     AND (%(benchmark)s = '' OR b.name = %(benchmark)s) AND (%(metric)s = '' OR s.metric = %(metric)s)
     AND (%(machine)s = '' OR ma.name = %(machine)s)
     AND (%(environment)s = '' OR e.digest LIKE 'sha256:' || %(environment)s || '%%')
"""
COMMITS = """
  SELECT p.number, c.id, c.sha, c.committed_at, c.author_name, c.subject
    FROM projects_position p JOIN projects_commit c ON c.id = p.commit_id
   WHERE p.branch_id = %(branch)s AND p.number BETWEEN %(first)s AND %(last)s
     AND (%(since)s::timestamptz IS NULL OR c.committed_at >= %(since)s)
     AND (%(until)s::timestamptz IS NULL OR c.committed_at < %(until)s)
ORDER BY p.number
"""
# The points of each commit as columns. The names of their commits, series and attempts would be longer than the values,
# and are read once.
POINTS = sql("""
  SELECT c.id, found.*
    FROM unnest(%(commits)s::int[]) WITH ORDINALITY AS c (id, place)
    CROSS JOIN LATERAL (
      SELECT array_send(array_agg(m.id)), array_send(array_agg(m.series_id::bigint)),
             array_send(array_agg(m.attempt_id)), array_send(array_agg(m.value)), array_send(array_agg(m.low)),
             array_send(array_agg(m.high)), array_send(array_agg(m.n::bigint)),
             jsonb_object_agg(m.id, string_to_array(m.flags, ',')) FILTER (WHERE m.flags <> ''),
             array_agg(m.id) FILTER (WHERE o.measured_at IS NOT NULL),
             array_agg(o.measured_at) FILTER (WHERE o.measured_at IS NOT NULL)
        FROM (SELECT * FROM runs_measurement m
               WHERE m.commit_id = c.id AND IS_POINT AND (%(all)s OR m.series_id = ANY (%(series)s)) OFFSET 0) m
        LEFT JOIN runs_origin o ON %(outside)s AND o.measurement_id = m.id
      HAVING count(*) > 0) found
ORDER BY c.place
""")
ATTEMPTS = "SELECT id, run_id, ended_at FROM runs_attempt WHERE id = ANY (%(attempts)s)"
SAMPLES = "SELECT measurement_id, values FROM runs_samples WHERE measurement_id = ANY (%(measurements)s)"
# The first and the last commit within the time: dates may go back, so others lie between them.
ENDS = """
  SELECT min(p.number), max(p.number)
    FROM (SELECT c.id FROM projects_commit c
           WHERE c.project_id = %(project)s AND c.committed_at >= %(since)s AND c.committed_at < %(until)s OFFSET 0) c
    CROSS JOIN LATERAL (SELECT number FROM projects_position
                         WHERE branch_id = %(branch)s AND commit_id = c.id OFFSET 0) p
"""
WHOLE = f"SELECT 0, {positions.head('%(branch)s')}"


Attempts = dict[int, tuple[int, datetime | None]]  # by id: the run, and when the attempt ended


class ChosenSeries(NamedTuple):
    """A series of the export. ``rank``: by its names, in the order of rows."""

    pk: int
    rank: int
    benchmark: str
    metric: str
    machine: str
    environment: str
    benchmark_digest: str
    is_outside: bool


class CommitPoints(NamedTuple):
    """The points of a commit, column by column. By id, of those that have some: their flags, and times of their own."""

    ids: Array
    series: Array
    attempts: Array
    values: Array
    lows: Array
    highs: Array
    sizes: Array
    flags: dict[str, list[str]]
    times: dict[int, datetime]

    def in_order_of(self, series: Mapping[int, ChosenSeries], attempts: Attempts) -> "CommitPoints":
        """In the order of rows, without the points of other series, or of attempts that were deleted meanwhile."""
        ranks = np.array([series[pk].rank if pk in series else 0 for pk in self.series.tolist()])
        ranks[~np.isin(self.attempts, list(attempts))] = 0
        order = np.lexsort((self.ids, ranks))
        order = order[ranks[order] > 0]
        return self._replace(**{name: getattr(self, name)[order] for name in NUMBERS})


NUMBERS = CommitPoints._fields[:-2]


class Form(NamedTuple):
    """How rows are written.

    ``text``: of fields that follow each other; ``safe``: texts of others; ``line``: a row from texts; ``none``: instead
    of a number that is not finite, if the form lacks it; ``ending``: the last fields, in their order.
    """

    text: Callable[[dict[str, Any]], str]
    safe: Callable[[str], str]
    line: str
    none: str
    ending: tuple[str, ...]


def json_text(fields: dict[str, Any]) -> str:
    return to_json(fields, inf_nan_mode="null").decode()[1:-1]  # JSON has neither infinity nor NaN


def csv_fields(fields: dict[str, Any]) -> str:
    return csv_text(cell(" ".join(map(str, value)) if isinstance(value, list) else value) for value in fields.values())


JSON = Form(
    json_text,
    plain,
    '{%s,%s,"value":%s,"low":%s,"high":%s,"n":%s,%s,%s,%s}',
    "null",
    ("benchmark_digest", "samples", "unit", "better"),
)
CSV = Form(csv_fields, csv_cell, "%s,%s,%s,%s,%s,%s,%s,%s,%s", "", ("benchmark_digest", "unit", "better", "samples"))


def csv_lines(filters: ExportFilters) -> Iterator[str]:
    """The titles, then the rows of a commit at a time."""
    yield ",".join([*COLUMNS, *(["samples"] if filters.samples else [])]) + "\r\n"
    for rows in rows_by_commit(filters, CSV):
        yield "\r\n".join([*rows, ""])


def ndjson(filters: ExportFilters) -> Iterator[str]:
    """A line of JSON for each point; those of a commit at a time."""
    for rows in rows_by_commit(filters, JSON):
        yield "\n".join([*rows, ""])


def document(filters: ExportFilters) -> Iterator[str]:
    """The points as one JSON document, in pieces."""
    head = {"schema": SCHEMA, "project": filters.project.slug, "branch": filters.branch.name}
    yield json.dumps(head)[:-1] + ', "points": ['
    before = ""
    for rows in rows_by_commit(filters, JSON):
        yield before + ", ".join(rows)
        before = ", "
    yield "]}"


def rows_by_commit(filters: ExportFilters, form: Form) -> Iterator[list[str]]:
    """The rows of each commit that has some, oldest commit first."""
    parameters: dict[str, Any] = vars(filters) | {"project": filters.project.pk, "branch": filters.branch.pk}
    series_by_id = {row[0]: ChosenSeries._make(row) for row in fetch(SERIES, parameters)}
    writer = RowWriter(form, filters.samples, series_by_id)
    first, last = ends_of(filters)
    for number in range(max(first, filters.after + 1), last + 1, STRETCH):
        stretch = {"first": number, "last": min(number + STRETCH - 1, END)}
        commits = {row[1]: form.text(commit_of(row, form)) for row in fetch(COMMITS, parameters | stretch)}
        points = points_of(list(commits), writer.series, is_chosen(filters))
        attempts = attempts_of(points.values())
        for commit, columns in points.items():
            ordered = columns.in_order_of(writer.series, attempts)
            if len(ordered.ids):
                yield writer.rows(commits[commit], ordered, attempts)


def is_chosen(filters: ExportFilters) -> bool:
    """Return whether the query chooses some of the series."""
    return bool(filters.benchmark or filters.metric or filters.machine or filters.environment)


def points_of(commits: Sequence[int], series: Mapping[int, ChosenSeries], only_these: bool) -> dict[int, CommitPoints]:
    """By commit id: its points, at least those in these series. ``only_these``: there are others."""
    parameters = {
        "commits": list(commits),
        "series": list(series) if only_these else [],
        "all": not only_these,
        "outside": any(chosen_series.is_outside for chosen_series in series.values()),
    }
    return {commit: columns_of(row) for commit, *row in fetch(POINTS, parameters)}


class RowWriter:
    """Writes the points of a commit as rows. The texts of each series are made once."""

    def __init__(self, form: Form, has_samples: bool, series: Mapping[int, ChosenSeries]) -> None:
        self.form, self.has_samples, self.series = form, has_samples, series
        self.heads: dict[int, str] = {}
        self.endings: dict[int, str] = {}

    def rows(self, commit: str, points: CommitPoints, attempts: Attempts) -> list[str]:
        form, series = self.form, points.series.tolist()
        for pk in {*series} - self.heads.keys():
            self.heads[pk] = form.text(head_of(self.series[pk], form))
            self.endings[pk] = form.text(ending_of(self.series[pk], form))
        texts = (
            [self.heads[pk] for pk in series],
            *(numbers_of(column, form) for column in (points.values, points.lows, points.highs)),
            points.sizes.tolist(),
            flags_of(points, form),
            times_of(points, attempts, form),
            self.sampled_endings(points) if self.has_samples else [self.endings[pk] for pk in series],
        )
        return list(map(form.line.__mod__, zip(repeat(commit), *texts, strict=False)))

    def sampled_endings(self, points: CommitPoints) -> list[str]:
        """The last fields of each row, with its samples."""
        ids, form = points.ids.tolist(), self.form
        samples = dict(fetch(SAMPLES, {"measurements": ids}))
        rows = zip(ids, points.series.tolist(), strict=True)
        return [form.text(ending_of(self.series[own], form, samples=samples.get(pk))) for pk, own in rows]


def fetch(query: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def ends_of(filters: ExportFilters) -> tuple[int, int]:
    """The positions of the first and the last commit within the time; without one, an empty range."""
    times = {"since": filters.since or "-infinity", "until": filters.until or "infinity"}
    query = ENDS if filters.since or filters.until else WHOLE
    ((first, last),) = fetch(query, {"project": filters.project.pk, "branch": filters.branch.pk, **times})
    return (0, -1) if last is None else (first, last)


def columns_of(row: Sequence[Any]) -> CommitPoints:
    *encoded, flags, attempts, times = row
    own_times = dict(zip(attempts or (), times or (), strict=True))
    return CommitPoints._make([*map(array_of, encoded), json.loads(flags or "{}"), own_times])


def commit_of(row: Sequence[Any], form: Form) -> dict[str, Any]:
    """The fields of a row of COMMITS. ``position`` counts commits from the root of the branch."""
    number, _, sha, committed_at, author, subject = row
    names = {"author": form.safe(author), "subject": form.safe(subject)}
    return {"position": number, "commit": sha, "committed_at": committed_at.isoformat(), **names}


def head_of(series: ChosenSeries, form: Form) -> dict[str, Any]:
    names = {"benchmark": form.safe(series.benchmark), "metric": form.safe(series.metric)}
    return {**names, "machine": series.machine, "environment": series.environment}


def ending_of(series: ChosenSeries, form: Form, **samples: list[float | None] | None) -> dict[str, Any]:
    """The last fields of a row: also what its values could not be interpreted without."""
    metric = METRICS.get(series.metric)
    meaning = {"unit": metric.unit if metric else "", "better": metric.better.value if metric else ""}
    fields = {"benchmark_digest": series.benchmark_digest, **meaning, **samples}
    return {name: fields[name] for name in form.ending if name in fields}


def numbers_of(column: Array, form: Form) -> Iterable[str]:
    if form.none and not np.isfinite(column).all():
        return [repr(value) if math.isfinite(value) else form.none for value in column.tolist()]
    return number_texts(column)


def flags_of(points: CommitPoints, form: Form) -> Iterable[str]:
    none = form.text({"flags": []})
    flagged = {int(pk): form.text({"flags": flags}) for pk, flags in points.flags.items()}
    return [flagged.get(pk, none) for pk in points.ids.tolist()] if flagged else repeat(none)


def times_of(points: CommitPoints, attempts: Attempts, form: Form) -> Iterable[str]:
    """The run, and when it was measured: the time stated by a result from outside, else the end of its attempt."""
    usual = {pk: form.text(run_of(*attempt)) for pk, attempt in attempts.items()}
    if not points.times:
        return map(usual.__getitem__, points.attempts.tolist())
    return [
        form.text(run_of(attempts[attempt][0], points.times[pk])) if pk in points.times else usual[attempt]
        for pk, attempt in zip(points.ids.tolist(), points.attempts.tolist(), strict=True)
    ]


def run_of(run: int, time: datetime | None) -> dict[str, Any]:
    return {"run": run, "measured_at": time.isoformat() if time else None}


def attempts_of(columns: Iterable[CommitPoints]) -> Attempts:
    """By id: the run of each attempt, and when it ended."""
    ids = sorted({pk for points in columns for pk in points.attempts.tolist()})
    return {pk: (run, ended_at) for pk, run, ended_at in fetch(ATTEMPTS, {"attempts": ids})} if ids else {}
