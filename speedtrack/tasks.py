"""All Celery tasks, so everything that happens automatically. Each finds its own work, and may run twice at once."""

import logging
from collections.abc import Callable
from functools import partial

from celery import shared_task
from django.conf import settings
from django.db import InterfaceError, OperationalError

from speedtrack.alerts import confirm, detection, floors, profiling
from speedtrack.alerts.bisections import bisecting
from speedtrack.monitoring import tasktimes  # noqa: F401 - it listens to Celery's signals
from speedtrack.notices.channels import statuses
from speedtrack.notices.sending import send_due
from speedtrack.notices.telling import tell_of_alarms, tell_of_tokens, tell_operators, tell_subscribers
from speedtrack.outside import storing
from speedtrack.projects.models import Project
from speedtrack.retention import nightly
from speedtrack.runs import comparing, pullrequests, pushes

log = logging.getLogger(__name__)


def take_each(*steps: Callable[[], object]) -> None:
    """Take all steps of a duty, whatever becomes of the others. Raises what the first that failed has raised."""
    failures: list[Exception] = []
    for step in steps:
        try:
            step()
        except (OperationalError, InterfaceError):
            raise  # the database is away, also for the others
        except Exception as e:  # a step that fails must not hold up the others
            log.exception("%s has failed", step.__name__)
            failures.append(e)
    if failures:
        raise failures[0]


@shared_task
def sync() -> None:
    """Look at every repository with waiting webhook deliveries, and queue its new commits."""
    pushes.look_at_each(Project.objects.with_deliveries, pushes.sync_and_plan)


@shared_task
def poll() -> None:
    """Look at every repository that has not been looked at for the polling interval."""
    pushes.look_at_each(partial(Project.objects.due, settings.POLL_EVERY_S), pushes.look_for_news)


@shared_task
def pulls() -> None:
    """Queue the runs of approved pull requests, and of paired comparisons whose commits have to be fetched."""
    take_each(pullrequests.plan_approved, comparing.plan_asked)


@shared_task
def detect() -> None:
    """Find suspected changes in new measurements, settle those measured again, bisect, store floors, plan profiles."""
    take_each(
        storing.mark_held,
        detection.detect,
        confirm.step,
        bisecting.step,
        floors.store_due,
        profiling.plan_missing_profiles,
    )


@shared_task
def calibrate() -> None:
    """Queue A/A runs on idle machines."""
    floors.plan_idle_work()


@shared_task
def notify() -> None:
    """Put notices into the outbox, post commit statuses, and send what is due."""
    take_each(
        tell_subscribers,
        tell_operators,
        tell_of_alarms,
        tell_of_tokens,
        statuses.update_statuses,
        send_due,
    )


@shared_task
def prune() -> None:
    """Delete what is older than its policy keeps it, for a while; the next nudge goes on."""
    nightly.prune_due()
