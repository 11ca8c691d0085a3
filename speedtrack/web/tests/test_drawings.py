"""Sparklines, plots and charts."""

from itertools import pairwise

import pytest

from speedtrack.benchmarks.metrics import METRICS
from speedtrack.web.drawing.charts.linecharts import (
    SPACE_X,
    LineValue,
    axis_label,
    chart_over_names,
    chart_over_numbers,
)
from speedtrack.web.drawing.small.plots import Forest
from speedtrack.web.drawing.small.sparkline import Sparkline, path_over_gaps, path_through
from speedtrack.web.drawing.small.strips import ChangeStrip, SideStrips, TrialMark, TrialStrip

CPU = METRICS["server_cpu_ns_per_request"]


def test_a_gap_ends_a_line_and_a_lone_point_is_a_dot() -> None:
    assert path_through([(0, 0), (1, 1), None, (3, 3)]) == "M0.0 0.0L1.0 1.0M3.0 3.0h0.1"
    assert path_through([]) == ""


def test_a_sparkline_goes_pale_over_gaps() -> None:
    assert path_over_gaps([None, (1, 1), None, None, (4, 4), (5, 5), None]) == "M1.0 1.0L4.0 4.0"
    assert 'class="bridges"' in Sparkline.of([1.0, None, 2.0]).svg("a gap")
    assert "bridges" not in Sparkline.of([None, 1.0, 2.0, None]).svg("none")


def test_a_sparkline_escapes_its_label() -> None:
    assert "&lt;b&gt;" in Sparkline.of([1.0, 2.0]).svg("<b>")
    assert '<path d=""/>' in Sparkline.of([None]).svg("nothing")


def test_a_calm_line_stays_calm() -> None:
    calm = Sparkline.of([100.0, 100.1])
    assert calm.end
    assert abs(calm.end[1] - 14) < 2


def test_labels_of_a_forest_do_not_touch_and_no_change_has_one() -> None:
    ticks = Forest.of([(2.2, 2.1, 2.3), (0.73, 0.7, 0.76)]).ticks
    assert "0" in [tick.label for tick in ticks] and len(ticks) > 2
    assert all(after.x - before.x >= 38 for before, after in pairwise(ticks))


def test_a_forest_holds_no_change_and_every_interval() -> None:
    forest = Forest.of([(1.074, 1.06, 1.09), (0.95, 0.93, 0.97)])
    assert forest.rows[1].high < forest.one < forest.rows[0].low
    assert all(0 <= x <= forest.width for row in forest.rows for x in (row.low, row.middle, row.high))
    assert "0" in [tick.label for tick in forest.ticks]
    assert 3 <= len(forest.ticks) <= 6
    assert Forest.of([]).rows == []


def test_the_strips_of_pairs_share_an_axis_and_say_their_values() -> None:
    strips = SideStrips.of([(1000.0, 1100.0), (1010.0, 1090.0), (1005.0, 1095.0)], CPU)
    assert max(dot.x for dot in strips.before) < min(dot.x for dot in strips.after)
    assert strips.before[0].x < strips.before[2].x == strips.middle_before < strips.before[1].x
    assert (strips.median_before, strips.median_after) == ("1.00 µs", "1.09 µs")
    assert strips.after[1].title == "pair 2: 1.09 µs"
    assert SideStrips.of([(5.0, 5.0)], CPU).before[0].x == SideStrips.of([(5.0, 5.0)], CPU).after[0].x


def test_worse_lies_to_the_right_whatever_the_metric_and_however_far() -> None:
    slower, fewer = (CPU, 1.1, 1.05, 1.2), (METRICS["throughput_rps"], 0.9, 0.8, 0.95)
    better, far = (CPU, 0.5, 0.4, 0.6), (CPU, 1e24, -1.0, 1e25)
    for change, worse in ((slower, True), (fewer, True), (better, False), (far, True)):
        strip = ChangeStrip.of([change])
        assert (strip.dots[0].x > strip.middle) == worse == strip.dots[0].worse
        assert 0 <= strip.low <= strip.high <= strip.width


