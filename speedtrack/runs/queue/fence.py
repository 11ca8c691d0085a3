"""The fence around a run: its runner shows the lease token with each call, and only the newest token is let in."""

import json

from django.db import transaction

from speedtrack.ground.postgres.pgvalues import columns_of, first_row, partial_row
from speedtrack.projects.models import Commit, Project
from speedtrack.runs.models import ACTIVE, Attempt, Canary, Machine, Run

COLUMNS = columns_of(Run, but="progress")
# SQL, because every report of a runner begins with it.
HELD = """
SELECT COLUMNS, run.progress::text,
       head.sha, base.sha, project.slug, canary.artifacts::text
  FROM runs_run run
  JOIN projects_commit head ON head.id = run.commit_id
  JOIN projects_project project ON project.id = run.project_id
  LEFT JOIN projects_commit base ON base.id = run.base_id
  LEFT JOIN runs_canary canary ON canary.id = run.canary_id
 WHERE run.id = %(run)s AND run.machine_id = %(machine)s FOR UPDATE OF run
""".replace("COLUMNS", ", ".join(f"run.{column}" for column in COLUMNS))


class LeaseLost(Exception):
    """The runner no longer holds the run: another runner took it, or it was cancelled or has ended."""


class NoSuchRun(Exception):
    """The machine has no run with this number."""


def held_run(machine: Machine, run_id: int, token: int) -> Run:
    """The active run that the machine holds with this token, locked in the caller's transaction.

    Raises NoSuchRun, LeaseLost.
    """
    row = first_row(HELD, {"run": run_id, "machine": machine.pk})
    if row is None:
        raise NoSuchRun(f"there is no run {run_id} of {machine}: drop the work")
    *columns, progress, head, base, project, artifacts = row
    run = partial_row(Run, **dict(zip(COLUMNS, columns, strict=True)), progress=json.loads(progress or "null"))
    set_related(run, head, base, project, artifacts)
    if run.lease_token != token or run.status not in ACTIVE:
        raise LeaseLost(f"run {run_id} is no longer held with token {token}: drop the work")
    return run


def set_related(run: Run, head: str, base: str | None, project: str, artifacts: str | None) -> None:
    """Set the rows that a run refers to: commits with their ids, its project with the slug, its canary's artifacts."""
    run.commit = partial_row(Commit, id=run.commit_id, sha=head)
    run.base = partial_row(Commit, id=run.base_id, sha=base) if run.base_id else None
    run.project = partial_row(Project, id=run.project_id, slug=project)
    if run.canary_id:
        run.canary = partial_row(Canary, id=run.canary_id, artifacts=json.loads(artifacts or "null"))


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
