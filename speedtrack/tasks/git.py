"""The tasks of the process ``git``: they wait for repositories, and queue the commits found there."""

from functools import partial

from celery import shared_task
from django.conf import settings

from speedtrack.alerts.hunks import commits
from speedtrack.ground.postgres.steps import take_each
from speedtrack.projects.models import Project
from speedtrack.runs.planning import pullrequests, pushes
from speedtrack.runs.requests import comparing


@shared_task(name="speedtrack.tasks.sync")
def sync() -> None:
    """Sync every repository with waiting webhook deliveries, and queue its new commits."""
    pushes.look_at_each(Project.objects.with_deliveries, pushes.sync_and_plan)


@shared_task(name="speedtrack.tasks.poll")
def poll() -> None:
    """Poll every repository that has not been read for the polling interval."""
    pushes.look_at_each(partial(Project.objects.due, settings.POLL_EVERY_S), look)


def look(project: Project) -> None:
    pushes.look_for_news(project)
    comparing.tidy_mirror(project)
    commits.forget_commits(project)


@shared_task(name="speedtrack.tasks.pulls")
def pulls() -> None:
    """Queue the runs of approved pull requests, and of paired comparisons whose commits must be fetched."""
    take_each(pullrequests.plan_approved, comparing.plan_asked)
