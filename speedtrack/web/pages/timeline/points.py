"""The commits of a timeline with their points, gaps and changes."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet

from speedtrack.alerts import lines
from speedtrack.alerts.lines import LinePoint
from speedtrack.alerts.models import ChangePoint
from speedtrack.benchmarks.metrics import METRICS, Direction
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
    """A timeline commit by commit; ``gaps`` by position.

    Where only the newest commits were loaded, ``change_points`` are theirs, and NEWEST_CHANGES at least.
    """

    view: View
    commits: list[TimelineCommit]
    points: list[LinePoint]
    gaps: dict[int, Gap]
    change_points: list[ChangePoint]


def load_timeline(view: View, newest: int | None = None) -> Timeline:
    """The commits of a view (or its newest) with their points; the number of queries depends on neither."""
    shown = view.newest(newest) if newest else view
    points = lines.points([s.pk for s in view.series], view.branch, shown.first, shown.last)
    commits = [TimelineCommit._make(row) for row in shown.fetch(COMMITS)]
    return Timeline(view, commits, points, gaps_in(shown), change_points_in(view, shown.first if newest else None))


def gaps_in(view: View) -> dict[int, Gap]:
    """By position: why the newest own run on the view's machines left its commit without a point."""
    runs = (
        Run.objects.own()
        .filter(
            project=view.scope.project,
            machine__in={s.machine_id for s in view.series},
            commit__positions__branch=view.branch,
            commit__positions__number__range=(view.first, view.last),
        )
        .filter(WITHOUT_POINT)
    )
    rows = runs.order_by("id").values_list("commit__positions__number", *GAP_COLUMNS)
    return {number: gap_of(*columns) for number, *columns in rows}


class ShownChange(NamedTuple):
    """What the chart shows of a change point; ``place`` and ``width`` as in ``changes``."""

    place: int
    machine: str
    metric: str
    status: str
    ratio: float
    low: float
    high: float
    alert: int | None
    width: int | None

    @property
    def is_slowdown(self) -> bool:
        return (self.ratio > 1) == (METRICS[self.metric].better == Direction.LOWER)


def shown_changes(view: View) -> list[ShownChange]:
    """The visible change points of the view, in commit order. As columns: a long view has thousands of them."""
    found: QuerySet[Any] = changes.on_branch(view.branch, view.first, view.last)
    found = found.filter(series__in=[s.pk for s in view.series])
    columns = ("series__machine__name", "series__metric", "status", "ratio", "low", "high", "alert_id", "width")
    rows = found.filter(status__in=changes.VISIBLE).order_by("place", "pk").values_list("place", *columns)
    return [ShownChange._make(row) for row in rows]


def change_points_in(view: View, since: int | None = None) -> list[ChangePoint]:
    """The change points of the view, in commit order.

    ``since``: only those from this position on, and NEWEST_CHANGES at least.
    """
    found: QuerySet[Any] = changes.on_branch(view.branch, view.first, view.last)
    found = found.filter(series__in=[s.pk for s in view.series])
    if since is not None:
        newest = found.order_by("-place", "-pk").values("pk")[:NEWEST_CHANGES]
        found = found.filter(Q(place__gte=since) | Q(pk__in=newest))
    return sorted(found, key=lambda cp: (getattr(cp, "place"), cp.pk))  # noqa: B009 (an annotation)
