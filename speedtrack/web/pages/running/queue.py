"""The queue: what runs, what waits and until when, and the state of each machine."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import connection
from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce
from django.utils import timezone

from speedtrack.accounts.access import Access
from speedtrack.benchmarks import numbers
from speedtrack.ground.postgres.preparedquery import PreparedQuery
from speedtrack.reports.machines import keep_secret
from speedtrack.runs.models import Environment, Machine, Run, Status
from speedtrack.runs.queue import estimates
from speedtrack.runs.queue.estimates import DurationEstimate, WaitingTotal
from speedtrack.runs.queue.progress import Progress, progress_of
from speedtrack.runs.scheduling import soundness, standing, states
from speedtrack.runs.scheduling.soundness import Soundness
from speedtrack.runs.scheduling.standing import MachineStanding
from speedtrack.web.pages.running.live import stream_of_queue

WAITING = 12  # waiting runs listed per machine
FAILURES, ENDED = 15, 15
RELATED = ("project", "commit", "base", "machine")
HEAVY = ("machine__facts", "commit__parents", "commit__reverts")
# A few rows of each machine from the beginning of an index, however many runs there are.
NEXT_WAITING = """
    SELECT m.id, p.id, next.id, p.slug, p.name, next.reason, c.sha, c.subject, next.created
      FROM unnest(%s::bigint[]) m(id) CROSS JOIN LATERAL (
        SELECT r.* FROM runs_run r WHERE r.machine_id = m.id AND r.status = 'queued'
      ORDER BY r.priority DESC, r.rank DESC, r.id LIMIT %s) next
      JOIN projects_project p ON p.id = next.project_id
      JOIN projects_commit c ON c.id = next.commit_id
  ORDER BY next.priority DESC, next.rank DESC, next.id
"""
# The newest ended runs of each machine, without those of its canary, from the end of an index.
NEWEST_ENDED = """
    SELECT ended.id
      FROM unnest(%s::bigint[]) m(id) CROSS JOIN LATERAL (
        SELECT r.id FROM runs_run r
         WHERE r.machine_id = m.id AND r.ended_at IS NOT NULL AND r.canary_id IS NULL AND r.project_id <> ALL (%s)
      ORDER BY r.ended_at DESC LIMIT %s) ended
