"""When a bracket holds two changes, narrowing names the commit of one; make the other a suspicion of its own.

The pairs of the whole bracket show both changes together; those of the named commit against the last one before it show
its own. Where the difference is clear, the change gets the size of its commit, and the rest is measured again.
"""

from speedtrack.alerts.models import ChangePoint, Verdict
from speedtrack.alerts.pairs.sizes import Size, bracket_verdict, size_between, size_left, size_of
from speedtrack.alerts.settling import verdicts

Answer = Verdict.Answer


def split_off_rest(cp: ChangePoint) -> None:
    """Set a narrowed change to the size of its own commit, and suspect the rest of the bracket's change."""
    own, bracket = size_left(cp), bracket_verdict(cp)
    if own is None or not own.is_apart(bracket_size := size_of(cp)):
        return
    earlier = size_between(cp, bracket.base_id, cp.before_id)
    remainder = bracket_size.by(own)
    # A commit that was tried only because another series had named it does not show on which side the rest lies.
    is_placed = cp.before_id == bracket.base_id or cp.verdicts.filter(answer=Answer.OLD, commit=cp.before_id).exists()
    suspect(cp, bracket.base_id, cp.before_id, earlier if is_placed else remainder)
    suspect(cp, cp.commit_id, bracket.commit_id, remainder.by(earlier) if is_placed else remainder)
    cp.note = own_size_in_words(cp.note)
    cp.ratio, (cp.low, cp.high), cp.from_zero = own.ratio, own.interval, None
    cp.save(update_fields=["ratio", "low", "high", "from_zero", "note"])


def own_size_in_words(note: str) -> str:
    """The note of a change that got the size of its own commit. ``note``: about the pairs of the whole bracket."""
    return f"its own size, by the pairs on the way to its commit; before splitting, with a change beside it: {note}"


def suspect(cp: ChangePoint, before_id: int, commit_id: int, size: Size) -> None:
    """Raise a suspicion of the same series in another part of the bracket, if it exceeds the smallest effect."""
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
            "low": size.interval[0],
            "high": size.interval[1],
            "score": cp.score,
            "past": cp.past,
        },
    )
