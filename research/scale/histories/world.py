"""What histories belong to: machines, projects, benchmarks and series, stored by the verbs of the product."""

import json
import zlib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from django.conf import settings

from research.scale.histories.copying import Array
from research.scale.histories.sizes import HistorySizes
from research.scale.histories.suites import write_suite
from speedtrack.benchmarks.digests import json_digest
from speedtrack.benchmarks.models import Benchmark, BenchmarkSet, Suite
from speedtrack.benchmarks.storing import store_set, store_suite, usual_benchmarks
from speedtrack.benchmarks.suitefiles import load_suite
from speedtrack.projects.models import Branch, Project
from speedtrack.runs.fleet import registering
from speedtrack.runs.models import Environment, Machine, Series

GOLDEN = Path(__file__).resolve().parents[3] / "runners" / "tests" / "golden" / "result.v1.json"
METRICS = {  # with their usual values; the first one decides the others of a benchmark
    "server_cpu_ns_per_request": 5000.0,
    "throughput_rps": 150_000.0,
    "latency_us_p50": 220.0,
    "latency_us_p99": 900.0,
    "server_user_ns_per_request": 2000.0,
    "server_system_ns_per_request": 3000.0,
    "context_switches_per_request": 0.02,
    "peak_rss_bytes": 12e6,
}


@dataclass
class Story:
    """A project with its default branch, and what measures it. ``series``: id by machine, era, benchmark and metric.

    An era begins where the environment of the machines changes.
    """

    project: Project
    branch: Branch
    machines: list[Machine]
    suite: Suite
    benchmark_set: BenchmarkSet
    benchmarks: list[Benchmark]
    metrics: list[str]
    series: Array
    levels: Array  #: as ``series`` without its eras: the value of the first commit
    commits: Array = field(default_factory=lambda: np.zeros(0, np.int64))  #: ids by position
    shas: list[str] = field(default_factory=list)
    measured_positions: list[int] = field(default_factory=list)  #: positions


@cache
def golden() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(GOLDEN.read_text())
    return document


def make_machines(count: int, prefix: str = "m") -> list[Machine]:
    """Machines with this beginning of their names, all of one kind, whose runners have called once."""
    names = [f"{prefix}{number}" for number in range(1, count + 1)]
    for name in names:
        registering.add_machine(name)
    machines = list(Machine.objects.filter(name__in=names).order_by("pk"))
    for machine in machines:
        machine.facts = golden()["environment"]["series"]
        machine.last_seen_at = machine.created
        machine.save()
    return machines


def environments_of(machine: Machine, eras: int) -> list[Environment]:
    environments = []
    for era in range(eras):
        facts = golden()["environment"]["series"] | {"cpu_model": f"Model {machine.pk}", "kernel": f"6.{era + 1}"}
        stored_facts = {"series": facts, "recorded": golden()["environment"]["recorded"]}
        environments.append(
            Environment.objects.get_or_create(
                machine=machine, digest=json_digest(facts), defaults={"facts": stored_facts}
            )[0]
        )
    return environments


def make_story(
    slug: str, suite_name: str, machines: list[Machine], metrics: list[str], eras: int, most: int = 10**6
) -> Story:
    """``most``: how many of the suite's benchmarks are measured."""
    project = Project.objects.create(
        slug=slug,
        name=slug,
        url=f"https://example.org/{slug}.git",
        default_branch="main",
        suite=suite_name,
        hook_id=f"hook-{slug}",
    )
    project.machines.set(machines)
    branch = Branch.objects.create(project=project, name="main")
    suite, stored_benchmarks = store_suite(project, load_suite(suite_name))
    candidates = usual_benchmarks(load_suite(suite_name), stored_benchmarks)[:most] + (
        [benchmark for benchmark in stored_benchmarks if benchmark.ladder] if most > 10 else []
    )
    benchmarks = list({benchmark.pk: benchmark for benchmark in candidates}.values())
    series = series_of(project, benchmarks, machines, metrics, eras)
    rng = np.random.default_rng(zlib.crc32(slug.encode()))
    size = (len(machines), len(benchmarks), len(metrics))
    levels = np.array([METRICS[name] for name in metrics]) * np.exp(0.3 * rng.normal(size=size))
    return Story(project, branch, machines, suite, store_set(suite, benchmarks), benchmarks, metrics, series, levels)


def series_of(
    project: Project, benchmarks: list[Benchmark], machines: list[Machine], metrics: list[str], eras: int
) -> Array:
    rows = [
        Series(project=project, benchmark=benchmark, metric=metric, machine=machine, environment=environment)
        for machine in machines
        for environment in environments_of(machine, eras)
        for benchmark in benchmarks
        for metric in metrics
    ]
    series = Series.objects.bulk_create(rows, batch_size=2000)
    return np.array([row.pk for row in series]).reshape(len(machines), eras, len(benchmarks), len(metrics))


def make_stories(sizes: HistorySizes) -> tuple[Story, Story, list[Story]]:
    """The wide, the long and the small projects."""
    write_suite(Path(settings.SUITES), "wide", sizes.wide_benchmarks)
    machines = make_machines(sizes.machines)
    names = list(METRICS)
    wide = make_story("wide", "wide", machines[: sizes.wide_machines], names, eras=1)
    long = make_story("long", "wide", machines, names[:2], eras=2, most=1)
    small = [
        make_story(f"small-{number}", suite, machines[:2], names[:4], eras=1)
        for number, suite in zip(range(1, sizes.small_projects + 1), ("valkey", "redis", "sample"), strict=False)
    ]
    return wide, long, small
