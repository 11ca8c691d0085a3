"""Two changes in one bracket: narrowing names the commit of one of them, and the other becomes a suspicion of its own.

The pairs of the whole bracket show both changes together, those of the named commit against the last one before it show
its own. Where the difference is clear, the change gets the size of its commit, and the rest is measured again.
"""

import math
from dataclasses import dataclass

from speedtrack.alerts import verdicts
from speedtrack.alerts.models import ChangePoint, Verdict
from speedtrack.benchmarks import numbers

Answer = Verdict.Answer


@dataclass(frozen=True)
class Size:
    """The natural logarithm of a ratio, and how far its 95% interval reaches to either side."""

    log: float = 0.0
    reach: float = 0.0

    def times(self, other: "Size") -> "Size":
        return Size(self.log + other.log, math.hypot(self.reach, other.reach))

    def by(self, other: "Size") -> "Size":
        return Size(self.log - other.log, math.hypot(self.reach, other.reach))

    @property
    def ratio(self) -> float:
        return math.exp(self.log)


def size_of(found: ChangePoint | Verdict) -> Size:
    return Size(math.log(found.ratio), math.log(found.high / found.low) / 2)


def split_off_rest(cp: ChangePoint) -> None:
    """Give a narrowed change the size that its own commit has, and suspect what its bracket has beside it."""
    new = cp.verdicts.filter(answer=Answer.NEW, commit=cp.commit).order_by("-id").first()
    if new is None or min(cp.low, new.low) <= 0:
        return
    whole, own = size_of(cp), size_of(new).by(size_between(cp, new.base_id, cp.before_id))
    if abs(whole.log - own.log) <= whole.reach + own.reach:
        return
    bracket = cp.verdicts.filter(answer=Answer.DIFFERENT).latest("id")
    earlier = size_between(cp, bracket.base_id, cp.before_id)
    suspect(cp, bracket.base_id, cp.before_id, earlier)
    suspect(cp, cp.commit_id, bracket.commit_id, whole.by(earlier).by(own))
    cp.note += f"; {numbers.change(cp.ratio)} with another change that lies beside it"
    cp.ratio, cp.low, cp.high = (math.exp(own.log + sign * own.reach) for sign in (0, -1, 1))
    cp.save(update_fields=["ratio", "low", "high", "note"])


def size_between(cp: ChangePoint, base_id: int, commit_id: int) -> Size:
    """The change between two commits of the old level, as narrowing measured it on the way from one to the other."""
    size = Size()
    while commit_id != base_id:
        old = cp.verdicts.filter(answer=Answer.OLD, commit=commit_id).order_by("-id").first()
        if old is None or old.low <= 0:  # passed without pairs: it is the same build as the next commit
            break
        size, commit_id = size.times(size_of(old)), old.base_id
    return size


def suspect(cp: ChangePoint, before_id: int, commit_id: int, size: Size) -> None:
    """Raise a suspicion of the same series in another part of the bracket, if it is as large as what is watched."""
    if before_id == commit_id or abs(size.ratio - 1) < verdicts.smallest_effect_of(cp):
        return
    ChangePoint.objects.get_or_create(
        series=cp.series,
        kind=cp.kind,
        before_id=before_id,
        commit_id=commit_id,
        status=ChangePoint.Status.SUSPECTED,
        defaults={
            "branch": cp.branch,
            "ratio": size.ratio,
            "low": math.exp(size.log - size.reach),
            "high": math.exp(size.log + size.reach),
            "score": cp.score,
            "past": cp.past,
        },
    )
