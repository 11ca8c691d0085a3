"""The commits of a timeline with their gaps and changes."""

from datetime import UTC, datetime
from functools import reduce
from typing import Any, NamedTuple

from django.db.models import F, IntegerField, OuterRef, QuerySet, Subquery, Value

from speedtrack.alerts.models import ChangePoint
from speedtrack.benchmarks.metrics import METRICS, Direction
from speedtrack.projects.models import Position
from speedtrack.runs.models import Deferral, Run
from speedtrack.web.drawing.gaps import DEFERRAL_COLUMNS, GAP_COLUMNS, WITHOUT_POINT, Gap, gap_after
from speedtrack.web.pages import changes
from speedtrack.web.pages.timeline.overlay import Overlay
from speedtrack.web.pages.timeline.view import View

NEWEST_CHANGES = 60
COMMITS = """
    SELECT asked.place - 1, p.number, c.sha, c.subject, c.author_name, extract(epoch FROM c.committed_at)::bigint
      FROM unnest(%(branches)s::bigint[], %(firsts)s::int[], %(lasts)s::int[])
           WITH ORDINALITY AS asked (branch_id, first, last, place)
      JOIN projects_position p ON p.branch_id = asked.branch_id AND p.number BETWEEN asked.first AND asked.last
      JOIN projects_commit c ON c.id = p.commit_id
  ORDER BY asked.place, p.number
"""


class TimelineCommit(NamedTuple):
    """A commit of a path; ``at``: its time in seconds since 1970."""

    path: int
    number: int
    sha: str
    subject: str
    author: str
    at: int

    @property
    def time(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)


def commits_of(overlay: Overlay) -> list[TimelineCommit]:
    """The commits of all paths, each path by itself, oldest first."""
    return [TimelineCommit._make(row) for row in overlay.fetch(COMMITS)]


Gaps = list[dict[int, Gap]]


def gaps_in(overlay: Overlay) -> Gaps:
    """By path and position: why the newest own run on the lines' machines, or else the branch's policy, left its commit
    without a point."""
    # "+ 0": without it PostgreSQL reads all runs of a machine rather than the index of the runs without a point.
    runs = Run.objects.own().annotate(on_machine=F("machine_id") + 0).filter(WITHOUT_POINT)
    each: list[QuerySet[Any, Any]] = [
        runs.filter(
            project=path.branch.project_id,
            on_machine__in={series.machine_id for _, series in overlay.along[number].values()},
            commit__positions__branch=path.branch,
            commit__positions__number__range=(path.first, path.last),
        )
        .annotate(path=Value(number, output_field=IntegerField()))
        .values_list("path", "commit__positions__number", *GAP_COLUMNS)
        for number, path in enumerate(overlay.paths)
    ]
    each += [
        Deferral.objects.filter(
            branch=path.branch,
            commit__positions__branch=path.branch,
            commit__positions__number__range=(path.first, path.last),
        )
        .annotate(path=Value(number, output_field=IntegerField()))
        .values_list("path", "commit__positions__number", *DEFERRAL_COLUMNS)
        for number, path in enumerate(overlay.paths)
    ]
    gaps: list[dict[int, Gap]] = [{} for _ in overlay.paths]
    for path, number, *columns in sorted(all_of(each), key=lambda row: row[2]):
        gaps[path][number] = gap_after(gaps[path].get(number), *columns)
    return gaps


def all_of(each: list[QuerySet[Any, Any]]) -> QuerySet[Any, Any]:
    """The rows of several queries with equal columns, by one query."""
    return reduce(lambda union, query: union.union(query, all=True), each)


class ShownChange(NamedTuple):
    """What the chart shows of a change point: the positions of its commit and of the one before its range."""

    path: int
    place: int
    series: int
    metric: str
    status: str
    ratio: float
    low: float
    high: float
    alert_id: int | None
    alert_state: str | None
    before_place: int | None

    @property
    def width(self) -> int:
        """How many commits may be the cause; 1 where the branch has lost them."""
        return 1 if self.before_place is None else self.place - self.before_place

    @property
    def is_slowdown(self) -> bool:
        return (self.ratio > 1) == (METRICS[self.metric].better == Direction.LOWER)


def shown_changes(overlay: Overlay, every: bool = False) -> list[ShownChange]:
    """The visible change points of all paths (or ``every`` one), each path by itself, in commit order.

    As columns: a long timeline has thousands of them.
    """
    each = []
    for number, path in enumerate(overlay.paths):
        points: QuerySet[Any, Any] = changes.on_branch(path.branch, path.first, path.last)
        points = points.filter(series__in=list(overlay.along[number]))
        if not every:
            points = points.filter(status__in=changes.VISIBLE)
        begins = Position.objects.filter(branch=path.branch, commit=OuterRef("before")).values("number")
        annotated = points.annotate(
            path=Value(number, output_field=IntegerField()),
            before_place=Subquery(begins),
            alert_state=F("alert__status"),
        )
        each.append(
            annotated.order_by().values_list(
                "pk", "path", "place", "series", "series__metric", *ShownChange._fields[4:]
            )
        )
    rows = sorted(all_of(each), key=lambda row: (row[1], row[2], row[0]))
    return [ShownChange._make(row[1:]) for row in rows]


def newest_changes(view: View) -> list[ChangePoint]:
    """The newest change points of the page's own lines, newest first."""
    points: QuerySet[Any] = changes.on_branch(view.branch, view.first, view.last)
    return list(points.filter(series__in=[s.pk for s in view.series]).order_by("-place", "-pk")[:NEWEST_CHANGES])
