"""The points of commits as columns: pages compare thousands of them, total them, and show a few as objects."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from speedtrack.alerts.lines import lines
from speedtrack.alerts.lines.comparisons import MeasuredCommit
from speedtrack.alerts.lines.linecolumns import Array, array_of
from speedtrack.ground.postgres.pgvalues import rows_of_arrays
from speedtrack.judging.points import CommitOnMachine, SidePoint, points_to_compare

# Beside the rows of a table ``point``: one with the names, ladders and ids of their benchmarks.
BENCHMARKS = """
    SELECT 0, 0, '', json_build_array(json_agg(name), json_object_agg(id, ladder) FILTER (WHERE ladder <> '')),
           ARRAY[array_send(array_agg(id))]
      FROM benchmarks_benchmark WHERE id = ANY (ARRAY(SELECT DISTINCT benchmark_id FROM point))
"""
# A row for each side and metric, its columns as arrays in PostgreSQL's binary form; then one with the names. It is
# lateral, so that an index finds all points of a commit.
BY_METRIC = lines.sql(f"""
      WITH point AS MATERIALIZED (
        SELECT side.commit_id, side.machine_id, s.metric, m.series_id, s.benchmark_id, s.environment_id, m.attempt_id,
               m.flags, m.value, m.low, m.high
          FROM unnest(%(commits)s::int[], %(machines)s::bigint[]) AS side (commit_id, machine_id)
    CROSS JOIN LATERAL (SELECT m.* FROM runs_measurement m WHERE m.commit_id = side.commit_id AND IS_POINT OFFSET 0) m
          JOIN runs_series s ON s.id = m.series_id AND s.machine_id = side.machine_id)
    SELECT commit_id, machine_id, metric::text,
           json_agg(json_build_array(series_id, attempt_id, string_to_array(flags, ','))) FILTER (WHERE flags <> ''),
           ARRAY[array_send(array_agg(series_id::bigint)), array_send(array_agg(benchmark_id)),
                 array_send(array_agg(environment_id)), array_send(array_agg(attempt_id)),
                 array_send(array_agg((flags <> '')::int)), array_send(array_agg(value)), array_send(array_agg(low)),
                 array_send(array_agg(high))]
      FROM point GROUP BY commit_id, machine_id, metric
 UNION ALL
    {BENCHMARKS}
