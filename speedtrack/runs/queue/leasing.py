"""The statements of a claim: few, and by hand, because every runner sends them whenever it is idle."""

import json
from datetime import timedelta
from typing import Any, TypeVar

from django.conf import settings
from django.db import connection, models
from psycopg.types.json import Jsonb

from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.benchmarks.storing import definition_of
from speedtrack.projects.models import Commit, Project
from speedtrack.runs.models import Attempt, Canary, Machine, Run, Status
from speedtrack.runs.queue import rates
from speedtrack.runs.scheduling import canary

Row = TypeVar("Row", bound=models.Model)

# Does the machine hold a run, and may its canary be due?
LOOK = """
SELECT EXISTS (SELECT FROM runs_run WHERE machine_id = %(machine)s AND status IN ('leased', 'running')),
       CANARY_MAY_BE_DUE
""".replace("CANARY_MAY_BE_DUE", canary.MAY_BE_DUE)
# ``Run.move`` and the new attempt as one statement, because every claim runs it, with what a job says of other rows.
LEASE = """
WITH leased AS (
    UPDATE runs_run
       SET status = 'leased', lease_token = lease_token + 1, attempt = attempt + 1, progress = NULL, linked_id = NULL,
           lease_until = statement_timestamp() + %(lease)s, started_at = statement_timestamp(), ended_at = NULL
     WHERE id = %(run)s AND status = 'queued'
    RETURNING *
), event AS (
    INSERT INTO runs_runevent (run_id, attempt, before, after, why)
    SELECT id, attempt, 'queued', 'leased', %(why)s FROM leased
), begun AS (
    INSERT INTO runs_attempt (run_id, number, token, instance, outcome, postponed, out_of_reach)
    SELECT id, attempt, lease_token, %(instance)s, '', %(postponed)s, '{}' FROM leased
    RETURNING id, started_at
)
SELECT begun.id, leased.attempt, leased.lease_token, leased.lease_until, leased.started_at,
       head.sha, base.sha, project.slug, canary.artifacts::text
  FROM leased
 CROSS JOIN begun
  JOIN projects_commit head ON head.id = leased.commit_id
  LEFT JOIN projects_commit base ON base.id = leased.base_id
  JOIN projects_project project ON project.id = leased.project_id
  LEFT JOIN runs_canary canary ON canary.id = leased.canary_id
"""
LOCKED_MACHINE = (
    "SELECT id, name, paused, quarantined_at, windows, zone, shares FROM runs_machine WHERE id = %s FOR NO KEY UPDATE"
)


def locked_machine(machine: Machine) -> Machine:
    """The machine's row, locked until the end of the caller's transaction, with the columns that a claim needs."""
    return Machine.objects.raw(LOCKED_MACHINE, [machine.pk])[0]


def look(machine: Machine) -> tuple[bool, bool]:
    """Two facts about a machine: whether it holds a run, and whether its canary may be due."""
    parameters: dict[str, Any] = {"machine": machine.pk, "pause": canary.shortest_pause()}
    with connection.cursor() as cursor:
        cursor.execute(LOOK, parameters)
        holds_a_run, canary_may_be_due = cursor.fetchone()
    return holds_a_run, canary_may_be_due


def begin_attempt(run: Run, instance: str, postponed: dict[str, str]) -> None:
    """Lease a waiting run, which the caller's transaction has locked, and set the new values on ``run``."""
    left_out = "".join(f"; {name} is postponed: {why}" for name, why in postponed.items())
    changes: dict[str, Any] = {
        "run": run.pk,
        "lease": timedelta(seconds=settings.LEASE_S),
        "instance": instance,
        "postponed": Jsonb(postponed),
        "why": f"claimed by {run.machine}{left_out}"[:2000],
    }
    with connection.cursor() as cursor:
        cursor.execute(LEASE, changes)
        attempt_id, *lease_columns, head, base, project, artifacts = cursor.fetchone()
    run.attempt, run.lease_token, run.lease_until, run.started_at = lease_columns
    run.status, run.ended_at, run.progress, run.linked = Status.LEASED, None, None, None
    run.commit = partial_row(Commit, id=run.commit_id, sha=head)
    run.base = partial_row(Commit, id=run.base_id, sha=base) if run.base_id else None
    run.project = partial_row(Project, id=run.project_id, slug=project)
    if run.canary_id:
        run.canary = partial_row(Canary, id=run.canary_id, artifacts=json.loads(artifacts or "null"))
    attempt = {"number": run.attempt, "token": run.lease_token, "started_at": run.started_at, "postponed": postponed}
    run.begun = Attempt(pk=attempt_id, run=run, instance=instance, **attempt)


def partial_row(model: type[Row], **columns: object) -> Row:
    """A model instance with these columns set; other columns are loaded when they are read."""
    return model.from_db("default", list(columns), list(columns.values()))


def unmeasurable(run: Run) -> tuple[dict[str, str], str]:
    """The benchmarks that cannot be measured now (name -> reason), and why no part of the run can.

    The second value is empty if some benchmark can be measured.
    """
    try:
        definition_of(run.suite_id)
    except DefinitionError as e:
        return {}, str(e)
    members = rates.members_of(run.benchmark_set_id)
    if not any(member.has_reference for member in members):
        return {}, ""
    postponed = rates.postponed_benchmarks(run, rates.benchmarks_of(run).filter(rate_from__isnull=False))
    if not postponed or len(postponed) < len(members):
        return postponed, ""
    return postponed, "nothing to measure: " + "; ".join(f"{name}: {why}" for name, why in postponed.items())
