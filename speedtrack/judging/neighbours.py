"""Commits against the ones before them, as detection compared their series: as columns, and those shown as objects."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, NamedTuple

import numpy as np

from speedtrack.alerts.lines.linecolumns import Array
from speedtrack.judging.evidence import Rows, TwoSides, Wanted, evidence_rows
from speedtrack.judging.judge import judged_as_stored
from speedtrack.judging.judgedcolumns import JudgedColumns, indices_in, judged_columns
from speedtrack.judging.seriescolumns import SeriesColumns
from speedtrack.judging.storedcolumns import StoredColumns, evidence_about, stored_columns
from speedtrack.judging.verdicts import Judgement


class Neighbour(NamedTuple):
    """The judgement of a commit against the one that its series measured ``distance`` commits before: ``old``."""

    judgement: Judgement
    distance: int
    old: float


@dataclass(frozen=True)
class NeighbourColumns:
    """Judgements of a commit, each against the one that its series measured ``distance`` commits before: ``old``.

    ``index``: of the series among those of the commit, ascending.
    """

    index: Array
    distance: Array
    old: Array
    judgements: JudgedColumns

    def __len__(self) -> int:
        return len(self.index)

    def among(self, is_shown: Array) -> "NeighbourColumns":
        """Those of some series of the commit; their indices stay. ``is_shown``: for each series of the commit."""
        rows = np.flatnonzero(is_shown[self.index])
        return NeighbourColumns(self.index[rows], self.distance[rows], self.old[rows], self.judgements.chosen(rows))

    @property
    def by_index(self) -> dict[int, Neighbour]:
        """Each as an object, by the index of its series."""
        neighbours = map(Neighbour, self.judgements.objects, self.distance.tolist(), self.old.tolist())
        return dict(zip(self.index.tolist(), neighbours, strict=True))


def no_neighbours() -> NeighbourColumns:
    none: Array = np.empty(0, int)
    numbers: Array = np.empty(0)
    return NeighbourColumns(none, none, numbers, JudgedColumns([], none, none, numbers, numbers, numbers))


def judge_neighbours(series: Collection[int], commits: Mapping[int, SeriesColumns]) -> dict[int, NeighbourColumns]:
    """By commit: the judgements on these series, as far as detection has compared them, by one query.

    ``commits``: with the series of each.
    """
    rows = rows_about(series, commits)
    answers = stored_columns(rows)
    return {
        commit: neighbours_by(rows, commit, own, answers.chosen(answers.head == commit))
        for commit, own in commits.items()
    }


def rows_about(series: Collection[int], heads: Collection[int]) -> Rows:
    """The rows of EVIDENCE about these series at these commits, against whichever commit they were compared with."""
    count = max(len(series), len(heads)) if series and heads else 0
    lists: dict[str, list[Any]] = {
        "series": list(islice(cycle(series), count)),
        "heads": list(islice(cycle(heads), count)),
    }
    return evidence_rows(**lists, bases=[None] * count, wanted=[Wanted.STORED] * count)


def neighbours_by(rows: Rows, head: int, series: SeriesColumns, answers: StoredColumns) -> NeighbourColumns:
    """The judgements on a commit by its stored answers, which are in the order of their series, as ``series`` is."""
    at = indices_in(answers.series, series.series)
    index = np.flatnonzero(at >= 0)
    own = answers.chosen(at[index])

    def judge(indices: list[int]) -> list[Judgement]:
        sides = [TwoSides(int(own.series[i]), int(own.base[i]), head) for i in indices]
        evidence = evidence_about(rows, {side.series_id for side in sides})
        return [judged_as_stored(side, evidence) for side in sides]

    judgements = judged_columns(series.names.metrics, series.metric[index], own, np.arange(len(index)), judge)
    return NeighbourColumns(index, own.distance, own.old, judgements)
