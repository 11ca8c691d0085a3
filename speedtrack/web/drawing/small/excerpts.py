"""A small line around a range of commits: what the level did where an alert says that it moved."""

from collections.abc import Sequence
from dataclasses import dataclass

from speedtrack.alerts.lines.lines import LinePoint

WIDTH, HEIGHT, MARGIN = 150.0, 30.0, 4.0
CALM = 0.02  # a line that spans less than this share is not stretched to full height


@dataclass(frozen=True)
class Excerpt:
    """The points as paths of dots, those that are flagged apart, and the range as a shaded band."""

    dots: str
    flagged: str
    left: float
    right: float
    width: float = WIDTH
    height: float = HEIGHT

    @property
    def band(self) -> float:
        return round(self.right - self.left, 1)

    @classmethod
    def of(cls, points: Sequence[LinePoint], ends: Sequence[int]) -> "Excerpt":
        """``ends``: the positions of the last commit on the old level and of the first on the new one."""
        values = [point.value for point in points]
        first = min(points[0].position, ends[0])
        last = max(points[-1].position, ends[1], first + 1)
        centre = (max(values) + min(values)) / 2
        half = max((max(values) - min(values)) / 2, CALM * abs(centre) / 2) or 1.0

        def x(position: float) -> float:
            return round(MARGIN + (position - first) / (last - first) * (WIDTH - 2 * MARGIN), 1)

        def dot(point: LinePoint) -> str:
            y = HEIGHT / 2 - (point.value - centre) / half * (HEIGHT / 2 - MARGIN)
            return f"M{x(point.position)} {y:.1f}h0"

        dots = "".join(dot(point) for point in points if not point.flags)
        flagged = "".join(dot(point) for point in points if point.flags)
        return cls(dots, flagged, x(ends[0] + 0.5), x(max(ends[1] - 0.5, ends[0] + 0.6)))
