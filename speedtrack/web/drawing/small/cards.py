"""Pictures of charts for links in chats (Open Graph): PNG, as chats show no SVG. Drawn by Pillow."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from speedtrack.judging.verdicts import SIGNS

WIDTH, HEIGHT = 1200, 630
MARGIN = 64
CHART = (MARGIN, 290, WIDTH - MARGIN, HEIGHT - 70)
COLOURS = 32  # in the palette
PAPER, INK, SOFT, GRID = "#ffffff", "#16191d", "#59616b", "#dde1e6"
LINE, WORSE, BETTER = "#1b5fd0", "#bf2b23", "#13743f"
LOOKS = {"worse": WORSE, "better": BETTER, "same": INK, "settled": SOFT}
FILLED = 0.92  # share of the chart's height that the values take
CALM = 0.02  # values within this share of each other are not stretched to the full height

Font = ImageFont.FreeTypeFont


@dataclass(frozen=True)
class LinkPicture:
    """The content of a picture.

    ``values``: those of neighbouring commits, None where one was not measured; ``label`` writes a value for the axis.
    ``marks``: the indices of changes, and how each looks.
    """

    site: str
    title: str
    subtitle: str
    fact: str
    look: str
    values: Sequence[float | None]
    marks: Sequence[tuple[int, str]] = ()
    label: Callable[[float], str] = "{:.4g}".format


@lru_cache
def font(size: int, bold: bool = False) -> Font:
    """The font that comes with matplotlib, which itself is not imported: it takes 60 MB."""
    spec = find_spec("matplotlib")
    assert spec and spec.origin
    folder = Path(spec.origin).parent / "mpl-data" / "fonts" / "ttf"
    return ImageFont.truetype(str(folder / ("DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf")), size)


def card_png(card: LinkPicture) -> bytes:
    image = Image.new("RGB", (WIDTH, HEIGHT), PAPER)
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, WIDTH, 10), fill=LINE)
    put(draw, 46, card.site, font(26), SOFT)
    put(draw, 92, card.title, font(50, bold=True), INK)
    put(draw, 162, card.subtitle, font(30), SOFT)
    put(draw, 212, card.fact, font(38, bold=True), LOOKS[card.look])
    draw_line(draw, card)
    buffer = io.BytesIO()
    image.quantize(COLOURS, Image.Quantize.FASTOCTREE).save(buffer, format="png")
    return buffer.getvalue()


def put(draw: ImageDraw.ImageDraw, y: int, text: str, typeface: Font, colour: str) -> None:
    """Draw a text on one line, cut where it does not fit."""
    line = text[:200]
    while line and draw.textlength(line, font=typeface) > WIDTH - 2 * MARGIN:
        line = line[: max(1, int(len(line) * 0.95) - 2)].rstrip() + "…" if len(line) > 2 else ""
    draw.text((MARGIN, y), line, font=typeface, fill=colour)


def draw_line(draw: ImageDraw.ImageDraw, card: LinkPicture) -> None:
    left_edge, top, right_edge, bottom = CHART
    values = [value for value in card.values if value is not None]
    if not values:
        draw.text((left_edge, top + 40), "nothing was measured here", font=font(26), fill=SOFT)
        return
    middle = (max(values) + min(values)) / 2
    half = max((max(values) - min(values)) / 2, CALM * abs(middle) / 2) or 1.0
    step = (right_edge - left_edge) / max(len(card.values) - 1, 1)
    draw_grid(draw, [card.label(middle + share * half / FILLED) for share in (1, 0, -1)])

    def place(at: int, value: float) -> tuple[float, float]:
        return left_edge + at * step, (top + bottom) / 2 - (value - middle) / half * (bottom - top) / 2 * FILLED

    for stretch in stretches(card.values):
        points = [place(at, value) for at, value in stretch]
        if len(points) > 1:
            draw.line(points, fill=LINE, width=4, joint="curve")
        else:
            dot(draw, points[0], 4)
    last = max(at for at, value in enumerate(card.values) if value is not None)
    dot(draw, place(last, card.values[last] or 0.0), 8)
    for at, look in card.marks:
        mark(draw, left_edge + at * step, look)


def draw_grid(draw: ImageDraw.ImageDraw, labels: Sequence[str]) -> None:
    """Draw the lines of the axis from the top to the bottom, each with its label."""
    left_edge, top, right_edge, bottom = CHART
    for number, label in enumerate(labels):
        y = top + number * (bottom - top) / 2
        draw.line((left_edge, y, right_edge, y), fill=GRID, width=2)
        draw.text((left_edge, y + 4), label, font=font(20), fill=SOFT)


def stretches(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """The values between gaps, each with its place."""
    pieces: list[list[tuple[int, float]]] = []
    before: float | None = None
    for at, value in enumerate(values):
        if value is not None:
            if before is None:
                pieces.append([])
            pieces[-1].append((at, value))
        before = value
    return pieces


def dot(draw: ImageDraw.ImageDraw, at: tuple[float, float], radius: int) -> None:
    draw.ellipse((at[0] - radius, at[1] - radius, at[0] + radius, at[1] + radius), fill=LINE)


def mark(draw: ImageDraw.ImageDraw, x: float, look: str) -> None:
    """Draw a change: a line, and a disc with the sign of its verdict."""
    top, bottom = CHART[1], CHART[3]
    draw.line((x, top, x, bottom), fill=LOOKS[look], width=2)
    draw.ellipse((x - 13, top - 24, x + 13, top + 2), fill=LOOKS[look])
    draw.text((x, top - 11), SIGNS.get(look, "").strip(), font=font(20, bold=True), fill=PAPER, anchor="mm")
