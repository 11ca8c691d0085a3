"""A project with alerts, written as rows: what is told does not depend on how an alert was found."""

import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint
from speedtrack.benchmarks.models import Benchmark
from speedtrack.notices.models import Subscriber, Subscription
from speedtrack.projects import chains
from speedtrack.projects.models import Branch, Commit, Project
from speedtrack.runs.models import Environment, Machine, Series
from speedtrack.tests import builders

CPU = "server_cpu_ns_per_request"


@dataclass
class History:
    """One branch of a project; each alert gets commits of its own."""

    slug: str = "redis"
    project: Project = field(init=False)
    branch: Branch = field(init=False)
    machine: Machine = field(init=False)

    def __post_init__(self) -> None:
        self.project = Project.objects.create(
            slug=self.slug, name=self.slug, url=f"https://example.org/{self.slug}", default_branch="unstable", suite="x"
        )
        self.branch = Branch.objects.create(project=self.project, name="unstable")
        self.machine = Machine.objects.filter(name="m1").first() or builders.machine("m1")
        self.numbers = itertools.count()

    def commit(self, author: str = "ada@example.org", subject: str = "") -> Commit:
        number = next(self.numbers)
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number)
        commit = Commit.objects.create(
            project=self.project,
            sha=f"{number + 1:02d}{'ab' * 19}",
            author_name="Ada Example",
            author_email=author,
            authored_at=at,
            committed_at=at,
            subject=subject or f"Commit {number}",
        )
        chains.append_commits(self.branch, [commit])
        return commit

    def series(self, benchmark: str = "get-p1", metric: str = CPU) -> Series:
        found, _ = Benchmark.objects.get_or_create(
            project=self.project, name=benchmark, digest=benchmark, defaults={"definition": {}}
        )
        environment, _ = Environment.objects.get_or_create(machine=self.machine, digest="e", defaults={"facts": {}})
        return Series.objects.get_or_create(
            project=self.project, benchmark=found, metric=metric, machine=self.machine, environment=environment
        )[0]

    def alert(self, ratio: float = 1.052, author: str = "ada@example.org", width: int = 1, **about: Any) -> Alert:
        """A confirmed alert, about which nobody was told."""
        before = self.commit()
        commit = [self.commit(author, about.get("subject", "")) for _ in range(width)][-1]
        alert = Alert.objects.create(
            project=self.project, branch=self.branch, before=before, commit=commit, status="confirmed"
        )
        for benchmark in about.get("benchmarks", ["get-p1"]):
            self.grow(alert, ratio, benchmark)
        self.happen(alert, "raised")
        return alert

    def grow(self, alert: Alert, ratio: float, benchmark: str, metric: str = CPU) -> ChangePoint:
        return ChangePoint.objects.create(
            series=self.series(benchmark, metric),
            branch=self.branch,
            before=alert.before,
            commit=alert.commit,
            alert=alert,
            status="confirmed",
            ratio=ratio,
            low=ratio - 0.01,
            high=ratio + 0.01,
            score=5,
            note="30 pairs",
        )

    def happen(self, alert: Alert, kind: str, **about: Any) -> AlertEvent:
        return AlertEvent.objects.create(alert=alert, kind=kind, **about)


def subscribed(
    email: str, project: Project | None = None, *, person: dict[str, Any] | None = None, **asked: Any
) -> Subscriber:
    """An address with one subscription; not of its own commits unless ``person`` says so."""
    subscriber, _ = Subscriber.objects.get_or_create(email=email, defaults={"own_commits": False, **(person or {})})
    Subscription.objects.create(subscriber=subscriber, project=project, **asked)
    return subscriber
