"""The queue: what runs, what waits and until when, and the state of each machine."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median
from typing import NamedTuple

from django.db import connection
from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from speedtrack.runs.models import Environment, Machine, Run, Status
from speedtrack.web.pages.run import ReportedProgress, progress_of

WAITING = 12  # waiting runs listed per machine
RECENT = 20  # finished runs of a machine that its usual duration is computed from
FAILURES = 15
SILENT_S = 180  # a runner asks for work more often than this
RELATED = ("project", "commit", "base", "machine")
HEAVY = ("machine__facts", "commit__parents", "commit__reverts")
# A few rows of each machine from the beginning of an index, however many runs there are.
NEXT_WAITING = """
    SELECT m.id, next.id, p.slug, p.name, next.reason, c.sha, c.subject, next.created
      FROM unnest(%s::bigint[]) m(id) CROSS JOIN LATERAL (
        SELECT r.* FROM runs_run r WHERE r.machine_id = m.id AND r.status = 'queued'
      ORDER BY r.priority DESC, r.rank DESC, r.id LIMIT %s) next
      JOIN projects_project p ON p.id = next.project_id
      JOIN projects_commit c ON c.id = next.commit_id
  ORDER BY next.priority DESC, next.rank DESC, next.id
"""
NEWEST_SPANS = """
    SELECT m.id, extract(epoch FROM newest.ended_at - newest.started_at)::float8
      FROM runs_machine m CROSS JOIN LATERAL (
        SELECT r.started_at, r.ended_at FROM runs_run r
         WHERE r.machine_id = m.id AND r.ended_at > now() - %s::interval AND r.status = 'succeeded'
      ORDER BY r.ended_at DESC LIMIT %s) newest
     WHERE newest.started_at IS NOT NULL
"""


class WaitingRun(NamedTuple):
    """What a queue shows of a run."""

    pk: int
    slug: str
    project: str
    reason: str
    sha: str
    subject: str
    created: datetime


@dataclass
class MachineWork:
    """A machine's run and queue. ``done_at``: when the queue is empty if no run is added; None: unknown.

    ``environment_since``: when its current environment was seen first.
    """

    machine: Machine
    environment_since: datetime | None
    running: Run | None = None
    progress: ReportedProgress | None = None
    waiting: list[tuple[WaitingRun, datetime | None]] = field(default_factory=list)
    queued: int = 0
    usual_s: float | None = None
    done_at: datetime | None = None

    @property
    def health(self) -> str:
        return health_of(self.machine, self.running is not None)


def health_of(machine: Machine, is_working: bool) -> str:
    """The state of a machine in words."""
    if machine.retired_at:
        return "retired"
    if machine.quarantined_at:
        return "quarantine"
    if machine.paused:
        return "paused"
    if machine.last_seen_at is None:
        return "never seen"
    silent = (timezone.now() - machine.last_seen_at).total_seconds() > SILENT_S
    return "silent" if silent else "working" if is_working else "idle"


@dataclass(frozen=True)
class QueuePage:
    machines: list[MachineWork]
    failed_or_lost: list[Run]


def load() -> QueuePage:
    in_service = [work for work in work_of_all() if not work.machine.retired_at]
    return QueuePage(in_service, failed_or_lost())


def work_of_all() -> list[MachineWork]:
    """The work of each machine; the number of queries does not depend on how many there are."""
    since = Environment.objects.filter(machine=OuterRef("pk")).order_by("-pk").values("created")[:1]
    queued = Run.objects.filter(machine=OuterRef("pk"), status=Status.QUEUED).values("machine")
    # A count for each machine, so that PostgreSQL takes its part of the index of waiting runs.
    counted = Coalesce(Subquery(queued.annotate(count=Count("pk")).values("count")), 0)
    annotated = Machine.objects.defer("facts").annotate(since=Subquery(since), queued=counted)
    active = {r.machine_id: r for r in active_runs()}
    usual = usual_seconds()
    machines = list(annotated.order_by("name"))
    waiting = waiting_runs([machine.pk for machine in machines])
    made = []
    for machine in machines:
        work = MachineWork(machine, machine.since, active.get(machine.pk), queued=machine.queued)
        work.progress = progress_of(work.running) if work.running else None
        work.usual_s = usual.get(machine.pk)
        estimate_ends(work, waiting.get(machine.pk, []))
        made.append(work)
    return made


def work_of(machine: Machine) -> MachineWork:
    """What one machine measures now, and how many runs wait for it."""
    work = MachineWork(machine, None, active_runs().filter(machine=machine).first())
    work.queued = Run.objects.filter(machine=machine, status=Status.QUEUED).count()
    return work


def active_runs() -> QuerySet[Run]:
    return Run.objects.active().select_related(*RELATED).defer(*HEAVY)


def waiting_runs(machine_ids: list[int]) -> dict[int, list[WaitingRun]]:
    """By machine: its next waiting runs, in the order in which it takes them."""
    found: dict[int, list[WaitingRun]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(NEXT_WAITING, [machine_ids, WAITING])
        for machine_id, *columns in cursor:
            found[machine_id].append(WaitingRun._make(columns))
    return found


def usual_seconds() -> dict[int, float]:
    """By machine: the median duration of its newest finished runs."""
    spans: dict[int, list[float]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(NEWEST_SPANS, ["30 days", RECENT])
        for machine_id, seconds in cursor:
            spans[machine_id].append(seconds)
    return {machine_id: median(times) for machine_id, times in spans.items()}


def estimate_ends(work: MachineWork, runs: list[WaitingRun]) -> None:
    """Set when each waiting run will be done, estimated from the machine's usual duration of a run."""
    if work.usual_s is None or work.health in ("retired", "quarantine", "paused", "silent", "never seen"):
        work.waiting = [(run, None) for run in runs]
        return
    at = timezone.now()
    if work.running and work.running.started_at:
        at = max(at, work.running.started_at + timedelta(seconds=work.usual_s))
    step = timedelta(seconds=work.usual_s)
    work.waiting = [(run, at + step * (place + 1)) for place, run in enumerate(runs)]
    work.done_at = at + step * work.queued if work.queued else None


def failed_or_lost() -> list[Run]:
    """The newest runs that failed, or that were lost and wait for another attempt."""
    lost = Q(status=Status.QUEUED, attempt__gt=0)
    found = Run.objects.filter(Q(status=Status.FAILED) | lost).select_related(*RELATED).defer(*HEAVY)
    return list(found.order_by(F("started_at").desc(nulls_last=True))[:FAILURES])