"""


class WaitingRun(NamedTuple):
    """What a queue shows of a run."""

    project_id: int
    pk: int
    slug: str
    project: str
    reason: str
    sha: str
    subject: str
    created: datetime


@dataclass(frozen=True)
class ExpectedRun:
    """When a waiting run begins and ends if no run is added, and how long its phases take."""

    starts_at: datetime
    ends_at: datetime
    phases: DurationEstimate


@dataclass
class MachineWork:
    """A machine's run and queue. ``waiting``: with None for runs of projects that the caller does not see.

    ``done_at``: when the queue is empty if no run is added; None: unknown.

    ``ends_at``: when the machine's run will have ended; ``late_s``: for how many seconds it should have ended.

    ``is_secret``: it measures a project that the caller may not see.

    ``environment_since``: when its current environment was seen first.
    """

    machine: Machine
    environment_since: datetime | None
    standing: MachineStanding
    soundness: Soundness | None = None
    running: Run | None = None
    progress: Progress | None = None
    waiting: list[tuple[WaitingRun | None, ExpectedRun | None]] = field(default_factory=list)
    queued: int = 0
    ends_at: datetime | None = None
    done_at: datetime | None = None
    late_s: float = 0.0
    is_secret: bool = False

    @property
    def health(self) -> str:
        return self.standing.state

    @property
    def late(self) -> str:
        """By how much its run should have ended, in words; empty if it is not late."""
        return f"late by {numbers.about(self.late_s)}" if self.late_s else ""

    def hide(self, access: Access) -> None:
        """Hide the run being measured from a caller who may not see its project."""
        if self.running and not access.sees(self.running.project_id):
            self.running, self.progress, self.is_secret = None, None, True


@dataclass(frozen=True)
class QueuePage:
    machines: list[MachineWork]
    failed_or_lost: list[Run]
    ended: list[Run]
    stream: str
    version: str

    @property
    def queued(self) -> int:
        return sum(work.queued for work in self.machines)

    @property
    def sentence(self) -> str:
        """What waits, and for what."""
        busy = sum(work.running is not None or work.is_secret for work in self.machines)
        names = ", ".join(work.machine.name for work in self.machines if work.queued)
        measuring = f"{busy} {'is' if busy == 1 else 'are'} being measured" if busy else "none is being measured"
        if self.queued:
            return f"{self.queued} run{' waits' if self.queued == 1 else 's wait'} for {names}; {measuring}"
        return f"No run waits; {measuring}"

    @property
    def waiting_since(self) -> datetime | None:
        """When the oldest of the listed runs that the caller may see was queued."""
        return min((run.created for work in self.machines for run, _ in work.waiting if run), default=None)


def load(access: Access) -> QueuePage:
    newest = states.newest_rows()  # first: what changes meanwhile makes the page load it again
    active, machines = list(active_runs()), shown_machines(access)
    version = states.queue_version(active, machines, newest)
    in_service = [machine for machine in machines if not machine.retired_at and not machine.outside]
    next_runs = waiting_runs([machine.pk for machine in in_service])
    works = expected_works(in_service, active, next_runs, access)
    latest_runs = ended_runs([machine.pk for machine in machines if not machine.outside], access)
    return QueuePage(works, failed_or_lost(access), latest_runs, stream_of_queue(), version)


def all_machines() -> QuerySet[Machine]:
    """All machines. ``since``: when their environments were seen first."""
    since = Environment.objects.filter(machine=OuterRef("pk")).order_by("-pk").values("created")[:1]
    return standing.with_work(Machine.objects.defer("facts").annotate(since=Subquery(since))).order_by("name")


ALL_MACHINES = PreparedQuery(all_machines)


def shown_machines(access: Access) -> list[Machine]:
    """All machines; what a private project says of one is left out for those who may not see that project."""
    machines = ALL_MACHINES.rows()
    keep_secret(machines, access)
    return machines


def work_of_all(access: Access) -> list[MachineWork]:
    """The work of each machine, without its waiting runs; by as many queries however many machines there are."""
    return expected_works(shown_machines(access), active_runs(), {}, access)


def waiting_count() -> Coalesce:
    """How many runs wait for a machine: one count for each, so that PostgreSQL takes its part of their index."""
    runs = Run.objects.filter(machine=OuterRef("pk"), status=Status.QUEUED).values("machine")
    return Coalesce(Subquery(runs.annotate(count=Count("pk")).values("count")), 0)


def counted_work(access: Access) -> list[MachineWork]:
    """The state of each machine, and how many runs wait for it."""
    running = {run.machine_id: run for run in active_runs()}
    machines = standing.with_work(Machine.objects.defer("facts")).annotate(queued=waiting_count()).order_by("name")
    standings = standing.of_machines(machines)
    works = [
        MachineWork(machine, None, standings[machine.pk], running=running.get(machine.pk), queued=machine.queued)
        for machine in machines
    ]
    for work in works:
        work.hide(access)
    return works


def expected_works(
    machines: list[Machine], active: Iterable[Run], next_runs: Mapping[int, list[WaitingRun]], access: Access
) -> list[MachineWork]:
    """The work of these machines, and when it is expected to begin and to end."""
    running = {run.machine_id: run for run in active}
    learned = estimates.learn([machine.pk for machine in machines])
    run_ids = [*(run.pk for run in running.values()), *(run.pk for runs in next_runs.values() for run in runs)]
    works = estimates.works_of(Run.objects.filter(pk__in=run_ids))
    expected = {pk: learned.estimate(work) for pk, work in works.items()}
    progress = progress_of(list(running.values()), expected)
    totals = estimates.totals(learned, Run.objects.filter(status=Status.QUEUED))
    standings, machine_works = standing.of_machines(machines), []
    sound = soundness.of_machines(machines, standings, access.hidden)
    for machine in machines:
        total = totals.get(machine.pk, WaitingTotal(0, None))
        since = getattr(machine, "since")  # noqa: B009 (an annotation)
        work = MachineWork(machine, since, standings[machine.pk], sound[machine.pk], running.get(machine.pk))
        work.queued = total.runs
        work.progress = progress.get(work.running.pk) if work.running else None
        starts_at = estimate_ends(work, expected, total.seconds)
        for run, expectation in expected_runs(next_runs.get(machine.pk, []), expected, starts_at):
            work.waiting.append((run if access.sees(run.project_id) else None, expectation))
        work.hide(access)
        machine_works.append(work)
    return machine_works


def work_of(machine: Machine, running: Run | None, access: Access) -> MachineWork:
    """What one machine measures now: this run."""
    work = MachineWork(machine, None, standing.of_machine(machine), running=running)
    work.hide(access)
    return work


def active_runs() -> QuerySet[Run]:
    return with_related(Run.objects.active())


def with_related(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Runs with what rows of them show."""
    return runs.select_related(*RELATED).defer(*HEAVY)