""")  # noqa: S608 - constants


@dataclass(frozen=True)
class SideNames:
    """The names of benchmarks and metrics of several sides, each sorted; columns have indices into these lists."""

    benchmarks: list[str]
    metrics: list[str]
    ladders: dict[int, str]  #: by id of the benchmark, of rungs only

    def index_of_metric(self, name: str) -> int:
        """Its index; -1 if there is none of it."""
        return self.metrics.index(name) if name in self.metrics else -1

    def key_of(self, key: int) -> tuple[str, str]:
        """The benchmark and metric of a key of ``SideColumns``."""
        name, metric = divmod(key, len(self.metrics))
        return self.benchmarks[name], self.metrics[metric]


class Runs(NamedTuple):
    """The runs of the points of a side, in the order of series and attempts. ``flags``: by both, of those with any."""

    series: Array
    attempt: Array
    flags: dict[tuple[int, int], list[str]]


@dataclass(frozen=True)
class SideColumns:
    """The points of a commit on a machine, an entry per series, of all its runs as in ``SidePoint``.

    ``name``, ``metric``: indices into ``names``; ``attempt``: that of the run whose value it is.
    """

    side: CommitOnMachine
    names: SideNames
    runs: Runs
    series: Array
    benchmark: Array
    environment: Array
    attempt: Array
    is_flagged: Array
    value: Array
    low: Array
    high: Array
    name: Array
    metric: Array

    def __len__(self) -> int:
        return len(self.series)

    @cached_property
    def key(self) -> Array:
        """A number for each benchmark and metric, in the order of their names."""
        return self.name * len(self.names.metrics) + self.metric

    @cached_property
    def is_rung(self) -> Array:
        """Whether each is of a ladder."""
        return np.isin(self.benchmark, list(self.names.ladders))

    def chosen(self, indices: Any) -> "SideColumns":
        """Only the points at these indices, in this order."""
        return SideColumns(self.side, self.names, self.runs, *(column[indices] for column in columns_of(self)))

    @property
    def points(self) -> list[SidePoint]:
        """Each as an object."""
        names, runs = self.names, self.runs
        starts, ends = (np.searchsorted(runs.series, self.series, end).tolist() for end in ("left", "right"))
        rows = zip(*(column.tolist() for column in columns_of(self)), starts, ends, strict=True)
        return [
            SidePoint(
                *self.side,
                series,
                benchmark,
                names.benchmarks[name],
                names.metrics[metric],
                names.ladders.get(benchmark, ""),
                environment,
                tuple(runs.attempt[start:end].tolist()),
                runs.flags[series, attempt] if is_flagged else [],
                MeasuredCommit([], value, low, high),
            )
            for series, benchmark, environment, attempt, is_flagged, value, low, high, name, metric, start, end in rows
        ]


def columns_of(side: SideColumns) -> tuple[Array, ...]:
    return (
        *(side.series, side.benchmark, side.environment, side.attempt, side.is_flagged),
        *(side.value, side.low, side.high, side.name, side.metric),
    )


def no_points() -> SideColumns:
    none = np.empty(0, int)
    columns = [none] * 10
    return SideColumns(CommitOnMachine(0, 0), SideNames([], [], {}), Runs(none, none, {}), *columns)


def side_columns(sides: Sequence[CommitOnMachine]) -> list[SideColumns]:
    """For each side all its points without samples: one query."""
    commits, machines = zip(*set(sides), strict=True)
    rows: dict[CommitOnMachine, list[tuple[Any, ...]]] = defaultdict(list)
    for commit, machine, *row in rows_of_arrays(BY_METRIC, {"commits": list(commits), "machines": list(machines)}):
        rows[CommitOnMachine(commit, machine)].append(tuple(row))
    (row_of_benchmarks,) = rows.pop(CommitOnMachine(0, 0))
    metrics = {metric for of_side in rows.values() for metric, *_ in of_side}
    names, benchmarks = names_of(metrics, *row_of_benchmarks)
    by_side = {side: of_metrics(side, rows[side], names, benchmarks) for side in set(sides)}
    return [by_side[side] for side in sides]


class NamedIds(NamedTuple):
    """The ids of benchmarks, ascending, and the index of the name of each."""

    ids: Array
    names: Array

    def names_of(self, benchmarks: Array) -> Array:
        """The index of the name of each of these."""
        names: Array = self.names[np.searchsorted(self.ids, benchmarks)]
        return names


def names_of(metrics: Iterable[str], _: str, texts: Any, columns: Sequence[bytes | None]) -> tuple[SideNames, NamedIds]:
    """The names of these metrics, and of the benchmarks in the row of BENCHMARKS, which ends with the arguments."""
    names, ladders = texts
    benchmarks = sorted(set(names or ()))
    index_of = {name: index for index, name in enumerate(benchmarks)}
    indices = np.array([index_of[name] for name in names or ()], int)
    ids = array_of(columns[0])
    order = np.argsort(ids)
    of_rungs = {int(pk): ladder for pk, ladder in (ladders or {}).items()}
    return SideNames(benchmarks, sorted(metrics), of_rungs), NamedIds(ids[order], indices[order])


def of_metrics(
    side: CommitOnMachine, rows: Sequence[tuple[Any, ...]], names: SideNames, benchmarks: NamedIds
) -> SideColumns:
    """The columns of a side from its rows of BY_METRIC."""
    flags = {(series, attempt): own for _, flagged, _ in rows for series, attempt, own in flagged or ()}
    by_metric = [[array_of(encoded) for encoded in columns] for _, _, columns in rows]
    empty = [np.empty(0, int)] * 5 + [np.empty(0)] * 3
    columns = [np.concatenate(parts) for parts in zip(*(by_metric or [empty]), strict=True)]
    sizes = [len(series) for series, *_ in by_metric]
    metric = np.repeat(np.array([names.metrics.index(name) for name, *_ in rows], int), sizes)
    series, benchmark, _, attempt, is_flagged, *_ = columns
    columns += [benchmarks.names_of(benchmark), metric]
    by_run = np.lexsort((attempt, series))
    runs = Runs(series[by_run], attempt[by_run], flags)
    # Of several runs of a series the newest clean one, else the newest.
    order = np.lexsort((attempt, is_flagged == 0, series))
    is_last = np.diff(series[order], append=-1) != 0
    newest = order[is_last]
    return SideColumns(side, names, runs, *(column[newest] for column in columns))


def matched_columns(old: SideColumns, new: SideColumns) -> tuple[SideColumns, SideColumns]:
    """The points of both sides that are compared, by benchmark and metric in the order of their names.

    Of several series as ``points_to_compare`` says.
    """
    groups_of_old, groups_of_new = groups_of(old.key), groups_of(new.key)
    common, at_old, at_new = np.intersect1d(groups_of_old.keys, groups_of_new.keys, return_indices=True)
    old_indices, new_indices = groups_of_old.first[at_old], groups_of_new.first[at_new]
    alone = (groups_of_old.sizes[at_old] == 1) & (groups_of_new.sizes[at_new] == 1)
    for row in np.flatnonzero(~alone).tolist():
        members = groups_of_old.members(at_old[row]), groups_of_new.members(at_new[row])
        by_series = [{int(side.series[i]): i for i in own} for side, own in zip((old, new), members, strict=True)]
        old_indices[row], new_indices[row] = points_to_compare(*by_series)
    assert len(common) == len(old_indices)
    return old.chosen(old_indices), new.chosen(new_indices)


class KeyGroups(NamedTuple):
    """Indices by key: those of ``keys[i]`` are ``sizes[i]`` entries of ``order`` from ``starts[i]``."""

    keys: Array
    order: Array
    starts: Array
    sizes: Array

    @property
    def first(self) -> Array:
        return self.order[self.starts]

    def members(self, at: int) -> list[int]:
        members: list[int] = self.order[self.starts[at] : self.starts[at] + self.sizes[at]].tolist()
        return members


def groups_of(keys: Array) -> KeyGroups:
    order = np.argsort(keys, kind="stable")
    distinct, starts, sizes = np.unique(keys[order], return_index=True, return_counts=True)
    return KeyGroups(distinct, order, starts, sizes)


def keys_of_one(own: SideColumns, opposite: SideColumns) -> list[tuple[str, str]]:
    """The (benchmark, metric) that the other side has not measured, sorted."""
    return [own.names.key_of(key) for key in np.setdiff1d(own.key, opposite.key).tolist()]
