"""Watch that the head of each branch is measured; if it is not for hours, an alarm begins, whatever the cause."""

from datetime import timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from speedtrack.projects.models import Branch, Position, Project
from speedtrack.runs.models import Alarm, Deferral, Run, Status
from speedtrack.runs.scheduling import alarms

LOOK_EVERY = timedelta(minutes=5)


def unlooked() -> QuerySet[Project]:
    """Projects whose branches have not been checked for LOOK_EVERY.

    Untracked ones are included, so that their alarms end.
    """
    return Project.objects.filter(lag_looked_at__lt=Now() - LOOK_EVERY)


def look() -> None:
    """Check every project that is due, and begin or end its alarms. Any number of processes may do this at once."""
    for pk in list(unlooked().values_list("pk", flat=True)):
        with transaction.atomic():
            project = unlooked().select_for_update(skip_locked=True, no_key=True).filter(pk=pk).first()
            if project:
                look_at(project)
                Project.objects.filter(pk=pk).update(lag_looked_at=Now())


def look_at(project: Project) -> None:
    """Update the clocks and alarms of a project's branches.

    A branch's clock starts when an unmeasured head is seen, and starts again once the position that was awaited has
    been measured.
    """
    for branch in project.branches.select_related("head").order_by("pk"):
        branch.project = project
        number = head_number(branch) if is_watched(branch) else None
        awaited = branch.awaited_number
        if number is None or is_measured(branch, number):
            set_awaited(branch, None)
        elif awaited is None or awaited > number or is_measured(branch, awaited):
            set_awaited(branch, number)
        else:
            raise_if_late(branch)


def is_watched(branch: Branch) -> bool:
    return bool(branch.project.untracked_at is None and branch.tracked and not branch.deleted_at and branch.head_id)


def head_number(branch: Branch) -> int | None:
    """The position of the branch's newest commit without a Deferral; None if there is none."""
    deferred = Deferral.objects.filter(branch=branch, commit=OuterRef("commit"))
    return branch.positions.exclude(Exists(deferred)).order_by("-number").values_list("number", flat=True).first()


def is_measured(branch: Branch, number: int) -> bool:
    """Return whether the commit at this position, or a later one, has been measured."""
    successes = Run.objects.own().filter(commit=OuterRef("commit"), status=Status.SUCCEEDED)
    return Position.objects.filter(Exists(successes), branch=branch, number__gte=number).exists()


def set_awaited(branch: Branch, number: int | None) -> None:
    """Start the clock of the branch for this position; None stops it. The alarm about the former position ends."""
    if branch.awaited_number is None and number is None:
        return
    since = None if number is None else Now()
    Branch.objects.filter(pk=branch.pk).update(awaited_number=number, awaited_since=since)
    why = "it is measured again" if is_watched(branch) else "it is no longer tracked"
    alarms.end(Alarm.Kind.LAG, why, branch=branch)


def raise_if_late(branch: Branch) -> None:
    hours = branch.project.lag_alarm_hours
    if not hours:
        alarms.end(Alarm.Kind.LAG, "the project's settings have no limit any more", branch=branch)
    elif Branch.objects.filter(pk=branch.pk, awaited_since__lte=Now() - timedelta(hours=hours)).exists():
        alarms.begin(Alarm.Kind.LAG, why_late(branch), branch=branch)


def why_late(branch: Branch) -> str:
    assert branch.awaited_since is not None
    machines = branch.project.machines.values_list("name", flat=True)
    late = Run.objects.own().filter(
        project=branch.project,
        commit__positions__branch=branch,
        commit__positions__number__gte=branch.awaited_number,
    )
    failed = late.filter(status=Status.FAILED).order_by("-ended_at").values_list("error", flat=True).first()
    queue_length = late.unfinished().count()
    facts = [
        "" if machines else "no machine measures the project",
        f"runs that wait for {', '.join(sorted(machines))}: {queue_length}" if queue_length and machines else "",
        f"the last one failed: {failed.splitlines()[0][:200]}" if failed else "",
    ]
    cause = "; ".join(filter(None, facts)) or "no run of it is queued"
    return f"its head has not been measured since {branch.awaited_since:%Y-%m-%d %H:%M} UTC: {cause}"
