"""Canaries in tests: their runs, measured through the verbs, and the time between them."""

from datetime import timedelta
from typing import Any

from django.db.models import F

from speedtrack.runs.models import (
    Canary,
    CanaryCheck,
    Machine,
    MachineEvent,
    Reason,
    Run,
)
from speedtrack.runs.queue import queue
from speedtrack.runs.results import results
from speedtrack.stats.noise.canary import IN_A_ROW
from speedtrack.tests import builders

CPU = "server_cpu_ns_per_request"
LEVEL = 5000.0


def let_pass(**span: float) -> None:
    """Shift everything that has happened into the past by this time."""
    ago = timedelta(**span)
    Run.objects.update(ended_at=F("ended_at") - ago, created=F("created") - ago, not_before=F("not_before") - ago)
    CanaryCheck.objects.update(at=F("at") - ago)
    MachineEvent.objects.update(at=F("at") - ago)
    Canary.objects.update(created=F("created") - ago, since=F("since") - ago)


def measure_canary(machine: Machine, value: float, **changes: Any) -> Run:
    """Measure the machine's next run, which must be a canary run, with this CPU time per request."""
    run = builders.claim(machine)
    assert run.reason == Reason.CANARY
    builders.send_build(run, run.commit)
    for name in run.benchmark_set.names:
        values = [value * (1 + 0.0001 * trial) for trial in range(run.trials)]
        results.accept_result(machine, run.pk, builders.result(run, name, run.commit, values, **changes))
    queue.complete(machine, run.pk, run.lease_token)
    return run


def measure_work(machine: Machine, value: float = LEVEL) -> Run:
    """Measure the machine's next run, which must not be a canary run."""
    run = builders.claim(machine)
    assert run.reason != Reason.CANARY
    builders.send_build(run, run.commit)
    builders.measure(run, value)
    queue.complete(machine, run.pk, run.lease_token)
    return run


def measure_work_at_once(machine: Machine) -> Run:
    measure_canary(machine, LEVEL)
    return measure_work(machine)


def quarantine_machine(machine: Machine, value: float = LEVEL * 1.05) -> Machine:
    """Measure canary runs with this value until the machine is in quarantine."""
    for _ in range(IN_A_ROW):
        measure_canary(machine, value)
    assert queue.claim(machine) is None
    machine.refresh_from_db()
    assert machine.quarantined_at
    return machine


def canary_answers() -> list[str]:
    return list(CanaryCheck.objects.order_by("pk").values_list("answer", flat=True))
