"""Store results from outside: first the rows that they need, then runs, attempts and measurements, table by table.

A batch may have thousands of results at thousands of commits, so each table is written by one statement, with reserved
ids.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import Min
from psycopg.types.json import Jsonb

from speedtrack.benchmarks.digests import json_digest
from speedtrack.benchmarks.models import Benchmark, BenchmarkSet, SetMember, Suite
from speedtrack.projects.models import Project
from speedtrack.runs.models import Attempt, Environment, Import, Machine, MachineEvent, Series
from speedtrack.stats.summary import Estimate

SUITE = "outside"  #: the suite of all imports, because every run needs a suite
REGISTERED = "its first result was sent"

ROUNDS = """
SELECT commit_id, machine_id, max(round) FROM runs_run
 WHERE reason = 'import' AND base_id IS NULL AND commit_id = ANY (%(commits)s) AND machine_id = ANY (%(machines)s)
 GROUP BY commit_id, machine_id
"""
RUNS = """
INSERT INTO runs_run (id, project_id, commit_id, machine_id, suite_id, benchmark_set_id, imported_id, reason, round,
                      trials, metrics, status, priority, rank, attempt, lease_token, error, floors_due, started_at,
                      ended_at)
SELECT r.id, %(project)s, r.commit_id, r.machine_id, %(suite)s, r.set_id, %(imported)s, 'import', r.round, 1, '{}',
       'succeeded', 0, 0, 1, 1, '', false, now(), now()
  FROM unnest(%(runs)s::bigint[], %(commits)s::int[], %(machines)s::bigint[], %(sets)s::bigint[], %(rounds)s::int[])
       AS r (id, commit_id, machine_id, set_id, round)
"""
ATTEMPTS = """
INSERT INTO runs_attempt (id, run_id, number, token, instance, ended_at, outcome, postponed, out_of_reach)
SELECT a.id, a.run_id, 1, 1, '', now(), 'succeeded', '{}', '{}'
  FROM unnest(%(attempts)s::bigint[], %(runs)s::bigint[]) AS a (id, run_id)
"""
EVENTS = """
INSERT INTO runs_runevent (run_id, attempt, before, after, why)
SELECT r.id, 1, '', 'succeeded', 'measured elsewhere' FROM unnest(%(runs)s::bigint[]) AS r (id)
"""
MEASUREMENTS = """
INSERT INTO runs_measurement (id, attempt_id, series_id, commit_id, side, value, low, high, n, flags, paired, accepted)
SELECT m.*, '', false, true
  FROM (SELECT id, attempt_id, series_id, commit_id, 'head', value, low, high, n
          FROM unnest(%(ids)s::bigint[], %(of_attempts)s::bigint[], %(series)s::int[], %(of_commits)s::int[],
                      %(values)s::float8[], %(lows)s::float8[], %(highs)s::float8[], %(counts)s::smallint[])
               AS m (id, attempt_id, series_id, commit_id, value, low, high, n)) m
"""
SAMPLES = """
INSERT INTO runs_samples (measurement_id, values)
SELECT s.id, s.values::float8[] FROM unnest(%(sampled)s::bigint[], %(samples)s::text[]) AS s (id, values)
"""
ORIGINS = """
INSERT INTO runs_origin (measurement_id, project_id, digest, measured_at, external_id, url, tags)
SELECT o.id, %(project)s, o.digest, o.at, o.external_id, o.url, o.tags
  FROM unnest(%(ids)s::bigint[], %(digests)s::bytea[], %(times)s::timestamptz[], %(externals)s::text[],
              %(urls)s::text[], %(tags)s::jsonb[]) AS o (id, digest, at, external_id, url, tags)
"""
# `since` is not the time of the statement: the attempts ended at the time of the transaction.
MARKED = """
UPDATE runs_series SET undetected_since = least(undetected_since, %(since)s)
 WHERE id IN (SELECT id FROM runs_series WHERE id = ANY (%(series)s) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)
