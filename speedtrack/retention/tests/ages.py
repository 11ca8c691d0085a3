"""Time that passes, and what there is at a time."""

from collections.abc import Sequence
from typing import Any

from django.core.management import call_command
from django.db import connection

from speedtrack.projects.models import Delivery
from speedtrack.runs.documents import LogPiece
from speedtrack.runs.models import (
    LogChunk,
    MachineEvent,
    Measurement,
    Profile,
    Result,
    Run,
    RunEvent,
    Samples,
    Trial,
)
from speedtrack.runs.queue import queue
from speedtrack.runs.results import results
from speedtrack.tests import builders

TIMES = {
    "runs_attempt": ["started_at", "ended_at"],
    "runs_run": ["created", "started_at", "ended_at", "not_before"],
    "runs_runevent": ["at"],
    "runs_machineevent": ["at"],
    "runs_canarycheck": ["at"],
    "runs_canary": ["created", "since"],
    "projects_delivery": ["received_at"],
    "projects_refusal": ["last_at"],
    "projects_project": ["created"],
    "retention_pruning": ["through", "done_at"],
}
RECIPE = {
    "server": ["kvd"],
    "loads": [{"argv": ["speedbench"], "workload": {}}],
    "padding_bytes": 0,
    "server_cpus": "1",
    "driver_cpus": "0",
    "memory_nodes": "",
}


def let_pass(days: float) -> None:
    """Everything that has happened, happened so much earlier."""
    with connection.cursor() as cursor:
        for table, columns in TIMES.items():
            moved = ", ".join(f"{column} = {column} - make_interval(secs => %(s)s)" for column in columns)
            cursor.execute(f"UPDATE {table} SET {moved}", {"s": days * 86_400})


def measure_fully(run: Run) -> Run:
    """Play the runner for a claimed run, whose log and recipe are stored as well."""
    builders.send_build(run, run.commit)
    text = f"compiling {run.commit.sha}\n"
    queue.keep_log(run.machine, run.pk, LogPiece(token=run.lease_token, seq=0, phase="measure", text=text))
    for name in builders.measured(run):
        trials = builders.trials([{"server_cpu_ns_per_request": 5000.0 + i} for i in range(5)])
        trials = [one | {"reproduce": RECIPE} for one in trials]
        document = builders.result(run, name, run.commit, [], trials=trials)
        results.accept_result(run.machine, run.pk, document)
    queue.complete(run.machine, run.pk, run.lease_token)
    return Run.objects.get(pk=run.pk)


def prune(*arguments: str, yes: bool = True, **streams: Any) -> None:
    call_command("prune", *arguments, *(["--yes"] if yes else []), **streams)


def raw_of(runs: Sequence[int], benchmark: str) -> dict[str, int]:
    """How much there is of the raw results of a benchmark of these runs."""
    of_result = {"attempt__run__in": runs, "benchmark__name": benchmark}
    return {
        "documents": Result.objects.filter(documents__isnull=False, **of_result).count(),
        "samples": Samples.objects.filter(
            measurement__attempt__run__in=runs, measurement__series__benchmark__name=benchmark
        ).count(),
        "trials": Trial.objects.filter(**{f"result__{key}": value for key, value in of_result.items()}).count(),
    }


def contents(runs: Sequence[int] | None = None) -> dict[str, int]:
    """How much there is of what retention deletes: of these runs, or in all."""
    of = {} if runs is None else {"attempt__run__in": runs}
    of_run = {} if runs is None else {"run__in": runs}
    return {
        "documents": Result.objects.filter(documents__isnull=False, **of).count(),
        "samples": Samples.objects.filter(**{f"measurement__{key}": value for key, value in of.items()}).count(),
        "trials": Trial.objects.filter(**{f"result__{key}": value for key, value in of.items()}).count(),
        "logs": LogChunk.objects.filter(**of).count(),
        "profiles": Profile.objects.filter(**of).count(),
        "run events": RunEvent.objects.filter(**of_run).count(),
        "machine events": 0 if runs else MachineEvent.objects.count(),
        "deliveries": 0 if runs else Delivery.objects.count(),
    }


def kept_for_ever() -> dict[str, Any]:
    """What no policy touches."""
    measured = Measurement.objects.filter(attempt__run__canary=None).order_by("pk")
    return {
        "measurements": list(measured.values_list("pk", "value", "low", "high", "n", "flags", "accepted")),
        "runs": list(Run.objects.filter(canary=None).order_by("pk").values_list("pk", "status")),
    }
