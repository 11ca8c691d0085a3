"""Take a batch of results from outside: check each against its project, and store the valid ones.

``prepare`` fetches the repository if necessary, so it runs outside any transaction; ``store`` writes.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from hashlib import blake2b
from typing import Any

from django.contrib.auth.models import User
from django.db import OperationalError, connection, transaction
from django.utils import timezone

from speedtrack.benchmarks.digests import json_digest
from speedtrack.benchmarks.metrics import LONGEST_KEY, METRICS, Direction, is_outside, outside_key
from speedtrack.benchmarks.models import OutsideMetric
from speedtrack.outside import commits, names, storing
from speedtrack.outside.document import Batch, OutsidePoint, ResultRefusal, Row, points_of
from speedtrack.outside.readers.measures import factor_between, scaled
from speedtrack.outside.storing import NewResult
from speedtrack.projects.mirrors import gitprocess
from speedtrack.projects.models import Project
from speedtrack.runs.models import Import, Machine
from speedtrack.stats.summary import Estimate, summarize

IMPORT_LOCK = 0x5341  # class of the advisory lock of an import; its object is the project
PATIENCE_S = 10  # for another import, if a program waits for the answer
LOCK_NOT_AVAILABLE = "55P03"  # the state in PostgreSQL's error when lock_timeout has passed
AHEAD = timedelta(days=1)  # how far in the future a result's time may be, because clocks and zones differ


class ImportUnderWay(Exception):
    """Another import of the project takes longer than a program may wait."""


@dataclass(frozen=True)
class Sender:
    """The sender of results. ``registers``: a machine with a new name is registered with its first result."""

    door: Import.Door
    user: User | None = None
    name: str = ""
    source: str = ""
    registers: bool = True

    @property
    def waits(self) -> bool:
        """Return whether a program waits for the answer, which occupies a thread of the web server."""
        return self.door != Import.Door.COMMAND


@dataclass(frozen=True)
class Report:
    """The result of taking a batch. ``unchanged``: results stored before. ``import_id``: None without new results."""

    taken: int
    unchanged: int
    refused: list[ResultRefusal]
    import_id: int | None = None


@dataclass(frozen=True)
class Checked:
    """A result whose names are resolved in its project, except ids of rows that may have to be created."""

    point: OutsidePoint
    commit_id: int
    sha: str
    machine: str
    environment_digest: str
    benchmark: str
    benchmark_digest: str
    metric: str  #: its key
    first_metric: str  #: the key that its metric had first: a metric may be renamed, digests stay

    @cached_property
    def series(self) -> tuple[str, ...]:
        return self.machine, self.environment_digest, self.benchmark, self.benchmark_digest, self.metric

    @cached_property
    def digest(self) -> bytes:
        """The digest of everything that identifies the result."""
        row = self.point.row
        values = row.samples if row.samples is not None else [[row.value, row.low, row.high, row.n]]
        at = self.point.measured_at.timestamp() if self.point.measured_at else None
        identity = [self.sha, *self.series[:-1], self.first_metric, row.id, at, values]
        return blake2b(json.dumps(identity, separators=(",", ":")).encode(), digest_size=16).digest()

    @property
    def estimate(self) -> Estimate:
        row = self.point.row
        if row.samples is not None:
            return summarize(row.samples)
        assert row.value is not None
        low, high = (row.value if end is None else end for end in (row.low, row.high))
        return Estimate(row.value, low, high, row.n or 1)


@dataclass
class Prepared:
    """The results of a batch with known commits, and the refusals so far."""

    project: Project
    batch: Batch
    sender: Sender
    points: list[OutsidePoint]
    lookup: commits.CommitLookup
    refusals: list[ResultRefusal] = field(default_factory=list)

    def refuse(self, point: OutsidePoint, pointer: str, detail: str) -> None:
        self.refusals.append(ResultRefusal(point.index, f"/results/{point.index}{pointer}", detail))


def take(project: Project, batch: Batch, sender: Sender, all_or_nothing: bool = False) -> Report:
    """Store the valid results of a batch, and report the others. A stored result never changes.

    ``all_or_nothing``: if one is refused, none is stored.
    """
    prepared = prepare(project, batch, sender)
    with transaction.atomic():
        return store(prepared, all_or_nothing)


def prepare(project: Project, batch: Batch, sender: Sender) -> Prepared:
    """Check each result alone, and find its commit.

    May fetch from the repository; if somebody waits, for at most PATIENCE_S seconds.
    """
    points: list[OutsidePoint] = []
    refusals: list[ResultRefusal] = []
    latest = timezone.now() + AHEAD
    for candidate in points_of(batch):
        if isinstance(candidate, ResultRefusal):
            refusals.append(candidate)
        elif candidate.measured_at and candidate.measured_at > latest:
            detail = f"{candidate.measured_at.isoformat()} is in the future: set the clock of the sender"
            refusals.append(ResultRefusal(candidate.index, f"/results/{candidate.index}/measured_at", detail))
        else:
            points.append(candidate)
    with gitprocess.within(commits.PATIENCE_S) if sender.waits else nullcontext():
        lookup = commits.find(project, (point.commit for point in points))
    return Prepared(project, batch, sender, points, lookup, refusals)


def store(prepared: Prepared, all_or_nothing: bool = False) -> Report:
    """Store the valid results in the caller's transaction.

    Imports of one project wait for each other. Raises ImportUnderWay if a program would wait for too long.
    """
    await_turn(prepared)
    machines = machines_of(prepared)
    metrics = MetricsOfProject(prepared.project)
    checked = without_repetitions(prepared, list(check_all(prepared, machines, metrics)))
    digests = stored_digests(prepared.project, [result.digest for result in checked])
    new = [result for result in checked if result.digest not in digests]
    refusals = sorted(prepared.refusals, key=lambda refusal: refusal.index)
    if all_or_nothing and refusals:
        return Report(0, 0, refusals)
    report = Report(len(new), len(checked) - len(new), refusals)
    if not new:
        return report
    metrics.store({result.metric for result in new})
    return replace(report, import_id=store_new(prepared, new, machines).pk)


def await_turn(prepared: Prepared) -> None:
    """Wait until no import of the project is under way, for the caller's transaction to be the only one.

    A thread of the web server waits for at most PATIENCE_S seconds: there are few, and an import by command may take
    minutes. Raises ImportUnderWay.
    """
    limit = f"{PATIENCE_S}s" if prepared.sender.waits else "0"
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", [limit])
            cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [IMPORT_LOCK, prepared.project.pk])
            cursor.execute("SET LOCAL lock_timeout TO DEFAULT")
    except OperationalError as e:
        if getattr(e.__cause__, "sqlstate", None) != LOCK_NOT_AVAILABLE:
            raise
        raise ImportUnderWay(f"another import of {prepared.project} is under way: send the results again soon") from e


def kept_of(prepared: Prepared, report: Report) -> list[tuple[str, str]]:
    """The benchmark and the commit of each result of a batch that is stored, now or before."""
    refused_indexes = {refusal.index for refusal in report.refused}
    return [
        (names.benchmark_name(point.row.benchmark, point.row.parameters), prepared.lookup.shas[point.commit])
        for point in prepared.points
        if point.index not in refused_indexes
    ]


def machines_of(prepared: Prepared) -> dict[str, Machine]:
    """By the name used here: the registered machines that the results name."""
    machine_names = {names.machine_name(point.machine) for point in prepared.points}
    return {machine.name: machine for machine in Machine.objects.filter(name__in=machine_names).defer("facts")}


def check_all(prepared: Prepared, machines: Mapping[str, Machine], metrics: "MetricsOfProject") -> Iterable[Checked]:
    """The results that fit their project; the refusals of others are added to ``prepared``."""
    ids = commits.ids_of(prepared.project, prepared.lookup.shas.values())
    digests: dict[str, str] = {}
    for point in prepared.points:
        row = point.row
        sha = prepared.lookup.shas.get(point.commit)
        benchmark, machine = names.benchmark_name(row.benchmark, row.parameters), names.machine_name(point.machine)
        pointer, fault = "/commit", "" if sha else prepared.lookup.faults[point.commit]
        if not fault:
            pointer, fault = "/machine", fault_of_machine(machine, machines.get(machine), prepared.sender)
        if not fault:
            pointer, fault = "/benchmark", names.fault_of_benchmark(benchmark)
        if not fault:
            pointer, fault = metrics.fault_of(row)
        if fault or not sha:
            prepared.refuse(point, pointer, fault)
            continue
        yield Checked(
            replace(point, row=metrics.converted(row)),
            ids[sha],
            sha,
            machine,
            digest_of(digests, point.environment),
            benchmark,
            digest_of(digests, names.benchmark_definition(row.benchmark, row.parameters)),
            key := metrics.keys[row.metric],
            metrics.first_keys.get(key, key),
        )


def digest_of(digests: dict[str, str], facts: Mapping[str, Any]) -> str:
    """The digest of facts; equal facts of a batch are digested only once."""
    text = repr(facts)
    if text not in digests:
        digests[text] = json_digest(dict(facts))
    return digests[text]


def fault_of_machine(name: str, machine: Machine | None, sender: Sender) -> str:
    if not name:
        return "the name of a machine has letters or digits"
    if machine is None:
        adding = f"there is no machine {name}: add it as one without a runner"
        return "" if sender.registers else adding
    if not machine.outside:
        return f"machine {name} has a runner, which measures there: give results from elsewhere another machine's name"
    if machine.retired_at:
        return f"machine {name} is retired: return it to service first"
    return ""


class MetricsOfProject:
    """The metrics of a project's results from outside, including those of the batch that were checked so far."""

    def __init__(self, project: Project) -> None:
        self.project = project
        rows = OutsideMetric.objects.filter(project=project).values_list("name", "key", "first_key")
        self.keys = {name: key for name, key, _ in rows}
        self.first_keys = {key: first_key for _, key, first_key in rows if first_key}
        self.known = set(self.keys)

    def fault_of(self, row: Row) -> tuple[str, str]:
        """(position, sentence) about a contradiction to the metric's definition; empty if there is none.

        A new metric is added.
        """
        if row.metric in METRICS and not is_outside(row.metric):
            self.keys[row.metric] = row.metric
        if row.metric not in self.keys:
            return self.define(row.metric, row.unit, row.better)
        metric = METRICS[self.keys[row.metric]]
        if row.unit is not None and factor_between(row.unit, metric.unit) is None:
            contradiction = f"metric {row.metric} is in {metric.unit!r} here, not in {row.unit!r}"
            return "/unit", f"{contradiction}: convert it, or give it another name"
        if row.better is not None and row.better != metric.better:
            contradiction = f"{metric.better} values of metric {row.metric} are better here, not {row.better} ones"
            return "/better", f"{contradiction}: give it another name"
        return "", ""

    def define(self, name: str, unit: str | None, better: str | None) -> tuple[str, str]:
        if unit is None or better is None:
            pointer = "/unit" if unit is None else "/better"
            lack = "its unit (perhaps empty)" if unit is None else "which of its values are better"
            return pointer, f"metric {name} is new in {self.project}: say {lack}"
        key = outside_key(name, unit, Direction(better))
        if len(key) > LONGEST_KEY:
            return "/metric", f"{name} with its unit has {len(key)} letters as an address: at most {LONGEST_KEY}"
        self.keys[name] = key
        return "", ""

    def converted(self, row: Row) -> Row:
        """The result in the unit of its metric: seconds and nanoseconds, for instance, are of one dimension."""
        unit = METRICS[self.keys[row.metric]].unit
        factor = factor_between(row.unit, unit) if row.unit is not None else None
        if factor is None or factor == 1:
            return row
        values = {name: scaled(value, factor) for name in ("value", "low", "high") if (value := getattr(row, name))}
        samples = row.samples and [scaled(sample, factor) for sample in row.samples]
        return row.model_copy(update={**values, "samples": samples, "unit": unit})

    def store(self, keys: set[str]) -> None:
        """Store the new metrics with these keys."""
        new = {name: key for name, key in self.keys.items() if name not in self.known and key in keys}
        OutsideMetric.objects.bulk_create(
            OutsideMetric(project=self.project, name=name, key=key) for name, key in new.items()
        )


