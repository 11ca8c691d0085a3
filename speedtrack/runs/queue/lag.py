"""Watch that the head of each branch is measured; if it is not for hours, an alarm begins, whatever the cause."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from speedtrack.projects import positions
from speedtrack.projects.models import Branch, Project
from speedtrack.runs.models import Alarm, Run, Status
from speedtrack.runs.scheduling import alarms

LOOK_EVERY = timedelta(minutes=5)

# The branches of the projects that are due whose clock or alarm has to change; most looks find none. ``head`` is the
# newest commit without a Deferral, and ``measured`` the newest measured one from the head or the awaited commit on.
# Both are read from the branch's end (OFFSET 0: row by row), because what follows is as long as the history.
IS_PLANNED = """NOT EXISTS (SELECT FROM runs_deferral d
                              WHERE d.branch_id = b.id AND d.commit_id = p.commit_id OFFSET 0)"""
IS_MEASURED = """EXISTS (SELECT FROM runs_run r
                          WHERE r.commit_id = p.commit_id AND r.base_id IS NULL AND r.canary_id IS NULL
                            AND r.imported_id IS NULL AND r.status = 'succeeded' OFFSET 0)"""
CHANGED = f"""
WITH due AS (
    UPDATE projects_project SET lag_looked_at = now()
     WHERE id IN (SELECT id FROM projects_project WHERE lag_looked_at < now() - make_interval(secs => %(every_s)s / 2)
                     FOR NO KEY UPDATE SKIP LOCKED)
    RETURNING id, untracked_at, lag_alarm_hours AS hours
)
SELECT b.id, branch.is_watched, head.number, facts.is_done, facts.is_news
  FROM due
  JOIN projects_branch b ON b.project_id = due.id
 CROSS JOIN LATERAL (
       SELECT is_watched, CASE WHEN is_watched THEN {positions.head("b.id")} END AS last
         FROM (SELECT due.untracked_at IS NULL AND b.tracked AND b.deleted_at IS NULL AS is_watched) state OFFSET 0
       ) branch
  LEFT JOIN LATERAL ({positions.last(IS_PLANNED, "b.id", "0", "branch.last")}) head ON true
  LEFT JOIN LATERAL (
       {positions.last(IS_MEASURED, "b.id", "least(head.number, b.awaited_number)", "branch.last")}
       ) measured ON head.number IS NOT NULL
 CROSS JOIN LATERAL (
       SELECT head.number IS NULL OR coalesce(measured.number >= head.number, false) AS is_done,
              coalesce(b.awaited_number > head.number OR measured.number >= b.awaited_number,
                       b.awaited_number IS NULL) AS is_news,
              EXISTS (SELECT FROM runs_alarm a WHERE a.branch_id = b.id AND a.kind = 'lag' AND a.ended_at IS NULL)
              AS is_alarm
       ) facts
 WHERE CASE WHEN facts.is_done THEN b.awaited_number IS NOT NULL
            WHEN facts.is_news THEN true
            WHEN due.hours = 0 THEN facts.is_alarm
            ELSE NOT facts.is_alarm AND now() - b.awaited_since >= make_interval(hours => due.hours) END
 ORDER BY b.id
"""  # noqa: S608 - constants


class LagChange(NamedTuple):
    """What a look has seen of a branch.

    ``head``: the position that is to be measured, if any. ``is_done``: it has been. ``is_news``: another one was
    awaited before, or that has been measured.
    """

    branch: int
    is_watched: bool
    head: int | None
    is_done: bool
    is_news: bool


def unlooked() -> QuerySet[Project]:
    """Projects whose branches have not been checked for LOOK_EVERY.

    Untracked ones are included, so that their alarms end.
    """
    return Project.objects.filter(lag_looked_at__lt=Now() - LOOK_EVERY)


@transaction.atomic
def look() -> None:
    """Check every project that is due, and begin or end its alarms. Any number of processes may do this at once.

    Projects that are due soon are checked as well, so that after a few looks all are due together. A branch's clock
    starts when an unmeasured head is seen, and starts again once the position that was awaited has been measured.
    """
    with connection.cursor() as cursor:
        cursor.execute(CHANGED, {"every_s": LOOK_EVERY.total_seconds()})
        changes = [LagChange(*row) for row in cursor.fetchall()]
    branches = Branch.objects.select_related("project").in_bulk([change.branch for change in changes])
    set_awaited([(branches[change.branch], change) for change in changes if change.is_done or change.is_news])
    for change in changes:
        if not (change.is_done or change.is_news):
            update_alarm(branches[change.branch])


def set_awaited(changes: Sequence[tuple[Branch, LagChange]]) -> None:
    """Start the clock of each branch for its head; that of a measured one stops. Alarms about former positions end.

    The number of queries does not grow with the number of branches: at the first look all of them change.
    """
    for branch, change in changes:
        branch.awaited_number = None if change.is_done else change.head
        branch.awaited_since = None if change.is_done else Now()
    Branch.objects.bulk_update([branch for branch, _ in changes], ["awaited_number", "awaited_since"])
    untracked = {branch.pk for branch, change in changes if change.is_done and not change.is_watched}
    alarms.end(Alarm.Kind.LAG, "it is no longer tracked", branch__in=untracked)
    alarms.end(Alarm.Kind.LAG, "it is measured again", branch__in={branch.pk for branch, _ in changes} - untracked)


def update_alarm(branch: Branch) -> None:
    """Begin the alarm about a branch whose head has been awaited for too long; without a limit, end it."""
    if branch.project.lag_alarm_hours:
        alarms.begin(Alarm.Kind.LAG, why_late(branch), branch=branch)
    else:
        alarms.end(Alarm.Kind.LAG, "the project's settings have no limit any more", branch=branch)


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
