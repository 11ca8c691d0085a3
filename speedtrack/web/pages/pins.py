"""A person's board: pinned timelines as small plots, and pinned comparisons with their sentence."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from django.http import Http404, QueryDict
from django.urls import Resolver404, resolve, reverse

from speedtrack.accounts import pins
from speedtrack.accounts.access import Access
from speedtrack.accounts.models import MOST_PINS, Pin
from speedtrack.alerts.lines.linecolumns import columns, newest_line
from speedtrack.ground.texts.text import UNSTORABLE
from speedtrack.projects.models import Project
from speedtrack.reports.readings.comparisons import ComparisonReading, read
from speedtrack.runs.scheduling import states
from speedtrack.web.pages import changes
from speedtrack.web.pages.compare.page import sides_asked
from speedtrack.web.pages.project.board import PlottedChange, SmallPlot
from speedtrack.web.pages.project.columns import Mark
from speedtrack.web.pages.project.grid import clean_values
from speedtrack.web.pages.running.live import stream_of_queue
from speedtrack.web.pages.timeline.points import newest_changes
from speedtrack.web.pages.timeline.view import View, view_of

LONGEST = Pin._meta.get_field("address").max_length or 0
PASSING = ("part", "why")  # keys of queries that open a part of a page
MOST_COMMITS = 200  # of a plot, the newest of its range


class PageAddress(NamedTuple):
    """What an address of this site names."""

    name: str
    arguments: dict[str, Any]
    query: QueryDict

    @property
    def slug(self) -> str:
        return str(self.arguments["slug"])

    @property
    def more_lines(self) -> int:
        """How many lines a timeline has besides its own, which is the one of the plot."""
        return len(self.query.getlist("line"))

    @property
    def address(self) -> str:
        """The path and query in ASCII, written the same way however they were entered."""
        query = self.query.copy()
        for key in PASSING:
            query.pop(key, None)
        return reverse(self.name, kwargs=self.arguments) + (f"?{query.urlencode()}" if query else "")


def target_of(text: str) -> PageAddress:
    """What can be pinned at this address. Raises Http404 for anything else."""
    try:
        address = urlsplit(text)
        match = resolve(unquote(address.path))
        target = PageAddress(match.url_name or "", match.kwargs, QueryDict(address.query))
    except (Resolver404, ValueError):
        target = None
    if target is None or target.name not in LOADED or UNSTORABLE.search(unquote(text)):
        raise Http404("This cannot be pinned: pin a timeline or a comparison, by the button on its page.")
    if len(target.address) > LONGEST:
        raise Http404(f"This address is too long to be pinned: it may have {LONGEST} characters.")
    return target


@dataclass(frozen=True)
class ChartOnBoard:
    view: View
    plot: SmallPlot | None


@dataclass(frozen=True)
class ShownPin:
    """A pin with what its page shows; ``problem``: a sentence instead, where there is nothing to show."""

    pin: Pin
    target: PageAddress | None
    chart: ChartOnBoard | None = None
    comparison: ComparisonReading | None = None
    problem: str = ""

    @property
    def title(self) -> str:
        """A name of what cannot be shown."""
        return str(self.target.arguments.get("benchmark", "")) if self.target else ""


@dataclass(frozen=True)
class OwnBoard:
    """``version``: of the queues before the pins were read."""

    pins: list[ShownPin]
    version: str
    most: int = MOST_PINS

    @property
    def stream(self) -> str:
        return stream_of_queue()


def load(access: Access) -> OwnBoard:
    """The board of the logged-in caller."""
    assert access.caller.user
    version = states.version_now()  # first: what changes meanwhile makes the page load it again
    rows = [(row, known_target(row.address)) for row in pins.pins_of(access.caller.user)]
    projects = Project.objects.filter(slug__in={target.slug for _, target in rows if target})
    visible_slugs = set(access.among(projects, "pk").values_list("slug", flat=True))
    return OwnBoard([shown_pin(row, target, visible_slugs, access) for row, target in rows], version)


def known_target(address: str) -> PageAddress | None:
    """What a stored address names; None if a later version of the pages has no such address."""
    try:
        return target_of(address)
    except Http404:
        return None


def shown_pin(row: Pin, target: PageAddress | None, visible_slugs: set[str], access: Access) -> ShownPin:
    """The pin with what the caller may see now."""
    if target is None:
        return ShownPin(row, target, problem=f"There is no page {row.address} any more.")
    if target.slug not in visible_slugs:
        absent = f"The project {target.slug} was deleted, or it is private now and you are not a member."
        return ShownPin(row, target, problem=absent)
    try:
        return ShownPin(row, target, **LOADED[target.name](target, access))
    except Http404 as e:
        return ShownPin(row, target, problem=str(e))


def chart_of(target: PageAddress, access: Access) -> dict[str, Any]:
    view = view_of(**target.arguments, query=target.query).newest(MOST_COMMITS)
    lines = columns([series.pk for series in view.series], view.branch, view.first, view.last)
    if not lines:
        return {"chart": ChartOnBoard(view, None)}
    line = newest_line(lines)
    points = [point for point in newest_changes(view) if point.series_id == line.series_id]
    plot = SmallPlot(
        view.benchmark,
        target.address,
        float(line.value[-1]),
        line.flags.get(int(line.at[-1]), []),
        clean_values(line, view.commits),
        [plotted(point, view) for point in reversed(points) if point.status in changes.VISIBLE],
    )
    return {"chart": ChartOnBoard(view, plot)}


def plotted(point: Any, view: View) -> PlottedChange:
    """A change point of the view, with its ``place`` on the branch."""
    mark = Mark(point.status, point.ratio, point.from_zero, None, point.alert_state or None)
    return PlottedChange.of(point.place - view.first, mark, view.scope.metric)


def comparison_of(target: PageAddress, access: Access) -> dict[str, Any]:
    sides = sides_asked(target.slug, target.query, access)
    return {"comparison": read(sides)} if sides else {"problem": "Nothing can be compared yet."}


#: name of an address that can be pinned -> what a pin of it shows
LOADED: dict[str, Callable[[PageAddress, Access], dict[str, Any]]] = {"timeline": chart_of, "compare": comparison_of}
