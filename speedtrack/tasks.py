"""Every task: the list of what happens by itself. Each finds its own work, and may run twice at once."""

import logging

from celery import shared_task
from django.conf import settings

from speedtrack.alerts import confirm, detection, floors, profiling
from speedtrack.alerts.notify import send_due, tell_operators
from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.models import Project
from speedtrack.projects.sync import has_news, mark_polled
from speedtrack.runs import pushes

log = logging.getLogger(__name__)


@shared_task
def sync() -> None:
    """Look at every repository that a webhook has told of, and queue its new commits."""
    for project in Project.objects.told():
        try:
            pushes.take(project)
        except RepositoryError as e:
            log.warning("%s: %s", project, e)


@shared_task
def poll() -> None:
    """Look at every repository that nobody has told of for a while."""
    for project in Project.objects.due(settings.POLL_EVERY_S):
        try:
            if has_news(project):
                pushes.take(project)
            else:
                mark_polled(project)
        except RepositoryError as e:
            mark_polled(project, error=str(e))
            log.warning("%s: %s", project, e)


@shared_task
def detect() -> None:
    """Find suspected changes in what was newly measured, settle those measured again, profile the confirmed.

    And what A/A runs showed of the machines.
    """
    detection.detect()
    confirm.step()
    floors.store_due()
    profiling.plan_missing()


@shared_task
def calibrate() -> None:
    """Let machines that have nothing else to do measure a commit against itself."""
    floors.plan_due()


@shared_task
def notify() -> None:
    """Send what waits in the outbox, of what operators have to hear too."""
    tell_operators()
    send_due()
