"""Small lines without axes, as SVG, styled by attributes: the content security policy forbids inline styles."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

SMALL = (120, 28)
WIDE = (360, 60)
FULL = (1160, 110)
ROW = (600, 30)
SIZES = {"small": SMALL, "wide": WIDE, "full": FULL}
MARGIN = 3.0
STRETCHED = mark_safe(' preserveAspectRatio="none"')
CALM = 0.02  # a line whose values span less than this share is not stretched to full height


@dataclass(frozen=True)
class Sparkline:
    """The path of a line in SVG's syntax, and its last point.

    ``marks``: vertical lines, each its x and its CSS class. ``bridges``: the path of lines over its gaps.
    """

    path: str
    end: tuple[float, float] | None
    size: tuple[int, int]
    marks: Sequence[tuple[float, str]] = ()
    bridges: str = ""

    @classmethod
    def of(
        cls, values: Sequence[float | None], size: tuple[int, int] = SMALL, marks: Sequence[tuple[int, str]] = ()
    ) -> "Sparkline":
        """``marks``: indices of values, each with the CSS class of a line there."""
        measurements = [v for v in values if v is not None]
        if not measurements:
            return cls("", None, size)
        middle = (max(measurements) + min(measurements)) / 2
        half = max((max(measurements) - min(measurements)) / 2, CALM * abs(middle) / 2) or 1.0
        width, height = size
        step = (width - 2 * MARGIN) / max(len(values) - 1, 1)
        points = [
            None if v is None else (MARGIN + i * step, height / 2 - (v - middle) / half * (height / 2 - MARGIN))
            for i, v in enumerate(values)
        ]
        lines = [(MARGIN + at * step, look) for at, look in marks]
        return cls(path_through(points), [p for p in points if p][-1], size, lines, path_over_gaps(points))

    def svg(self, label: str, stretched: bool = False) -> SafeString:
        """The line as SVG.

        ``stretched``: it fills its place, without the dot at its end, which would not be a circle.
        """
        end: SafeString | str = ""
        if self.end and not stretched:
            x, y = (f"{coordinate:.1f}" for coordinate in self.end)
            end = format_html('<circle cx="{}" cy="{}" r="2.2"/>', x, y)
        marks = format_html_join(
            "", '<path class="{}" d="M{} 0V{}"/>', ((look, f"{x:.1f}", self.size[1]) for x, look in self.marks)
        )
        bridges = format_html('<path class="bridges" d="{}"/>', self.bridges) if self.bridges else ""
        return format_html(
            '<svg class="spark" viewBox="0 0 {} {}" width="{}" height="{}"{} role="img" aria-label="{}">'
            '{}{}<path d="{}"/>{}</svg>',
            *(*self.size, *self.size, STRETCHED if stretched else "", label, marks, bridges, self.path, end),
        )


def path_through(points: Sequence[tuple[float, float] | None]) -> str:
    """The path: lines between neighbours; a gap interrupts it, and a point between two gaps is a dot."""
    commands: list[str] = []
    pen_down = False
    for i, point in enumerate(points):
        if point:
            x, y = f"{point[0]:.1f}", f"{point[1]:.1f}"
            commands.append(f"{'L' if pen_down else 'M'}{x} {y}")
            if not pen_down and (i + 1 == len(points) or points[i + 1] is None):
                commands.append("h0.1")
        pen_down = point is not None
    return "".join(commands)


def path_over_gaps(points: Sequence[tuple[float, float] | None]) -> str:
    """The path over each gap: where few commits are measured, dots alone would show no trend."""
    measured_points = [(index, point) for index, point in enumerate(points) if point]
    return "".join(
        f"M{begin[0]:.1f} {begin[1]:.1f}L{end[0]:.1f} {end[1]:.1f}"
        for (first, begin), (last, end) in pairwise(measured_points)
        if last - first > 1
    )
