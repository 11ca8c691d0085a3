"""The tasks of the process ``worker``: they compute, and delete."""

from celery import shared_task

from speedtrack.alerts.bisections import bisecting
from speedtrack.alerts.detection import detection
from speedtrack.alerts.hunks import trials
from speedtrack.alerts.settling import confirm, floors
from speedtrack.alerts.triage import profiling
from speedtrack.ground.postgres.steps import take_each
from speedtrack.outside import storing
from speedtrack.retention import nightly


@shared_task(name="speedtrack.tasks.detect")
def detect() -> None:
    """Find suspected changes in new measurements, settle those measured again, bisect, try hunks, read idle work."""
    take_each(
        storing.mark_held,
        detection.detect,
        confirm.step,
        bisecting.step,
        trials.end_unwanted,
        trials.step,
        floors.store_due,
        profiling.plan_missing_profiles,
    )


@shared_task(name="speedtrack.tasks.calibrate")
def calibrate() -> None:
    """Queue sweeps and A/A runs on idle machines."""
    floors.plan_idle_work()


@shared_task(name="speedtrack.tasks.prune")
def prune() -> None:
    """Delete old rows by the policies for a limited time; the next nudge continues."""
    nightly.prune_due()
