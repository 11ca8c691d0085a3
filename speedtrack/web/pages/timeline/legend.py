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
        others = [one for one in overlay.shown if one is not line]
        without = address_of(others, query) if others else ""
        entries.append(LegendEntry(number, plain(title), side, str(line.name), without))
    return entries


def address_of(shown: list[ShownLine], query: QueryDict) -> str:
    """The address of the timeline of these lines.

    The first line becomes the page's own; the other settings of ``query`` are kept.
    """
    first, *others = (line.name for line in shown)
    own = [name for name in others if name[:3] == first[:3] and name.branch == first.branch]
    changed = query.copy()
    for key in ("why", "part"):
        changed.pop(key, None)
    changed["branch"] = first.branch
    changed.setlist("machine", [name.machine for name in (first, *own)])
    changed.setlist("line", [short_name(name, first) for name in others if name not in own])
    return f"{timeline_path(*first[:3])}?{changed.urlencode()}"


def short_name(name: LineName, page: LineName) -> str:
    """The name of a line without the parts that it shares with the page's."""
    if name.project != page.project:
        return str(name)
    parts = ["", *(mine if mine != its else "" for mine, its in zip(name[1:3], page[1:3], strict=True))]
    text = "/".join(parts).rstrip("/")
    if name.machine != page.machine:
        text += f"@{name.machine}"
    return text + (f":{name.branch}" if name.branch != page.branch else "")
