"""Make one alert of all confirmed slowdowns of one range of commits, on however many branches and machines."""

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from speedtrack.alerts import drift
from speedtrack.alerts.brackets import numbers_of
from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint, shares_commit
from speedtrack.alerts.trouble import isolated
from speedtrack.projects.models import Branch, Project

Status = ChangePoint.Status


def raise_alerts() -> int:
    """Alert for confirmed slowdowns that have none, once all suspicions of their range are settled; how many."""
    raised = 0
    by_history = Q(status=Status.HISTORY, series__project__mail_history_verdicts=True)
    confirmed = ChangePoint.objects.filter(Q(status=Status.CONFIRMED) | by_history, alert=None).order_by("id")
    for cp in confirmed.select_related("series", "branch__project", "before", "commit"):
        with isolated(cp.series):
            if cp.is_slowdown and not still_settling(cp):
                raised += raise_alert(cp)
    return raised


def still_settling(cp: ChangePoint) -> bool:
    """Is a suspicion of the same range still being measured? One mail shall then tell of both."""
    project = ChangePoint.objects.settling().filter(branch__project=cp.branch.project)
    return project.filter(kind=cp.kind).overlapping(cp).exists()


@transaction.atomic
def raise_alert(cp: ChangePoint) -> bool:
    """Attach the change point to the alert of its range, made if there is none. True if one was made.

    The project is locked, so that change points settled at the same moment find each other's alert.
    """
    Project.objects.select_for_update(no_key=True).get(pk=cp.branch.project_id)
    cp.refresh_from_db(fields=["alert"])
    if cp.alert_id or width(cp.branch, cp.before_id, cp.commit_id) is None:
        return False  # another one has raised it, or its commits have left the branch
    known = alert_of(cp)
    alert = known or Alert.objects.create(
        project=cp.branch.project,
        branch=cp.branch,
        before=cp.before,
        commit=cp.commit,
        status=Alert.Status.CONFIRMED if cp.status == Status.CONFIRMED else Alert.Status.SUSPECTED,
    )
    ChangePoint.objects.filter(pk=cp.pk).update(alert=alert)
    if known:
        where = follow_narrowest(alert, cp)
        AlertEvent.objects.create(alert=alert, kind=AlertEvent.Kind.GREW, note=words_of_more(cp) + where)
        return False
    AlertEvent.objects.create(alert=alert, kind=AlertEvent.Kind.RAISED, after=alert.status, note=words_of(cp))
    return True


def alert_of(cp: ChangePoint) -> Alert | None:
    """The alert of the same cause: of a range that shares a commit, made of steps for a step and of drifts for a drift.

    The range of a drift holds many commits, and the steps among them are causes of their own.
    """
    alerts = Alert.objects.filter(project=cp.branch.project).exclude(status=Alert.Status.INVALID).order_by("id")
    exact = Q(before=cp.before_id, commit=cp.commit_id, status__in=Alert.OPEN)
    alike = Exists(ChangePoint.objects.filter(alert=OuterRef("pk"), kind=cp.kind))
    empty = ~Exists(ChangePoint.objects.filter(alert=OuterRef("pk")))
    return alerts.filter(exact | Q(shares_commit(cp)) & (Q(alike) | Q(empty))).first()


def words_of(cp: ChangePoint) -> str:
    """Why an alert is raised."""
    if cp.status == Status.HISTORY:
        return cp.note
    return drift.words(cp) if cp.kind == ChangePoint.Kind.DRIFT else "both sides were measured again"


def words_of_more(cp: ChangePoint) -> str:
    """What is said of another change that an alert tells of already."""
    if cp.kind == ChangePoint.Kind.DRIFT:
        return drift.words(cp)
    how = "seen in the history" if cp.status == Status.HISTORY else "confirmed"
    return f"another change of {cp.commit.short} was {how}"


def follow_narrowest(alert: Alert, cp: ChangePoint) -> str:
    """Move an open alert to the range of a change point that is narrower than its own. Returns words that say so."""
    mine = width(alert.branch, alert.before_id, alert.commit_id)
    other = width(cp.branch, cp.before_id, cp.commit_id)
    if (
        cp.kind == ChangePoint.Kind.DRIFT
        or alert.status not in Alert.OPEN
        or mine is None
        or other is None
        or other >= mine
    ):
        return ""
    Alert.objects.filter(pk=alert.pk).update(branch=cp.branch, before=cp.before_id, commit=cp.commit_id)
    return ", which narrows the range"


def width(branch: Branch, before_id: int, commit_id: int) -> int | None:
    """How many commits of the branch may be the cause: 1 where it is known. None if an end is not on the branch."""
    numbers = numbers_of(branch, [before_id, commit_id])
    return numbers[commit_id] - numbers[before_id] if len(numbers) == 2 else None
