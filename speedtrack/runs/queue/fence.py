"""The fence around a run: its runner shows the lease token with each call, and only the newest token is let in."""

from django.db import transaction

from speedtrack.projects.models import Commit
from speedtrack.runs.models import ACTIVE, Attempt, Machine, Run


class LeaseLost(Exception):
    """The runner no longer holds the run: another runner took it, or it was cancelled or has ended."""


class NoSuchRun(Exception):
    """The machine has no run with this number."""


def held_run(machine: Machine, run_id: int, token: int) -> Run:
    """The active run that the machine holds with this token, locked in the caller's transaction.

    Raises NoSuchRun, LeaseLost.
    """
    run = (
        Run.objects.select_for_update(of=("self",))
        .select_related("commit", "base", "project", "canary")
        .filter(pk=run_id, machine=machine)
        .first()
    )
    if run is None:
        raise NoSuchRun(f"there is no run {run_id} of {machine}: drop the work")
    if run.lease_token != token or run.status not in ACTIVE:
        raise LeaseLost(f"run {run_id} is no longer held with token {token}: drop the work")
    return run


def held_run_unlocked(machine: Machine, run_id: int, token: int) -> Run:
    """Like ``held_run``, but without a lock: for reading."""
    with transaction.atomic():
        return held_run(machine, run_id, token)


def attempt_of(run: Run) -> Attempt:
    """The attempt that began with the run's present lease token."""
    if run.begun and run.begun.token == run.lease_token:
        return run.begun
    return run.attempts.get(token=run.lease_token)


def side_of(run: Run, side: str, sha: str) -> Commit:
    """The commit on a side of a run. Raises LeaseLost if ``sha`` is another commit."""
    commit = run.base if side == "base" else run.commit
    if commit is None or commit.sha != sha:
        raise LeaseLost(f"run {run.pk} has no side {side} at {sha}: the document belongs to another run")
    return commit
