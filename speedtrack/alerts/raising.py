"""Make one alert of all confirmed slowdowns of one range of commits."""

from django.db import transaction

from speedtrack.alerts import notify
from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint
from speedtrack.projects.models import Branch, Position

Status = ChangePoint.Status


def raise_alerts() -> int:
    """Alert for confirmed slowdowns that have none, once all suspicions of their commit are settled; how many."""
    raised = 0
    confirmed = ChangePoint.objects.filter(status=Status.CONFIRMED, alert=None).order_by("id")
    for cp in confirmed.select_related("series", "branch__project", "before", "commit"):
        if cp.is_slowdown and not still_settling(cp):
            raised += raise_alert(cp)
    return raised


def still_settling(cp: ChangePoint) -> bool:
    """Is a suspicion of the same commit still being measured? One mail shall then tell of both."""
    return ChangePoint.objects.filter(branch=cp.branch, commit=cp.commit, status=Status.SETTLING).exists()


@transaction.atomic
def raise_alert(cp: ChangePoint) -> bool:
    """Attach the change point to the alert of its range, made if there is none. True if one was made.

    The branch is locked, so that change points settled at the same moment find each other's alert.
    """
    Branch.objects.select_for_update(no_key=True).get(pk=cp.branch_id)
    cp.refresh_from_db(fields=["alert"])
    if cp.alert_id or -1 in range_of(cp.branch, cp.before_id, cp.commit_id):
        return False  # another one has raised it, or its commits have left the branch
    known = overlapping(cp)
    alert = known or Alert.objects.create(
        project=cp.branch.project,
        branch=cp.branch,
        before=cp.before,
        commit=cp.commit,
        status=Alert.Status.CONFIRMED,
    )
    ChangePoint.objects.filter(branch=cp.branch, before=cp.before, commit=cp.commit, status=Status.CONFIRMED,
                               alert=None).update(alert=alert)  # fmt: skip
    if known:
        AlertEvent.objects.create(alert=alert, note=f"another change of {cp.commit.short} was confirmed")
        return False
    AlertEvent.objects.create(alert=alert, after=alert.status, note="both sides were measured again")
    notify.announce(alert, "confirmed")
    return True


def overlapping(cp: ChangePoint) -> Alert | None:
    """An alert of the branch whose range shares a commit with the change point's: one cause, one alert."""
    begin, end = range_of(cp.branch, cp.before_id, cp.commit_id)
    for alert in Alert.objects.filter(branch=cp.branch).exclude(status=Alert.Status.INVALID):
        first, last = range_of(cp.branch, alert.before_id, alert.commit_id)
        if begin < last and first < end:
            return alert
    return None


def range_of(branch: Branch, before_id: int, commit_id: int) -> tuple[int, int]:
    numbers = dict(
        Position.objects.filter(branch=branch, commit__in=[before_id, commit_id]).values_list("commit_id", "number")
    )
    return numbers.get(before_id, -1), numbers.get(commit_id, -1)
