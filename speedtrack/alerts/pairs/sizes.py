"""The size of a change in the part of its bracket that narrowing has left, from the verdicts on the way there."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from speedtrack.alerts.models import ChangePoint, Verdict

Answer = Verdict.Answer


@dataclass(frozen=True)
class Size:
    """The natural logarithm of a ratio, and how far its 95% interval reaches to either side."""

    log: float = 0.0
    reach: float = 0.0

    def times(self, factor: "Size") -> "Size":
        return Size(self.log + factor.log, math.hypot(self.reach, factor.reach))

    def by(self, divisor: "Size") -> "Size":
        return Size(self.log - divisor.log, math.hypot(self.reach, divisor.reach))

    def is_apart(self, size: "Size") -> bool:
        return abs(self.log - size.log) > self.reach + size.reach

    @property
    def ratio(self) -> float:
        return math.exp(self.log)

    @property
    def interval(self) -> tuple[float, float]:
        return math.exp(self.log - self.reach), math.exp(self.log + self.reach)


def size_of(change: ChangePoint | Verdict) -> Size:
    """The reach is that of the end away from no change: the other one may say no more than the direction."""
    ends = (change.high, change.ratio) if change.ratio > 1 else (change.ratio, change.low)
    return Size(math.log(change.ratio), math.log(ends[0] / ends[1]))


def bracket_verdict(cp: ChangePoint) -> Verdict:
    """The verdict on the ends of the bracket, which confirmed the change."""
    return cp.verdicts.filter(answer=Answer.DIFFERENT).latest("id")


def is_part_of(cp: ChangePoint, bracket: Verdict) -> bool:
    """Return whether the change got a size of its own, which is not that of its bracket's pairs."""
    return not math.isclose(cp.ratio, bracket.ratio)


def size_left(cp: ChangePoint) -> Size | None:
    """The size between the ends of the range, by pairs that show its last commit; None if ratios have no meaning."""
    verdict = cp.verdicts.filter(answer=Answer.NEW, commit=cp.commit).order_by("-id").first() or bracket_verdict(cp)
    if min(cp.low, verdict.low) <= 0:
        return None
    return size_of(verdict).by(size_between(cp, verdict.base_id, cp.before_id))


def size_between(cp: ChangePoint, base_id: int, commit_id: int) -> Size:
    """The size between two commits of the old level, by what narrowing measured on the way from one to the other."""
    size = Size()
    while commit_id != base_id:
        old = cp.verdicts.filter(answer=Answer.OLD, commit=commit_id).order_by("-id").first()
        if old is None or old.low <= 0:  # passed without pairs: it is the same build as the next commit
            break
        size, commit_id = size.times(size_of(old)), old.base_id
    return size


def settling_verdicts(changes: Iterable[ChangePoint]) -> dict[int, Verdict]:
    """By id of a change point: the newest verdict by which pairs confirmed it. Absent if there is none."""
    different = Verdict.objects.filter(change_point__in=list(changes), answer=Answer.DIFFERENT).order_by("pk")
    return {verdict.change_point_id: verdict for verdict in different}