def without_repetitions(prepared: Prepared, checked: Sequence[Checked]) -> list[Checked]:
    """The results without those that repeat an earlier one of the batch, which are refused."""
    first_indexes: dict[tuple[Any, ...], int] = {}
    unique = []
    for result in checked:
        key = (result.series, result.sha, result.point.row.id, result.point.measured_at)
        if key in first_indexes:
            fault = (
                f"the same series and commit as /results/{first_indexes[key]}: tell them apart by `id` or `measured_at`"
            )
            prepared.refuse(result.point, "", fault)
        else:
            first_indexes[key] = result.point.index
            unique.append(result)
    return unique


def stored_digests(project: Project, digests: Sequence[bytes]) -> set[bytes]:
    # Django's `in` would write a placeholder for each.
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT digest FROM runs_origin WHERE project_id = %s AND digest = ANY (%s)", [project.pk, list(digests)]
        )
        return {bytes(digest) for (digest,) in cursor}


def store_new(prepared: Prepared, new: Sequence[Checked], machines: dict[str, Machine]) -> Import:
    """Store new results with all that they need: machines, environments, benchmarks, series, runs."""
    project, batch, sender = prepared.project, prepared.batch, prepared.sender
    machine_ids = {name: machine.pk for name, machine in machines.items()} | storing.register(
        {result.machine for result in new} - machines.keys(), sender.user
    )
    environments = storing.store_environments(
        {(machine_ids[result.machine], result.environment_digest): result.point.environment for result in new}
    )
    benchmarks = storing.store_benchmarks(
        project,
        {
            (result.benchmark, result.benchmark_digest): names.benchmark_definition(
                result.point.row.benchmark, result.point.row.parameters
            )
            for result in new
        },
    )
    results = [
        NewResult(
            commit_id=result.commit_id,
            machine_id=machine_ids[result.machine],
            environment_id=environments[machine_ids[result.machine], result.environment_digest],
            benchmark_id=benchmarks[result.benchmark, result.benchmark_digest],
            metric=result.metric,
            estimate=result.estimate,
            samples=result.point.row.samples,
            digest=result.digest,
            measured_at=result.point.measured_at,
            external_id=result.point.row.id,
            url=result.point.url,
            tags=result.point.tags,
        )
        for result in new
    ]
    imported = Import.objects.create(
        project=project,
        door=sender.door,
        by=sender.user,
        name=sender.name,
        source=sender.source[:300],
        tool=batch.tool,
        url=batch.url or "",
    )
    storing.store(imported, results)
    return imported
