"""The commits of a timeline with their points, gaps and changes."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from speedtrack.alerts import lines
from speedtrack.alerts.lines import LinePoint
from speedtrack.alerts.models import ChangePoint
from speedtrack.runs.models import Run
from speedtrack.web.drawing.gaps import GAP_COLUMNS, WITHOUT_POINT, Gap, gap_of
from speedtrack.web.pages import changes
from speedtrack.web.pages.timeline.view import View

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


def load_timeline(view: View, newest: int | None = None) -> Timeline:
    """The commits of a view (or its newest) with their points; the number of queries depends on neither."""
    shown = view.newest(newest) if newest else view
    points = lines.points([s.pk for s in view.series], view.branch, shown.first, shown.last)
    commits = [TimelineCommit._make(row) for row in shown.fetch(COMMITS)]
    return Timeline(view, commits, points, gaps_in(shown), change_points_in(view))


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


def change_points_in(view: View) -> list[ChangePoint]:
    """The change points of the view, in commit order."""
    found = changes.on_branch(view.branch, view.first, view.last).filter(series__in=[s.pk for s in view.series])
    return sorted(found, key=lambda cp: (getattr(cp, "place"), cp.pk))  # noqa: B009 (an annotation)
