"""Which run a machine takes next. Of the runs that wait for it and may start, in this order:

1. its canary;
2. the head of a branch that has waited for HEAD_WAIT_S, the oldest first;
3. what a person has asked for;
4. the kind of work (KINDS) that had the least of the time spent within RECENT, for its share. If only one kind waits,
   it goes.

A kind without a share of its own goes with the pushes; a kind with a share of 0 goes when nothing else waits. Unless
people say otherwise (``Machine.shares``), only settling suspicions has its own: SETTLING_PERCENT. Within a kind: heads,
then the rest, profiles, what was put off and the end of a backlog, sweeps, A/A runs. Hunks on trial have no kind: they
go last of all. Of equal runs, that of the newest commit goes first. Outside of its windows a machine takes only what a
person has asked for. The order depends on rows and the time alone: equal rows always give the same run.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection

from speedtrack.ground.postgres.pgvalues import array_text, columns_of, first_row, partial_row
from speedtrack.runs.models import Machine, Run
from speedtrack.runs.scheduling import windows

PRIORITY = {
    "canary": 500,
    "manual": 400,
    "confirm": 300,
    "bisect": 300,
    "effect": 290,
    "head": 200,
    "pull": 150,
    "rest": 100,
    "backfill": 90,
    "profile": 60,
    "later": 50,
    "sweep": 20,
    "aa": 10,
    "hunks": 5,
}
#: The kinds of work that share a machine's time, by the names of their priorities.
KINDS = {
    "settling": ("confirm", "effect"),
    "pushes": ("head", "rest", "profile"),
    "pulls": ("pull",),
    "backfill": ("backfill", "later"),
    "aa": ("sweep", "aa"),
}
KIND_OF = [(PRIORITY[name], kind) for kind, names in KINDS.items() for name in names]
IN_WORDS = {
    "settling": "settling suspicions",
    "pushes": "pushes",
    "pulls": "pull requests",
    "backfill": "history",
    "aa": "sweeps and A/A runs",
    "hunks": "hunks on trial",
    "manual": "asked for by hand",
    "canary": "canary",
}
# Longer than nearly every run, but short: after a quiet hour, suspicions must not occupy the machine for long.
RECENT = timedelta(minutes=15)
# SQL, because every claim runs it: an index finds the first run of each priority, however many wait, and only these
# are sorted.
NEXT = """
WITH kinds AS (
    SELECT * FROM unnest(%(priorities)s::int[], %(kinds)s::text[], %(weights)s::float8[]) AS k (priority, kind, weight)
), spent AS (
    SELECT kind, extract(epoch FROM sum(ended_at - started_at)) AS seconds
      FROM runs_run JOIN kinds USING (priority)
     WHERE machine_id = %(machine)s AND ended_at > statement_timestamp() - %(recent)s GROUP BY kind
), waiting AS NOT MATERIALIZED (
    SELECT id, priority, rank, created FROM runs_run
    WHERE machine_id = %(machine)s AND status = 'queued' AND not_before <= statement_timestamp()
          AND (reason = 'canary' OR NOT %(canaries_only)s)
          AND (priority > %(settling)s AND priority < %(canary)s OR NOT %(by_hand_only)s)
), firsts AS (
    (SELECT id, 5 AS turn, 0 AS due FROM waiting WHERE priority >= %(canary)s
     ORDER BY priority DESC, rank DESC, id LIMIT 1)
    UNION ALL
    (SELECT id, 4, 0 FROM waiting WHERE priority = %(head)s AND created <= statement_timestamp() - %(head_wait)s
     ORDER BY created, id LIMIT 1)
    UNION ALL
    (SELECT id, 3, 0 FROM waiting WHERE priority > %(settling)s AND priority < %(canary)s
     ORDER BY priority DESC, rank DESC, id LIMIT 1)
    UNION ALL
    (SELECT first.id, 2, CASE WHEN weight > 0 THEN coalesce(seconds, 0) / weight ELSE 'infinity' END
       FROM kinds LEFT JOIN spent USING (kind)
      CROSS JOIN LATERAL (SELECT id FROM waiting WHERE waiting.priority = kinds.priority
                          ORDER BY rank DESC, id LIMIT 1) first)
    UNION ALL  -- whatever its priority is
    (SELECT id, 1, 0 FROM waiting WHERE priority < %(settling)s ORDER BY priority DESC, rank DESC, id LIMIT 1)
)
SELECT RUN_COLUMNS FROM firsts JOIN runs_run USING (id) WHERE status = 'queued'
ORDER BY turn DESC, due, priority DESC LIMIT 1 FOR UPDATE OF runs_run SKIP LOCKED
"""
COLUMNS = columns_of(Run, but="progress")  # a waiting run has none
NEXT = NEXT.replace("RUN_COLUMNS", ", ".join(f"runs_run.{column}" for column in COLUMNS))
# What the time of a machine went to, by priority.
SPENT = """
SELECT priority, extract(epoch FROM sum(ended_at - started_at))::float8 FROM runs_run
 WHERE machine_id = %s AND ended_at > statement_timestamp() - %s::interval AND started_at IS NOT NULL
 GROUP BY priority
