"""The job of a claimed run: the ``speedtrack.job/3`` document (docs/result-format.md).

The rate of an open-loop benchmark is a share of the throughput that another benchmark had when it was first measured on
the machine. Until it was, the open-loop benchmark is postponed.
"""

import json
import zlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from django.conf import settings

from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.benchmarks.metrics import HEADLINE, METRICS
from speedtrack.benchmarks.models import Benchmark
from speedtrack.benchmarks.storing import definition_of
from speedtrack.runs.models import Machine, Measurement, Reason, ReferenceRate, Run

PROFILE_HZ = 997  # a prime, so that sampling does not fall into step with a periodic task
DEADLINE_S = 4 * 3600  # of one attempt; the runner stops by itself
REFERENCE_METRIC = "throughput_rps"
# Flags that measuring again does not remove: a driver at the limit of its core is a property of the machine.
LASTING_FLAGS = ["client_bound"]
MOST_KEPT = 50  # suites that a process keeps for its next claims


class Reference(NamedTuple):
    """The benchmark whose throughput sets another one's rate, and the share of it."""

    id: int
    name: str
    share: float


class Member(NamedTuple):
    """A benchmark of a set. ``reference``: what sets its rate, if that is a share of another benchmark's throughput."""

    id: int
    name: str
    digest: str
    reference: Reference | None


@lru_cache(maxsize=1000)
def members_of(benchmark_set_id: int) -> tuple[Member, ...]:
    """The benchmarks of a set. Sets never change, so the answer is cached."""
    members = Benchmark.objects.filter(sets=benchmark_set_id).order_by("pk")
    columns = ("rate_from", "rate_from__name", "definition__workload__rate__share")
    rows = members.values_list("pk", "name", "digest", *columns)
    return tuple(
        Member(pk, name, digest, Reference(*reference) if reference[0] else None)
        for pk, name, digest, *reference in rows
    )


class SuiteSections(NamedTuple):
    """What jobs have of a suite. ``benchmarks``: a section by name. ``cap``: the most trials of a benchmark."""

    build: dict[str, Any]
    server: dict[str, Any]
    benchmarks: dict[str, dict[str, Any]]
    cap: int


@lru_cache(maxsize=MOST_KEPT)
def sections_of(suite_id: int) -> SuiteSections:
    """The sections of a suite as jobs have them. They are cached: do not change them. Raises DefinitionError."""
    definition = definition_of(suite_id)
    benchmarks = {
        benchmark.name: benchmark.work() | {"inside": definition.functions_of(benchmark)}
        for benchmark in definition.benchmark
    }
    return SuiteSections(definition.build.model_dump(), definition.server.model_dump(), benchmarks, definition.cap)


class JobParts(NamedTuple):
    """What jobs have of a suite and a set. ``usual``: the benchmarks of a job that measures the whole set, as JSON.

    ``fault``: why this version cannot read the suite; the sections are then empty.
    """

    sections: SuiteSections
    members: tuple[Member, ...]
    usual: str
    fault: str


#: What this process has read, by the ids of suite and set: neither ever changes.
KEPT: dict[tuple[int, int], JobParts] = {}


def is_read(run: Run) -> bool:
    """Return whether this process has the parts of a run's job. To read a suite of 5,000 benchmarks takes a second."""
    return (run.suite_id, run.benchmark_set_id) in KEPT


def parts_of(run: Run) -> JobParts:
    """The parts of a run's job, read if they are not kept. Do not change them."""
    key = run.suite_id, run.benchmark_set_id
    job_parts = KEPT.get(key)
    if job_parts is None:
        while len(KEPT) >= MOST_KEPT:
            KEPT.pop(next(iter(KEPT), key), None)
        job_parts = KEPT[key] = read_parts(*key)
    return job_parts


def read_parts(suite_id: int, benchmark_set_id: int) -> JobParts:
    members = members_of(benchmark_set_id)
    try:
        sections = sections_of(suite_id)
    except DefinitionError as e:
        return JobParts(SuiteSections({}, {}, {}, 0), members, "[]", str(e))
    return JobParts(sections, members, json.dumps(sections_with_digests(sections, members)), "")


def unmeasurable(run: Run) -> tuple[dict[str, str], str]:
    """The benchmarks that cannot be measured now (name -> reason), and why no part of the run can.

    The second value is empty if some benchmark can be measured.
    """
    job_parts = parts_of(run)
    if job_parts.fault:
        return {}, job_parts.fault
    _, postponed = open_loops_of(run)
    if not postponed or len(postponed) < len(job_parts.members):
        return postponed, ""
    return postponed, "nothing to measure: " + "; ".join(f"{name}: {why}" for name, why in postponed.items())


