"""Let people correct an alert: its commit, and which change points have one cause.

Each verb can be reversed: an alert is moved back, change points that were split off are merged again, and a merged
alert comes back when its change points are split off. The project is locked, as when alerts are raised.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Max

from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint
from speedtrack.alerts.triage.raising import lock_project, range_in_words, range_width
from speedtrack.alerts.triage.triage import Stale
from speedtrack.projects.models import Position, sha_begins

Kind = AlertEvent.Kind


@transaction.atomic
def move(alert: Alert, sha: str, why: str, user: User) -> None:
    """Name another commit as the cause. The change points keep the range that was measured.

    Raises ValueError if the project has no such commit on a branch, and Stale.
    """
    current = locked_alert(alert)
    before, after = place_of(current, sha)
    was = range_in_words(current)
    if (current.before_id, current.commit_id) == (before.commit_id, after.commit_id):
        raise ValueError(f"the alert names {after.commit.short} already")
    current.branch, current.before, current.commit, current.placed = after.branch, before.commit, after.commit, True
    save_open(current, "branch", "before", "commit", "placed")
    write_event_by(current, Kind.MOVED, user, f"moved from {was} to {after.commit.short}", why)


@transaction.atomic
def split(alert: Alert, change_points: Collection[int], why: str, user: User) -> Alert:
    """Split some change points off into another alert. If theirs was merged into this one, that alert comes back.

    Raises ValueError if none or all of them are named, and Stale.
    """
    current = locked_alert(alert)
    mine = list(current.change_points.select_related("series", "branch", "before", "commit").order_by("id"))
    selection = [cp for cp in mine if cp.pk in change_points]
    if not selection or len(selection) == len(mine) or len(selection) != len(set(change_points)):
        raise ValueError("name some of the alert's change points, but not all")
    split_alert = alert_for(current, selection)
    ChangePoint.objects.filter(pk__in=[cp.pk for cp in selection]).update(alert=split_alert)
    for changed_alert in (current, split_alert):
        update_improvement(changed_alert)
    write_event_by(current, Kind.SPLIT, user, f"{count_in_words(selection)} became alert {split_alert.pk}", why)
    write_event_by(split_alert, Kind.SPLIT, user, f"{count_in_words(selection)} of alert {current.pk}", why)
    return split_alert


def alert_for(old: Alert, selection: list[ChangePoint]) -> Alert:
    """The alert for change points that are split off.

    It is the one of their range that was merged into the old alert, or a new one.
    """
    narrowest = min(selection, key=lambda cp: (range_width(cp.branch, cp.before_id, cp.commit_id) or 2**31, cp.pk))
    ends = {"before": narrowest.before, "commit": narrowest.commit}
    merged = old.merged.filter(**ends).order_by("id").first()
    with open_once():
        if merged:
            merged.merged_into, merged.status = None, old.status if old.status in Alert.OPEN else merged.status
            merged.save(update_fields=["merged_into", "status"])
            return merged
        last_part = Alert.objects.filter(project=old.project, **ends).aggregate(last=Max("part"))["last"]
        part_number = 0 if last_part is None else last_part + 1
        return Alert.objects.create(
            project=old.project, branch=narrowest.branch, status=old.status, muted=old.muted, part=part_number, **ends
        )


@transaction.atomic
def merge(alert: Alert, into: Alert, why: str, user: User) -> None:
    """Merge two alerts of one cause: ``alert`` redirects to the other one, which keeps its commit and status.

    Raises ValueError for alerts that cannot be merged, and Stale.
    """
    if alert.pk == into.pk or alert.project_id != into.project_id:
        raise ValueError("name another alert of the same project")
    gone, stays = locked_alert(alert), locked_alert(into)
    changes = list(gone.change_points.all())
    gone.change_points.update(alert=stays)
    gone.merged.update(merged_into=stays)
    gone.merged_into = stays
    gone.save(update_fields=["merged_into"])
    stays.muted = stays.muted and gone.muted
    save_open(stays, "muted")
    update_improvement(stays)
    write_event_by(gone, Kind.MERGED, user, f"merged into alert {stays.pk}", why)
    write_event_by(stays, Kind.MERGED, user, f"alert {gone.pk} was merged into it, with {count_in_words(changes)}", why)


def locked_alert(alert: Alert) -> Alert:
    """The alert as it is now, with its project locked. Raises Stale if it was merged away."""
    lock_project(alert.project)
    current = Alert.objects.select_related("project", "branch", "before", "commit").get(pk=alert.pk)
    if current.merged_into_id:
        raise Stale(f"alert {current.pk} was merged into alert {current.merged_into_id}: look at that one")
    return current


def place_of(alert: Alert, sha: str) -> tuple[Position, Position]:
    """The positions of the commit before ``sha`` and of ``sha``, on the alert's branch or otherwise on another one."""
    if len(sha) < 7:
        raise ValueError("name the commit by at least seven characters of its id")
    matching = Position.objects.filter(sha_begins(sha.lower(), "commit__"), branch__project=alert.project_id)
    positions = list(matching.select_related("branch", "commit"))
    if len({position.commit_id for position in positions}) > 1:
        raise ValueError(f"several commits begin with {sha!r}: give more of the id")
    here = sorted(
        positions, key=lambda position: (position.branch_id != alert.branch_id, position.branch.deleted_at is not None)
    )
    if not here:
        raise ValueError(f"no tracked branch of {alert.project} has a commit {sha!r}")
    before = Position.objects.filter(branch=here[0].branch, number=here[0].number - 1).select_related("commit").first()
    if before is None:
        raise ValueError(f"{here[0].commit.short} is the first commit of {here[0].branch}: there is nothing before it")
    return before, here[0]


@contextmanager
def open_once() -> Iterator[None]:
    """Turn the database's refusal of a second open alert of one range into a message for people."""
    try:
        with transaction.atomic():
            yield
    except IntegrityError as e:
        raise Stale("another open alert covers the same commits: merge the two instead") from e


def save_open(alert: Alert, *fields: str) -> None:
    with open_once():
        alert.save(update_fields=fields)


def update_improvement(alert: Alert) -> None:
    """Set ``improvement``: an alert is one if none of its change points is a slowdown."""
    points = alert.change_points.select_related("series")
    Alert.objects.filter(pk=alert.pk).update(improvement=not any(cp.is_slowdown for cp in points))
    alert.refresh_from_db(fields=["improvement"])


def write_event_by(alert: Alert, kind: Kind, user: User, sentence: str, why: str) -> None:
    note = f"{sentence}; {why.strip()}" if why.strip() else sentence
    AlertEvent.objects.create(
        alert=alert, kind=kind, who=user, note=note, improvement=alert.improvement, untold=not alert.muted
    )


def count_in_words(change_points: Collection[ChangePoint]) -> str:
    return f"{len(change_points)} change{'' if len(change_points) == 1 else 's'}"
