"""A query that is compiled once has the rows of one that is compiled for each call."""

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.db import connection
from django.db.models import Count, QuerySet, TextField, Value
from django.test.utils import CaptureQueriesContext

from speedtrack.ground.postgres.plainrows import among
from speedtrack.ground.postgres.preparedquery import PreparedQuery, Statement
from speedtrack.runs.models import Run, Series, Status
from speedtrack.web.tests.world import World, kvd

__all__ = ["kvd"]

PATIENCE_S = 60


def series_of(project: int, benchmark: str) -> QuerySet[Series]:
    series = Series.objects.filter(project=project, benchmark__name=benchmark).annotate(points=Count("measurements"))
    return series.select_related("machine", "benchmark").defer("machine__facts").order_by("-metric", "pk")


def columns_of_runs(ids: list[int]) -> QuerySet[Any]:
    return Run.objects.filter(among("pk", ids)).order_by("-pk").values_list("commit__sha", "status")


def columns(series: Series) -> tuple[Any, ...]:
    return series.pk, series.metric, series.machine.name, series.benchmark.name, vars(series)["points"]


def test_rows_are_those_of_the_query_for_all_values(kvd: World) -> None:
    prepared = PreparedQuery(series_of)
    for benchmark in ("get-p1", "set-p1", "absent", "get-p1"):
        rows = prepared.rows(project=kvd.project.pk, benchmark=benchmark)
        assert list(map(columns, rows)) == list(map(columns, series_of(kvd.project.pk, benchmark)))
        assert bool(rows) == (benchmark != "absent")
    assert prepared.rows(project=kvd.project.pk + 1, benchmark="get-p1") == []


def test_one_statement_reads_them_with_what_they_refer_to(kvd: World) -> None:
    prepared = PreparedQuery(series_of)
    with CaptureQueriesContext(connection) as statements:
        rows = prepared.rows(project=kvd.project.pk, benchmark="get-p1")
        assert {(row.machine.name, row.benchmark.name) for row in rows} == {(kvd.machines[0].name, "get-p1")}
        assert len(statements) == 1
        assert rows[0].machine.facts is not None and len(statements) == 2, "a column that was left out is read"


def runs_with_attempts(project: int) -> QuerySet[Run]:
    return Run.objects.filter(project=project).prefetch_related("attempts").order_by("pk")


def test_what_is_read_beside_the_rows_is_read_by_one_statement_more(kvd: World) -> None:
    prepared = PreparedQuery(runs_with_attempts)
    with CaptureQueriesContext(connection) as statements:
        rows = prepared.rows(project=kvd.project.pk)
        assert len(rows) > 1 and all(run.attempts.all() for run in rows)
        assert len(statements) == 2


def test_columns_of_rows_by_a_list_of_ids(kvd: World) -> None:
    prepared = PreparedQuery(columns_of_runs)
    ids = list(Run.objects.order_by("pk").values_list("pk", flat=True))
    for some in (ids[:2], [], ids):
        assert prepared.tuples(ids=some) == list(columns_of_runs(some))


def shas_of_runs(shas: list[str]) -> QuerySet[Any]:
    return Run.objects.filter(among("commit__sha", shas)).order_by("-pk").values_list("commit__sha", "status")


def test_columns_of_rows_by_a_list_of_texts(kvd: World) -> None:
    prepared = PreparedQuery(shas_of_runs)
    for some in (kvd.shas[:2], [], ["absent", *kvd.shas]):
        assert prepared.tuples(shas=some) == list(shas_of_runs(some))
    assert prepared.tuples(shas=kvd.shas[:1])


def first_waiting(machine: int) -> QuerySet[Any]:
    waiting = Run.objects.filter(machine=machine, status=Status.QUEUED).order_by("-priority", "-rank", "pk")
    return waiting.annotate(said=Value("100% 'sure'", TextField())).values_list("pk", "said")[:1]


def test_what_is_the_same_in_each_call_stands_in_the_text(kvd: World) -> None:
    """PostgreSQL would otherwise read all runs for the first that waits: it cannot know that the index is of these."""
    prepared = PreparedQuery(first_waiting)
    machine, statement = kvd.machines[0].pk, prepared.statement
    assert statement.names == ("machine",)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
        cursor.execute("PREPARE first_waiting AS " + statement.sql.replace("%s", "$1").replace("%%", "%"))
        cursor.execute(f"EXPLAIN EXECUTE first_waiting ({machine})")
        assert "using runs_queued" in "".join(line for (line,) in cursor.fetchall())
    Run.objects.filter(machine=machine).update(status=Status.QUEUED, ended_at=None)
    expected = list(first_waiting(machine))
    assert prepared.tuples(machine=machine) == expected and expected[0][1] == "100% 'sure'"


@pytest.mark.django_db(transaction=True)
def test_each_thread_reads_by_its_own_connection(kvd: World) -> None:
    prepared = PreparedQuery(series_of)
    here = list(map(columns, prepared.rows(project=kvd.project.pk, benchmark="get-p1")))

    def there(_: int) -> list[tuple[Any, ...]]:
        try:
            return list(map(columns, prepared.rows(project=kvd.project.pk, benchmark="get-p1")))
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(there, range(8))) == [here] * 8


@pytest.mark.django_db(transaction=True)
def test_threads_that_come_at_once_compile_one_query(kvd: World) -> None:
    """Two compilations of one query at the same time would change its joins while the other one writes them."""
    threads, often = 4, sys.getswitchinterval()
    begin = Barrier(threads)

    def compiled(query: PreparedQuery[Series]) -> Statement:
        begin.wait(PATIENCE_S)
        try:
            return query.statement
        finally:
            connection.close()

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(threads) as pool:
            for _ in range(30):
                statements = list(pool.map(compiled, [PreparedQuery(series_of)] * threads))
                assert all(statement is statements[0] for statement in statements)
    finally:
        sys.setswitchinterval(often)


def test_a_value_that_is_no_parameter_is_refused() -> None:
    def first_runs(count: int) -> QuerySet[Run]:
        return Run.objects.all()[:count]

    with pytest.raises(ValueError, match="does not compare count"):
        PreparedQuery(first_runs).rows(count=3)
