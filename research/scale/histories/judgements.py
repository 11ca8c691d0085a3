"""What detection keeps about measurements: the comparison of each with the one before it."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from research.scale.histories.copying import Array, copy_rows
from research.scale.histories.world import Story
from speedtrack.alerts.detection.detection import TOGETHER

SPREAD, SMALLEST = 0.01, 0.03  # of the intervals, and the smallest change that matters: about those of the suite
COLUMNS = "commit_id, series, distances, old, ratios, lows, highs, answers"


def compare(story: Story, positions: Sequence[int], series: Array, medians: Array) -> None:
    """Compare each of these measured commits with the one before it.

    ``medians``: one row for each position; ``series``: the ids of its columns.
    """
    copy_rows("alerts_comparisonbatch", COLUMNS, batches(story, positions, series, medians))


def batches(story: Story, positions: Sequence[int], series: Array, medians: Array) -> Iterator[tuple[Any, ...]]:
    """A row for each commit and TOGETHER of the series."""
    levels, ids = medians.reshape(len(medians), -1), series.ravel().tolist()
    for (before, after), (old, new) in zip(pairwise(positions), pairwise(levels), strict=True):
        ratios = new / old
        low, high = ratios * (1 - SPREAD), ratios * (1 + SPREAD)
        same = (np.log(low) > -SMALLEST) & (np.log(high) < SMALLEST)
        answers = np.where(np.abs(np.log(ratios)) > SMALLEST, "d", np.where(same, "s", "u"))
        for begin in range(0, len(ids), TOGETHER):
            span = slice(begin, begin + TOGETHER)
            columns = [column[span].tolist() for column in (old, ratios, low, high)]
            distances = [after - before] * len(ids[span])
            yield int(story.commits[after]), ids[span], distances, *columns, "".join(answers[span])
