"""The change points that a series has already, as a line shows them: what is settled is not suspected again."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from django.db import connection
from django.db.models import F, Q

from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.alerts.windows import Line
from speedtrack.projects.models import Commit, Position
from speedtrack.runs.models import Series
from speedtrack.stats.changepoint import NEAR, SettledShift, Shift

Status = ChangePoint.Status

LEVELS = (Status.CONFIRMED, Status.HISTORY, Status.MACHINE)  # with these a new level begins, whatever the cause


ChangeRange = tuple[ChangePoint, int, int]  # with the positions of its two commits

# The confirmed steps of a series whose commits no live branch has any more.
GONE = """
    SELECT cp.id
      FROM alerts_changepoint cp
     WHERE cp.series_id = %s AND cp.kind = 'step' AND cp.status = 'confirmed'
       AND NOT EXISTS (SELECT FROM projects_position p
                         JOIN projects_branch b ON b.id = p.branch_id AND b.deleted_at IS NULL
                        WHERE p.commit_id = cp.commit_id)
  ORDER BY cp.id
"""


@dataclass(frozen=True)
class KnownChange:
    """A change point of the series, and the points of the line that its range covers: from ``first`` to ``last``.

    The first point after the range stands for a commit that was found by bisection and is no point itself.
    """

    change_point: ChangePoint
    first: int
    last: int

    @property
    def is_open(self) -> bool:
        return self.change_point.status == Status.SUSPECTED

    @property
    def is_up(self) -> bool:
        return self.change_point.ratio > 1

    def is_same(self, shift: Shift) -> bool:
        """Is the shift this change again?"""
        if self.is_open and self.first <= shift.index <= self.last:
            return True
        settled = self.settled()
        if settled:
            return settled.is_same(shift.index, shift.ratio > 1)
        return self.is_up == (shift.ratio > 1) and self.first - NEAR <= shift.index <= self.last + NEAR

    def settled(self) -> SettledShift | None:
        """What the detector may take for granted: the pairs decided it, or a person did.

        Not what is being measured, nor what could not be settled: there the history alone speaks, as long as nothing
        else is known. It cuts the line where the detector sees it, and is not suspected twice.
        """
        cp = self.change_point
        if cp.status not in (*LEVELS, Status.REFUTED):
            return None
        invalid = cp.alert is not None and cp.alert.status == Alert.Status.INVALID
        return SettledShift(self.first, self.last, self.is_up, cp.status in LEVELS and not invalid)


def known_changes(series: Series, line: Line, rewritten: Sequence[ChangeRange]) -> list[KnownChange]:
    """The change points of the series whose ranges lie on this part of the branch, and the ``rewritten`` ones."""
    places = [point.position for point in line.points]
    found = (
        ChangePoint.objects.filter(
            series=series,
            kind=ChangePoint.Kind.STEP,
            before__positions__branch=line.branch,
            before__positions__number__lt=places[-1],
            commit__positions__branch=line.branch,
            commit__positions__number__gt=places[0],
        )
        .select_related("alert")
        .order_by("pk")
        .annotate(begin=F("before__positions__number"), end=F("commit__positions__number"))
    )
    ends = attrgetter("begin", "end")
    own = ((cp, *ends(cp)) for cp in found)
    return [
        KnownChange(cp, bisect_left(places, begin + 1), bisect_left(places, end))
        for cp, begin, end in (*own, *rewritten)
    ]


def rewritten_changes(series: Series, line: Line) -> list[ChangeRange]:
    """Confirmed changes whose commits no live branch has any more, at the commits of this line that replaced them.

    A rebase keeps author, author date and subject of a commit. What was refuted is not carried over: an amended commit
    has these as well, and may be slower than the one that was measured.
    """
    with connection.cursor() as cursor:
        cursor.execute(GONE, [series.pk])
        gone = [pk for (pk,) in cursor]
    found = []
    for cp in ChangePoint.objects.filter(pk__in=gone).select_related("alert", "before", "commit") if gone else []:
        if (end := place_of_twin(cp.commit, line)) is not None:
            begin = place_of_twin(cp.before, line)
            found.append((cp, begin if begin is not None and begin < end else end - 1, end))
    return found


def place_of_twin(commit: Commit, line: Line) -> int | None:
    """The position of a commit on the part of the branch, or of the one that a rewriting made of it."""
    same = {name: getattr(commit, name) for name in ("author_name", "author_email", "authored_at", "subject")}
    window = (line.points[0].position, line.points[-1].position)
    places = Position.objects.filter(branch=line.branch, number__range=window)
    here = places.filter(Q(commit=commit) | Q(**{f"commit__{name}": value for name, value in same.items()}))
    return here.order_by("-number").values_list("number", flat=True).first()
