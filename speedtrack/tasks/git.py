"""What the process ``git`` does: it waits for repositories, and queues what it finds there."""

from functools import partial

from celery import shared_task
from django.conf import settings

from speedtrack.projects.models import Project
from speedtrack.runs.planning import pullrequests, pushes
from speedtrack.runs.requests import comparing
from speedtrack.tasks.steps import take_each


@shared_task(name="speedtrack.tasks.sync")
def sync() -> None:
    """Look at every repository with waiting webhook deliveries, and queue its new commits."""
    pushes.look_at_each(Project.objects.with_deliveries, pushes.sync_and_plan)


@shared_task(name="speedtrack.tasks.poll")
def poll() -> None:
    """Look at every repository that has not been looked at for the polling interval."""
    pushes.look_at_each(partial(Project.objects.due, settings.POLL_EVERY_S), pushes.look_for_news)


@shared_task(name="speedtrack.tasks.pulls")
def pulls() -> None:
    """Queue the runs of approved pull requests, and of paired comparisons whose commits have to be fetched."""
    take_each(pullrequests.plan_approved, comparing.plan_asked)
