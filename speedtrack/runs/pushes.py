"""From a webhook or a poll to queued runs: look at the repository, queue what is new, cancel what is gone."""

from django.db.models import Max

from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.projects.models import Commit, Delivery, Project
from speedtrack.projects.sync import Moved, mark_polled, sync
from speedtrack.runs import planning
from speedtrack.runs.models import Reason


def take(project: Project) -> int:
    """Sync the project and plan its new commits. Returns how many runs were queued.

    The deliveries that were waiting before the look are processed by it, whatever they said: a payload is a hint.
    Raises RepositoryError; the deliveries then keep waiting for the next try, as they do while the suite has a mistake.
    """
    waiting = Delivery.objects.filter(project=project, status=Delivery.Status.RECEIVED)
    newest = waiting.aggregate(newest=Max("id"))["newest"] or 0
    queued, words = 0, []

    def plan(moved: Moved) -> None:
        nonlocal queued
        new = follow(moved)
        queued += new
        if moved.added or moved.removed:
            words.append(f"{moved.branch}: {len(moved.added)} new, {len(moved.removed)} gone, {new} runs queued")

    try:
        sync(project, then=plan)
    except DefinitionError as e:
        mark_polled(project, error=str(e))
        return 0
    waiting.filter(id__lte=newest).update(
        status=Delivery.Status.PROCESSED, outcome="; ".join(words) or "nothing new on the tracked branches"
    )
    return queued


def follow(moved: Moved) -> int:
    """Queue the new commits of a branch and cancel what waits for those that left it.

    The history of a branch seen for the first time is no push: whoever tracks it says how much of it to measure.
    """
    planning.cancel_unreachable(moved.branch, moved.removed)
    if moved.first:
        return 0
    moved.branch.refresh_from_db()
    commits = Commit.objects.filter(project=moved.branch.project, sha__in=moved.added)
    again = planning.requeue_returned(moved.branch, commits)
    return again + planning.plan_branch(moved.branch, commits, Reason.PUSH)
