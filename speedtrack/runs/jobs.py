"""What a claimed run tells its runner to do: the ``speedtrack.job/3`` document (docs/result-format.md)."""

import zlib
from typing import Any

from django.conf import settings

from speedtrack.benchmarks import metrics
from speedtrack.benchmarks.definitions import Definition
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.benchmarks.storing import definition_of
from speedtrack.runs import queue, rates
from speedtrack.runs.models import Reason, Run

PROFILE_HZ = 997  # a prime, so that sampling does not fall into step with a periodic task
DEADLINE_S = 4 * 3600  # of one attempt; the runner stops by itself


def job_document(run: Run) -> dict[str, Any]:
    """The ``speedtrack.job/3`` document of a claimed run (docs/result-format.md)."""
    definition = definition_of(run.suite)
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
        "benchmarks": _requested_benchmarks(run, definition),
        "profile": {"frequency_hz": PROFILE_HZ} if run.reason == Reason.PROFILE else None,
        "repeat_for": flags_to_repeat(run),
        "counted": is_counted(run),
    }


def is_counted(run: Run) -> bool:
    """Are the instructions of both sides counted, and is nothing else measured?"""
    return run.paired and bool(run.metrics) and all(METRICS[name].counted for name in run.metrics)


def flags_to_repeat(run: Run) -> list[str]:
    """The flags for which a trial of this run is repeated: those that void a metric the run is for."""
    return metrics.voiding_flags(run.metrics or [metrics.HEADLINE])


def _requested_benchmarks(run: Run, definition: Definition) -> list[dict[str, Any]]:
    """The benchmarks to measure now, in the suite's order, with rates in requests/s. Postponed ones are left out."""
    postponed = queue.attempt_of(run).postponed
    benchmarks = {
        benchmark.name: benchmark
        for benchmark in rates.benchmarks_of(run).defer("definition", "rate_from__definition")
        if benchmark.name not in postponed
    }
    found = []
    for section in definition.benchmark:
        if benchmark := benchmarks.get(section.name):
            requested = {"name": section.name, "digest": benchmark.digest} | section.work()
            requested["inside"] = [] if run.canary else definition.functions_of(section)  # its program never changes
            workload = requested.get("workload") or {}
            if workload.get("rate") and (rate := rates.requested_rate(run.machine, benchmark)):
                workload["rate"] = rate
            found.append(requested)
    return found
