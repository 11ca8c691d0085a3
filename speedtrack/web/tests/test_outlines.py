"""Which points a chart of a long line needs."""

import numpy as np

from speedtrack.alerts.lines.linecolumns import LineColumns
from speedtrack.web.drawing.charts.outlines import outline


def line_of(values: list[float], at: list[int], flagged: list[int]) -> LineColumns:
    value = np.array(values)
    return LineColumns(
        1, np.array(at), value, value - 1, value + 1, np.full(len(at), 5), {i: ["steal"] for i in flagged}
    )


def test_the_outline_has_the_ends_and_extremes_of_each_place_and_what_is_flagged() -> None:
    heights = [100.0 + (i * 37) % 50 for i in range(300)]
    heights[77] = 99.5
    found = outline(line_of(heights, list(range(300)), [78]), step=30, also=[33, 400])
    kept = found.at.tolist()
    for begin in range(0, 300, 30):
        bucket = range(begin, begin + 30)
        mine = [heights[at] for at in bucket]
        assert {begin, begin + 29} <= set(kept)
        assert {min(mine), max(mine)} <= {heights[at] for at in bucket if at in kept}
    assert {33, 77, 78} <= set(kept) and len(kept) <= 10 * 4 + 2
    assert kept == sorted(kept)
    assert found.value.tolist() == [heights[at] for at in kept]
    assert (found.low == found.value - 1).all() and (found.high == found.value + 1).all()
    assert found.flags == {78: ["steal"]}


def test_a_short_line_is_its_own_outline() -> None:
    found = outline(line_of([7.0], [5], []), step=30)
    assert (found.at.tolist(), found.value.tolist(), found.flags) == ([5], [7.0], {})
