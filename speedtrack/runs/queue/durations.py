"""How long the newest runs of machines took, phase by phase, from their builds and trials.

An ended run changes no more: each process reads its trials once, and keeps what they took for as long as the run is one
of the newest.
"""

from array import array
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection

LEARNED = 24  # newest runs of a machine that are learned from
WITHIN = timedelta(days=30)
KIND = """CASE r.reason WHEN 'canary' THEN 'canary' WHEN 'profile' THEN 'profile'
          ELSE CASE WHEN r.base_id IS NULL THEN 'single' ELSE 'paired' END END"""
# The newest runs of each machine that ended well, and what the successful attempts took that are not known yet. Both
# sides of a pair run at once, so a pair takes as long as its longer side.
NEWEST = """
WITH newest AS MATERIALIZED (
  SELECT r.machine_id, r.suite_id, KIND AS kind, a.id AS attempt_id, r.started_at, r.ended_at
    FROM unnest(%(machines)s::bigint[]) m (id)
   CROSS JOIN LATERAL (
         SELECT * FROM runs_run r
          WHERE r.machine_id = m.id AND r.ended_at > now() - %(within)s AND r.status = 'succeeded'
            AND r.linked_id IS NULL AND r.started_at IS NOT NULL
       ORDER BY r.ended_at DESC LIMIT %(learned)s) r
    JOIN runs_attempt a ON a.run_id = r.id AND a.token = r.lease_token
), unknown AS MATERIALIZED (
  SELECT attempt_id, started_at, ended_at FROM newest
  EXCEPT SELECT * FROM unnest(%(attempts)s::bigint[], %(starts)s::timestamptz[], %(ends)s::timestamptz[])
), taken AS (
  SELECT n.attempt_id, r.benchmark_id, t.number, max(t.seconds) AS seconds, min(t.started_at) AS begun,
         max(t.started_at + t.seconds * interval '1 second') AS ended
    FROM unknown n JOIN runs_result r ON r.attempt_id = n.attempt_id JOIN runs_trial t ON t.result_id = r.id
   GROUP BY 1, 2, 3
), measured AS (
  SELECT attempt_id, array_agg(benchmark_id) AS benchmarks, array_agg(trials) AS trials, array_agg(seconds) AS seconds,
         extract(epoch FROM max(ended) - min(begun))::float8 AS lasting
    FROM (SELECT attempt_id, benchmark_id, count(*) AS trials, sum(seconds) AS seconds, min(begun) AS begun,
                 max(ended) AS ended
            FROM taken GROUP BY 1, 2) of_benchmark
   GROUP BY 1
), built AS (
  SELECT b.attempt_id, array_agg(b.seconds) FILTER (WHERE b.cached) AS cached,
         array_agg(b.seconds) FILTER (WHERE NOT b.cached) AS anew
    FROM unknown n JOIN runs_build b ON b.attempt_id = n.attempt_id GROUP BY 1
)
SELECT n.machine_id, s.name, n.kind, n.attempt_id, n.started_at, n.ended_at, built.cached, built.anew,
       measured.benchmarks, measured.trials, measured.seconds, measured.lasting
  FROM newest n JOIN benchmarks_suite s ON s.id = n.suite_id
  LEFT JOIN built USING (attempt_id) LEFT JOIN measured USING (attempt_id)
""".replace("KIND", KIND)


class EndedAttempt(NamedTuple):
    """The attempt with which a run ended. ``started_at`` and ``ended_at`` are those of the run."""

    pk: int
    started_at: datetime
    ended_at: datetime


class RunDurations(NamedTuple):
    """How long a run took, in seconds.

    ``span``: from claim to end; ``cached``, ``built``: each build; ``benchmarks``: those that it measured, with the
    number of their ``trials`` and the ``seconds`` of all of these; ``lasting``: from the first trial to the last, by
    the runner's clock. None: there are no builds. Without trials the others are empty and 0.
    """

    span: float
    cached: list[float] | None
    built: list[float] | None
    benchmarks: "array[int]"
    trials: "array[int]"
    seconds: "array[float]"
    lasting: float


#: By machine id, what its newest runs took. Each call of ``newest`` replaces that of its machines.
kept: dict[int, dict[EndedAttempt, RunDurations]] = {}


def newest(machine_ids: Iterable[int]) -> Iterator[tuple[int, str, str, RunDurations]]:
    """(machine id, suite, kind, what it took) of the newest runs of these machines, in one statement.

    Kinds are ``single``, ``paired``, ``canary`` and ``profile``.
    """
    machines = list(machine_ids)
    kept_durations = {
        attempt: run_durations for machine in machines for attempt, run_durations in kept.get(machine, {}).items()
    }
    attempts, starts, ends = map(list, zip(*kept_durations, strict=True)) if kept_durations else ([], [], [])
    columns: dict[str, Any] = {"attempts": attempts, "starts": starts, "ends": ends}
    now_newest: dict[int, dict[EndedAttempt, RunDurations]] = {machine: {} for machine in machines}
    with connection.cursor() as cursor:
        cursor.execute(NEWEST, columns | {"machines": machines, "within": WITHIN, "learned": LEARNED})
        for machine, suite, kind, pk, started_at, ended_at, *phases in cursor:
            attempt = EndedAttempt(pk, started_at, ended_at)
            run_durations = kept_durations.get(attempt) or durations_of(attempt, *phases)
            now_newest[machine][attempt] = run_durations
            yield machine, suite, kind, run_durations
    kept.update(now_newest)


def durations_of(
    attempt: EndedAttempt,
    cached: list[float] | None,
    built: list[float] | None,
    benchmarks: list[int] | None,
    trials: list[int] | None,
    seconds: list[float] | None,
    lasting: float | None,
) -> RunDurations:
    """What the columns of NEWEST say, in little memory: a run may have thousands of benchmarks."""
    span = (attempt.ended_at - attempt.started_at).total_seconds()
    packed = array("q", benchmarks or []), array("q", trials or []), array("d", seconds or [])
    return RunDurations(span, cached, built, *packed, lasting or 0.0)
