"""Ended runs: their attempts, builds, events and logs."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from research.scale.histories.commits import EVERY, time_of
from research.scale.histories.copying import Array, Ids, copy_rows
from research.scale.histories.world import Story
from speedtrack.runs.models import Machine
from speedtrack.runs.scheduling.order import PRIORITY

LASTS = timedelta(minutes=4)
RUN_COLUMNS = (
    "id, project_id, commit_id, base_id, machine_id, canary_id, suite_id, benchmark_set_id, reason, round, "
    "trials, metrics, status, priority, rank, attempt, lease_token, created, not_before, started_at, ended_at, "
    "error, floors_due"
)
STEPS = (
    ("queued", "leased", "claimed by the machine"),
    ("leased", "running", "the runner began"),
    ("running", "succeeded", "all measurements are there"),
)


@dataclass(frozen=True)
class SucceededRuns:
    """Runs that succeeded, with the ids of their only attempts."""

    runs: Array
    attempts: Array


@dataclass(frozen=True)
class EndedRun:
    """One run to be stored. ``base``: position of the other side; ``benchmark_set``: None for the story's own."""

    position: int
    machine: Machine
    reason: str = "push"
    base: int | None = None
    benchmark_set: int | None = None
    metrics: Sequence[str] = ()
    trials: int = 5
    canary: int | None = None
    round: int = 0
    ended_at: datetime | None = None  #: None: soon after the commit


def make_ended(id_pool: Ids, story: Story, rows: Sequence[EndedRun], now: datetime) -> SucceededRuns:
    stored_runs = SucceededRuns(id_pool.take("runs_run", len(rows)), id_pool.take("runs_attempt", len(rows)))
    count = len(story.commits)
    ends = [row.ended_at or time_of(row.position, count, now) + EVERY / 2 + LASTS for row in rows]
    copy_rows("runs_run", RUN_COLUMNS, run_rows(story, stored_runs, rows, ends))
    copy_rows(
        "runs_attempt",
        "id, run_id, number, token, instance, started_at, ended_at, outcome, postponed, out_of_reach",
        (
            (attempt, run, 1, 1, "", end - LASTS, end, "succeeded", "{}", "{}")
            for attempt, run, end in zip(stored_runs.attempts.tolist(), stored_runs.runs.tolist(), ends, strict=True)
        ),
    )
    copy_rows("runs_runevent", "id, run_id, at, attempt, before, after, why", event_rows(id_pool, stored_runs, ends))
    make_builds(id_pool, story, stored_runs, rows, ends)
    return stored_runs


def run_rows(
    story: Story, stored_runs: SucceededRuns, rows: Sequence[EndedRun], ends: list[datetime]
) -> Iterator[tuple[Any, ...]]:
    for pk, row, end in zip(stored_runs.runs.tolist(), rows, ends, strict=True):
        commit = int(story.commits[row.position])
        base = None if row.base is None else int(story.commits[row.base])
        own_set = row.benchmark_set or story.benchmark_set.pk
        plan = (story.suite.pk, own_set, row.reason, row.round, row.trials)
        head = (pk, story.project.pk, commit, base, row.machine.pk, row.canary, *plan)
        began_at = end - LASTS
        priority = PRIORITY.get(row.reason, PRIORITY["rest"])
        state = (list(row.metrics), "succeeded", priority, row.position, 1, 1, began_at - LASTS, began_at - LASTS)
        yield *head, *state, began_at, end, "", False


def event_rows(id_pool: Ids, stored_runs: SucceededRuns, ends: list[datetime]) -> Iterator[tuple[Any, ...]]:
    numbers = iter(id_pool.take("runs_runevent", len(STEPS) * len(ends)).tolist())
    for run, end in zip(stored_runs.runs.tolist(), ends, strict=True):
        for (before, after, why), at in zip(STEPS, (end - LASTS, end - LASTS, end), strict=True):
            yield next(numbers), run, at, 1, before, after, why


def make_builds(
    id_pool: Ids, story: Story, stored_runs: SucceededRuns, rows: Sequence[EndedRun], ends: list[datetime]
) -> None:
    sides = [
        (attempt, side, position, end)
        for attempt, row, end in zip(stored_runs.attempts.tolist(), rows, ends, strict=True)
        for side, position in (("head", row.position), ("base", row.base))
        if position is not None
    ]
    recipe = "sha256:" + "a" * 64

    def build_rows() -> Iterator[tuple[Any, ...]]:
        for pk, (attempt, side, position, end) in zip(
            id_pool.take("runs_build", len(sides)).tolist(), sides, strict=True
        ):
            digest = "sha256:" + hashlib.sha256(story.shas[position].encode()).hexdigest()
            artifacts = json.dumps({"server": {"digest": digest, "bytes": 4_000_000 + position, "loaded_bytes": None}})
            commit = int(story.commits[position])
            yield pk, attempt, commit, side, recipe, True, False, 31.5, artifacts, "", end - LASTS

    columns = "id, attempt_id, commit_id, side, recipe_digest, succeeded, cached, seconds, artifacts, error, created"
    copy_rows("runs_build", columns, build_rows())
    phases = [(attempt, f"build {story.shas[position]}") for attempt, side, position, _ in sides if side == "head"]
    newest = phases[-200:]  # logs of older runs would be pruned first
    numbers = id_pool.take("runs_logchunk", len(newest)).tolist()
    text = "    CC object.o\n" * 400
    copy_rows(
        "runs_logchunk",
        "id, attempt_id, seq, phase, text",
        ((pk, attempt, 0, phase, text) for pk, (attempt, phase) in zip(numbers, newest, strict=True)),
    )


def make_waiting(id_pool: Ids, story: Story, machines: Sequence[Machine], count: int, now: datetime) -> None:
    """Runs that wait in the queue: of the commits before the measured ones, the newest first, on all machines."""
    commits = range(story.measured_positions[0] - 1, -1, -1)
    slots = [(position, machine) for position in commits for machine in machines][:count]
    numbers = id_pool.take("runs_run", len(slots)).tolist()
    columns = (
        "id, project_id, commit_id, machine_id, suite_id, benchmark_set_id, reason, round, trials, metrics, status, "
        "priority, rank, attempt, lease_token, created, not_before, error, floors_due"
    )

    def rows() -> Iterator[tuple[Any, ...]]:
        for pk, (position, machine) in zip(numbers, slots, strict=True):
            of = (story.project.pk, int(story.commits[position]), machine.pk, story.suite.pk, story.benchmark_set.pk)
            yield pk, *of, "backfill", 0, 5, [], "queued", PRIORITY["later"], position, 0, 0, now, now, "", False

    copy_rows("runs_run", columns, rows())