"""


class BadShares(ValueError):
    """These shares cannot be; the message says why."""


def checked_shares(shares: Mapping[str, int]) -> dict[str, int]:
    """The shares in percent, as they are stored; pushes get what is left. Raises BadShares."""
    own = [kind for kind in KINDS if kind != "pushes"]
    if unknown := shares.keys() - set(own):
        raise BadShares(f"{', '.join(sorted(unknown))} has no share: there are {', '.join(own)}; pushes get the rest")
    percents = {"settling": settings.SETTLING_PERCENT, **shares}
    if any(not 0 <= percent <= 99 for percent in shares.values()) or sum(percents.values()) > 99:
        raise BadShares(
            f"a share is 0 to 99 percent, and all together are at most 99 (settling: {percents['settling']}): "
            "pushes get the rest"
        )
    return dict(shares)


def weights_of(machine: Machine) -> dict[str, float]:
    """By kind of work: its share in percent; pushes get what the others leave.

    If nobody has set shares, only settling has one: the setting SETTLING_PERCENT.
    """
    own: dict[str, float] = {"settling": settings.SETTLING_PERCENT} | machine.shares
    return {"pushes": max(0.0, 100 - sum(own.values())), **own}


def spent_lately(machine: Machine, span: timedelta) -> dict[str, float]:
    """Seconds that the machine spent within ``span`` on each kind of work, and on what has none (IN_WORDS)."""
    names = dict(KIND_OF)
    names |= {PRIORITY[name]: name for name in ("manual", "canary", "hunks")}
    spent_s = dict.fromkeys(IN_WORDS, 0.0)
    with connection.cursor() as cursor:
        cursor.execute(SPENT, [machine.pk, f"{span.total_seconds()} s"])
        for priority, seconds in cursor:
            spent_s[names.get(priority, "pushes")] += seconds or 0.0
    return spent_s


def is_open(machine: Machine) -> bool:
    """Return whether one of the machine's windows is open now, by the database's clock."""
    if not machine.windows:
        return True
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        (now,) = cursor.fetchone()
    return windows.is_open(machine.windows, machine.zone, now)


def next_run(machine: Machine) -> Run | None:
    """The run that the machine takes next, locked in the caller's transaction, which also holds the machine's row."""
    if machine.paused:
        return None
    return run_of(first_row(NEXT, parameters_of(machine)))


def parameters_of(machine: Machine) -> dict[str, Any]:
    """The values of NEXT."""
    weights = weights_of(machine)
    own = [kind if kind in weights else "pushes" for _, kind in KIND_OF]
    return {
        "machine": machine.pk,
        "priorities": array_text(priority for priority, _ in KIND_OF),
        "kinds": array_text(own),
        "weights": array_text(weights[kind] for kind in own),
        "canaries_only": machine.quarantined_at is not None,
        "by_hand_only": not is_open(machine),
        "settling": PRIORITY["confirm"],
        "canary": PRIORITY["canary"],
        "head": PRIORITY["head"],
        "head_wait": timedelta(seconds=settings.HEAD_WAIT_S),
        "recent": RECENT,
    }


def run_of(row: Sequence[Any] | None) -> Run | None:
    """The run of a row of NEXT; None if there is no row, or only nulls."""
    return partial_row(Run, **dict(zip(COLUMNS, row, strict=True))) if row and row[0] is not None else None
