"""A timeline in words: the newest value and the last change."""

from dataclasses import dataclass
from datetime import datetime

from speedtrack.alerts.lines import lines
from speedtrack.alerts.lines.lines import LinePoint
from speedtrack.alerts.models import ChangePoint
from speedtrack.web.pages import changes
from speedtrack.web.pages.timeline.view import View

LATELY = 200  # commits in which the newest value is looked for


@dataclass(frozen=True)
class Newest:
    """The newest reliable point of a view."""

    point: LinePoint
    sha: str
    committed_at: datetime
    machine: str


def newest_of(view: View) -> Newest | None:
    """The newest reliable point; if several series measured its commit, that of the last series."""
    lately = view.newest(LATELY)
    ids = [s.pk for s in view.series]
    measurements = lines.clean_measurements().filter(series__in=ids, commit__positions__branch=view.branch)
    recent = measurements.filter(commit__positions__number__range=(lately.first, lately.last))
    newest = recent.order_by("-commit__positions__number", "-series", "-attempt")
    row = newest.values_list("series", "commit__positions__number", "commit__sha", "commit__committed_at").first()
    if row is None:
        return None
    series, number, sha, committed_at = row
    (point,) = lines.points([series], view.branch, number, number)
    return Newest(point, sha, committed_at, next(s.machine.name for s in view.series if s.pk == series))


def last_change(points: list[ChangePoint]) -> ChangePoint | None:
    """The newest visible one of these change points, which are ordered from the newest on."""
    return next((cp for cp in points if cp.status in changes.VISIBLE), None)
