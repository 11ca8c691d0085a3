"""What a claimed run tells its runner to do: the ``speedtrack.job/3`` document (docs/result-format.md).

The rate of an open-loop benchmark is a share of the throughput that another benchmark had when it was first measured on
the machine. Until it was, the open-loop benchmark is postponed.
"""

import json
import zlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import F

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


class SuiteSections(NamedTuple):
    """What jobs have of a suite. ``benchmarks``: a section by name. ``cap``: the most trials of a benchmark."""

    build: dict[str, Any]
    server: dict[str, Any]
    benchmarks: dict[str, dict[str, Any]]
    cap: int


@lru_cache(maxsize=50)
def sections_of(suite_id: int) -> SuiteSections:
    """The sections of a suite as jobs have them. They are cached: do not change them. Raises DefinitionError."""
    definition = definition_of(suite_id)
    benchmarks = {
        benchmark.name: benchmark.work() | {"inside": definition.functions_of(benchmark)}
        for benchmark in definition.benchmark
    }
    return SuiteSections(definition.build.model_dump(), definition.server.model_dump(), benchmarks, definition.cap)


def unmeasurable(run: Run) -> tuple[dict[str, str], str]:
    """The benchmarks that cannot be measured now (name -> reason), and why no part of the run can.

    The second value is empty if some benchmark can be measured.
    """
    try:
        sections_of(run.suite_id)
    except DefinitionError as e:
        return {}, str(e)
    _, postponed = open_loops_of(run)
    if not postponed or len(postponed) < len(members_of(run.benchmark_set_id)):
        return postponed, ""
    return postponed, "nothing to measure: " + "; ".join(f"{name}: {why}" for name, why in postponed.items())


def open_loops_of(run: Run) -> tuple[dict[str, float], dict[str, str]]:
    """Of the benchmarks whose rate is a share: the rate in requests/s by name, or by name why it is not known yet."""
    if run.open_loops is None:
        run.open_loops = {}, {}
        rates, postponed = run.open_loops
        for benchmark in benchmarks_with_reference(run):
            reference, share = benchmark.rate_from, benchmark.definition["workload"]["rate"]["share"]
            assert reference
            if row := reference_rate(run.machine, reference):
                rates[benchmark.name] = float(max(1, round(row.rps * share)))
            else:
                why = f"no undisturbed result of {reference.name} on {run.machine.name} yet, which sets its rate"
                postponed[benchmark.name] = why
    return run.open_loops


def benchmarks_with_reference(run: Run) -> Iterable[Benchmark]:
    rated = [member.id for member in members_of(run.benchmark_set_id) if member.has_reference]
    return Benchmark.objects.filter(pk__in=rated).select_related("rate_from").order_by("pk") if rated else ()


def reference_rate(machine: Machine, benchmark: Benchmark) -> ReferenceRate | None:
    """The first accepted throughput of a benchmark on a machine, stored when first needed; None if there is none."""
    row = ReferenceRate.objects.filter(machine=machine, benchmark=benchmark).first()
    if row:
        return row
    throughputs = Measurement.objects.filter(
        series__machine=machine,
        series__benchmark=benchmark,
        series__metric=REFERENCE_METRIC,
        accepted=True,
        paired=False,
        flags__words__contained_by=LASTING_FLAGS,
    )
    first = throughputs.order_by(F("id") + 0).first()  # by id alone, PostgreSQL would walk the whole primary key
    if first is None:
        return None
    defaults = {"rps": first.value, "measurement": first}
    return ReferenceRate.objects.get_or_create(machine=machine, benchmark=benchmark, defaults=defaults)[0]


def job_text(run: Run) -> str:
    """The job document as JSON. Most runs measure all benchmarks of their set as they are: their text is kept."""
    if run.canary_id or any(open_loops_of(run)):
        return json.dumps(job_document(run))
    usual = usual_benchmarks(run.suite_id, run.benchmark_set_id)
    return f'{json.dumps(job_frame(run))[:-1]}, "benchmarks": {usual}}}'


@lru_cache(maxsize=50)
def usual_benchmarks(suite_id: int, benchmark_set_id: int) -> str:
    """The benchmarks of a job that measures the whole set, as JSON."""
    return json.dumps(sections_with_digests(suite_id, members_of(benchmark_set_id)))


def job_document(run: Run) -> dict[str, Any]:
    """The ``speedtrack.job/3`` document of a claimed run (docs/result-format.md)."""
    return job_frame(run) | {"benchmarks": requested_benchmarks(run)}


def job_frame(run: Run) -> dict[str, Any]:
    """The job document without its benchmarks."""
    sections = sections_of(run.suite_id)
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
    members = [member for member in members_of(run.benchmark_set_id) if member.name not in postponed]
    benchmarks = sections_with_digests(run.suite_id, members)
    for requested in benchmarks:
        if run.canary:
            requested["inside"] = []  # its program never changes
        if rate := rates.get(requested["name"]):
            requested["workload"] = requested["workload"] | {"rate": rate}
    return benchmarks


def sections_with_digests(suite_id: int, members: Iterable[Member]) -> list[dict[str, Any]]:
    """The sections of these benchmarks, in the suite's order."""
    digests = {member.name: member.digest for member in members}
    sections = sections_of(suite_id).benchmarks.items()
    return [{"name": name, "digest": digests[name]} | section for name, section in sections if name in digests]