def test_trials_lie_in_their_order_and_flagged_ones_are_told_apart() -> None:
    marks = [TrialMark(3, 100.0, []), TrialMark(5, 103.0, ["steal"]), TrialMark(9, None, [])]
    strip = TrialStrip.of(marks, CPU, 3, 9)
    assert [dot.flagged for dot in strip.dots] == [False, True, False]
    assert strip.dots[0].x < strip.dots[1].x < strip.dots[2].x <= strip.width
    assert strip.dots[1].y < strip.dots[0].y
    assert strip.dots[1].title == "6. of the run: 103 ns, steal"


def line_value(place: float, value: float) -> LineValue:
    return LineValue(place, value, value * 0.9, value * 1.1, "")


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (1, "1"),
        (300, "300"),
        (2048, "2048"),
        (4096, "4Ki"),
        (10_000, "10k"),
        (12_345, "12345"),
        (16_384, "16Ki"),
        (1_000_000, "1M"),
        (1_500_000, "1500k"),
        (1_048_576, "1Mi"),
        (2500.5, "2500.5"),
    ],
)
def test_places_of_an_axis_are_named_exactly(value: float, label: str) -> None:
    assert axis_label(value) == label


def test_ticks_are_measured_values_with_room_between_them() -> None:
    places = [float(i) for i in range(1, 61)]
    chart = chart_over_numbers([("kvd", [line_value(place, 5.0) for place in places])], CPU, "Connections")
    assert chart
    labels = [tick.label for tick in chart.x_ticks]
    assert labels[0] == "1" and labels[-1] == "60"
    assert all(right.at - left.at >= SPACE_X for left, right in pairwise(chart.x_ticks))


@pytest.mark.parametrize("values", [[5.0], [0.0, 5.0], [0.0], [5.0, 5.0], [-1.0, 1.0], [1e-9, 1e9]])
@pytest.mark.parametrize("scale", ["", "log", "linear", "odd"])
def test_all_values_lie_within_the_chart(values: list[float], scale: str) -> None:
    points = [line_value(place, value) for place, value in enumerate(values, start=1)]
    chart = chart_over_numbers([("kvd", points)], CPU, "", scale)
    assert chart
    for dot in chart.lines[0].dots:
        assert chart.left <= dot.x <= chart.right and chart.top <= dot.y <= chart.bottom


def test_a_gap_parts_a_line_and_its_band() -> None:
    points = [line_value(0, 5), None, line_value(2, 6), line_value(3, 7)]
    chart = chart_over_names([("get", points)], CPU, ["1.0", "1.1", "1.2", "1.3"], [(1, "1.1: make failed")])
    assert chart
    [line] = chart.lines
    assert (line.path.count("M"), line.band.count("Z"), len(line.dots)) == (2, 2, 3)
    assert [dot.title for dot in chart.missing] == ["1.1: make failed"]


def test_without_values_there_is_no_chart() -> None:
    assert chart_over_numbers([("kvd", [None])], CPU, "Connections") is None
    assert chart_over_names([], CPU, [], []) is None


def test_a_ratio_that_lies_far_off_does_not_squeeze_a_clipped_forest() -> None:
    usual = [(1.0 + 0.002 * i, 0.99 + 0.002 * i, 1.01 + 0.002 * i) for i in range(20)]
    far = (9.0, 8.0, 10.0)
    clipped, whole = (Forest.of([*usual, far], clipped=is_clipped) for is_clipped in (True, False))
    assert [row.beyond for row in clipped.rows] == [0] * 20 + [1]
    assert {row.beyond for row in whole.rows} == {0}
    spans = [drawn.rows[19].middle - drawn.rows[0].middle for drawn in (clipped, whole)]
    assert spans[0] > 3 * spans[1]
    assert all(0 <= end <= clipped.width for row in clipped.rows for end in (row.low, row.middle, row.high))
