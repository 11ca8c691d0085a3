"""The life of a run: plan, claim, renew, log, complete, fail, cancel, reap.

PostgreSQL rows are the truth, and its ``now()`` is the only clock. The lease token is the fence: every call of a
runner carries it, and a call with an old one changes nothing (LeaseLost). A message lost or doubled costs nothing,
because ``claim`` alone decides who does what.
"""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from speedtrack.benchmarks import definitions
from speedtrack.benchmarks.definitions import Definition
from speedtrack.benchmarks.models import Benchmark, Suite
from speedtrack.projects.models import Branch, Commit, Project
from speedtrack.runs import canary, rates
from speedtrack.runs.documents import Failure, LogPiece, Renewal
from speedtrack.runs.models import (
    ACTIVE,
    Attempt,
    LogChunk,
    Machine,
    Measurement,
    Reason,
    Run,
    Series,
    Status,
)

#: manual > confirm and bisect > head of a branch > the rest > profiles > a backlog's end > A/A; canaries before all
PRIORITY = {
    "manual": 400,
    "confirm": 300,
    "bisect": 300,
    "head": 200,
    "rest": 100,
    "later": 50,
    "profile": 60,
    "aa": 10,
}
BACKLOG_CAP = 200  # commits of one plan that keep their priority; between them the others are filled in later
RETRY_PAUSE_S = 15  # before the second attempt after a transient failure; grows with the attempt
ROUTINE = (Reason.PUSH, Reason.BACKFILL)  # one of them is enough for a commit
GONE = "the commit is no longer on"
PROFILE_HZ = 997  # a prime: in step with nothing that happens every so many milliseconds
DEADLINE_S = 4 * 3600  # of one attempt; the runner stops itself


class LeaseLost(Exception):
    """The run is no longer this runner's: it was taken, cancelled or has ended."""


class NoSuchRun(Exception):
    """The machine has no run of this number."""


class Occupied(Exception):
    """Two runners use one machine's token."""


class Incomplete(Exception):
    """A run cannot be completed while a measurement is missing."""


@dataclass(frozen=True)
class Plan:
    """What to queue: commits in any order, why, on which machines, with which benchmarks of the suite (None: all)."""

    project: Project
    suite: Suite
    benchmarks: Sequence[Benchmark]
    reason: Reason
    base: Commit | None = None
    round: int = 0
    trials: int | None = None
    priority: int | None = None

    @property
    def set_digest(self) -> str:
        return definitions.set_digest(self.benchmarks)


