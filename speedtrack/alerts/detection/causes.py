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
    place = brackets.positions_of(cp.branch, [cp.commit_id]).get(cp.commit_id, within.last)
    causes = [one for one in named_causes(cp, within) if not is_tried(cp, one)]
    return min(causes, key=lambda one: abs(one.last - place), default=None)


def named_causes(cp: ChangePoint, within: Bracket) -> set[Bracket]:
    named = ChangePoint.objects.filter(
        series__project=cp.series.project_id,
        kind=ChangePoint.Kind.STEP,
        status=Status.CONFIRMED,
        commit__positions__branch=cp.branch,
        commit__positions__number__range=(within.first + 1, within.last),
    ).exclude(series=cp.series_id)
    alike = [one for one in named.select_related("series") if one.is_slowdown == cp.is_slowdown]
    numbers = brackets.positions_of(cp.branch, {pk for one in alike for pk in (one.before_id, one.commit_id)})
    return {
        Bracket(one.before_id, one.commit_id, first, last, first, last)
        for one in alike
        if (last := numbers[one.commit_id]) - (first := numbers.get(one.before_id, -1)) == 1 and first >= within.first
    }


def is_tried(cp: ChangePoint, cause: Bracket) -> bool:
    return cp.runs.filter(base=cause.base_id, commit=cause.commit_id).exists()
