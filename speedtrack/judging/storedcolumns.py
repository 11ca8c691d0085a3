"""What detection stored of many series as columns, and which of these answers decide alone."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from itertools import chain
from typing import NamedTuple

import numpy as np

from speedtrack.alerts.lines.linecolumns import Array
from speedtrack.judging.evidence import OF_INITIALS, Evidence, Row, Rows, evidence_from, pairs_of, same_programs

ANSWERS = [*OF_INITIALS.values()]
INDEX_OF_INITIAL = {initial: index for index, initial in enumerate(OF_INITIALS)}


class StoredColumns(NamedTuple):
    """Stored answers, in the order of their series. ``answer``: indices into ANSWERS.

    ``is_plain``: the answer alone decides. That holds of no series with a flag, change, pair or same program, though
    some of these might not matter.
    """

    series: Array
    base: Array
    head: Array
    distance: Array
    answer: Array
    old: Array
    ratio: Array
    low: Array
    high: Array
    is_plain: Array

    def chosen(self, indices: Array) -> "StoredColumns":
        """Only those at these indices, in this order."""
        return StoredColumns._make(column[indices] for column in self)


def stored_columns(rows: Rows) -> StoredColumns:
    """The stored answers among the rows of EVIDENCE."""
    blocks = [block_of(*row) for row in rows["stored"]]
    if not blocks:
        nothing = [np.empty(0, int)] * 9
        return StoredColumns._make([*nothing, np.empty(0, bool)])
    columns = [np.concatenate(parts) for parts in zip(*blocks, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    sorted_columns = [column[order] for column in columns]
    series, base, head, *_ = sorted_columns
    is_plain = np.ones(len(series), bool)
    for (old, new), own in evident_series(rows).items():
        at_ends = ((base == old) & (head == new)) if old else (head == new)
        is_plain &= ~(at_ends & np.isin(series, list(own)))
    for commit, flagged in flagged_series(rows["flagged"]).items():
        is_plain &= ~(((base == commit) | (head == commit)) & np.isin(series, flagged))
    return StoredColumns._make([*sorted_columns, is_plain])


def block_of(ids: list[int], texts: list[str], numbers: list[list[float]]) -> list[Array]:
    """The columns of a row of EVIDENCE with stored answers."""
    base, head, distance, *series = ids
    constants = [np.full(len(series), value) for value in (base, head, distance)]
    answers = np.array(list(map(INDEX_OF_INITIAL.__getitem__, texts)), int)
    return [np.array(series, int), *constants, answers, *np.array(numbers, float)]


def flagged_series(flagged: Iterable[Row]) -> dict[int, list[int]]:
    """By commit: the series whose points of it are all flagged."""
    by_commit: dict[int, list[int]] = defaultdict(list)
    for (series, commit), *_ in flagged:
        by_commit[commit].append(series)
    return by_commit


def evident_series(rows: Rows) -> dict[tuple[int | None, int], set[int]]:
    """By (base, head): the series with a pair or the same program of both; by (None, head): those with a change."""
    of_ends: dict[tuple[int | None, int], set[int]] = defaultdict(set)
    for (series, head, _), *_ in rows["change"]:
        of_ends[None, head].add(series)
    programs = same_programs(rows["build"])
    pairs, _ = pairs_of(rows["pair"])
    alike = {ends for ends in programs if ends.base_id != ends.head_id}
    if not (alike or pairs):
        return of_ends
    ends_of = alike | {ends for ends, _, _ in pairs}
    for ids, metrics, _ in rows["series"]:
        count = len(metrics)
        for pk, machine, benchmark, metric in zip(ids, ids[count:], ids[2 * count :], metrics, strict=False):
            for ends in ends_of:
                if machine == ends.machine_id and (ends in alike or (ends, benchmark, metric) in pairs):
                    of_ends[ends.base_id, ends.head_id].add(pk)
    return of_ends


def evidence_about(rows: Rows, series: Collection[int]) -> Evidence:
    """The evidence of these series only, as far as it is by series: an object for each of all would take long."""
    pks = set(series)
    return evidence_from(
        rows
        | {"series": [series_among(row, pks) for row in rows["series"]]}
        | {"stored": [answers_among(row, pks) for row in rows["stored"]]}
    )


def series_among(row: Row, pks: Collection[int]) -> Row:
    ids, metrics, numbers = row
    count = len(metrics)
    indices = [index for index, pk in enumerate(ids[:count]) if pk in pks]
    columns = chain.from_iterable([ids[start + index] for index in indices] for start in (0, count, 2 * count))
    return [*columns], [metrics[index] for index in indices], numbers


def answers_among(row: Row, pks: Collection[int]) -> Row:
    (base, head, distance, *series), texts, numbers = row
    indices = [index for index, pk in enumerate(series) if pk in pks]
    columns = [[column[index] for index in indices] for column in numbers]
    return [base, head, distance, *(series[i] for i in indices)], [texts[i] for i in indices], columns
