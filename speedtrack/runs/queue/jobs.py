"""What a claimed run tells its runner to do: the ``speedtrack.job/3`` document (docs/result-format.md)."""

import zlib
from functools import lru_cache
from typing import Any

from django.conf import settings

from speedtrack.benchmarks import metrics
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.benchmarks.storing import definition_of
from speedtrack.runs.models import Reason, Run
from speedtrack.runs.queue import fence, rates

PROFILE_HZ = 997  # a prime, so that sampling does not fall into step with a periodic task
DEADLINE_S = 4 * 3600  # of one attempt; the runner stops by itself


def job_document(run: Run) -> dict[str, Any]:
    """The ``speedtrack.job/3`` document of a claimed run (docs/result-format.md)."""
    definition = definition_of(run.suite_id)
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
        "benchmarks": _requested_benchmarks(run),
        "profile": {"frequency_hz": PROFILE_HZ} if run.reason == Reason.PROFILE else None,
        "repeat_for": flags_to_repeat(run),
        "counted": is_counted(run),
    }


def is_counted(run: Run) -> bool:
    """Return whether the run only counts the instructions of both sides."""
    return run.paired and bool(run.metrics) and all(METRICS[name].counted for name in run.metrics)


def flags_to_repeat(run: Run) -> list[str]:
    """The flags for which the runner repeats a trial: those that void a metric that the run is for."""
    return metrics.voiding_flags(run.metrics or [metrics.HEADLINE])


@lru_cache(maxsize=50)
def sections_of(suite_id: int) -> dict[str, dict[str, Any]]:
    """The job's section of each benchmark of a suite, by name. It is cached: do not change it."""
    definition = definition_of(suite_id)
    return {
        benchmark.name: benchmark.work() | {"inside": definition.functions_of(benchmark)}
        for benchmark in definition.benchmark
    }


def _requested_benchmarks(run: Run) -> list[dict[str, Any]]:
    """The benchmarks to measure now, in the suite's order, with rates in requests/s. Postponed ones are left out."""
    postponed = fence.attempt_of(run).postponed
    members = {
        benchmark.name: benchmark
        for benchmark in rates.members_of(run.benchmark_set_id)
        if benchmark.name not in postponed
    }
    sections = sections_of(run.suite_id)
    requested_rates = rates.requested_rates(run)
    benchmarks = []
    for name in sections:
        if member := members.get(name):
            requested = {"name": name, "digest": member.digest} | sections[name]
            if run.canary:
                requested["inside"] = []  # its program never changes
            if rate := requested_rates.get(name):
                requested["workload"] = requested["workload"] | {"rate": rate}
            benchmarks.append(requested)
    return benchmarks