RETURNING id
"""


@dataclass(frozen=True)
class NewResult:
    """A result whose rows exist, except those of its run and measurement."""

    commit_id: int
    machine_id: int
    environment_id: int
    benchmark_id: int
    metric: str
    estimate: Estimate
    samples: Sequence[float] | None
    digest: bytes
    measured_at: datetime | None
    external_id: str
    url: str
    tags: Mapping[str, str]

    @property
    def series(self) -> tuple[int, str, int, int]:
        return self.benchmark_id, self.metric, self.machine_id, self.environment_id


@dataclass(frozen=True)
class NewRun:
    """The results of one commit on one machine, at most one per series. ``round``: the number of the import there."""

    commit_id: int
    machine_id: int
    round: int
    results: list[NewResult]

    @property
    def benchmarks(self) -> frozenset[int]:
        return frozenset(result.benchmark_id for result in self.results)


def register(names: Iterable[str], user: User | None) -> dict[str, int]:
    """Register machines without a runner. Return their ids by name.

    No project uses such a machine, so nothing is queued for it.
    """
    unique_names = sorted(names)
    # Another project's import may register the same name at the same time.
    Machine.objects.bulk_create((Machine(name=name, outside=True) for name in unique_names), ignore_conflicts=True)
    ids = dict(Machine.objects.filter(name__in=unique_names, outside=True).values_list("name", "pk"))
    kind = MachineEvent.Kind.ENROLLED
    MachineEvent.objects.bulk_create(
        MachineEvent(machine_id=pk, kind=kind, why=REGISTERED, who=user) for pk in ids.values()
    )
    return ids


def store_environments(facts: Mapping[tuple[int, str], Mapping[str, Any]]) -> dict[tuple[int, str], int]:
    """By (machine id, digest): the id of the environment, which is created if it is missing."""
    Environment.objects.bulk_create(
        (
            Environment(machine_id=machine, digest=digest, facts={"series": dict(values), "recorded": {}})
            for (machine, digest), values in sorted(facts.items(), key=itemgetter(0))  # so that no two imports deadlock
        ),
        ignore_conflicts=True,
    )
    environments = Environment.objects.filter(
        machine__in={machine for machine, _ in facts}, digest__in={d for _, d in facts}
    )
    return {(machine, digest): pk for machine, digest, pk in environments.values_list("machine_id", "digest", "pk")}


def store_benchmarks(
    project: Project, definitions: Mapping[tuple[str, str], dict[str, Any]]
) -> dict[tuple[str, str], int]:
    """By (name, digest): the id of the benchmark, which is created if it is missing."""
    Benchmark.objects.bulk_create(
        (
            Benchmark(project=project, name=name, digest=digest, definition=definition)
            for (name, digest), definition in definitions.items()
        ),
        ignore_conflicts=True,
    )
    benchmarks = Benchmark.objects.filter(project=project, digest__in={digest for _, digest in definitions})
    return {(name, digest): pk for name, digest, pk in benchmarks.values_list("name", "digest", "pk")}


def store(imported: Import, results: Sequence[NewResult]) -> None:
    """Store results as runs that have succeeded, and mark their series for detection."""
    series = store_series(imported.project, results)
    runs = runs_of(results)
    sets = store_sets(imported.project, {run.benchmarks for run in runs})
    run_ids, attempt_ids = new_ids("runs_run", len(runs)), new_ids("runs_attempt", len(runs))
    rows = [(attempt, result) for attempt, run in zip(attempt_ids, runs, strict=True) for result in run.results]
    ids = new_ids("runs_measurement", len(rows))
    sampled = [(pk, result.samples) for pk, (_, result) in zip(ids, rows, strict=True) if result.samples is not None]
    parameters: dict[str, Any] = {
        "project": imported.project_id,
        "imported": imported.pk,
        "suite": suite().pk,
        "runs": run_ids,
        "attempts": attempt_ids,
        "commits": [run.commit_id for run in runs],
        "machines": [run.machine_id for run in runs],
        "rounds": [run.round for run in runs],
        "sets": [sets[run.benchmarks] for run in runs],
        "ids": ids,
        "of_attempts": [attempt for attempt, _ in rows],
        "of_commits": [result.commit_id for _, result in rows],
        "series": [series[result.series] for _, result in rows],
        "values": [result.estimate.value for _, result in rows],
        "lows": [result.estimate.low for _, result in rows],
        "highs": [result.estimate.high for _, result in rows],
        "counts": [result.estimate.n for _, result in rows],
        "sampled": [pk for pk, _ in sampled],
        "samples": [f"{{{','.join(map(repr, samples))}}}" for _, samples in sampled],
        "digests": [result.digest for _, result in rows],
        "times": [result.measured_at for _, result in rows],
        "externals": [result.external_id for _, result in rows],
        "urls": [result.url for _, result in rows],
        "tags": [Jsonb(dict(result.tags)) if result.tags else None for _, result in rows],
    }
    with connection.cursor() as cursor:
        for statement in (RUNS, ATTEMPTS, EVENTS, MEASUREMENTS, SAMPLES, ORIGINS):
            cursor.execute(statement, parameters)
        cursor.execute("SELECT now()")
        (ended_at,) = cursor.fetchone()
    mark_undetected(imported, {series[result.series] for result in results}, ended_at)


def suite() -> Suite:
    """The suite of all imports, for benchmarks that no suite here defines."""
    definition: dict[str, Any] = {"benchmark": []}
    return Suite.objects.get_or_create(
        digest=json_digest({SUITE: definition}), defaults={"name": SUITE, "definition": definition}
    )[0]


def new_ids(table: str, count: int) -> list[int]:
    """Reserve this many ids of a table."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval(pg_get_serial_sequence(%s, 'id')) FROM generate_series(1, %s)", [table, count])
        return [pk for (pk,) in cursor]