def plan_commits(plan: Plan, ranks: dict[int, int], machines: Iterable[Machine], head: int | None = None) -> int:
    """Queue one run per commit and machine, unless it exists. Returns how many were new.

    ``ranks``: commit id -> position on its branch. ``head``: the commit id that goes first.
    """
    planned = already_planned(plan, ranks)
    newest_first = sorted(ranks, key=lambda commit: ranks[commit], reverse=True)
    step = -(-len(newest_first) // BACKLOG_CAP)
    runs = [
        Run(
            project=plan.project,
            commit_id=commit,
            base=plan.base,
            machine=machine,
            suite=plan.suite,
            benchmarks=[b.name for b in plan.benchmarks],
            benchmark_set=plan.set_digest,
            reason=plan.reason,
            round=plan.round,
            trials=plan.trials or plan.suite.definition["trials"],
            priority=plan.priority or priority_of(plan.reason, commit == head, place % step == 0),
            rank=ranks[commit],
        )
        for machine in machines
        for place, commit in enumerate(newest_first)
        if (commit, machine.pk) not in planned
    ]
    with transaction.atomic():
        before = Run.objects.filter(project=plan.project).count()
        Run.objects.bulk_create(runs, ignore_conflicts=True, batch_size=1000)
        return Run.objects.filter(project=plan.project).count() - before


def already_planned(plan: Plan, commits: Iterable[int]) -> set[tuple[int, int]]:
    """(commit, machine) that a push and a backfill need not queue both."""
    if plan.reason not in ROUTINE:
        return set()
    runs = Run.objects.filter(commit__in=commits, benchmark_set=plan.set_digest, reason__in=ROUTINE, base=None)
    return set(runs.values_list("commit_id", "machine_id"))


def plan_pair(plan: Plan, commit_id: int, machine: Machine) -> Run:
    """Queue the paired run of a plan (whose base is set) against one commit, unless it exists; return it."""
    plan_commits(plan, {commit_id: 0}, [machine])
    return Run.objects.get(
        commit_id=commit_id, base=plan.base, machine=machine, benchmark_set=plan.set_digest, reason=plan.reason,
        round=plan.round,
    )  # fmt: skip


def priority_of(reason: Reason, is_head: bool, in_step: bool) -> int:
    if reason.value in PRIORITY:
        return PRIORITY[reason.value]
    return PRIORITY["head" if is_head else "rest" if in_step else "later"]


def plan_branch(branch: Branch, commits: QuerySet[Commit], reason: Reason) -> int:
    """Queue commits of a branch on all machines of its project. Returns how many runs were new.

    A waiting run of what is the head of no branch any more steps back: people want the newest first.
    """
    project = branch.project
    definition = definitions.load(project.suite)
    suite, benchmarks = definitions.store(project, definition)
    ranks = dict(branch.positions.filter(commit__in=commits).values_list("commit_id", "number").order_by("number"))
    if not ranks:
        return 0
    head = branch.head_id if branch.head_id in ranks else None
    if head:
        heads = project.branches.filter(deleted_at=None, head__isnull=False).values("head")
        Run.objects.filter(project=project, status=Status.QUEUED, priority=PRIORITY["head"]).exclude(
            commit__in=heads
        ).update(priority=PRIORITY["rest"])
    plan = Plan(project, suite, definitions.usual(definition, benchmarks), reason)
    return plan_commits(plan, ranks, project.machines.all(), head)


def claim(machine: Machine, instance: str = "") -> Run | None:
    """Give the machine its next run: one atomic statement that raises the lease token and the attempt.

    Before, the machine's canary is attended to: it may have to be measured first, or keep the machine from all else.
    A runner that claims while it still holds a run has lost it (it was restarted): that run is first queued again,
    or failed at the attempt cap. None when there is no work or the machine is paused. Raises Occupied when another
    runner, of another ``instance``, holds a live lease with the same machine's token.
    """
    with transaction.atomic():
        machine = Machine.objects.select_for_update(no_key=True).get(pk=machine.pk)
        others = Attempt.objects.filter(
            run__in=Run.objects.active().filter(machine=machine, lease_until__gt=Now()), token=F("run__lease_token")
        ).exclude(instance=instance)
        if others.exists():
            raise Occupied(
                f"another runner works with the token of machine {machine}: give each machine a token of its own "
                "(`manage.py machine add NAME`)"
            )
        for run in Run.objects.active().filter(machine=machine).select_for_update():
            take_back(run, "the runner was restarted while it held this run")
        canary.attend(machine)
        while picked := next_waiting(machine):
            if lease(picked, instance):
                return picked
        return None


def next_waiting(machine: Machine) -> Run | None:
    """The run that the machine takes next, locked for the caller's transaction."""
    return (
        Run.objects.claimable()
        .filter(machine=machine, machine__paused=False)
        .order_by("-priority", "-rank", "id")
        .select_for_update(skip_locked=True, of=("self",))
        .first()
    )


def lease(run: Run, instance: str) -> bool:
    """Begin the next attempt of a run. False: it has failed at once, as nothing in it can be measured yet."""
    postponed = rates.postponed(run)
    left_out = "".join(f"; {name} is postponed: {why}" for name, why in postponed.items())
    run.move(
        Status.LEASED,
        f"claimed by {run.machine}{left_out}",
        lease_token=F("lease_token") + 1,
        attempt=F("attempt") + 1,
        lease_until=Now() + timedelta(seconds=settings.LEASE_S),
        started_at=Now(),
        ended_at=None,
        progress=None,
        linked=None,
    )
    Attempt.objects.create(run=run, number=run.attempt, token=run.lease_token, instance=instance, postponed=postponed)
    if len(postponed) < len(run.benchmarks):
        return True
    finish(run, Status.FAILED, "nothing to measure: " + "; ".join(f"{n}: {why}" for n, why in postponed.items()))
    return False


def job(run: Run) -> dict[str, Any]:
    """The ``speedtrack.job/3`` document of a claimed run (docs/result-format.md)."""
    definition = definitions.of_suite(run.suite)
    sides = [{"side": "head", "sha": run.commit.sha}]
    if run.base:
        sides.insert(0, {"side": "base", "sha": run.base.sha})
    return {
        "schema": "speedtrack.job/3",
        "run": run.pk,
        "token": run.lease_token,
        "attempt": run.attempt,
        "reason": run.reason,
        "project": run.project.slug,
        "seed": zlib.crc32(f"{run.pk}/{run.attempt}".encode()),
        "trials": run.trials,
        "most_trials": run.trials if run.paired else max(run.trials, definition.cap),
        "lease_s": settings.LEASE_S,
        "deadline_s": DEADLINE_S,
        "sides": sides,
        "frozen": run.canary.artifacts if run.canary else None,
        "build": definition.build.model_dump() | {"trust": definition.build.trust or run.project.slug},
        "server": definition.server.model_dump(),
        "benchmarks": work(run, definition),
        "profile": {"frequency_hz": PROFILE_HZ} if run.reason == Reason.PROFILE else None,
    }


def work(run: Run, definition: Definition) -> list[dict[str, Any]]:
    """What the run measures now, in the suite's order: rates in requests/s, without what its attempt postponed."""
    digests = definitions.digests(definition)
    left_out = attempt_of(run).postponed
    found = []
    for section in definition.benchmark:
        if section.name in run.benchmarks and section.name not in left_out:
            told = {"name": section.name, "digest": digests[section.name]} | section.work()
            if rate := rates.asked(run, section, digests):
                told["workload"]["rate"] = rate
            found.append(told)
    return found


def benchmarks_of(run: Run) -> list[Benchmark]:
    """The run's benchmarks as its suite defines them, in the suite's order."""
    digests = definitions.digests(definitions.of_suite(run.suite))
    rows = Benchmark.objects.filter(project=run.project, name__in=run.benchmarks, digest__in=digests.values())
    known = {(b.name, b.digest): b for b in rows}
    return [known[name, digest] for name, digest in digests.items() if name in run.benchmarks]


def held(machine: Machine, run_id: int, token: int) -> Run:
    """The machine's active run of this token, locked for the caller's transaction. Raises NoSuchRun, LeaseLost."""
    run = (
        Run.objects.select_for_update(of=("self",))
        .select_related("commit", "base", "project", "suite")
        .filter(pk=run_id, machine=machine)
        .first()
    )
    if run is None:
        raise NoSuchRun(f"there is no run {run_id} of {machine}: drop the work")
    if run.lease_token != token or run.status not in ACTIVE:
        raise LeaseLost(f"run {run_id} is no longer held with token {token}: drop the work")
    return run


def glance(machine: Machine, run_id: int, token: int) -> Run:
    """As ``held``, without keeping it locked: for reading."""
    with transaction.atomic():
        return held(machine, run_id, token)


def lease_s() -> int:
    """Seconds that a lease lasts without a renewal."""
    return int(settings.LEASE_S)


def attempt_of(run: Run) -> Attempt:
    return run.attempts.get(token=run.lease_token)


@transaction.atomic
def renew(machine: Machine, run_id: int, renewal: Renewal) -> bool:
    """Prolong the lease and note the progress. True: the run was cancelled, stop the work. Raises LeaseLost."""
    run = held(machine, run_id, renewal.token)
    if run.cancel_requested_at:
        finish(run, Status.CANCELLED, "cancelled on request")
        return True
    progress = renewal.progress.model_dump() if renewal.progress else run.progress
    lease = {"lease_until": Now() + timedelta(seconds=settings.LEASE_S), "progress": progress}
    if run.status == Status.LEASED:
        run.move(Status.RUNNING, "the runner began", **lease)
    else:
        Run.objects.filter(pk=run.pk).update(**lease)
    return False


@transaction.atomic
def log(machine: Machine, run_id: int, piece: LogPiece) -> None:
    """Keep a piece of the log; the same piece again changes nothing. Raises LeaseLost."""
    run = held(machine, run_id, piece.token)
    LogChunk.objects.bulk_create(
        [LogChunk(attempt=attempt_of(run), seq=piece.seq, phase=piece.phase, text=piece.text)], ignore_conflicts=True
    )


def side_of(run: Run, side: str, sha: str) -> Commit:
    """The commit of a side of a run. Raises LeaseLost if the document speaks of another one."""
    commit = run.base if side == "base" else run.commit
    if commit is None or commit.sha != sha:
        raise LeaseLost(f"run {run.pk} has no side {side} at {sha}: the document belongs to another run")
    return commit


@transaction.atomic
def complete(machine: Machine, run_id: int, token: int) -> None:
    """Accept the run's measurements and end it. The same call again changes nothing.

    Raises LeaseLost, and Incomplete if a measurement of a benchmark is missing.
    """
    if ended_with(machine, run_id, token, Status.SUCCEEDED):
        return
    run = held(machine, run_id, token)
    attempt = attempt_of(run)
    if run.linked:
        accept_measurements(run)
        finish(run, Status.SUCCEEDED, f"{run.linked.commit.short} is the same program: not measured again")
        return
    wanted = (2 if run.base else 1) * (len(run.benchmarks) - len(attempt.postponed))
    what = "profiles" if run.reason == Reason.PROFILE else "measurements"
    found = len(brought(attempt, what))
    if found < wanted:
        raise Incomplete(f"run {run.pk} has {found} of {wanted} {what}")
    accept_measurements(run)
    finish(run, Status.SUCCEEDED, f"all {what} are there")
    canary.adopt(run)


def brought(attempt: Attempt, what: str) -> set[tuple[str, str]]:
    """(benchmark, side) of the profiles or of the measurements that an attempt has sent."""
    if what == "profiles":
        return set(attempt.profiles.values_list("benchmark__name", "side"))
    measured = attempt.measurements.exclude(series__benchmark__name=definitions.BUILD)
    return set(measured.values_list("series__benchmark__name", "side"))


@transaction.atomic
def fail(machine: Machine, run_id: int, failure: Failure) -> None:
    """End an attempt without all its measurements. The same call again changes nothing. Raises LeaseLost.

    Transient: the run is queued again, until the attempt cap. Permanent: it ends, with what was measured accepted.
    Stopped: the runner was told to stop, and hands the run back; that is no attempt.
    """
    if ended_with(machine, run_id, failure.token, Status.FAILED) or waits_after(machine, run_id, failure):
        return
    run = held(machine, run_id, failure.token)
    if failure.kind == "permanent":
        accept_measurements(run)
        finish(run, Status.FAILED, failure.error)
    elif failure.kind == "stopped" and not run.cancel_requested_at:
        hand_back(run, failure.error)
    else:
        take_back(run, failure.error, pause_s=RETRY_PAUSE_S * run.attempt)


def ended_with(machine: Machine, run_id: int, token: int, status: Status) -> bool:
    """Has this very attempt already ended so? (The answer to its first call was lost on the way.)"""
    return Run.objects.filter(pk=run_id, machine=machine, lease_token=token, status=status).exists()


def waits_after(machine: Machine, run_id: int, failure: Failure) -> bool:
    """Has this very failure already queued the run again?"""
    return Run.objects.filter(
        pk=run_id, machine=machine, lease_token=failure.token, status=Status.QUEUED, error=failure.error
    ).exists()


def accept_measurements(run: Run) -> None:
    """Show the attempt's measurements, if it has any, to charts and detection, in the place of an earlier attempt's.

    Not those of a canary: they speak of the machine.
    """
    if run.canary_id:
        return
    measurements = Measurement.objects.filter(attempt=attempt_of(run))
    if not measurements.exists():
        return
    earlier = Measurement.objects.filter(attempt__run=run, accepted=True).exclude(attempt=attempt_of(run))
    changed = list(earlier.union(measurements).values_list("series", flat=True))
    earlier.update(accepted=False)
    measurements.update(accepted=True)
    Series.objects.filter(pk__in=changed).update(undetected_since=Now())


def finish(run: Run, to: Status, why: str) -> None:
    """End a run and its attempt."""
    Attempt.objects.filter(run=run, token=run.lease_token).update(ended_at=Now(), outcome=to)
    error = why if to == Status.FAILED else ""
    run.move(to, why, ended_at=Now(), lease_until=None, progress=None, error=error)


def take_back(run: Run, why: str, pause_s: float = 0) -> None:
    """End a lost attempt: the run is queued again, or failed at the attempt cap, or cancelled if that was asked."""
    if run.cancel_requested_at:
        finish(run, Status.CANCELLED, "cancelled on request")
    elif run.attempt >= settings.MAX_ATTEMPTS:
        finish(run, Status.FAILED, f"given up after {run.attempt} attempts; the last: {why}")
    else:
        Attempt.objects.filter(run=run, token=run.lease_token).update(ended_at=Now(), outcome=Status.QUEUED)
        not_before = Now() + timedelta(seconds=pause_s)
        run.move(Status.QUEUED, why, lease_until=None, not_before=not_before, progress=None, error=why)


def hand_back(run: Run, why: str) -> None:
    """Queue a run again that its runner gave back unharmed: the attempt does not count."""
    Attempt.objects.filter(run=run, token=run.lease_token).update(ended_at=Now(), outcome=Status.QUEUED)
    run.move(Status.QUEUED, why, attempt=F("attempt") - 1, lease_until=None, not_before=Now(), progress=None)


def reap() -> int:
    """Take back every run whose lease has expired. Returns how many. Safe to run any number of times at once."""
    taken = 0
    for run_id in Run.objects.lost().values_list("pk", flat=True):
        with transaction.atomic():
            run = Run.objects.lost().select_for_update(skip_locked=True, of=("self",)).filter(pk=run_id).first()
            if run:
                take_back(run, f"the runner was silent for more than {settings.LEASE_S} s")
                taken += 1
    return taken


@transaction.atomic
def cancel(run: Run, why: str) -> None:
    """Cancel a run: at once while it waits; a runner at work is told with its next renewal."""
    run = Run.objects.select_for_update(of=("self",)).get(pk=run.pk)
    if run.status == Status.QUEUED:
        run.move(Status.CANCELLED, why, ended_at=Now(), cancel_requested_at=Now())
    elif run.status in ACTIVE:
        Run.objects.filter(pk=run.pk).update(cancel_requested_at=Now())


@transaction.atomic
def retry(run: Run, why: str) -> None:
    """Queue a failed or cancelled run again, with a fresh count of attempts. Raises ValueError for another one."""
    run = Run.objects.select_for_update(of=("self",)).get(pk=run.pk)
    run.move(Status.QUEUED, why, attempt=0, error="", cancel_requested_at=None, ended_at=None, not_before=Now())


def cancel_unreachable(branch: Branch, shas: list[str]) -> int:
    """Cancel waiting runs of commits that left a branch by a force push and are on no other branch."""
    gone = Run.objects.filter(
        project=branch.project, status=Status.QUEUED, commit__sha__in=shas, commit__positions=None, canary=None
    )
    for run in gone:
        cancel(run, f"{GONE} {branch}")
    return len(gone)


def requeue_returned(branch: Branch, commits: QuerySet[Commit]) -> int:
    """Queue again what was cancelled when these commits, which are back, left their branch."""
    cancelled = Run.objects.filter(project=branch.project, status=Status.CANCELLED, commit__in=commits)
    back = cancelled.filter(events__after=Status.CANCELLED, events__why__startswith=GONE).distinct()
    for run in back:
        retry(run, f"the commit is on {branch} again")
    return len(back)
