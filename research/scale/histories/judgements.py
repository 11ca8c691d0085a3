"""What detection keeps about measurements: the comparison of each with the one before it."""

from collections.abc import Sequence

import numpy as np

from research.scale.histories.copying import Array, Column, constant, copy_columns, floats, integers
from research.scale.histories.world import Story

SPREAD, SMALLEST = 0.01, 0.03  # of the intervals, and the smallest change that matters: about those of the suite


def compare(story: Story, positions: Sequence[int], series: Array, medians: Array) -> None:
    """Compare each of these measured commits with the one before it.

    ``medians``: one row for each position; ``series``: the ids of its columns.
    """
    old = medians[:-1].ravel()
    ratios = medians[1:].ravel() / old
    rows = medians[0].size
    commits = np.repeat(story.commits[np.asarray(positions[1:])], rows)
    of_series = np.tile(series.ravel(), len(positions) - 1)
    distances = np.repeat(np.diff(positions), rows)
    low, high = ratios * (1 - SPREAD), ratios * (1 + SPREAD)
    different = np.abs(np.log(ratios)) > SMALLEST
    same = (np.log(low) > -SMALLEST) & (np.log(high) < SMALLEST)
    for answer, chosen in (("different", different), ("same", same), ("unknown", ~different & ~same)):
        columns: dict[str, Column] = {
            "commit_id": integers(commits[chosen]),
            "series_id": integers(of_series[chosen]),
            "distance": Column(">i2", distances[chosen]),
            "old": floats(old[chosen]),
            "ratio": floats(ratios[chosen]),
            "low": floats(low[chosen]),
            "high": floats(high[chosen]),
            "answer": constant(answer.encode()),
        }
        copy_columns("alerts_commitcomparison", columns, int(chosen.sum()))
