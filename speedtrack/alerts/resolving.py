"""Detect that an alert is fixed: a later commit has restored the old level, and measurements show it.

1. A later confirmed change of the same series undoes the alert's change: what remains of both together is within
   their intervals, and less than half of the change.
2. A commit's message says that it reverts a commit of the range. That is noted, and then it is enough that the newest
   clean points of the line since that commit are on the old level, even before the detector suspects anything.

An alert is fixed when each benchmark and machine on which something got worse shows it. What a person decided stays.
"""

import math
from dataclasses import dataclass
from statistics import median

from django.db import transaction
from django.db.models import Exists, OuterRef

from speedtrack.alerts import lines
from speedtrack.alerts.brackets import positions_of
from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint
from speedtrack.alerts.raising import lock_project, write_event
from speedtrack.alerts.trouble import isolated
from speedtrack.projects.models import Branch, Commit, Position
from speedtrack.runs.models import Series

Kind = AlertEvent.Kind
BACK = 0.5  # what may remain of a change that was undone, as a share of it
NEAR = 0.25  # how far from the old level a line may be to show a revert, as a share of the change
AFTER_REVERT = 3  # clean points since a revert that show its level
BEFORE = 10  # clean points before a change that show the old level


@dataclass(frozen=True)
class Return:
    """The commit that undid a change, with the evidence for it."""

    commit: Commit
    words: str


def resolve_alerts() -> int:
    """Mark fixed alerts, and note reverts that wait for their measurement. Return the number of fixed alerts."""
    fixed = 0
    for alert in Alert.objects.work().select_related("project", "branch", "before", "commit").order_by("id"):
        series = Series.objects.filter(change_points__alert=alert).distinct()
        with isolated(*series):
            fixed += resolve_alert(alert)
    return fixed


def resolve_alert(alert: Alert) -> bool:
    worse = [cp for cp in members_of(alert) if cp.is_slowdown]
    if alert.reverted_by_id is None:
        note_revert(alert)
    returns: dict[tuple[int, int], Return] = {}
    for cp in worse:
        if found := later_return(cp) or measured_revert(alert, cp):
            returns.setdefault((cp.series.benchmark_id, cp.series.machine_id), found)
    needed = {(cp.series.benchmark_id, cp.series.machine_id) for cp in worse}
    return bool(needed) and needed == returns.keys() and mark_fixed(alert, list(returns.values()))


def members_of(alert: Alert) -> list[ChangePoint]:
    related = ("series__benchmark", "series__machine", "branch", "before", "commit")
    return list(alert.change_points.select_related(*related).order_by("id"))


def later_return(cp: ChangePoint) -> Return | None:
    """The later confirmed change of the series that restored the old level, on a branch with both changes."""
    left, error = math.log(cp.ratio), log_half_width(cp) ** 2
    for later in later_changes(cp):
        left += math.log(later.ratio)
        error += log_half_width(later) ** 2
        remains = left if cp.ratio > 1 else -left
        if remains <= min(math.sqrt(error), BACK * abs(math.log(cp.ratio))):
            return Return(later.commit, f"{later.series.benchmark.name}, {later.metric.title} {later.ratio - 1:+.1%}")
    return None


def log_half_width(cp: ChangePoint) -> float:
    return (math.log(cp.high) - math.log(cp.low)) / 2 if 0 < cp.low <= cp.high else 0.0


def later_changes(cp: ChangePoint) -> list[ChangePoint]:
    """The confirmed changes of the series after this one, in the order of the first branch that has both."""
    same = ChangePoint.objects.filter(series=cp.series_id, status=ChangePoint.Status.CONFIRMED, ratio__gt=0)
    others = list(same.exclude(pk=cp.pk).select_related("series__benchmark", "before", "commit"))
    if not others or cp.ratio <= 0:
        return []
    for branch in branches_of(cp):
        numbers = positions_of(branch, [cp.commit_id, *(o.commit_id for o in others), *(o.before_id for o in others)])
        behind = [
            (numbers[o.commit_id], o)
            for o in others
            if o.commit_id in numbers and numbers.get(o.before_id, -1) >= numbers[cp.commit_id]
        ]
        if behind:
            return [other for _, other in sorted(behind, key=lambda pair: pair[0])]
    return []


