"""The commits of a timeline with their points, gaps and changes."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from speedtrack.alerts import series as lines
from speedtrack.alerts.models import ChangePoint
from speedtrack.alerts.series import Drawn
from speedtrack.runs.models import Run
from speedtrack.web.gaps import LEFT_OUT, TOLD, Gap, gap_of
from speedtrack.web.pages import changes
from speedtrack.web.pages.timeline.view import View

COMMITS = """
    SELECT p.number, c.id, c.sha, c.subject, c.author_name, extract(epoch FROM c.committed_at)::bigint
      FROM projects_position p JOIN projects_commit c ON c.id = p.commit_id
     WHERE p.branch_id = %(branch)s AND p.number BETWEEN %(first)s AND %(last)s
  ORDER BY p.number
"""


class Step(NamedTuple):
    """A commit of the branch."""

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
class Rows:
    """A timeline commit by commit."""

    view: View
    path: list[Step]
    points: list[Drawn]
    gaps: dict[int, Gap]
    change_points: list[ChangePoint]


def load(view: View, newest: int | None = None) -> Rows:
    """The commits of a view (or its newest) with their points, in a number of queries that does not depend on both."""
    shown = view.newest(newest) if newest else view
    points = lines.drawn([s.pk for s in view.series], view.branch, shown.first, shown.last)
    return Rows(view, [Step._make(row) for row in shown.ask(COMMITS)], points, gaps(shown), change_points_of(view))


def gaps(view: View) -> dict[int, Gap]:
    """By position: the newest own run that left its commit without a point, on the machines shown."""
    runs = (
        Run.objects.own()
        .filter(
            project=view.scope.project,
            machine__in={s.machine_id for s in view.series},
            commit__positions__branch=view.branch,
            commit__positions__number__range=(view.first, view.last),
        )
        .filter(LEFT_OUT)
    )
    rows = runs.order_by("id").values_list("commit__positions__number", *TOLD)
    return {number: gap_of(*told) for number, *told in rows}


def change_points_of(view: View) -> list[ChangePoint]:
    """The change points of the view, in commit order."""
    found = changes.on_branch(view.branch, view.first, view.last).filter(series__in=[s.pk for s in view.series])
    return sorted(found, key=lambda cp: (getattr(cp, "place"), cp.pk))  # noqa: B009 (an annotation)
