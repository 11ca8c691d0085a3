"""The most likely cause of a change: a commit nearby that another series has named. Pairs of it are measured first."""

from speedtrack.alerts.models import ChangePoint
from speedtrack.alerts.pairs import brackets
from speedtrack.alerts.pairs.brackets import Bracket

Status = ChangePoint.Status


def untried_cause(cp: ChangePoint, within: Bracket) -> Bracket | None:
    """The named commit nearest to the change, with the commit before it, as a bracket; None if there is none.

    A commit is named by a confirmed change of another series in the same direction, narrowed to one commit. A commit
    whose pairs were measured for this change point is not tried again.
    """
    if cp.kind != ChangePoint.Kind.STEP:
        return None
    position = brackets.positions_of(cp.branch, [cp.commit_id]).get(cp.commit_id, within.last)
    causes = [bracket for bracket in named_causes(cp, within) if not is_tried(cp, bracket)]
    return min(causes, key=lambda bracket: abs(bracket.last - position), default=None)


def named_causes(cp: ChangePoint, within: Bracket) -> set[Bracket]:
    confirmed = ChangePoint.objects.filter(
        series__project=cp.series.project_id,
        kind=ChangePoint.Kind.STEP,
        status=Status.CONFIRMED,
        commit__positions__branch=cp.branch,
        commit__positions__number__range=(within.first + 1, within.last),
    ).exclude(series=cp.series_id)
    alike = [change for change in confirmed.select_related("series") if change.is_slowdown == cp.is_slowdown]
    numbers = brackets.positions_of(cp.branch, {pk for change in alike for pk in (change.before_id, change.commit_id)})
    return {
        Bracket(change.before_id, change.commit_id, first, last, first, last)
        for change in alike
        if (last := numbers[change.commit_id]) - (first := numbers.get(change.before_id, -1)) == 1
        and first >= within.first
    }


def is_tried(cp: ChangePoint, cause: Bracket) -> bool:
    return cp.runs.filter(base=cause.base_id, commit=cause.commit_id).exists()
