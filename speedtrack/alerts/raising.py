"""Make one alert of all confirmed slowdowns of one range of commits, on however many branches and machines."""

from django.db import transaction

from speedtrack.alerts.brackets import numbers_of
from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint, shares_commit
from speedtrack.alerts.trouble import isolated
from speedtrack.projects.models import Branch, Project

Status = ChangePoint.Status


def raise_alerts() -> int:
    """Alert for confirmed slowdowns that have none, once all suspicions of their range are settled; how many."""
    raised = 0
    confirmed = ChangePoint.objects.filter(status=Status.CONFIRMED, alert=None).order_by("id")
    for cp in confirmed.select_related("series", "branch__project", "before", "commit"):
        with isolated(cp.series):
            if cp.is_slowdown and not still_settling(cp):
                raised += raise_alert(cp)
    return raised


def still_settling(cp: ChangePoint) -> bool:
    """Is a suspicion of the same range still being measured? One mail shall then tell of both."""
    project = ChangePoint.objects.settling().filter(branch__project=cp.branch.project)
    return project.overlapping(cp).exists()


@transaction.atomic
def raise_alert(cp: ChangePoint) -> bool:
    """Attach the change point to the alert of its range, made if there is none. True if one was made.

    The project is locked, so that change points settled at the same moment find each other's alert.
    """
    Project.objects.select_for_update(no_key=True).get(pk=cp.branch.project_id)
    cp.refresh_from_db(fields=["alert"])
    if cp.alert_id or width(cp.branch, cp.before_id, cp.commit_id) is None:
        return False  # another one has raised it, or its commits have left the branch
    known = (
        Alert.objects.filter(shares_commit(cp), project=cp.branch.project)
        .exclude(status=Alert.Status.INVALID)
        .order_by("id")
        .first()
    )
    alert = known or Alert.objects.create(
        project=cp.branch.project,
        branch=cp.branch,
        before=cp.before,
        commit=cp.commit,
        status=Alert.Status.CONFIRMED,
    )
    ChangePoint.objects.filter(pk=cp.pk).update(alert=alert)
    if known:
        where = follow_narrowest(alert, cp)
        AlertEvent.objects.create(
            alert=alert, kind=AlertEvent.Kind.GREW, note=f"another change of {cp.commit.short} was confirmed{where}"
        )
        return False
    AlertEvent.objects.create(
        alert=alert, kind=AlertEvent.Kind.RAISED, after=alert.status, note="both sides were measured again"
    )
    return True


def follow_narrowest(alert: Alert, cp: ChangePoint) -> str:
    """Move an open alert to the range of a change point that is narrower than its own. Returns words that say so."""
    mine = width(alert.branch, alert.before_id, alert.commit_id)
    other = width(cp.branch, cp.before_id, cp.commit_id)
    if alert.status not in Alert.OPEN or mine is None or other is None or other >= mine:
        return ""
    Alert.objects.filter(pk=alert.pk).update(branch=cp.branch, before=cp.before_id, commit=cp.commit_id)
    return ", which narrows the range"


def width(branch: Branch, before_id: int, commit_id: int) -> int | None:
    """How many commits of the branch may be the cause: 1 where it is known. None if an end is not on the branch."""
    numbers = numbers_of(branch, [before_id, commit_id])
    return numbers[commit_id] - numbers[before_id] if len(numbers) == 2 else None