def open_loops_of(run: Run) -> tuple[dict[str, float], dict[str, str]]:
    """Of the benchmarks whose rate is a share: the rate in requests/s by name, or by name why it is not known yet."""
    if run.open_loops is None:
        run.open_loops = {}, {}
        rates, postponed = run.open_loops
        rated = [(member.name, member.reference) for member in parts_of(run).members if member.reference]
        throughputs = reference_rates(run.machine, {reference.id for _, reference in rated}) if rated else {}
        for name, reference in rated:
            if rps := throughputs.get(reference.id):
                rates[name] = float(max(1, round(rps * reference.share)))
            else:
                why = f"no undisturbed result of {reference.name} on {run.machine.name} yet, which sets its rate"
                postponed[name] = why
    return run.open_loops


def reference_rates(machine: Machine, benchmarks: set[int]) -> dict[int, float]:
    """By benchmark id: its first accepted throughput on a machine, stored when first needed, if there is one."""
    stored_rates = ReferenceRate.objects.filter(machine=machine, benchmark__in=benchmarks).values_list(
        "benchmark", "rps"
    )
    rates = dict(stored_rates)
    if missing := benchmarks - rates.keys():
        store_reference_rates(machine, missing)
        rates = dict(stored_rates.all())
    return rates


def store_reference_rates(machine: Machine, benchmarks: set[int]) -> None:
    throughputs = Measurement.objects.filter(
        series__machine=machine,
        series__benchmark__in=benchmarks,
        series__metric=REFERENCE_METRIC,
        accepted=True,
        paired=False,
        flags__words__contained_by=LASTING_FLAGS,
    )
    first = throughputs.order_by("series__benchmark", "id").distinct("series__benchmark")
    rows = first.values_list("series__benchmark", "value", "pk")
    rates = [ReferenceRate(machine=machine, benchmark_id=of, rps=rps, measurement_id=pk) for of, rps, pk in rows]
    ReferenceRate.objects.bulk_create(rates, ignore_conflicts=True)


def job_text(run: Run) -> str:
    """The job document as JSON. Most runs measure all benchmarks of their set as they are: their text is kept."""
    if run.canary_id or any(open_loops_of(run)):
        return json.dumps(job_document(run))
    return f'{json.dumps(job_frame(run))[:-1]}, "benchmarks": {parts_of(run).usual}}}'


def job_document(run: Run) -> dict[str, Any]:
    """The ``speedtrack.job/3`` document of a claimed run (docs/result-format.md)."""
    return job_frame(run) | {"benchmarks": requested_benchmarks(run)}


def job_frame(run: Run) -> dict[str, Any]:
    """The job document without its benchmarks."""
    sections = parts_of(run).sections
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
        "most_trials": run.trials if run.base else max(run.trials, sections.cap),
        "lease_s": settings.LEASE_S,
        "deadline_s": DEADLINE_S,
        "sides": sides,
        "frozen": run.canary.artifacts if run.canary else None,
        "build": sections.build | {"trust": sections.build["trust"] or run.project.slug},
        "server": sections.server,
        "profile": {"frequency_hz": PROFILE_HZ} if run.reason == Reason.PROFILE else None,
        "repeat_for": flags_to_repeat(run),
        "counted": is_counted(run),
        "metrics": run.metrics or [HEADLINE] if run.base else [],
    }


def is_counted(run: Run) -> bool:
    """Return whether the run only counts the instructions of both sides."""
    return run.base_id is not None and bool(run.metrics) and all(METRICS[name].counted for name in run.metrics)


def flags_to_repeat(run: Run) -> list[str]:
    """The flags for which the runner repeats a trial: those that void a metric that the run is for."""
    return sorted({flag for name in run.metrics or [HEADLINE] for flag in METRICS[name].voided_by})


def requested_benchmarks(run: Run) -> list[dict[str, Any]]:
    """The benchmarks to measure now, in the suite's order, with rates in requests/s. Postponed ones are left out."""
    rates, postponed = open_loops_of(run)
    job_parts = parts_of(run)
    benchmarks = sections_with_digests(
        job_parts.sections, [member for member in job_parts.members if member.name not in postponed]
    )
    for requested in benchmarks:
        if run.canary:
            requested["inside"] = []  # its program never changes
        if rate := rates.get(requested["name"]):
            requested["workload"] = requested["workload"] | {"rate": rate}
    return benchmarks


def sections_with_digests(sections: SuiteSections, members: Iterable[Member]) -> list[dict[str, Any]]:
    """The sections of these benchmarks, in the suite's order."""
    digests = {member.name: member.digest for member in members}
    by_name = sections.benchmarks.items()
    return [{"name": name, "digest": digests[name]} | section for name, section in by_name if name in digests]
