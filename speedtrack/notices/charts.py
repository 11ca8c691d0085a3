"""Pictures for mails: the series around a change, and the pairs that confirmed it. Light, small, bounded in size."""

import io
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from PIL import Image

from speedtrack.alerts.lines import lines
from speedtrack.alerts.lines.lines import LinePoint
from speedtrack.alerts.models import ChangePoint
from speedtrack.alerts.pairs import pairing
from speedtrack.alerts.pairs.sizes import bracket_verdict, is_part_of
from speedtrack.benchmarks import numbers
from speedtrack.projects.models import Position

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AROUND = (60, 30)  # positions before and after the change that a picture shows
MOST_PAIRS = 200
WIDTH, HEIGHT, SCALE = 520, 330, 2  # CSS pixels, and pixels of the picture in one
COLOURS = 48  # in the palette of the picture
INK, SOFT, GRID, PAPER = "#22262c", "#5c636d", "#dfe3e8", "#f8f9fb"  # opaque: readable on white and on dark
BEFORE, WORSE, BETTER = "#1f6feb", "#d1372c", "#1a8a4f"


def picture(change_point: ChangePoint) -> bytes:
    """The PNG of one change: its line above, the ratios of the pairs below if there are any."""
    from matplotlib.figure import Figure  # it takes 60 MB, so only the process that sends mails imports it

    points, pairs = line_around(change_point), ratios(change_point)
    figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100 * SCALE, facecolor=PAPER, layout="constrained")
    axes = figure.subplots(2 if pairs else 1, 1, height_ratios=[2.4, 1] if pairs else [1], squeeze=False)
    draw_line(axes[0][0], change_point, points)
    if pairs:
        draw_pairs(axes[1][0], change_point, pairs)
    return small_png(figure)


def small_png(figure: Any) -> bytes:
    """The figure as a PNG with a palette of COLOURS, which makes it a third as large."""
    plain, small = io.BytesIO(), io.BytesIO()
    figure.savefig(plain, format="rgba")
    image = Image.frombytes("RGBA", figure.canvas.get_width_height(), plain.getvalue())
    image.convert("RGB").quantize(COLOURS).save(small, format="png", optimize=True)
    return small.getvalue()


def line_around(change_point: ChangePoint) -> list[LinePoint]:
    """The measured commits around the change on the branch where it was found."""
    position = Position.objects.filter(branch=change_point.branch_id, commit=change_point.commit_id).first()
    if position is None:  # the commit has left the branch
        return []
    first, last = position.number - AROUND[0], position.number + AROUND[1]
    return lines.points([change_point.series_id], change_point.branch, max(first, 0), last)


def ratios(change_point: ChangePoint) -> list[float]:
    """After / before of each clean pair of the two commits that differ."""
    ends = change_point.verdicts.filter(answer="different").order_by("id").first()
    if ends is None:
        return []
    pairs = pairing.measured_pairs(change_point, ends.base_id, ends.commit_id)
    return [after / before for before, after in pairs if before > 0][:MOST_PAIRS]


def draw_line(axes: "Axes", change_point: ChangePoint, points: Sequence[LinePoint]) -> None:
    """Draw the values with their intervals; the range of the change is shaded."""
    ends = Position.objects.filter(
        branch=change_point.branch_id, commit__in=[change_point.before_id, change_point.commit_id]
    )
    positions = sorted(ends.values_list("number", flat=True))
    unit = numbers.unit_scale(change_point.metric.unit, median([p.value for p in points] or [1]))
    if len(positions) == 2:
        axes.axvspan(positions[0] + 0.5, positions[1] + 0.5, color="#f6d9a8", lw=0, zorder=0)
    for group, colour in (
        (points_before(points, positions), BEFORE),
        (points_after(points, positions), colour_of(change_point)),
    ):
        x, y = [p.position for p in group], [p.value / unit.factor for p in group]
        spread = [[(p.value - p.low) / unit.factor for p in group], [(p.high - p.value) / unit.factor for p in group]]
        axes.errorbar(x, y, yerr=spread, fmt="o-", ms=3.2, lw=1, elinewidth=0.8, color=colour, ecolor=colour)
    axes.set_title(f"{change_point.metric.title}, {unit.unit}, by commit", loc="left", fontsize=9, color=INK)
    axes.set_xticks([])
    if not points:
        axes.set_yticks([])
        axes.text(0.5, 0.5, "no line on this branch", transform=axes.transAxes, ha="center", color=SOFT, fontsize=9)
    axes.grid(axis="y", color=GRID, lw=0.8)
    remove_frame(axes)


def points_before(points: Sequence[LinePoint], positions: list[int]) -> list[LinePoint]:
    return [p for p in points if not positions or p.position < positions[-1]]


def points_after(points: Sequence[LinePoint], positions: list[int]) -> list[LinePoint]:
    return [p for p in points if positions and p.position >= positions[-1]]


def draw_pairs(axes: "Axes", change_point: ChangePoint, pairs: Sequence[float]) -> None:
    """Draw a dot for each pair in the order of measuring, their median as a line, its interval as a band.

    Pairs of a range with two changes show both together: the title then says so.
    """
    bracket = bracket_verdict(change_point)
    is_part = is_part_of(change_point, bracket)
    beside = f"with a change beside it, alone {numbers.change(change_point.ratio)}" if is_part else ""
    colour = colour_of(change_point)
    percent = [100 * (ratio - 1) for ratio in pairs]
    axes.axvspan(100 * (bracket.low - 1), 100 * (bracket.high - 1), color=colour, alpha=0.16, lw=0)
    axes.axvline(100 * (bracket.ratio - 1), color=colour, lw=1.4)
    axes.axvline(0, color=SOFT, lw=1, ls=(0, (4, 3)))
    axes.plot(percent, range(len(percent), 0, -1), "o", ms=3.2, color=INK, alpha=0.75)
    axes.set_title(
        f"{len(pairs)} pairs measured again: after against before; {beside or 'median and 95% interval'}",
        loc="left",
        fontsize=9,
        color=INK,
    )
    axes.xaxis.set_major_formatter(lambda value, _: numbers.change(1 + value / 100) if value else "0")
    axes.set_yticks([])
    axes.margins(y=0.12)
    remove_frame(axes)


def colour_of(change_point: ChangePoint) -> str:
    return WORSE if change_point.is_slowdown else BETTER


def remove_frame(axes: "Axes") -> None:
    """Remove the frame of a chart, and make its labels small and grey."""
    axes.set_facecolor(PAPER)
    axes.tick_params(labelsize=9, colors=SOFT, length=0)
    for side in axes.spines.values():
        side.set_visible(False)
