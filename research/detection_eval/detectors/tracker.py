"""Feed a line of commits to the tracker, point by point; detection and settling run as in the workers.

Written by hand, as results would have written it, are the rows of commits, measurements and pairs; what is suspected,
measured again, confirmed and named is decided by `detection.detect` and `confirm.step` alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
from django.db import connection

from research.detection_eval.lines.lines import Line
from research.detection_eval.scores import MARGIN, Record, TrackedChange
from speedtrack.alerts.detection import detection
from speedtrack.alerts.models import ChangePoint
from speedtrack.alerts.settling import confirm
from speedtrack.benchmarks.models import Benchmark, Suite
from speedtrack.benchmarks.storing import store_set
from speedtrack.projects import chains
from speedtrack.projects.models import Branch, Commit, Project
from speedtrack.runs.models import (
    Attempt,
    Environment,
    Machine,
    Measurement,
    Reason,
    Run,
    Samples,
    Series,
    Side,
    Status,
)
from speedtrack.stats.summary import summarize

METRIC = "server_cpu_ns_per_request"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
MOST_ROUNDS = 500  # of step and pairs after one point: settling must come to rest
OPEN = (ChangePoint.Status.SUSPECTED, ChangePoint.Status.SETTLING)
NOTED = ("pk", "kind", "status", "before", "commit", "ratio")
TABLES = ("projects_project", "runs_machine", "benchmarks_suite")


def track(line: Line, seed: int, margin: int = MARGIN) -> Record:
    """Everything that the tracker finds on a line, each point measured and settled before the next one comes."""
    tracked = TrackedLine(line, seed)
    record = Record(line, margin=margin)
    life = Lives(tracked, record)
    for now in range(len(line.values)):
        tracked.measure(now)
        detection.detect()
        life.note(now)
        for _ in settle(tracked, now):
            life.note(now)
    record.pairs = tracked.pairs
    record.error = Series.objects.values_list("error", flat=True).get(pk=tracked.series.pk)
    return record


def settle(tracked: TrackedLine, now: int) -> Iterator[None]:
    """Step, and measure the pairs that it asks for, until it asks for none."""
    for _ in range(MOST_ROUNDS):
        if not ChangePoint.objects.filter(series=tracked.series, status__in=OPEN).exists():
            return
        confirm.step()
        yield
        queued_runs = Run.objects.filter(status=Status.QUEUED, machine=tracked.machine).exclude(reason=Reason.EFFECT)
        waiting_runs = list(queued_runs.order_by("id"))
        if not waiting_runs:
            return
        for run in waiting_runs:
            tracked.measure_pairs(run, now)
    raise RuntimeError(f"{tracked.line.id}: commit {now} is not settled after {MOST_ROUNDS} rounds")


def clear() -> None:
    """Delete all lines, so that they do not slow down the next one."""
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {', '.join(TABLES)} CASCADE")


class TrackedLine:
    """A project with one series, whose commits are measured one after another."""

    def __init__(self, line: Line, seed: int) -> None:
        self.line = line
        self.rng = np.random.default_rng([seed, *map(ord, line.id)])
        self.pairs = 0
        self.project = Project.objects.create(
            slug=f"line-{seed}-{Project.objects.count()}", name=line.id[:100], url="file:///", default_branch="main"
        )
        self.machine = Machine.objects.create(name=self.project.slug)
        self.project.machines.add(self.machine)
        environment = Environment.objects.create(machine=self.machine, digest="any", facts={})
        definition = {"trials": 1, "benchmark": []}
        self.suite = Suite.objects.create(name="suite", digest=self.project.slug, definition=definition)
        self.benchmark = Benchmark.objects.create(project=self.project, name="get", digest="get", definition={})
        self.benchmark_set = store_set(self.suite, [self.benchmark])
        self.series = Series.objects.create(
            project=self.project, benchmark=self.benchmark, metric=METRIC, machine=self.machine, environment=environment
        )
        self.branch = Branch.objects.create(project=self.project, name="main")
        self.commits = self.write_commits(len(line.values))
        self.attempts = self.write_attempts_of_all()
        self.index = {commit.pk: i for i, commit in enumerate(self.commits)}

    def write_commits(self, count: int) -> list[Commit]:
        commits = Commit.objects.bulk_create(
            Commit(
                project=self.project,
                sha=f"{i:040x}",
                author_name="Ada",
                author_email="ada@example.org",
                authored_at=time_of(i),
                committed_at=time_of(i),
                subject=f"Change {i}",
            )
            for i in range(count)
        )
        chains.append_commits(self.branch, commits)
        return commits

    def write_attempts_of_all(self) -> list[Attempt]:
        """The ended runs of all commits; what they measured comes later."""
        values = self.line.values
        runs = Run.objects.bulk_create(
            Run(
                project=self.project,
                commit=commit,
                machine=self.machine,
                suite=self.suite,
                benchmark_set=self.benchmark_set,
                reason=Reason.PUSH,
                rank=i,
                trials=len(values[i]),
                status=Status.SUCCEEDED,
                attempt=1,
                lease_token=1,
                ended_at=time_of(i),
            )
            for i, commit in enumerate(self.commits)
        )
        return self.write_attempts(runs, [time_of(i) for i in range(len(runs))])

    def measure(self, first: int, last: int | None = None) -> None:
        """Write the measurements of a commit, or of all up to another one; detection has not seen them."""
        indices = range(first, (first if last is None else last) + 1)
        self.write_measurements([(self.attempts[i], self.commits[i], Side.HEAD, self.line.values[i]) for i in indices])
        Series.objects.filter(pk=self.series.pk).update(undetected_since=time_of(first))

    def measure_pairs(self, run: Run, now: int) -> None:
        """Write the trials of a paired run, as noisy as the line is now, and end it."""
        noise = self.line.noise(now)
        assert run.base is not None
        run.status, run.attempt, run.lease_token, run.ended_at = Status.SUCCEEDED, 1, 1, time_of(now)
        run.save(update_fields=["status", "attempt", "lease_token", "ended_at"])
        (attempt,) = self.write_attempts([run], [time_of(now)])
        sides = ((Side.BASE, run.base), (Side.HEAD, run.commit))
        self.write_measurements(
            [
                (attempt, commit, side, noise.draw(self.rng, self.line.levels[self.index[commit.pk]], run.trials))
                for side, commit in sides
            ],
            paired=True,
        )
        self.pairs += run.trials

    def write_attempts(self, runs: Sequence[Run], ends: Sequence[datetime]) -> list[Attempt]:
        return Attempt.objects.bulk_create(
            Attempt(run=run, number=1, token=1, started_at=end, ended_at=end, outcome=Status.SUCCEEDED)
            for run, end in zip(runs, ends, strict=True)
        )

    def write_measurements(
        self, rows: Sequence[tuple[Attempt, Commit, Side, Sequence[float]]], paired: bool = False
    ) -> None:
        estimates = [summarize(values) for *_, values in rows]
        measurements = Measurement.objects.bulk_create(
            Measurement(
                attempt=attempt,
                series=self.series,
                commit=commit,
                side=side,
                paired=paired,
                accepted=True,
                value=estimate.value,
                low=estimate.low,
                high=estimate.high,
                n=estimate.n,
            )
            for (attempt, commit, side, _), estimate in zip(rows, estimates, strict=True)
        )
        Samples.objects.bulk_create(
            Samples(measurement=measurement, values=list(values))
            for measurement, (*_, values) in zip(measurements, rows, strict=True)
        )


class Lives:
    """Follows the change points of a line from suspicion to answer."""

    def __init__(self, tracked: TrackedLine, record: Record) -> None:
        self.tracked, self.record = tracked, record
        self.known: dict[int, TrackedChange] = {}

    def note(self, now: int) -> None:
        """Record which change points exist now, and which have vanished."""
        rows = ChangePoint.objects.filter(series=self.tracked.series).order_by("id")
        there = set()
        index = self.tracked.index
        for pk, kind, status, before, commit, ratio in rows.values_list(*NOTED):
            there.add(pk)
            self.note_one(pk, now, status, (index[before], index[commit]), ratio)
            self.known[pk].kind = kind
        for pk, change in self.known.items():
            if pk not in there:
                change.status = "withdrawn"

    def note_one(self, pk: int, now: int, status: str, span: tuple[int, int], ratio: float) -> None:
        direction = 1 if ratio > 1 else -1
        change = self.known.get(pk)
        if change is None:
            change = self.known[pk] = TrackedChange(now, direction, [span[1]], status, ratio=ratio)
            self.record.changes.append(change)
        if status == ChangePoint.Status.SUSPECTED:
            if change.positions[-1] != span[1]:
                change.positions.append(span[1])
        else:
            change.bracket = change.bracket or span
            change.range = span
        change.status, change.direction = status, direction
        if status == ChangePoint.Status.CONFIRMED and change.confirmed_at is None:
            change.confirmed_at = now


def time_of(index: int) -> datetime:
    return BEGIN + timedelta(minutes=index)
