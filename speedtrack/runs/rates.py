"""Rates of open-loop benchmarks: shares of what another benchmark reached when it was first measured on the machine."""

from speedtrack.benchmarks import definitions
from speedtrack.benchmarks.definitions import BenchmarkSection
from speedtrack.benchmarks.models import Benchmark
from speedtrack.benchmarks.storing import definition_of
from speedtrack.benchmarks.workloads import RateOf
from speedtrack.runs.models import Machine, Measurement, ReferenceRate, Run

METRIC = "throughput_rps"
# A driver at the end of its core belongs to the machine: it will be there the next time, too. Other flags pass.
LASTING_FLAGS = ["client_bound"]


def reference(machine: Machine, benchmark: Benchmark) -> ReferenceRate | None:
    """The row of the first accepted throughput of this definition on this machine, made when it is first asked for."""
    row = ReferenceRate.objects.filter(machine=machine, benchmark=benchmark).first()
    if row:
        return row
    found = Measurement.objects.filter(
        series__machine=machine,
        series__benchmark=benchmark,
        series__metric=METRIC,
        accepted=True,
        paired=False,
        flags__contained_by=LASTING_FLAGS,
    )
    first = found.order_by("id").first()
    if first is None:
        return None
    defaults = {"rps": first.value, "measurement": first}
    return ReferenceRate.objects.get_or_create(machine=machine, benchmark=benchmark, defaults=defaults)[0]


def asked(run: Run, section: BenchmarkSection, digests: dict[str, str]) -> float | None:
    """The rate of a benchmark in requests/s on the run's machine; None where its reference was not measured yet."""
    rate = section.workload.rate if section.workload else None
    if not isinstance(rate, RateOf):
        return rate
    benchmark = Benchmark.objects.filter(project=run.project, name=rate.of, digest=digests[rate.of]).first()
    row = reference(run.machine, benchmark) if benchmark else None
    return float(max(1, round(row.rps * rate.share))) if row else None


def postponed(run: Run) -> dict[str, str]:
    """Benchmarks of the run whose rate is not known yet, each with the reason."""
    definition = definition_of(run.suite)
    digests = definitions.digests(run.suite.definition)
    waiting = [
        section
        for section in definition.benchmark
        if section.name in run.benchmarks and section.rate_of and asked(run, section, digests) is None
    ]
    return {
        one.name: f"no undisturbed result of {one.rate_of} on {run.machine} yet, which sets its rate" for one in waiting
    }
