"""Queries that are compiled once answer as if they were built each time."""

from threading import Thread

from django.db import connection, connections
from django.db.models import Count, QuerySet
from django.test.utils import CaptureQueriesContext

from speedtrack.ground.postgres.pgvalues import QueryOfIds, rows_of_arrays
from speedtrack.ground.postgres.plainrows import among
from speedtrack.runs.models import Run
from speedtrack.web.tests.world import World, kvd

__all__ = ["kvd"]


def runs_of(machine: int, commits: list[int]) -> QuerySet[Run]:
    rows = Run.objects.filter(among("commit_id", commits), machine=machine).select_related("commit")
    return rows.annotate(tries=Count("attempts")).order_by("pk")


RUNS = QueryOfIds(runs_of, int, list)


def test_a_query_of_ids_has_the_rows_of_these_ids(kvd: World) -> None:
    commits = [kvd.commit(place).pk for place in range(4)]
    machine = kvd.machines[0].pk
    for chosen in (commits[:1], commits, []):
        expected = list(runs_of(machine, chosen))
        with CaptureQueriesContext(connection) as context:
            rows = RUNS.rows(machine, chosen)
            assert rows == expected and len(rows) == len(chosen)
            shown = [(run.commit.sha, vars(run)["tries"]) for run in rows]
        assert shown == [(run.commit.sha, vars(run)["tries"]) for run in expected]
        assert len(context) == 1
    assert not RUNS.rows(-1, commits)


def test_each_thread_uses_its_own_connection(kvd: World) -> None:
    RUNS.rows(kvd.machines[0].pk, [kvd.commit(0).pk])
    statements: list[list[str]] = []

    def read() -> None:
        with CaptureQueriesContext(connection) as context:
            RUNS.rows(kvd.machines[0].pk, [kvd.commit(0).pk])
        statements.append([query["sql"] for query in context.captured_queries])
        connections.close_all()

    thread = Thread(target=read)
    thread.start()
    thread.join()
    assert "runs_run" in statements[0][-1], "behind those that a new connection begins with"


def test_arrays_and_bytes_in_binary_form(db: None) -> None:
    statement = "SELECT ARRAY[1, NULL, 3], ARRAY['a', ''], '\\x00ff'::bytea, 0.1::float8, %(word)s::text"
    assert rows_of_arrays(statement, {"word": "%"}) == [([1, None, 3], ["a", ""], b"\x00\xff", 0.1, "%")]