def store_series(project: Project, results: Sequence[NewResult]) -> dict[tuple[int, str, int, int], int]:
    """By (benchmark id, metric, machine id, environment id): the id of the series; missing ones are created."""
    keys = {result.series for result in results}
    ids = known_series(project, keys)
    columns = ("benchmark_id", "metric", "machine_id", "environment_id")
    Series.objects.bulk_create(
        (Series(project=project, **dict(zip(columns, key, strict=True))) for key in sorted(keys - ids.keys())),
        ignore_conflicts=True,
    )
    return ids if keys <= ids.keys() else known_series(project, keys)


def known_series(project: Project, keys: set[tuple[int, str, int, int]]) -> dict[tuple[int, str, int, int], int]:
    benchmarks, metrics, machines, environments = (set(column) for column in zip(*keys, strict=True))
    series = Series.objects.filter(
        project=project,
        benchmark__in=benchmarks,
        metric__in=metrics,
        machine__in=machines,
        environment__in=environments,
    )
    rows = series.values_list("benchmark_id", "metric", "machine_id", "environment_id", "pk")
    return {
        (benchmark, metric, machine, environment): pk
        for benchmark, metric, machine, environment, pk in rows
        if (benchmark, metric, machine, environment) in keys
    }


def runs_of(results: Sequence[NewResult]) -> list[NewRun]:
    """One run per commit and machine; several results of one series at one commit need as many runs, like re-runs."""
    groups: dict[tuple[int, int, int], list[NewResult]] = defaultdict(list)
    times: dict[tuple[Any, ...], int] = defaultdict(int)
    for result in results:
        occurrence = (result.commit_id, result.series)
        groups[result.commit_id, result.machine_id, times[occurrence]].append(result)
        times[occurrence] += 1
    parameters = {"commits": list({key[0] for key in groups}), "machines": list({key[1] for key in groups})}
    with connection.cursor() as cursor:
        cursor.execute(ROUNDS, parameters)
        last = {(commit, machine): round for commit, machine, round in cursor}
    return [
        NewRun(commit, machine, last.get((commit, machine), -1) + 1 + again, members)
        for (commit, machine, again), members in groups.items()
    ]


def store_sets(project: Project, sets: set[frozenset[int]]) -> dict[frozenset[int], int]:
    """By the ids of its benchmarks: the id of the set."""
    texts = {
        pk: digest + name
        for pk, digest, name in Benchmark.objects.filter(pk__in=frozenset[int]().union(*sets)).values_list(
            "pk", "digest", "name"
        )
    }
    digests = {members: json_digest(sorted(texts[pk] for pk in members)) for members in sets}
    of_project = BenchmarkSet.objects.filter(project=project, digest__in=digests.values())
    set_ids = dict(of_project.values_list("digest", "pk"))
    missing = {digest: members for members, digest in digests.items() if digest not in set_ids}
    new_sets = BenchmarkSet.objects.bulk_create(BenchmarkSet(project=project, digest=digest) for digest in missing)
    set_ids |= {new_set.digest: new_set.pk for new_set in new_sets}
    SetMember.objects.bulk_create(
        (
            SetMember(benchmark_set_id=set_ids[digest], benchmark_id=pk)
            for digest, members in missing.items()
            for pk in sorted(members)
        ),
        batch_size=5000,
    )
    return {members: set_ids[digest] for members, digest in digests.items()}


def mark_undetected(imported: Import, series: Iterable[int], since: datetime) -> None:
    """Mark series for detection, as runs/queue/ends.py does for the measurements of a runner.

    Detection locks the series that it works on, perhaps for long after an import of years. Such series are stored with
    the import, and marked when detection begins again, so nobody waits.
    """
    series_ids = sorted(series)
    with connection.cursor() as cursor:
        cursor.execute(MARKED, {"series": series_ids, "since": since})
        marked_ids = {pk for (pk,) in cursor}
    remaining = [pk for pk in series_ids if pk not in marked_ids]
    if remaining != imported.unmarked:
        Import.objects.filter(pk=imported.pk).update(unmarked=remaining)


def mark_held() -> None:
    """Mark the series that detection had locked when their results were stored. Safe to run concurrently."""
    for pk in Import.objects.exclude(unmarked=[]).values_list("pk", flat=True):
        with transaction.atomic():
            imports = Import.objects.exclude(unmarked=[]).select_for_update(skip_locked=True, of=("self",), no_key=True)
            if imported := imports.filter(pk=pk).first():
                since = Attempt.objects.filter(run__imported=imported).aggregate(since=Min("ended_at"))["since"]
                mark_undetected(imported, imported.unmarked, since)
