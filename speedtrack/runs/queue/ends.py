"""How an attempt ends: its measurements are accepted, and its run ends or is queued again."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import F
from django.db.models.functions import Least, Now

from speedtrack.benchmarks import definitions
from speedtrack.runs.documents import FailureReport
from speedtrack.runs.models import (
    Attempt,
    Machine,
    Measurement,
    Run,
    Series,
    Status,
)
from speedtrack.runs.queue.fence import attempt_of

FURTHER_PAUSE = timedelta(minutes=10)  # after the attempt cap; three times as long after each further attempt
FURTHER_ATTEMPTS = 6  # the last one begins 60 hours after the cap
FURTHER_ATTEMPTS_OF_PAIRS = 4  # somebody waits for their answer: the last one begins 7 hours after the cap
HANDED_BACK_OFTEN = 3  # times that one attempt of a run is handed back before the run waits
HANDED_BACK_PAUSE = timedelta(minutes=1)  # then; twice as long after each further time
LONGEST_HANDED_BACK_PAUSE = timedelta(hours=1)


class Incomplete(Exception):
    """The run cannot be completed: a measurement is missing."""


def missing_with_reason(run: Run, documents: set[tuple[str, str]], reasons: Mapping[str, str]) -> dict[str, str]:
    """The benchmarks of the run for which no document came but a reason is given: name -> reason."""
    measured_names = {name for name, _ in documents}
    return {name: reasons[name] for name in run.benchmark_set.names if name in reasons and name not in measured_names}


def sent_documents(attempt: Attempt, kind: str) -> set[tuple[str, str]]:
    """(benchmark name, side) of each document that an attempt has sent. ``kind``: "profiles", else measurements."""
    if kind == "profiles":
        return set(attempt.profiles.values_list("benchmark__name", "side"))
    measurements = attempt.measurements.exclude(series__benchmark__name=definitions.BUILD)
    return set(measurements.values_list("series__benchmark__name", "side"))


def already_ended(machine: Machine, run_id: int, token: int, status: Status) -> bool:
    """Return whether this attempt has ended with this status before, so that the call is a repetition."""
    return Run.objects.filter(pk=run_id, machine=machine, lease_token=token, status=status).exists()


def already_requeued(machine: Machine, run_id: int, failure: FailureReport) -> bool:
    """Return whether this failure has queued the run again before, so that the call is a repetition."""
    return Run.objects.filter(
        pk=run_id, machine=machine, lease_token=failure.token, status=Status.QUEUED, error=failure.error
    ).exists()


def accept_measurements(run: Run) -> None:
    """Show the attempt's measurements to charts and detection, instead of those of an earlier attempt.

    Measurements of a canary are never shown: they describe the machine, not the commit.
    """
    if run.canary_id:
        return
    measurements = Measurement.objects.filter(attempt=attempt_of(run))
    if not measurements.exists():
        return
    earlier = Measurement.objects.filter(attempt__run=run, accepted=True).exclude(attempt=attempt_of(run))
    series_ids = list(earlier.union(measurements).values_list("series", flat=True))
    earlier.update(accepted=False)
    measurements.update(accepted=True)
    Series.objects.filter(pk__in=series_ids).update(undetected_since=Least(F("undetected_since"), Now()))


def end_run(run: Run, to: Status, why: str) -> None:
    """End a run and its attempt."""
    Attempt.objects.filter(run=run, token=run.lease_token).update(ended_at=Now(), outcome=to)
    error = why if to == Status.FAILED else ""
    floors_due = to == Status.SUCCEEDED and run.paired
    run.move(to, why, ended_at=Now(), lease_until=None, progress=None, error=error, floors_due=floors_due)


def requeue_lost(run: Run, why: str, pause_s: float = 0) -> None:
    """End a lost attempt: queue the run again, fail it at the attempt cap, or cancel it if that was requested.

    Whoever planned pairs reads how they ended. So they stay in the queue after the cap, and are tried again after
    pauses that grow: a machine that cannot work for some hours leaves no suspicion undecided.
    """
    further = run.attempt - settings.MAX_ATTEMPTS
    if run.cancel_requested_at:
        end_run(run, Status.CANCELLED, "cancelled on request")
    elif further < 0:
        requeue(run, why, timedelta(seconds=pause_s))
    elif run.paired and further < FURTHER_ATTEMPTS_OF_PAIRS:
        requeue(run, why, FURTHER_PAUSE * 3**further)
    else:
        fail_without_machine(run, f"given up after {run.attempt} attempts; the last: {why}")


def requeue(run: Run, why: str, pause: timedelta) -> None:
    """Queue a run again after a lost attempt, to be claimed after a pause."""
    Attempt.objects.filter(run=run, token=run.lease_token).update(ended_at=Now(), outcome=Status.QUEUED)
    run.move(Status.QUEUED, why, lease_until=None, not_before=Now() + pause, progress=None, error=why)


def fail_without_machine(run: Run, why: str) -> None:
    """Fail a run that no machine finished.

    A run that measures a commit for its line gets further attempts after pauses. The pauses grow, so that a run that
    kills its runner does so less and less often, and in the end no more. Pairs have had theirs, and canaries get none:
    their planners see how they ended, and plan new ones.
    """
    end_run(run, Status.FAILED, why)
    further = run.attempt - settings.MAX_ATTEMPTS
    if further < FURTHER_ATTEMPTS and not run.paired and run.canary_id is None:
        Run.objects.filter(pk=run.pk).update(retry_at=Now() + FURTHER_PAUSE * 3**further)


def requeue_unharmed(run: Run, why: str, **changes: Any) -> None:
    """Queue a run again that was taken from its runner, or that its runner handed back. This attempt does not count."""
    Attempt.objects.filter(run=run, token=run.lease_token).update(ended_at=Now(), outcome=Status.QUEUED)
    fresh: dict[str, Any] = {"lease_until": None, "not_before": Now(), "progress": None, **changes}
    run.move(Status.QUEUED, why, attempt=F("attempt") - 1, **fresh)


def hand_back(run: Run, why: str) -> None:
    """Queue a run again that its runner handed back.

    One that is handed back again and again, as it fills the disk each time, waits longer and longer: as its attempts do
    not count, the machine would do nothing else for ever.
    """
    times = run.attempts.filter(number=run.attempt).count()
    if times < HANDED_BACK_OFTEN:
        requeue_unharmed(run, why)
    else:
        pause = min(HANDED_BACK_PAUSE * 2 ** min(times - HANDED_BACK_OFTEN, 10), LONGEST_HANDED_BACK_PAUSE)
        requeue_unharmed(run, why, not_before=Now() + pause, error=why)
