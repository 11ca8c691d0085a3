"""Which run a machine takes next. Of the runs that wait for it and may start, in this order:

1. its canary;
2. the head of a branch that has waited for HEAD_WAIT_S, the oldest first;
3. what a person has asked for;
4. runs that settle suspicions (confirm, bisect), or runs for the history. Of the time spent within RECENT, settling
   gets SETTLING_PERCENT: the kind that has had less than its share goes next. If only one kind waits, it goes.

Within the history: heads, then the rest, profiles, the end of a backlog, A/A runs. Of equal runs, that of the newest
commit goes first. The order depends on rows alone: equal rows always give the same run.
"""

from datetime import timedelta

from django.conf import settings

from speedtrack.runs.models import Machine, Run

PRIORITY = {
    "canary": 500,
    "manual": 400,
    "confirm": 300,
    "bisect": 300,
    "head": 200,
    "rest": 100,
    "profile": 60,
    "later": 50,
    "aa": 10,
}
# Longer than nearly every run, but short: after a quiet hour, suspicions must not occupy the machine for long.
RECENT = timedelta(minutes=15)
# SQL, because every claim runs it: an index finds the first run of each kind, however many wait, and only these five
# are sorted.
NEXT = """
WITH spent AS (
    SELECT coalesce(sum(ended_at - started_at) FILTER (WHERE priority = %(settling)s), '0') AS settling,
           coalesce(sum(ended_at - started_at) FILTER (WHERE priority < %(settling)s), '0') AS history
    FROM runs_run WHERE machine_id = %(machine)s AND ended_at > statement_timestamp() - %(recent)s
), waiting AS NOT MATERIALIZED (
    SELECT id, priority, rank, created FROM runs_run
    WHERE machine_id = %(machine)s AND status = 'queued' AND not_before <= statement_timestamp()
          AND (reason = 'canary' OR NOT %(canaries_only)s)
), firsts AS (
    (SELECT id, 5 AS turn FROM waiting WHERE priority >= %(canary)s
     ORDER BY priority DESC, rank DESC, id LIMIT 1)
    UNION ALL
    (SELECT id, 4 FROM waiting WHERE priority = %(head)s AND created <= statement_timestamp() - %(head_wait)s
     ORDER BY created, id LIMIT 1)
    UNION ALL
    (SELECT id, 3 FROM waiting WHERE priority > %(settling)s AND priority < %(canary)s
     ORDER BY priority DESC, rank DESC, id LIMIT 1)
    UNION ALL
    (SELECT id, CASE WHEN spent.settling * (100 - %(percent)s) <= spent.history * %(percent)s THEN 2 ELSE 0 END
     FROM waiting, spent WHERE priority = %(settling)s
     ORDER BY rank DESC, id LIMIT 1)
    UNION ALL
    (SELECT id, 1 FROM waiting WHERE priority < %(settling)s
     ORDER BY priority DESC, rank DESC, id LIMIT 1)
)
SELECT runs_run.* FROM firsts JOIN runs_run USING (id) WHERE status = 'queued'
ORDER BY turn DESC LIMIT 1 FOR UPDATE OF runs_run SKIP LOCKED
"""


def next_run(machine: Machine) -> Run | None:
    """The run that the machine takes next, locked in the caller's transaction, which also holds the machine's row."""
    if machine.paused:
        return None
    parameters = {
        "machine": machine.pk,
        "canaries_only": machine.quarantined_at is not None,
        "settling": PRIORITY["confirm"],
        "canary": PRIORITY["canary"],
        "head": PRIORITY["head"],
        "head_wait": timedelta(seconds=settings.HEAD_WAIT_S),
        "recent": RECENT,
        "percent": settings.SETTLING_PERCENT,
    }
    return next(iter(Run.objects.raw(NEXT, parameters)), None)
