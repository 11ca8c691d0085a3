"""Rates of open-loop benchmarks: shares of the throughput another benchmark had when first measured on the machine."""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from django.db.models import F, QuerySet

from speedtrack.benchmarks.models import Benchmark
from speedtrack.runs.models import Machine, Measurement, ReferenceRate, Run

METRIC = "throughput_rps"
# Flags that measuring again does not remove: a driver at the limit of its core is a property of the machine.
LASTING_FLAGS = ["client_bound"]


def reference_rate(machine: Machine, benchmark: Benchmark) -> ReferenceRate | None:
    """The first accepted throughput of a benchmark on a machine, stored when first needed; None if there is none."""
    row = ReferenceRate.objects.filter(machine=machine, benchmark=benchmark).first()
    if row:
        return row
    throughputs = Measurement.objects.filter(
        series__machine=machine,
        series__benchmark=benchmark,
        series__metric=METRIC,
        accepted=True,
        paired=False,
        flags__contained_by=LASTING_FLAGS,
    )
    first = throughputs.order_by(F("id") + 0).first()  # by id alone, PostgreSQL would walk the whole primary key
    if first is None:
        return None
    defaults = {"rps": first.value, "measurement": first}
    return ReferenceRate.objects.get_or_create(machine=machine, benchmark=benchmark, defaults=defaults)[0]


def requested_rate(machine: Machine, benchmark: Benchmark) -> float | None:
    """The rate of a benchmark on a machine in requests/s. None without a rate, or while its reference has no result."""
    rate = benchmark.definition.get("workload", {}).get("rate")
    if benchmark.rate_from is None:
        return None if rate is None else float(rate)
    row = reference_rate(machine, benchmark.rate_from)
    return float(max(1, round(row.rps * rate["share"]))) if row else None


class Member(NamedTuple):
    """A benchmark of a set. ``has_reference``: its rate is a share of another benchmark's throughput."""

    id: int
    name: str
    digest: str
    has_reference: bool


@lru_cache(maxsize=1000)
def members_of(benchmark_set_id: int) -> tuple[Member, ...]:
    """The benchmarks of a set. Sets never change, so the answer is cached."""
    members = Benchmark.objects.filter(sets=benchmark_set_id).order_by("pk")
    rows = members.values_list("pk", "name", "digest", "rate_from")
    return tuple(Member(pk, name, digest, reference is not None) for pk, name, digest, reference in rows)


def benchmarks_of(run: Run) -> QuerySet[Benchmark]:
    """The benchmarks of a run, each with the benchmark that sets its rate."""
    return Benchmark.objects.filter(sets=run.benchmark_set_id).select_related("rate_from").order_by("pk")


def requested_rates(run: Run) -> dict[str, float]:
    """The rates, in requests/s by benchmark name, of those benchmarks of a run whose reference is known."""
    if not any(benchmark.has_reference for benchmark in members_of(run.benchmark_set_id)):
        return {}
    rated = benchmarks_of(run).filter(rate_from__isnull=False)
    rates_by_name = {benchmark.name: requested_rate(run.machine, benchmark) for benchmark in rated}
    return {name: rate for name, rate in rates_by_name.items() if rate}


def postponed_benchmarks(run: Run, benchmarks: Iterable[Benchmark]) -> dict[str, str]:
    """The benchmarks whose rate is not known yet: name -> reason."""
    return {
        benchmark.name: f"no undisturbed result of {benchmark.rate_from} on {run.machine} yet, which sets its rate"
        for benchmark in benchmarks
        if benchmark.rate_from and requested_rate(run.machine, benchmark) is None
    }
