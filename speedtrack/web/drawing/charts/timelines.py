"""A timeline as a standalone SVG picture, from the same document as the page's chart."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from typing import Any

from speedtrack.web.drawing.charts.axes import DAY, Axis, Ticks, day_text, time_ticks, value_axis
from speedtrack.web.drawing.charts.linecharts import stroke

TimelineDocument = Mapping[str, Any]
Scale = Callable[[float], float]

#: The colours of the style sheet, which a picture outside of a page does not have.
THEMES = {
    "light": {
        "surface": "#ffffff",
        "ink": "#16191d",
        "soft": "#59616b",
        "line": "#dde1e6",
        "worse": "#bf2b23",
        "better": "#13743f",
        "series-1": "#1b5fd0",
        "series-2": "#a34bc4",
        "series-3": "#0b7f86",
        "series-4": "#8a6100",
    },
    "dark": {
        "surface": "#161b22",
        "ink": "#e7eaee",
        "soft": "#9aa4b0",
        "line": "#272e38",
        "worse": "#ff7d72",
        "better": "#55cf8b",
        "series-1": "#74aaff",
        "series-2": "#d493ee",
        "series-3": "#4fc7cd",
        "series-4": "#dcb357",
    },
}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"
CHARACTER = 6.4  # width of one in pixels, about, at 12 px
ROW = 18  # height of a row of the legend
DASH = "6 4"
FEW_DAYS = 8  # within which commits are named by their hashes: days would be the same
MANY_MARKS = 30  # changes, above which only the confirmed ones have a line


@dataclass(frozen=True)
class Pixel:
    """A point in pixels."""

    x: float
    y: float
    low: float
    high: float
    doubtful: bool


@dataclass(frozen=True)
class PlotFrame:
    """Where the values lie in a picture; x in pixels by path and place, y by the number of the line."""

    left: float
    right: float
    top: float
    bottom: float
    colours: Mapping[str, str]
    x: Callable[[int, float], float]
    y: Sequence[Scale]


def timeline_svg(document: TimelineDocument, width: int, height: int, theme: str) -> str:
    """The chart of ``chart_values``. ``theme``: light or dark. Pure: equal arguments give equal pictures."""
    colours = THEMES[theme]
    legend = legend_rows(document, width)
    values = [axis_of(document, right) for right in (False, True)]
    right = width - (66 if values[1] else 16)
    top, bottom = 40 + ROW * len(legend) + (14 if any_tags(document) else 0), height - 34
    bottom = max(bottom, top + 20)
    y_scales = [axis.scale(bottom, top) if axis else None for axis in values]
    y = [scale for series in document["shown"] if (scale := y_scales[series["right"]])]
    frame = PlotFrame(66, right, top, bottom, colours, x_scale(document, 66, right), y)
    name = title_of(document)
    shapes = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" font-family="{FONT}" font-size="12"><title>{escape(name)}</title>',
        f'<rect width="{width}" height="{height}" fill="{colours["surface"]}"/>',
        text(16, 24, cut(name, int((width - 32) / 7.6)), colours["ink"], weight=600, size=14),
        *legend_shapes(legend, colours),
        *value_axes(frame, values),
        *x_axis(document, frame),
        *ranges(document, frame),
        *breaks_and_tags(document, frame),
        *(shape for line in document["lines"] for shape in line_shapes(document, frame, line)),
        *gap_marks(document, frame),
        *change_marks(document, frame),
    ]
    if not document["lines"]:
        shapes.append(
            text((66 + right) / 2, (top + bottom) / 2, "Nothing was measured here.", colours["soft"], "middle")
        )
    return "".join([*shapes, "</svg>"])


def text(
    x: float, y: float, content: str, colour: str, anchor: str = "start", weight: int = 400, size: int = 12
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}" font-weight="{weight}" '
        f'font-size="{size}">{escape(content)}</text>'
    )


def cut(content: str, most: int) -> str:
    return content if len(content) <= most else f"{content[: max(most - 1, 0)]}…"


def title_of(document: TimelineDocument) -> str:
    """The benchmarks and metrics that all lines share, as a title."""
    all_series = document["shown"]
    projects = {series["project"] for series in all_series} or {document["project"]}
    benchmarks = {series["benchmark"] for series in all_series} or {document["benchmark"]}
    metrics = {series["metric"]["title"] for series in all_series} or {document["metric"]["title"]}
    phrases = [names.pop() for names in (projects, benchmarks, metrics) if len(names) == 1]
    relative = f"relative to {document['base'][:10]}" if document["base"] else ""
    better = {series["metric"]["better"] for series in all_series}
    direction = f"{better.pop()} is better" if len(better) == 1 else ""
    return " · ".join(phrase for phrase in (*phrases, relative, direction) if phrase)


LegendPart = tuple[float, int, str]  # x, number of the line, title


def legend_rows(document: TimelineDocument, width: int) -> list[list[LegendPart]]:
    """The names of the lines, in rows that fit the width; none where there is one line."""
    if len(document["shown"]) < 2:
        return []
    rows: list[list[LegendPart]] = [[]]
    x = 16.0
    for number, series in enumerate(document["shown"]):
        title = cut(series["title"] + (" (right)" if series["right"] else ""), int((width - 80) / CHARACTER))
        room = 34 + len(title) * CHARACTER + 16
        if rows[-1] and x + room > width:
            rows.append([])
            x = 16.0
        rows[-1].append((x, number, title))
        x += room
    return rows


def legend_shapes(rows: Sequence[Sequence[LegendPart]], colours: Mapping[str, str]) -> Iterator[str]:
    for row, entries in enumerate(rows):
        y = 44 + ROW * row
        for x, number, title in entries:
            yield f'<path d="M{x:.1f} {y - 4}h26" {look(number, colours)}/>'
            yield text(x + 32, y, title, colours["soft"])


def look(number: int, colours: Mapping[str, str]) -> str:
    """Colour and stroke of a line."""
    dash = f' stroke-dasharray="{DASH}"' if number >= 4 else ""
    return f'fill="none" stroke="{colour_of(number, colours)}" stroke-width="2" stroke-linejoin="round"{dash}'


def colour_of(number: int, colours: Mapping[str, str]) -> str:
    return colours[f"series-{number % 4 + 1}"]


def axis_of(document: TimelineDocument, right: bool) -> Axis | None:
    """The axis for the lines on one side, right or left; None if there are none."""
    all_series = document["shown"]
    units = [series["metric"]["unit"] for series in all_series if series["right"] == right]
    if not units:
        return None
    ends: list[float] = []
    for line in document["lines"]:
        series = all_series[line["shown"]]
        if series["right"] != right:
            continue
        unit_value = series["base"]["value"] if series["base"] else 1.0
        for at, value, low, high in zip(*(line[key] for key in ("at", "value", "low", "high")), strict=True):
            bounds = (value,) if str(at) in line["flags"] else (low, high)
            ends += [end / unit_value for end in bounds if end is not None]
        for values in line.get("trials", {}).values():
            ends += [value / unit_value for value in values]
    return value_axis(ends, document["scale"], None if document["base"] else units[0])


def x_scale(document: TimelineDocument, left_edge: float, right_edge: float) -> Callable[[int, float], float]:
    """A function from a place of a path to pixels: by the place, or by the time of its commit."""
    if document["axis"] == "commits":
        count = document["paths"][0]["count"]
        return lambda _, at: left_edge + (right_edge - left_edge) * (at + 0.6) / max(count + 0.2, 1.2)
    first, last = time_range(document)
    span = (last - first) or 1
    positions = [path["commits"]["at"] for path in document["paths"]]
    # A commit never lies before the one before it, whatever their clocks say.
    moments = [list(accumulate(path["commits"]["time"], max)) for path in document["paths"]]

    def place(path: int, at: float) -> float:
        moment: float = moments[path][min(bisect_left(positions[path], at), len(positions[path]) - 1)]
        return left_edge + 4 + (right_edge - left_edge - 8) * (moment - first) / span

    return place


def time_range(document: TimelineDocument) -> tuple[float, float]:
    moments = [moment for path in document["paths"] for moment in path["commits"]["time"]]
    return (min(moments), max(moments)) if moments else (0, 1)


def value_axes(frame: PlotFrame, axes: Sequence[Axis | None]) -> Iterator[str]:
    for axis, x, anchor in zip(axes, (frame.left - 8, frame.right + 8), ("end", "start"), strict=True):
        if axis is None:
            continue
        scale = axis.scale(frame.bottom, frame.top)
        for value, label in axis.ticks:
            y = scale(value)
            if anchor == "end":
                yield f'<path d="M{frame.left} {y:.1f}H{frame.right}" stroke="{frame.colours["line"]}"/>'
            yield text(x, y + 4, label, frame.colours["soft"], anchor)


def x_axis(document: TimelineDocument, frame: PlotFrame) -> Iterator[str]:
    most = max(2, int((frame.right - frame.left) / 110))
    y = frame.bottom + 20
    for x, label in x_ticks(document, frame, most):
        outermost = frame.right + 14 - len(label) * CHARACTER / 2
        yield text(min(x, outermost), y, label, frame.colours["soft"], "middle")


def x_ticks(document: TimelineDocument, frame: PlotFrame, most: int) -> Ticks:
    if document["axis"] == "time":
        first, last = time_range(document)
        span = (last - first) or 1
        room = frame.right - frame.left - 8
        return [(frame.left + 4 + room * (at - first) / span, label) for at, label in time_ticks(first, last, most)]
    path = document["paths"][0]
    commits = list(zip(*(path["commits"][key] for key in ("at", "sha", "time")), strict=True))
    every = max(1, -(-path["count"] // most))
    first, last = time_range(document)
    few = last - first < FEW_DAYS * DAY
    return [(frame.x(0, at), sha[:7] if few else day_text(moment)) for at, sha, moment in commits if at % every == 0]


def ranges(document: TimelineDocument, frame: PlotFrame) -> Iterator[str]:
    """Draw as areas the ranges of commits that may be the cause of a change."""
    for change in document["changes"]:
        if change["width"] > 1:
            path = document["shown"][change["shown"]]["path"]
            begin = max(frame.x(path, change["at"] - change["width"] + 0.5), frame.left)
            end = frame.x(path, change["at"])
            colour = frame.colours["worse" if change["worse"] else "better"]
            yield (
                f'<rect x="{begin:.1f}" y="{frame.top}" width="{max(end - begin, 2):.1f}" '
                f'height="{frame.bottom - frame.top}" fill="{colour}" opacity="0.13"/>'
            )


def any_tags(document: TimelineDocument) -> bool:
    return any(path["tags"] for path in document["paths"])


def breaks_and_tags(document: TimelineDocument, frame: PlotFrame) -> Iterator[str]:
    soft = frame.colours["soft"]
    for boundary in document["breaks"]:
        x = frame.x(boundary["path"], boundary["at"] - 0.5)
        yield f'<path d="M{x:.1f} {frame.top}V{frame.bottom}" stroke="{soft}" stroke-dasharray="2 3"/>'
    free = -math.inf
    tags = [(frame.x(i, tag["at"]), tag["name"]) for i, path in enumerate(document["paths"]) for tag in path["tags"]]
    for x, name in sorted(tags):
        yield f'<path d="M{x:.1f} {frame.top - 4}v8" stroke="{soft}"/>'
        room = len(name) * CHARACTER / 2 + 4
        if x - room > free and len(name) <= 24:
            yield text(x, frame.top - 8, name, soft, "middle", size=11)
            free = x + room


def line_shapes(document: TimelineDocument, frame: PlotFrame, line: Mapping[str, Any]) -> Iterator[str]:
    """Draw the band, the line, single points, unreliable points and trials of one series."""
    number = line["shown"]
    colour = colour_of(number, frame.colours)
    pieces, doubtful = stretches(document, frame, line)
    for piece in pieces:
        if len(piece) > 1:
            outer = [(p.x, p.high) for p in piece] + [(p.x, p.low) for p in reversed(piece)]
            yield f'<path d="{stroke(outer)}Z" fill="{colour}" opacity="0.18"/>'
            yield f'<path d="{stroke([(p.x, p.y) for p in piece])}" {look(number, frame.colours)}/>'
        else:
            (p,) = piece
            yield f'<path d="M{p.x:.1f} {p.low:.1f}V{p.high:.1f}" stroke="{colour}" stroke-width="3" opacity="0.25"/>'
    dots = [p for piece in pieces for p in piece if len(piece) == 1 or len(line["at"]) <= 120]
    yield "".join(f'<circle cx="{p.x:.1f}" cy="{p.y:.1f}" r="2.4" fill="{colour}"/>' for p in dots)
    for p in doubtful:
        yield f'<circle cx="{p.x:.1f}" cy="{p.y:.1f}" r="4" fill="{frame.colours["surface"]}" stroke="{colour}"/>'
    yield from trial_dots(document, frame, line, colour)


def trial_dots(document: TimelineDocument, frame: PlotFrame, line: Mapping[str, Any], colour: str) -> Iterator[str]:
    series = document["shown"][line["shown"]]
    unit_value = series["base"]["value"] if series["base"] else 1.0
    for at, values in line.get("trials", {}).items():
        x = frame.x(series["path"], int(at))
        for value in values:
            y = frame.y[line["shown"]](value / unit_value)
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.6" fill="{colour}" opacity="0.45"/>'


def stretches(
    document: TimelineDocument, frame: PlotFrame, line: Mapping[str, Any]
) -> tuple[list[list[Pixel]], list[Pixel]]:
    """The stretches of reliable points of neighbouring commits, and the unreliable points."""
    series = document["shown"][line["shown"]]
    path, y = series["path"], frame.y[line["shown"]]
    unit_value = series["base"]["value"] if series["base"] else 1.0
    step = document["paths"][path]["step"]
    reach = 2 * step if step > 1 else 1
    pieces: list[list[Pixel]] = []
    doubtful: list[Pixel] = []
    last = None
    for at, *values in zip(*(line[key] for key in ("at", "value", "low", "high")), strict=True):
        if None in values or (document["scale"] == "log" and min(values) <= 0):
            last = None
            continue
        flagged = str(at) in line["flags"]
        middle, low, high = (y(value / unit_value) for value in values)
        pixel = Pixel(frame.x(path, at), middle, low, high, flagged)
        if flagged:
            doubtful.append(pixel)
            last = None
            continue
        if last is not None and at <= last + reach:
            pieces[-1].append(pixel)
        else:
            pieces.append([pixel])
        last = at
    return pieces, doubtful


def gap_marks(document: TimelineDocument, frame: PlotFrame) -> Iterator[str]:
    """Draw below the lines why commits have no point: failed ones as crosses, others as dots."""
    y = frame.bottom - 6
    for number, path in enumerate(document["paths"]):
        for gap in path["gaps"]:
            x = frame.x(number, gap["at"])
            if gap["state"] == "failed":
                cross = f"M{x - 4:.1f} {y - 4:.1f}l8 8m-8 0l8 -8"
                yield f'<path d="{cross}" stroke="{frame.colours["worse"]}" stroke-width="2"/>'
            else:
                yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.5" fill="{frame.colours["soft"]}"/>'
    for note in document.get("annotations", ()):
        yield f'<path d="M{frame.x(0, note["at"]) - 4:.1f} {y - 4:.1f}h8v8h-8z" fill="{frame.colours["soft"]}"/>'


def change_marks(document: TimelineDocument, frame: PlotFrame) -> Iterator[str]:
    """Draw where lines changed, with the size and direction; hollow and dashed until it is confirmed.

    The change of an alert that somebody has settled is struck through, has no line, and says so.
    """
    positions = (
        (frame.x(document["shown"][change["shown"]]["path"], change["at"]), change) for change in document["changes"]
    )
    marks = sorted(positions, key=lambda mark: mark[0])
    for (x, change), (following, _) in zip(marks, [*marks[1:], (frame.right + 6, None)], strict=False):
        is_settled = change["look"] == "settled"
        colour = frame.colours["soft" if is_settled else change["look"]]
        confirmed = change["status"] == "confirmed"
        if not is_settled and (confirmed or len(marks) <= MANY_MARKS):
            dash = "" if confirmed else ' stroke-dasharray="5 4"'
            yield f'<path d="M{x:.1f} {frame.top + 22}V{frame.bottom}" stroke="{colour}" opacity="0.6"{dash}/>'
        y = frame.top + 12
        is_filled = confirmed and not is_settled
        fill, ink = (colour, frame.colours["surface"]) if is_filled else (frame.colours["surface"], colour)
        yield f'<circle cx="{x:.1f}" cy="{y}" r="7" fill="{fill}" stroke="{colour}" stroke-width="1.5"/>'
        yield text(x, y + 4, change["sign"], ink, weight=700, size=11, anchor="middle")
        if is_settled:
            yield f'<path d="M{x - 8:.1f} {y + 7}L{x + 8:.1f} {y - 7}" stroke="{colour}" stroke-width="1.5"/>'
        label = change["words"] + (f" {change['alert_state']}" if is_settled else "")
        if x + 18 + len(label) * CHARACTER < following:
            yield text(x + 10, y + 4, label, colour, weight=600, size=11)
