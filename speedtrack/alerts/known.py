"""The change points that a series has already, as a line shows them: what is settled is not suspected again."""

from bisect import bisect_left
from dataclasses import dataclass

from django.db.models import F

from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.alerts.windows import Line
from speedtrack.runs.models import Series
from speedtrack.stats.changepoint import NEAR, Settled, Shift

Status = ChangePoint.Status


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

    def settled(self) -> Settled | None:
        """What the detector may take for granted: the pairs decided it, or a person did.

        Not what is being measured, nor what could not be settled: there the history alone speaks, as long as nothing
        else is known. It cuts the line where the detector sees it, and is not suspected twice.
        """
        cp = self.change_point
        if cp.status not in (Status.CONFIRMED, Status.REFUTED):
            return None
        invalid = cp.alert is not None and cp.alert.status == Alert.Status.INVALID
        return Settled(self.first, self.last, self.is_up, cp.status == Status.CONFIRMED and not invalid)


def known_changes(series: Series, line: Line) -> list[KnownChange]:
    """The change points of the series whose ranges lie on this part of the branch."""
    places = [point.position for point in line.points]
    found = (
        ChangePoint.objects.filter(
            series=series,
            before__positions__branch=line.branch,
            before__positions__number__lt=places[-1],
            commit__positions__branch=line.branch,
            commit__positions__number__gt=places[0],
        )
        .annotate(begin=F("before__positions__number"), end=F("commit__positions__number"))
        .select_related("alert")
        .order_by("id")
    )
    return [KnownChange(cp, bisect_left(places, cp.begin + 1), bisect_left(places, cp.end)) for cp in found]
