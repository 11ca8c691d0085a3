"""The status of a commit at forges, updated from its first run until it is measured and settled.

A status only moves forward (MOVES): it is pending, then final, and after that only an alert, or a decision about one,
changes it. So it does not flicker while suspicions come and go.
"""

from datetime import timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Now
from django.urls import reverse

from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint
from speedtrack.ground.postgres.steps import take_each
from speedtrack.notices.models import Channel, CommitStatus, Outbox
from speedtrack.projects.models import Position
from speedtrack.runs.models import Reason, Run, Series
from speedtrack.runs.models import Status as RunStatus

HEADS = 10  # newest commits of a branch that get a status: forges limit the number of statuses
AGAIN_S = 15  # between two checks of a commit that is not settled
AT_ONCE = 200  # commits per check
LONGEST = 200  # characters that are stored; each forge has its own limit
UNSETTLED = "Measured; changes that it may have caused are being measured again"

State = CommitStatus.State
MOVES: dict[str, set[str]] = {
    State.PENDING: {State.SUCCESS, State.FAILURE, State.ERROR},
    State.ERROR: {State.SUCCESS, State.FAILURE},
    State.SUCCESS: {State.FAILURE},
    State.FAILURE: {State.SUCCESS},
}


def unwatched_of(channel: Any, project: Any, created: Any) -> QuerySet[Position]:
    """Return the positions of a project's newest commits that need a status but have none.

    A commit needs one if a run of it was planned after the channel was created.
    """
    head = Position.objects.filter(branch=OuterRef("branch"), commit=OuterRef("branch__head")).values("number")
    runs = Run.objects.own().filter(commit=OuterRef("commit"), reason=Reason.PUSH, created__gte=created)
    statuses = CommitStatus.objects.filter(channel=channel, commit=OuterRef("commit"))
    return Position.objects.filter(
        Exists(runs),
        ~Exists(statuses),
        branch__project=project,
        branch__deleted_at=None,
        number__gt=Subquery(head) - HEADS,
    )


def unwatched() -> QuerySet[Channel]:
    """Channels of forges with heads that need a status."""
    heads = unwatched_of(OuterRef(OuterRef("pk")), OuterRef("project"), OuterRef(OuterRef("created")))
    return Channel.objects.filter(Exists(heads), kind__in=Channel.FORGES, paused_at=None)


def update_statuses() -> int:
    """Create statuses for new heads, and check all commits that are due. Return the number of commits checked.

    One that fails holds up no other.
    """
    for channel in unwatched():
        heads = unwatched_of(channel, channel.project_id, channel.created).values_list("commit_id", flat=True)
        CommitStatus.objects.bulk_create(
            [CommitStatus(channel=channel, commit_id=pk) for pk in set(heads)], ignore_conflicts=True
        )
    due = CommitStatus.objects.due().select_related("channel__project", "commit").order_by("look_at")[:AT_ONCE]
    take_each(*[partial(update_status, status) for status in due])
    return len(due)


def look_again(event: AlertEvent) -> None:
    """Mark the commits that an event of an alert concerns, so that they are checked again.

    These are the alert's own commit, and all commits with a failure status.
    """
    channels = Channel.objects.filter(project=event.alert.project, kind__in=Channel.FORGES, paused_at=None)
    CommitStatus.objects.bulk_create(
        [CommitStatus(channel=channel, commit_id=event.alert.commit_id) for channel in channels], ignore_conflicts=True
    )
    condition = Q(commit=event.alert.commit_id) | Q(state=State.FAILURE)
    CommitStatus.objects.filter(condition, channel__in=channels).update(look_at=Now())


@transaction.atomic
def update_status(status: CommitStatus) -> None:
    """Store the state for the forge; put it into the outbox if it has changed."""
    state, description = state_of(status)
    moves = state in MOVES[status.state]
    if status.version and not moves and (state != status.state or state == State.PENDING):
        state, description = status.state, status.description
    again = Now() + timedelta(seconds=AGAIN_S) if state == State.PENDING else None
    # If an event has asked for another look since this one began, its request stays.
    CommitStatus.objects.filter(pk=status.pk, look_at=status.look_at).update(look_at=again)
    if status.version and (state, description) == (status.state, status.description):
        return
    mine = CommitStatus.objects.filter(pk=status.pk, version=status.version)
    if mine.update(state=state, description=description, version=F("version") + 1):
        Outbox.objects.create(channel=status.channel, commit_status=status, event=f"status:{status.version + 1}")


def state_of(status: CommitStatus) -> tuple[str, str]:
    """The state of the commit for its forge, and its sentence in at most LONGEST characters.

    Alerts decide whether it fails, so what is muted does not. A pending status keeps its sentence, so that says nothing
    of progress.
    """
    from speedtrack.judging import summaries  # here: a dispatcher without statuses need not hold numpy

    summary = summaries.summaries_of([status.commit_id], with_progress=False)[status.commit_id]
    state = decided_state(status)
    is_elsewhere = state == State.PENDING and summary.state != summaries.State.OPEN
    return state, UNSETTLED if is_elsewhere else summary.within(LONGEST)


def decided_state(status: CommitStatus) -> State:
    if alert := alert_naming(status):
        return State.SUCCESS if alert.status == Alert.Status.EXPECTED else State.FAILURE
    runs = Run.objects.own().filter(project=status.channel.project_id, commit=status.commit_id)
    if runs.unfinished().exists() or is_unsettled(status, runs):
        return State.PENDING
    return State.SUCCESS if runs.filter(status=RunStatus.SUCCEEDED).exists() else State.ERROR


def is_unsettled(status: CommitStatus, runs: QuerySet[Run]) -> bool:
    """Return whether the commit has measurements that detection has not read, or an open suspicion covers it."""
    unseen = Series.objects.filter(undetected_since__isnull=False, measurements__attempt__run__in=runs)
    positions = Position.objects.filter(branch=OuterRef("branch"))
    mine = positions.filter(
        commit=status.commit_id,
        number__gt=Subquery(places_of("before")),
        number__lte=Subquery(places_of("commit")),
    )
    open_ones = ChangePoint.objects.filter(
        Exists(mine), status__in=(ChangePoint.Status.SUSPECTED, ChangePoint.Status.SETTLING)
    )
    return unseen.exists() or open_ones.filter(branch__project=status.channel.project_id).exists()


def places_of(end: str) -> QuerySet[Position, Any]:
    """Return the position of one end of a change point's range, for use two subqueries below the change point."""
    return Position.objects.filter(branch=OuterRef(OuterRef("branch")), commit=OuterRef(OuterRef(end))).values("number")


def alert_naming(status: CommitStatus) -> Alert | None:
    """The newest alert that names the commit and is confirmed or expected. A drift ends at a commit and names none."""
    true = (Alert.Status.CONFIRMED, Alert.Status.EXPECTED)
    alerts = Alert.objects.filter(project=status.channel.project_id, commit=status.commit_id, status__in=true)
    return next((alert for alert in alerts.order_by("-pk") if not alert.drift and slowdowns(alert)), None)


def slowdowns(alert: Alert) -> list[ChangePoint]:
    """The slowdowns of an alert, the worst first."""
    changes = [cp for cp in alert.change_points.select_related("series__benchmark") if cp.is_slowdown]
    return sorted(changes, key=lambda cp: cp.rank)


def page_of(status: CommitStatus) -> str:
    """The page that the status links to."""
    if status.state == State.FAILURE and (alert := alert_naming(status)):
        return settings.URL + reverse("alert", args=[alert.pk])
    return settings.URL + reverse("commit", args=[status.channel.project.slug, status.commit.sha])
