"""From a webhook or a poll to queued runs: look at the repository, queue new commits, cancel those that are gone."""

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta

from django.db.models import F
from django.db.models.functions import Now
from structlog.contextvars import bound_contextvars

from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.projects import successors
from speedtrack.projects.errors import Interrupted, RepositoryError
from speedtrack.projects.models import Delivery, Project, ProjectQuerySet
from speedtrack.projects.sync import BranchChange, has_news, note_failure, note_success, project_lock, sync
from speedtrack.runs.models import Alarm, PlanningPolicy
from speedtrack.runs.planning import choosing, ladders, planning
from speedtrack.runs.scheduling import alarms

log = logging.getLogger(__name__)

FILL_AGAIN = timedelta(minutes=10)  # after a failure


def look_at_each(asked_for: Callable[[], ProjectQuerySet], look: Callable[[Project], object]) -> None:
    """Call ``look`` for each project that ``asked_for`` selects, the longest neglected first.

    Projects that another process looks at are passed over. A failure is logged and stored on its project, and the next
    project is looked at.
    """
    visited: list[int] = []
    oldest = F("polled_at").asc(nulls_first=True)
    while project := asked_for().at_rest().exclude(pk__in=visited).order_by(oldest, "pk").first():
        visited.append(project.pk)
        with project_lock(project) as is_mine:
            # Another process may have done it before the lock was taken.
            if is_mine and asked_for().filter(pk=project.pk).exists():
                with bound_contextvars(project=project.slug):
                    look_noting_failure(project, look)


def look_noting_failure(project: Project, look: Callable[[Project], object]) -> None:
    """Call ``look`` for a project. A failure is logged, and stored on the project, whose page shows it."""
    try:
        look(project)
    except Interrupted:
        log.info("%s: the look at its repository was interrupted", project)
    except (RepositoryError, DefinitionError) as e:
        log.warning("%s: %s", project, e)
        note_failure(project, str(e))
    except Exception as e:  # a defect that one project triggers must not stop the loop over the others
        log.exception("%s: the look at its repository failed", project)
        note_failure(project, f"{type(e).__name__}: {e} (a defect of SpeedTrack: its log says where)")


def fill_gaps() -> int:
    """Queue put-off commits where policies allow it. Return the number of runs.

    Safe to run any number of times at once. A failure is stored on its project, and tried again after FILL_AGAIN.
    """
    run_count = 0

    def fill(project: Project) -> None:
        nonlocal run_count
        run_count += choosing.fill_gaps_of(policy)
        PlanningPolicy.objects.filter(pk=policy.pk).update(filled_at=Now())

    for policy in choosing.due_policies().select_related("project"):
        if choosing.due_policies().filter(pk=policy.pk).update(filled_at=Now() + FILL_AGAIN):
            with bound_contextvars(project=policy.project.slug):
                look_noting_failure(policy.project, fill)
    return run_count


def look_for_news(project: Project) -> None:
    """Sync the project and plan its new commits if its references have changed. Raises as ``sync_and_plan``."""
    if has_news(project):
        sync_and_plan(project)
    else:
        note_success(project)
        watch_default_branch(project)
        ladders.plan_daily(project)
        choosing.plan_extended(project)


def watch_default_branch(project: Project) -> None:
    """Begin an alarm when the default branch is gone, and end it when it is back, or another one is followed."""
    gone = project.branches.default().first() if project.branch_gone_at else None
    if gone:
        why = f"the repository has it no more; {successors.in_words(project)}"
        alarms.begin(Alarm.Kind.GONE, why, branch=gone)
    over = Alarm.objects.open().filter(kind=Alarm.Kind.GONE, branch__project=project)
    for alarm in over.exclude(branch=gone) if gone else over:
        alarms.end(Alarm.Kind.GONE, f"{project.default_branch} is followed", branch=alarm.branch)


def sync_and_plan(project: Project) -> int:
    """Sync the project and plan its new commits. Return the number of runs queued.

    All deliveries that came before are then processed, whatever they say: a payload is only a hint. Raises
    RepositoryError, or DefinitionError while the suite has a mistake; the deliveries then wait for the next try.
    """
    started_at = Project.objects.annotate(now=Now()).values_list("now", flat=True).get(pk=project.pk)
    counts: dict[str, int] = {}
    changes = sync(
        project, then=lambda moved_branches, tagged: counts.update(plan_changes(project, moved_branches, tagged))
    )
    watch_default_branch(project)
    run_count = sum(counts.values())
    run_count += ladders.plan_ladders(project) + choosing.plan_tagged(project) + choosing.plan_extended(project)
    outcomes = [f"{begin} {count} runs queued" for begin, count in counts.items()]
    outcomes += [f"{change.branch} deleted" for change in changes if change.moved and change.branch.deleted_at]
    outcomes += [f"{ref} was left out: {fault['why']}" for ref, fault in project.left_out.items()]
    Delivery.objects.filter(project=project, status=Delivery.Status.RECEIVED, received_at__lte=started_at).update(
        status=Delivery.Status.PROCESSED, outcome="; ".join(outcomes) or "nothing new on the tracked branches"
    )
    return run_count


def plan_changes(project: Project, moved_branches: Sequence[BranchChange], tagged: set[str]) -> dict[str, int]:
    """Queue the new commits of a project, and cancel the waiting runs of commits that are gone.

    Branches that have not moved cost nothing. ``tagged``: the commits of new tags. Returns the numbers of runs queued,
    each by the beginning of a sentence. Raises DefinitionError.
    """
    project = Project.objects.prefetch_related("policies").get(pk=project.pk)
    for change in moved_branches:
        change.branch.project = project
        drop_removed(change)
    planning.cancel_unreachable(project)
    counts: dict[str, int] = {}
    if (moved_branches or tagged) and (again := planning.requeue_returned(project)):
        counts["commits that are back:"] = again
    if moved_branches:
        planning.demote_former_heads(project)
    plans = planning.Plans()
    for change in moved_branches:
        if change.new or change.removed:
            begin = f"{change.branch}: {change.new} new, {len(change.removed)} gone,"
            counts[begin] = plan_change(change, plans)
    if new := choosing.plan_new_tags(project, tagged):
        counts["new tags:"] = new
    return counts


def drop_removed(change: BranchChange) -> None:
    """Cancel the waiting runs and delete the deferrals of commits that left a branch."""
    if change.removed or change.branch.deleted_at:
        planning.cancel_unreachable(change.branch.project, str(change.branch), change.removed)
        change.branch.deferrals.filter(commit__sha__in=change.removed).delete()


def plan_change(change: BranchChange, plans: planning.Plans) -> int:
    """Queue the new commits of a branch. Return the number of runs.

    The history of a branch seen for the first time is not a push: whoever tracks it says how much of it to measure.
    """
    branch = change.branch
    if change.first:
        return choosing.plan_newest(branch, branch.first_commits, plans)
    return choosing.plan_pushed(branch, change.added, plans=plans)
