"""The commits of a timeline with their points, gaps and changes."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db.models import F, OuterRef, QuerySet, Subquery

from speedtrack.alerts import lines
from speedtrack.alerts.lines import LinePoint
from speedtrack.alerts.models import ChangePoint
from speedtrack.benchmarks.metrics import METRICS, Direction
from speedtrack.projects.models import Position
from speedtrack.runs.models import Run
from speedtrack.web.drawing.gaps import GAP_COLUMNS, WITHOUT_POINT, Gap, gap_of
from speedtrack.web.pages import changes
from speedtrack.web.pages.timeline.view import View

NEWEST_CHANGES = 60
COMMITS = """
    SELECT p.number, c.id, c.sha, c.subject, c.author_name, extract(epoch FROM c.committed_at)::bigint
      FROM projects_position p JOIN projects_commit c ON c.id = p.commit_id
     WHERE p.branch_id = %(branch)s AND p.number BETWEEN %(first)s AND %(last)s
  ORDER BY p.number
"""


class TimelineCommit(NamedTuple):
    """A commit of the branch; ``at``: the time of the commit in seconds since 1970."""

    number: int
    id: int
    sha: str
    subject: str
    author: str
    at: int

    @property
    def time(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)


@dataclass(frozen=True)
class Timeline:
    """A timeline commit by commit; ``gaps`` by position."""

    view: View
    commits: list[TimelineCommit]
    points: list[LinePoint]
    gaps: dict[int, Gap]
    change_points: list[ChangePoint]


def load_timeline(view: View) -> Timeline:
    """The commits of a view with their points; the number of queries does not depend on how many there are."""
    points = lines.points([s.pk for s in view.series], view.branch, view.first, view.last)
    commits = [TimelineCommit._make(row) for row in view.fetch(COMMITS)]
    return Timeline(view, commits, points, gaps_in(view), change_points_in(view))


def gaps_in(view: View) -> dict[int, Gap]:
    """By position: why the newest own run on the view's machines left its commit without a point."""
    # "+ 0": without it PostgreSQL reads all runs of a machine rather than the index of the runs without a point.
    runs = (
        Run.objects.own()
        .annotate(on_machine=F("machine_id") + 0)
        .filter(
            project=view.scope.project,
            on_machine__in={s.machine_id for s in view.series},
            commit__positions__branch=view.branch,
            commit__positions__number__range=(view.first, view.last),
        )
        .filter(WITHOUT_POINT)
    )
    rows = runs.order_by("id").values_list("commit__positions__number", *GAP_COLUMNS)
    return {number: gap_of(*columns) for number, *columns in rows}


class ShownChange(NamedTuple):
    """What the chart shows of a change point: the positions of its commit and of the one before its range."""

    place: int
    series: int
    machine: str
    metric: str
    status: str
    ratio: float
    low: float
    high: float
    alert_id: int | None
    before_place: int | None

    @property
    def width(self) -> int:
        """How many commits may be the cause; 1 where the branch has lost them."""
        return 1 if self.before_place is None else self.place - self.before_place

    @property
    def is_slowdown(self) -> bool:
        return (self.ratio > 1) == (METRICS[self.metric].better == Direction.LOWER)


def shown_changes(view: View, every: bool = False) -> list[ShownChange]:
    """The visible change points of the view (or ``every`` one), in commit order.

    As columns: a long view has thousands of them.
    """
    found: QuerySet[Any] = changes.on_branch(view.branch, view.first, view.last)
    found = found.filter(series__in=[s.pk for s in view.series]).order_by("place", "pk")
    if not every:
        found = found.filter(status__in=changes.VISIBLE)
    begins = Position.objects.filter(branch=view.branch, commit=OuterRef("before")).values("number")
    named = ("place", "series", "series__machine__name", "series__metric")
    rows = found.annotate(before_place=Subquery(begins)).values_list(*named, *ShownChange._fields[4:])
    return [ShownChange._make(row) for row in rows]


def change_points_in(view: View) -> list[ChangePoint]:
    """The change points of the view, in commit order."""
    found: QuerySet[Any] = changes.on_branch(view.branch, view.first, view.last)
    return list(found.filter(series__in=[s.pk for s in view.series]).order_by("place", "pk"))


def newest_changes(view: View) -> list[ChangePoint]:
    """The newest change points of the view, newest first."""
    found: QuerySet[Any] = changes.on_branch(view.branch, view.first, view.last)
    return list(found.filter(series__in=[s.pk for s in view.series]).order_by("-place", "-pk")[:NEWEST_CHANGES])
