"""Make one alert of all confirmed changes of one range of commits, on however many branches and machines."""

from collections.abc import Collection

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from speedtrack.alerts.detection import drift
from speedtrack.alerts.lines.trouble import isolated
from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint, shares_commit
from speedtrack.alerts.pairs.brackets import ensure_branch, positions_of
from speedtrack.alerts.triage.muting import mute_of
from speedtrack.ground.postgres.preparedquery import RareRows
from speedtrack.projects.models import Branch, Project
from speedtrack.runs.models import IN_SERVICE, Machine
from speedtrack.runs.scheduling import standing, windows

Kind = AlertEvent.Kind
Status = ChangePoint.Status


def without_alert() -> QuerySet[ChangePoint]:
    """The changes that an alert has to be raised for."""
    by_history = Q(status=Status.HISTORY, series__project__mail_history_verdicts=True)
    return ChangePoint.objects.filter(Q(status=Status.CONFIRMED) | by_history, alert=None)


WITHOUT_ALERT = RareRows(without_alert)


def raise_alerts() -> int:
    """Raise alerts for confirmed changes without one, once no suspicion of their range is being measured.

    Returns the number of alerts. Slowdowns come first, and news before the past, so that the alert of a cause describes
    its most important change. A change whose commits a force push took off its branch is of no use to anybody.
    """
    raised: set[int] = set()
    changes = WITHOUT_ALERT.rows("series__benchmark", "branch__project", "before", "commit")
    for cp in sorted(changes, key=lambda cp: (not cp.is_slowdown, cp.past, cp.pk)):
        with isolated(cp.series):
            if not ensure_branch(cp):
                note = f"{cp.note}; its commits are no longer on {cp.branch}"
                ChangePoint.objects.filter(pk=cp.pk).update(status=Status.UNSETTLED, note=note, settled_at=Now())
            elif not still_settling(cp) and (alert := raise_alert(cp, raised)):
                raised.add(alert.pk)
    return len(raised)


def still_settling(cp: ChangePoint) -> bool:
    """Return whether a suspicion of the same range is still being measured; one mail will then report both.

    One on a machine that measures nothing now may take for ever, and joins the alert later.
    """
    project = ChangePoint.objects.settling().filter(branch__project=cp.branch.project)
    overlapping = project.filter(kind=cp.kind).overlapping(cp)
    machines = Machine.objects.filter(IN_SERVICE, paused=False, pk__in=overlapping.values("series__machine"))
    now = timezone.now()
    return any(
        windows.is_open(machine.windows, machine.zone, now) and not standing.is_silent(machine, now)
        for machine in machines.only("windows", "zone", "last_seen_at")
    )


@transaction.atomic
def raise_alert(cp: ChangePoint, just_raised: Collection[int] = ()) -> Alert | None:
    """Attach the change point to the alert of its cause. If there is none, one is made and returned.

    The project is locked, so that change points settled at the same moment find each other's alert. A change point that
    joins an alert that was ``just_raised`` gets no event of its own.
    """
    lock_project(cp.branch.project)
    cp.refresh_from_db(fields=["alert"])
    if cp.alert_id or range_width(cp.branch, cp.before_id, cp.commit_id) is None:
        return None  # another one has raised it, or its commits have left the branch
    alert = alert_of_cause(cp)
    if alert is None:
        return make_alert(cp)
    ChangePoint.objects.filter(pk=cp.pk).update(alert=alert)
    join_alert(alert, cp, has_event=alert.pk in just_raised)
    return None


def lock_project(project: Project) -> None:
    """Lock the project until the transaction ends: only the holder may regroup its alerts."""
    Project.objects.select_for_update(no_key=True).get(pk=project.pk)


def alert_of_cause(cp: ChangePoint) -> Alert | None:
    """The alert of the change point's cause: one whose range shares a commit with its own.

    An open alert first, which may contain improvements beside slowdowns; or else a settled one of the same direction,
    which more data does not reopen. Never one in which the same series moved the other way.
    """
    members = ChangePoint.objects.filter(shares_commit(cp)).exclude(alert=None).exclude(pk=cp.pk)
    standing = Alert.objects.standing().filter(project=cp.branch.project)
    near: QuerySet[Alert] = standing.filter(shares_commit(cp)) | standing.filter(pk__in=members.values("alert"))
    candidates = sorted(near.distinct(), key=lambda alert: (alert.status not in Alert.OPEN, alert.pk))
    return next((alert for alert in candidates if may_hold(alert, cp)), None)


def may_hold(alert: Alert, cp: ChangePoint) -> bool:
    if alert.status not in Alert.OPEN and alert.improvement == cp.is_slowdown:
        return False
    members = alert.change_points.all()
    # The range of a drift contains many commits, and steps among them have causes of their own.
    own_kind = not members.exists() or members.filter(kind=cp.kind).exists()
    if not own_kind and (alert.before_id, alert.commit_id) != (cp.before_id, cp.commit_id):
        return False
    same = members.filter(series=cp.series_id)
    return all(member.is_slowdown == cp.is_slowdown for member in same.select_related("series"))


def make_alert(cp: ChangePoint) -> Alert:
    mute = mute_of(cp.series)
    alert = Alert.objects.create(
        project=cp.branch.project,
        branch=cp.branch,
        before=cp.before,
        commit=cp.commit,
        status=Alert.Status.CONFIRMED if cp.status == Status.CONFIRMED else Alert.Status.SUSPECTED,
        improvement=not cp.is_slowdown,
        muted=mute is not None,
    )
    ChangePoint.objects.filter(pk=cp.pk).update(alert=alert)
    mute_note = f"; silently, because {mute} is muted: {mute.reason}" if mute else ""
    write_event(alert, Kind.RAISED, why_raised(cp) + mute_note, past=cp.past, after=alert.status)
    return alert