def waiting_runs(machine_ids: list[int]) -> dict[int, list[WaitingRun]]:
    """By machine id: the runs that it takes next, in that order."""
    runs_by_machine: dict[int, list[WaitingRun]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(NEXT_WAITING, [machine_ids, WAITING])
        for machine_id, *columns in cursor:
            runs_by_machine[machine_id].append(WaitingRun._make(columns))
    return runs_by_machine


def estimate_ends(
    work: MachineWork, expected: Mapping[int, DurationEstimate | None], total_s: float | None
) -> datetime | None:
    """Set when the machine's run and all that waits will have ended; return when the next run starts, if known.

    ``total_s``: seconds that all waiting runs take altogether.
    """
    stands = work.standing
    if not stands.may_be_estimated:
        return None
    now = timezone.now()
    at: datetime | None = now
    if work.running:
        phases = expected.get(work.running.pk)
        work.late_s = estimates.late_s(work.running, phases, now) if phases else 0.0
        usable_phases = phases if not work.late_s else None
        at = now + timedelta(seconds=estimates.left_s(work.running, usable_phases, now)) if usable_phases else None
        work.ends_at = at
    if stands.opens_at and at:  # but for what people asked for
        at = max(at, stands.opens_at)
    work.done_at = at + timedelta(seconds=total_s) if at and work.queued and total_s is not None else None
    return at


def expected_runs(
    runs: Iterable[WaitingRun], expected: Mapping[int, DurationEstimate | None], at: datetime | None
) -> Iterator[tuple[WaitingRun, ExpectedRun | None]]:
    """The waiting runs of a machine with their times, if the first one starts ``at`` this moment."""
    for run in runs:
        phases = expected.get(run.pk)
        expectation = ExpectedRun(at, at + timedelta(seconds=phases.seconds), phases) if at and phases else None
        at = expectation.ends_at if expectation else None
        yield run, expectation


def failed_or_lost(access: Access) -> list[Run]:
    """The newest runs that failed, or that were lost and wait for another attempt."""
    lost = Q(status=Status.QUEUED, attempt__gt=0)
    runs = access.among(Run.objects.filter(Q(status=Status.FAILED) | lost)).select_related(*RELATED).defer(*HEAVY)
    return list(runs.order_by(F("started_at").desc(nulls_last=True))[:FAILURES])


def ended_runs(machine_ids: list[int], access: Access) -> list[Run]:
    """The runs that ended last, on whichever machine."""
    newest = RawSQL(NEWEST_ENDED, [machine_ids, list(access.hidden), ENDED])  # noqa: S611 - a constant
    runs = Run.objects.filter(pk__in=newest).select_related(*RELATED).defer(*HEAVY)
    return list(runs.order_by("-ended_at")[:ENDED])
