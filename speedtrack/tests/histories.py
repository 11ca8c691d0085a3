"""Long measured histories, written straight into the tables: tens of thousands of points in seconds.

Tests of single steps make their state through the verbs of production (builders.py). What matters here is the shape of
the history: many points, many series, many branches.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any

from django.db import connection

from speedtrack.benchmarks.metrics import HEADLINE
from speedtrack.benchmarks.models import Benchmark, BenchmarkSet, Suite
from speedtrack.ground.postgres.words import joined
from speedtrack.projects import chains
from speedtrack.projects.models import Branch, Commit, Project
from speedtrack.runs.models import Attempt, Environment, Machine, Reason, Run, Series, Status

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class History:
    """A project with one branch. Commits and measurements are added by the methods, as if they had just arrived."""

    slug: str = "long"
    project: Project = field(init=False)
    branch: Branch = field(init=False)
    machine: Machine = field(init=False)
    suite: Suite = field(init=False)
    benchmark_set: BenchmarkSet = field(init=False)
    rounds: int = 0

    def __post_init__(self) -> None:
        self.project = Project.objects.create(
            slug=self.slug, name=self.slug, url=f"/{self.slug}", default_branch="main", suite="tiny", hook_id=self.slug
        )
        self.suite, _ = Suite.objects.get_or_create(
            name="tiny", digest="sha256:suite", defaults={"definition": {"benchmark": []}}
        )
        self.benchmark_set = BenchmarkSet.objects.create(project=self.project, digest="sha256:set")
        self.machine, _ = Machine.objects.get_or_create(name="m1")
        self.project.machines.add(self.machine)
        self.branch = Branch.objects.create(project=self.project, name="main")

    def commits(self, count: int, branch: Branch | None = None, **changes: Any) -> list[Commit]:
        """New commits at the end of a branch."""
        branch = branch or self.branch
        first = Commit.objects.filter(project=self.project).count()
        commits = Commit.objects.bulk_create(
            [
                Commit(
                    project=self.project,
                    sha=f"{first + i:040x}",
                    author_name="Ada",
                    author_email="ada@example.org",
                    authored_at=BEGUN + timedelta(hours=first + i),
                    committed_at=BEGUN + timedelta(hours=first + i),
                    subject=f"Change {first + i}",
                )
                for i in range(count)
            ],
            batch_size=5000,
        )
        for commit in commits:
            for name, value in changes.items():
                setattr(commit, name, value)
        if changes:
            Commit.objects.bulk_update(commits, list(changes))
        chains.append_commits(branch, commits)
        return commits

    def fork(self, name: str, commits: Iterable[Commit]) -> Branch:
        """Another branch that begins with these commits of the first one."""
        branch = Branch.objects.create(project=self.project, name=name)
        chains.append_commits(branch, list(commits))
        return branch

    def series(self, benchmark: str = "get", metric: str = HEADLINE, **choices: Any) -> Series:
        machine = choices.get("machine", self.machine)
        digest = choices.get("environment", "sha256:environment")
        environment, _ = Environment.objects.get_or_create(machine=machine, digest=digest, defaults={"facts": {}})
        benchmark_row, _ = Benchmark.objects.get_or_create(
            project=self.project, name=benchmark, digest=f"sha256:{benchmark}", defaults={"definition": {}}
        )
        return Series.objects.get_or_create(
            project=self.project, benchmark=benchmark_row, metric=metric, machine=machine, environment=environment
        )[0]

    def measure(
        self, series: Sequence[Series], values: Mapping[int, Sequence[Sequence[float]]], flags: Sequence[str] = ()
    ) -> datetime:
        """Store one run per commit id with the trials of each of these series; since when they are unseen."""
        self.rounds += 1
        machine = series[0].machine
        moment = max(BEGUN, Attempt.objects.order_by("-id").values_list("ended_at", flat=True).first() or BEGUN)
        runs = Run.objects.bulk_create(
            [
                Run(
                    project=self.project,
                    commit_id=commit,
                    machine=machine,
                    suite=self.suite,
                    benchmark_set=self.benchmark_set,
                    reason=Reason.PUSH,
                    trials=5,
                    status=Status.SUCCEEDED,
                    round=self.rounds,
                )
                for commit in values
            ],
            batch_size=2000,
        )
        attempts = Attempt.objects.bulk_create(
            [
                Attempt(run=run, number=1, token=1, outcome="succeeded", ended_at=moment + timedelta(seconds=1 + i))
                for i, run in enumerate(runs)
            ],
            batch_size=5000,
        )
        self.copy(series, values, [attempt.pk for attempt in attempts], joined(flags))
        since = moment + timedelta(milliseconds=500)
        Series.objects.filter(pk__in=[line.pk for line in series], undetected_since=None).update(undetected_since=since)
        return since

    def copy(
        self,
        series: Sequence[Series],
        values: Mapping[int, Sequence[Sequence[float]]],
        attempts: list[int],
        flags: str,
    ) -> None:
        with connection.cursor() as cursor:
            count = len(values) * len(series)
            cursor.execute(
                "SELECT nextval(pg_get_serial_sequence('runs_measurement', 'id')) FROM generate_series(1, %s)", [count]
            )
            ids = [row[0] for row in cursor.fetchall()]
            rows = [
                (attempt, line.pk, commit, trials)
                for attempt, (commit, of_series) in zip(attempts, values.items(), strict=True)
                for line, trials in zip(series, of_series, strict=True)
            ]
            columns = "id, attempt_id, series_id, commit_id, side, value, low, high, n, flags, paired, accepted"
            with cursor.copy(f"COPY runs_measurement ({columns}) FROM STDIN") as copy:
                for pk, (attempt, series_id, commit, trials) in zip(ids, rows, strict=True):
                    summary = (median(trials), min(trials), max(trials), len(trials))
                    copy.write_row((pk, attempt, series_id, commit, "head", *summary, flags, False, True))
            with cursor.copy("COPY runs_samples (measurement_id, values, flagged) FROM STDIN") as copy:
                for pk, (_, _, _, trials) in zip(ids, rows, strict=True):
                    copy.write_row((pk, list(trials), list(range(len(trials))) if flags else None))
