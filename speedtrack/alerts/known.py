"""The steps that are known of a series, at their places in a window of its line: they are not suspected again."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Exists, OuterRef, Q

from speedtrack.alerts import lines
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.alerts.windows import Window
from speedtrack.projects.models import Branch, Commit, Position
from speedtrack.runs.models import Series
from speedtrack.stats.changepoint import NEAR, SettledShift, Shift

Status = ChangePoint.Status


LEVELS = (Status.CONFIRMED, Status.HISTORY, Status.MACHINE)  # a new level begins with these, whatever the cause


ChangeRange = tuple[ChangePoint, int, int]  # with the positions of its two commits

STEPS = """
    SELECT cp.id, cp.status, cp.ratio,
           (SELECT p.number FROM projects_position p WHERE p.branch_id = %(branch)s AND p.commit_id = cp.before_id),
           (SELECT p.number FROM projects_position p WHERE p.branch_id = %(branch)s AND p.commit_id = cp.commit_id)
      FROM alerts_changepoint cp
     WHERE cp.series_id = %(series)s AND cp.kind = 'step'
  ORDER BY cp.id
"""
# Suspicions with a commit that has no clean point any more, because its measurements were flagged since.
UNFOUNDED = lines.sql("""
    SELECT cp.id
      FROM alerts_changepoint cp
     WHERE cp.series_id = %(series)s AND cp.kind = 'step' AND cp.status = 'suspected'
       AND EXISTS (SELECT FROM unnest(ARRAY[cp.before_id, cp.commit_id]) AS p (commit_id) WHERE NOT IS_MEASURED)
""")


class PlacedStep(NamedTuple):
    """A step of a series at its place on a branch.

    ``first`` is the position of the commit before it, None where that is not on the branch.
    """

    id: int
    status: str
    ratio: float
    first: int | None
    last: int


@dataclass(frozen=True)
class Steps:
    """The steps of a series, whatever their status: those on a branch, and the ids of confirmed ones that are not."""

    placed: list[PlacedStep]
    elsewhere: list[int]


def steps_on(series: Series, branch: Branch) -> Steps:
    asked: dict[str, Any] = {"series": series.pk, "branch": branch.pk}
    with connection.cursor() as cursor:
        cursor.execute(STEPS, asked)
        rows = cursor.fetchall()
    return Steps(
        [PlacedStep._make(row) for row in rows if row[-1] is not None],
        [row[0] for row in rows if row[-1] is None and row[1] == Status.CONFIRMED],
    )


def unfounded_suspicions(series: Series) -> list[int]:
    """The ids of suspicions that lost one of the two points between which they lie."""
    with connection.cursor() as cursor:
        cursor.execute(UNFOUNDED, {"series": series.pk})
        return [pk for (pk,) in cursor]


@dataclass(frozen=True)
class KnownChange:
    """A change point of the series, and the points of the line in its range: ``first`` to ``last``.

    If its commit was found by bisection and is no point itself, the first point after it stands for it.
    """

    change_point: ChangePoint
    first: int
    last: int

    @property
    def is_open(self) -> bool:
        return self.change_point.status == Status.SUSPECTED

    @property
    def is_reported(self) -> bool:
        """Was it confirmed by pairs, or by the history?"""
        return self.change_point.status in (Status.CONFIRMED, Status.HISTORY)

    @property
    def begins_level(self) -> bool:
        settled = self.settled()
        return settled is not None and settled.confirmed

    @property
    def is_up(self) -> bool:
        return self.change_point.ratio > 1

    def is_same(self, shift: Shift) -> bool:
        """Is the shift this same change?"""
        if self.is_open and self.first <= shift.index <= self.last:
            return True
        settled = self.settled()
        if settled:
            return settled.is_same(shift.index, shift.ratio > 1)
        return self.is_up == (shift.ratio > 1) and self.first - NEAR <= shift.index <= self.last + NEAR

    def settled(self) -> SettledShift | None:
        """What the detector takes for granted, because pairs or a person decided it; else None.

        A change that is being measured or could not be settled is not taken for granted: it divides the line where the
        detector sees it, and is not suspected twice.
        """
        cp = self.change_point
        if cp.status not in (*LEVELS, Status.REFUTED):
            return None
        invalid = cp.alert is not None and cp.alert.status == Alert.Status.INVALID
        return SettledShift(self.first, self.last, self.is_up, cp.status in LEVELS and not invalid)


def known_changes(window: Window, steps: Steps, rewritten: Sequence[ChangeRange]) -> list[KnownChange]:
    """Those of these steps whose ranges lie in the window, and the ``rewritten`` ones."""
    places = [point.position for point in window.points]
    ranges = {
        step.id: (step.first, step.last)
        for step in steps.placed
        if step.first is not None and step.first < places[-1] and step.last > places[0]
    }
    related = ChangePoint.objects.filter(pk__in=ranges).select_related("alert").order_by("pk")
    found: Iterable[ChangePoint] = related if ranges else ()
    own = ((cp, *ranges[cp.pk]) for cp in found)
    return [
        KnownChange(cp, bisect_left(places, begin + 1), bisect_left(places, end))
        for cp, begin, end in (*own, *rewritten)
    ]


def rewritten_changes(steps: Steps, window: Window) -> list[ChangeRange]:
    """Confirmed changes whose commits are on no live branch any more, at the commits of this line that replaced them.

    A rebase keeps author, author date and subject of a commit. Refuted changes are not carried over: an amended commit
    keeps them too, and may be slower than the one that was measured.
    """
    if not steps.elsewhere:
        return []
    alive = Position.objects.filter(commit=OuterRef("commit"), branch__deleted_at=None)
    gone = ChangePoint.objects.filter(~Exists(alive), pk__in=steps.elsewhere)
    found = []
    for cp in gone.select_related("alert", "before", "commit").order_by("pk"):
        if (end := place_of_twin(cp.commit, window)) is not None:
            begin = place_of_twin(cp.before, window)
            found.append((cp, begin if begin is not None and begin < end else end - 1, end))
    return found


def placed_step(change: ChangeRange) -> PlacedStep:
    cp, first, last = change
    return PlacedStep(cp.pk, cp.status, cp.ratio, first, last)


def place_of_twin(commit: Commit, window: Window) -> int | None:
    """The position in the window of a commit, or of the commit that replaced it in a rewrite."""
    same = {name: getattr(commit, name) for name in ("author_name", "author_email", "authored_at", "subject")}
    within = (window.points[0].position, window.points[-1].position)
    places = Position.objects.filter(branch=window.branch, number__range=within)
    here = places.filter(Q(commit=commit) | Q(**{f"commit__{name}": value for name, value in same.items()}))
    return here.order_by("-number").values_list("number", flat=True).first()
