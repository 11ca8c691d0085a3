"""Every task: the list of what happens by itself. Each finds its own work, and may run twice at once."""

from functools import partial

from celery import shared_task
from django.conf import settings

from speedtrack.alerts import confirm, detection, floors, profiling
from speedtrack.notices.channels import statuses
from speedtrack.notices.sending import send_due
from speedtrack.notices.telling import tell_operators, tell_subscribers
from speedtrack.projects.models import Project
from speedtrack.runs import pushes


@shared_task
def sync() -> None:
    """Look at every repository that a webhook has told of, and queue its new commits."""
    pushes.look_at_each(Project.objects.told, pushes.take)


@shared_task
def poll() -> None:
    """Look at every repository that nobody has told of for a while."""
    pushes.look_at_each(partial(Project.objects.due, settings.POLL_EVERY_S), pushes.poll)


@shared_task
def detect() -> None:
    """Find suspected changes in what was newly measured, settle those measured again, profile the confirmed.

    And what A/A runs showed of the machines.
    """
    detection.detect()
    confirm.step()
    floors.store_due()
    profiling.plan_missing_profiles()


@shared_task
def calibrate() -> None:
    """Let machines that have nothing else to do measure a commit against itself."""
    floors.plan_idle_work()


@shared_task
def notify() -> None:
    """Send what waits in the outbox, of what operators and forges have to hear too."""
    tell_subscribers()
    tell_operators()
    statuses.update_statuses()
    send_due()
