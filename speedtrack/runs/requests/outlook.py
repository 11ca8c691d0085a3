"""Say what a verb would do: call it in a transaction that is rolled back, so the answer is what would really happen.

Objects that git fetches meanwhile stay in the mirror; rows do not.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from django.db import connection, transaction
from django.db.models import BooleanField
from django.db.models.expressions import RawSQL

from speedtrack.benchmarks import numbers
from speedtrack.runs.models import Machine, Run, Status
from speedtrack.runs.queue import estimates
from speedtrack.runs.queue.estimates import WaitingTotal

NAMED = 5  # commits
WAITING_BEFORE = """
CREATE TEMPORARY TABLE waiting_before ON COMMIT DROP AS SELECT id, machine_id FROM runs_run WHERE status = 'queued'
"""
WAITED_BEFORE = RawSQL(
    "EXISTS (SELECT FROM waiting_before b WHERE b.id = runs_run.id AND b.machine_id = runs_run.machine_id)",
    [],
    output_field=BooleanField(),
)
GONE = """
SELECT b.machine_id, count(*) FROM waiting_before b
 WHERE NOT EXISTS (SELECT FROM runs_run r WHERE r.id = b.id AND r.machine_id = b.machine_id AND r.status = 'queued')
 GROUP BY 1
"""
COMMITS = """
SELECT c.sha FROM waiting_before b
  FULL JOIN (SELECT id, machine_id FROM runs_run WHERE status = 'queued') w USING (id, machine_id)
  JOIN runs_run r USING (id)
  JOIN projects_commit c ON c.id = r.commit_id
 WHERE b IS NULL OR w IS NULL
 GROUP BY c.sha ORDER BY max(r.priority) DESC, max(r.rank) DESC, min(r.id)
"""


@dataclass(frozen=True)
class MachineOutlook:
    """What a verb would change on one machine.

    ``seconds``: how long the new runs take; ``before_s``: how long the runs take that wait before them.
    """

    machine: str
    queued: int
    gone: int
    seconds: float | None
    before_s: float | None

    def __str__(self) -> str:
        changes = [f"{self.queued} run{'s' * (self.queued != 1)} queued"] if self.queued else []
        changes += [f"{self.gone} waiting run{'s' * (self.gone != 1)} taken from the queue"] if self.gone else []
        summary = f"on {self.machine}: {', '.join(changes)}"
        if not self.queued:
            return summary
        if self.seconds is None:
            return f"{summary}; how long they take is not known: it has measured nothing like them yet"
        ahead = f", after {numbers.duration(self.before_s)} of runs that wait" if self.before_s else ""
        return f"{summary}, which take about {numbers.duration(self.seconds)}{ahead}"


@dataclass(frozen=True)
class Outlook:
    """What a verb would answer (``said``), queue and take from the queue."""

    said: str
    machines: list[MachineOutlook] = field(default_factory=list)
    commits: list[str] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """Sentences for people; the first states that nothing was done."""
        if not self.machines:
            return [f"Nothing was done. It would be: {self.said}", "no run would be queued or taken from the queue"]
        names = ", ".join(self.commits[:NAMED]) + (
            f" and {len(self.commits) - NAMED} more" * (len(self.commits) > NAMED)
        )
        return [f"Nothing was done. It would be: {self.said}", *map(str, self.machines), f"commits: {names}"]

    def __str__(self) -> str:
        return "\n  ".join(self.lines)


def outlook(verb: Callable[[], object]) -> Outlook:
    """Call a verb, roll it back, and return what it would answer and change. Raises what the verb raises."""
    with transaction.atomic():
        note_waiting()
        answer = str(verb())
        consequences = Outlook(answer, *changes())
        transaction.set_rollback(True)
    return consequences


def note_waiting() -> None:
    """Store in a temporary table which runs wait now: there may be a hundred thousand."""
    with connection.cursor() as cursor:
        cursor.execute(WAITING_BEFORE)


def changes() -> tuple[list[MachineOutlook], list[str]]:
    """What was queued or taken from the queue since ``note_waiting``: per machine, and the commits.

    A run that moved to another machine counts on both.
    """
    queued_runs = Run.objects.filter(status=Status.QUEUED)
    new, as_before = queued_runs.exclude(WAITED_BEFORE), queued_runs.filter(WAITED_BEFORE)
    with connection.cursor() as cursor:
        cursor.execute(GONE)
        gone = dict(cursor.fetchall())
        cursor.execute(COMMITS)
        commits = [sha[:10] for (sha,) in cursor]
    learned = estimates.learn(Machine.objects.values_list("pk", flat=True))
    new_totals = estimates.totals(learned, new)
    before = estimates.totals(learned, as_before.filter(machine__in=new_totals))
    machines = Machine.objects.filter(pk__in=new_totals.keys() | gone.keys()).order_by("name").defer("facts")
    machine_outlooks = []
    for machine in machines:
        additional, ahead = (totals.get(machine.pk, WaitingTotal(0, None)) for totals in (new_totals, before))
        machine_outlooks.append(
            MachineOutlook(machine.name, additional.runs, gone.get(machine.pk, 0), additional.seconds, ahead.seconds)
        )
    return machine_outlooks, commits