def write_event(
    alert: Alert, kind: AlertEvent.Kind, note: str, *, past: bool = False, before: str = "", after: str = ""
) -> AlertEvent:
    """Write what SpeedTrack did by itself. Events of muted alerts notify nobody."""
    return AlertEvent.objects.create(
        alert=alert,
        kind=kind,
        note=note,
        past=past,
        before=before,
        after=after,
        improvement=alert.improvement,
        untold=not alert.muted,
    )


def join_alert(alert: Alert, cp: ChangePoint, has_event: bool) -> None:
    """Write that a change point has joined an alert. ``has_event``: an event written just before covers it."""
    subject = f"{cp.series.benchmark.name}, {cp.metric.title}"
    if alert.status not in Alert.OPEN:
        write_event(
            alert,
            Kind.NOTED,
            f"{subject} also moved {since_in_words(cp)}; the alert stays {alert.status}",
            past=cp.past,
        )
        return
    before = alert.status
    if cp.status == Status.CONFIRMED and before == Alert.Status.SUSPECTED:
        alert.status = Alert.Status.CONFIRMED  # it was raised by the history alone; now pairs confirm it
        alert.save(update_fields=["status"])
    change = {"before": before, "after": alert.status} if alert.status != before else {}
    if becomes_work(alert, cp):
        write_event(alert, Kind.RAISED, f"{subject} got worse {since_in_words(cp)}", past=cp.past, after=alert.status)
    elif not has_event and is_first_improvement(alert, cp):
        write_event(alert, Kind.RAISED, f"{subject} got better {since_in_words(cp)}", past=cp.past, after=alert.status)
    elif change or not has_event:
        write_event(alert, Kind.GREW, addition_in_words(cp, subject), past=cp.past, **change)
    follow_narrowest(alert, cp, has_event)


def is_first_improvement(alert: Alert, cp: ChangePoint) -> bool:
    """Return whether this is the first improvement beside slowdowns: what was told of the alert is half of it."""
    members = alert.change_points.exclude(pk=cp.pk).select_related("series")
    return not cp.is_slowdown and all(member.is_slowdown for member in members)


def becomes_work(alert: Alert, cp: ChangePoint) -> bool:
    """Return whether this is the alert's first slowdown, or its first unmuted one: subscribers must hear of it."""
    if not cp.is_slowdown or not (alert.improvement or alert.muted):
        return False
    muted = mute_of(cp.series) is not None
    first = alert.improvement or not muted
    alert.improvement, alert.muted = False, muted
    alert.save(update_fields=["improvement", "muted"])
    return first


def follow_narrowest(alert: Alert, cp: ChangePoint, has_event: bool) -> None:
    """Move an open alert to the narrower range of a change point, unless a person placed the alert."""
    mine = range_width(alert.branch, alert.before_id, alert.commit_id)
    cp_width = range_width(cp.branch, cp.before_id, cp.commit_id)
    if (
        cp.kind == ChangePoint.Kind.DRIFT
        or alert.placed
        or mine is None
        or cp_width is None
        or cp_width >= mine
        or is_range_taken(alert, cp)
    ):
        return
    alert.branch, alert.before, alert.commit = cp.branch, cp.before, cp.commit
    alert.save(update_fields=["branch", "before", "commit"])
    if not has_event:
        write_event(alert, Kind.NARROWED, f"narrowed to {range_in_words(alert)}", past=cp.past)


def is_range_taken(alert: Alert, cp: ChangePoint) -> bool:
    """Return whether another open alert has exactly the range of the change point."""
    same = Q(project=alert.project_id, before=cp.before_id, commit=cp.commit_id)
    return Alert.objects.open().filter(same).exclude(pk=alert.pk).exists()


def range_in_words(alert: Alert) -> str:
    """The one commit, or the range, in words."""
    is_single = range_width(alert.branch, alert.before_id, alert.commit_id) == 1
    return alert.commit.short if is_single else f"{alert.before.short}..{alert.commit.short}"


def why_raised(cp: ChangePoint) -> str:
    """The sentence that says why an alert is raised."""
    if cp.status == Status.HISTORY:
        return cp.note
    return drift.drift_in_words(cp) if cp.kind == ChangePoint.Kind.DRIFT else "both sides were measured again"


def since_in_words(cp: ChangePoint) -> str:
    """The commit with which a step came, or the reference since which the level drifts: no commit causes a drift."""
    return f"since {cp.reference}" if cp.kind == ChangePoint.Kind.DRIFT else f"with {cp.commit.short}"


def addition_in_words(cp: ChangePoint, subject: str) -> str:
    """The sentence about a further change of an alert, which ends in ``subject`` or begins with it."""
    if cp.kind == ChangePoint.Kind.DRIFT:
        return f"{subject}: {drift.drift_in_words(cp)}"
    how = "seen in the history" if cp.status == Status.HISTORY else "confirmed"
    return f"another change of {cp.commit.short} was {how}: {subject}"


def range_width(branch: Branch, before_id: int, commit_id: int) -> int | None:
    """How many commits of the branch are in the range; None if an end is not on the branch."""
    numbers = positions_of(branch, [before_id, commit_id])
    return numbers[commit_id] - numbers[before_id] if len(numbers) == 2 else None