def branches_of(cp: ChangePoint) -> list[Branch]:
    """The branches that contain the change, first the one on which it was found."""
    found = Branch.objects.filter(positions__commit=cp.commit_id).order_by("id")
    return sorted(found, key=lambda branch: (branch.deleted_at is not None, branch.pk != cp.branch_id))


def note_revert(alert: Alert) -> None:
    """Note the first later commit whose message says that it reverts one of the alert's commits."""
    shas = [commit.sha for commit in alert.candidates()] or [alert.commit.sha]
    here = Position.objects.filter(commit=OuterRef("pk"), branch__positions__commit=alert.commit_id)
    claims = Commit.objects.filter(Exists(here), project=alert.project_id).exclude(reverts=[])
    for commit in claims.order_by("committed_at", "id"):
        if any(sha.startswith(name) for sha in shas for name in commit.reverts):
            names = Branch.objects.filter(positions__commit=commit, deleted_at=None).order_by("name")
            where = ", ".join(names.values_list("name", flat=True)) or "a deleted branch"
            alert.reverted_by = commit
            alert.save(update_fields=["reverted_by"])
            write_event(alert, Kind.NOTED, f"a revert, {commit.short}, is on {where}; waiting for its measurement")
            return


def measured_revert(alert: Alert, cp: ChangePoint) -> Return | None:
    """The revert, if the line of the series shows the old level since then; otherwise None."""
    if alert.reverted_by is None or cp.ratio <= 0:
        return None
    before, after = levels_around(cp, alert.reverted_by)
    if not before or len(after) < AFTER_REVERT:
        return None
    left = (median(after) - median(before)) * (1 if cp.ratio > 1 else -1)
    if left > NEAR * abs(math.log(cp.ratio)):
        return None
    level = f"{math.exp(median(after) - median(before)) - 1:+.1%} against before the change"
    return Return(alert.reverted_by, f"{cp.series.benchmark.name}, {cp.metric.title} over {len(after)} commits {level}")


def levels_around(cp: ChangePoint, revert: Commit) -> tuple[list[float], list[float]]:
    """The logarithms of the points before a change, and of the newest points since its revert."""
    for branch in branches_of(cp):
        numbers = positions_of(branch, [revert.pk, cp.before_id])
        if len(numbers) == 2:
            old, new = numbers[cp.before_id], numbers[revert.pk]
            points = lines.points([cp.series_id], branch, max(0, old - 5 * BEFORE))
            clean = [(p.position, math.log(p.value)) for p in points if not p.flags and p.value > 0]
            return [v for at, v in clean if at <= old][-BEFORE:], [v for at, v in clean if at >= new][-BEFORE:]
    return [], []


@transaction.atomic
def mark_fixed(alert: Alert, returns: list[Return]) -> bool:
    """Store that the alert is fixed. False if a person has decided about it meanwhile."""
    lock_project(alert.project)
    newest = max(returns, key=lambda found: (found.commit.committed_at, found.commit.pk)).commit
    by = alert.reverted_by or newest
    if Alert.objects.open().filter(pk=alert.pk).update(status=Alert.Status.FIXED, fixed_by=by) != 1:
        return False
    before, alert.status, alert.fixed_by = alert.status, Alert.Status.FIXED, by
    fixed_on, not_on = alert.branches_fixed()
    where = f"; fixed on {', '.join(fixed_on) or 'no branch any more'}"
    where += f", not on {', '.join(not_on)}" if not_on else ""
    evidence = "; ".join(dict.fromkeys(found.words for found in returns))
    note = f"{by.short} brought the old level back ({evidence}){where}"
    write_event(alert, Kind.FIXED, note, before=before, after=alert.status)
    return True
