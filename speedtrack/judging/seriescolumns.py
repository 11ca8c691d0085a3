"""The series that measured commits as columns: pages count thousands of them, and show a few as objects."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from speedtrack.alerts.lines import lines
from speedtrack.alerts.lines.linecolumns import Array, array_of
from speedtrack.ground.postgres.pgvalues import rows_of_arrays
from speedtrack.judging.sidecolumns import BENCHMARKS, NamedIds, SideNames, names_of

# A row for each commit, machine and metric, its columns as arrays in PostgreSQL's binary form; then one with the names
# of benchmarks, and one for each machine. It is lateral, so that an index finds all points of a commit.
BY_METRIC = lines.sql(f"""
      WITH point AS MATERIALIZED (
        SELECT c.id AS commit_id, s.id, s.machine_id, s.metric, s.benchmark_id,
               (s.undetected_since IS NOT NULL)::int AS is_new, v.visible, v.visible_within
          FROM unnest(%(commits)s::int[]) AS c (id)
    CROSS JOIN LATERAL (
            SELECT DISTINCT m.series_id FROM runs_measurement m WHERE m.commit_id = c.id AND IS_POINT OFFSET 0) m
          JOIN runs_series s ON s.id = m.series_id
     LEFT JOIN alerts_seriessensitivity v ON v.series_id = s.id)
    SELECT commit_id, machine_id, metric::text, NULL::json,
           ARRAY[array_send(array_agg(id::bigint)), array_send(array_agg(benchmark_id)), array_send(array_agg(is_new)),
                 array_send(array_agg(coalesce(visible, 'NaN'))), array_send(array_agg(coalesce(visible_within, 0)))]
      FROM point GROUP BY commit_id, machine_id, metric
 UNION ALL
    {BENCHMARKS}
 UNION ALL
    SELECT 0, id, name::text, to_json(outside), NULL
      FROM runs_machine WHERE id = ANY (ARRAY(SELECT DISTINCT machine_id FROM point))
""")  # noqa: S608 - constants


class MeasuringMachine(NamedTuple):
    """A machine with results of a commit. ``is_outside``: it has no runner."""

    name: str
    is_outside: bool


@dataclass(frozen=True)
class SeriesColumns:
    """The series with a measurement of a commit, in the order of their ids.

    ``name`` (of the benchmark), ``metric``: indices into ``names``; ``machine``: into ``machines``. ``is_new``:
    detection has not read its newest measurements yet. ``visible``: the smallest change that its line shows within
    ``within`` commits; NaN and 0: not known.
    """

    names: SideNames
    machines: list[MeasuringMachine]
    series: Array
    benchmark: Array
    is_new: Array
    visible: Array
    within: Array
    name: Array
    metric: Array
    machine: Array

    def __len__(self) -> int:
        return len(self.series)

    def chosen(self, indices: Any) -> "SeriesColumns":
        """Only those at these indices, in this order."""
        columns = (self.series, self.benchmark, self.is_new, self.visible, self.within)
        indexed = (self.name, self.metric, self.machine)
        return SeriesColumns(self.names, self.machines, *(column[indices] for column in (*columns, *indexed)))

    @property
    def ladders(self) -> list[str]:
        """The ladders whose rungs are among them, by name."""
        of_rungs = self.names.ladders
        return sorted({of_rungs[pk] for pk in np.unique(self.benchmark).tolist() if pk in of_rungs})


def no_series() -> SeriesColumns:
    nothing = [np.empty(0, int)] * 8
    return SeriesColumns(SideNames([], [], {}), [], *nothing)


def series_of_commits(commits: Collection[int]) -> dict[int, SeriesColumns]:
    """By commit: the series with a point of it, of all machines; without any, the commit is absent. One query."""
    if not commits:
        return {}
    rows: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for commit, *row in rows_of_arrays(BY_METRIC, {"commits": list(commits)}):
        rows[commit].append(tuple(row))
    (_, *row_of_benchmarks), *of_machines = sorted(rows.pop(0), key=lambda row: row[0])
    metrics = {metric for own in rows.values() for _, metric, *_ in own}
    names, benchmarks = names_of(metrics, *row_of_benchmarks)
    machines = {pk: MeasuringMachine(name, is_outside) for pk, name, is_outside, _ in of_machines}
    return {commit: series_columns(own, names, benchmarks, machines) for commit, own in rows.items()}


def series_columns(
    rows: list[tuple[Any, ...]], names: SideNames, benchmarks: NamedIds, machines: dict[int, MeasuringMachine]
) -> SeriesColumns:
    """The series of a commit from its rows of BY_METRIC. ``machines``: by id."""
    blocks = [[array_of(encoded) for encoded in columns] for _, _, _, columns in rows]
    sizes = [len(series) for series, *_ in blocks]
    index_of = {pk: index for index, pk in enumerate(machines)}
    metric = np.repeat(np.array([names.metrics.index(name) for _, name, *_ in rows], int), sizes)
    machine = np.repeat(np.array([index_of[pk] for pk, *_ in rows], int), sizes)
    columns = [np.concatenate(parts) for parts in zip(*blocks, strict=True)]
    columns += [benchmarks.names_of(columns[1]), metric, machine]
    order = np.argsort(columns[0])
    return SeriesColumns(names, list(machines.values()), *(column[order] for column in columns))
