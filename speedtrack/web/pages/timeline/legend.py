"""The legend of a timeline: its lines, and the addresses without each of them."""

from dataclasses import dataclass

from django.http import QueryDict

from speedtrack.ground.texts.text import plain
from speedtrack.web.addresses import timeline_path
from speedtrack.web.pages.timeline.names import LineName
from speedtrack.web.pages.timeline.overlay import Overlay, ShownLine


@dataclass(frozen=True)
class LegendEntry:
    """A line of the legend.

    ``number``: counted from 1; ``without``: the address of the timeline without this line, empty if it is the only one.
    """

    number: int
    title: str
    side: str
    line: str
    without: str

    @property
    def look(self) -> str:
        """The CSS classes of its colour and stroke."""
        return f"line-{(self.number - 1) % 4 + 1}" + (" dashed" if self.number > 4 else "")


def legend_of(overlay: Overlay, query: QueryDict) -> list[LegendEntry]:
    two_axes = any(line.right for line in overlay.shown)
    entries = []
    for number, (line, title) in enumerate(zip(overlay.shown, overlay.titles, strict=True), start=1):
        side = ("right axis" if line.right else "left axis") if two_axes else ""
        remaining = [candidate for candidate in overlay.shown if candidate is not line]
        without = address_of(remaining, query) if remaining else ""
        entries.append(LegendEntry(number, plain(title), side, str(line.name), without))
    return entries


def address_of(lines: list[ShownLine], query: QueryDict) -> str:
    """The address of the timeline of these lines.

    The first line becomes the page's own; the other settings of ``query`` are kept.
    """
    first, *further = (line.name for line in lines)
    own = [name for name in further if name[:3] == first[:3] and name.branch == first.branch]
    parameters = query.copy()
    for key in ("why", "part"):
        parameters.pop(key, None)
    parameters["branch"] = first.branch
    parameters.setlist("machine", [name.machine for name in (first, *own)])
    parameters.setlist("line", [short_name(name, first) for name in further if name not in own])
    return f"{timeline_path(*first[:3])}?{parameters.urlencode()}"


def short_name(name: LineName, page: LineName) -> str:
    """The name of a line without the parts that it shares with the page's."""
    if name.project != page.project:
        return str(name)
    pieces = ["", *(mine if mine != its else "" for mine, its in zip(name[1:3], page[1:3], strict=True))]
    text = "/".join(pieces).rstrip("/")
    if name.machine != page.machine:
        text += f"@{name.machine}"
    return text + (f":{name.branch}" if name.branch != page.branch else "")
