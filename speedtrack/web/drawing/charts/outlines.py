"""Reduce a long line, many commits of which share a position of the chart, to the points that are visible."""

from collections.abc import Iterable

import numpy as np

from speedtrack.alerts.lines.linecolumns import Array, LineColumns


def outline(line: LineColumns, step: int, also: Iterable[int] = ()) -> LineColumns:
    """A subset of the points whose chart looks like that of all; ``step`` commits share a position.

    Of each position the first, the last, the smallest and the largest point are kept; also all that are flagged, and
    those at ``also``.
    """
    positions = line.at // step
    by_value = np.lexsort((line.value, positions))
    mask = np.isin(line.at, [*line.flags, *also])
    mask[ends(positions)] = True
    mask[by_value[ends(positions[by_value])]] = True
    return line.chosen(np.flatnonzero(mask))


def ends(positions: Array) -> Array:
    """The indices at which a position begins or ends."""
    turns = np.flatnonzero(np.diff(positions))
    return np.concatenate([[0], turns, turns + 1, [len(positions) - 1]])
