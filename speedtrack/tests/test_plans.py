"""The count of rows read is the same on a fresh database and on one that thousands of tests have left dead rows in."""

import pytest
from django.db import connection

from speedtrack.tests.plans import rows_of


@pytest.mark.django_db
def test_dead_rows_are_not_counted() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE thing (number int, name text)")
        cursor.execute("CREATE INDEX ON thing (number)")
        cursor.execute(
            "INSERT INTO thing SELECT n, repeat('x', 300) FROM generate_series(1, 1000) n ORDER BY md5(n::text)"
        )
        for _ in range(20):
            cursor.execute("UPDATE thing SET name = name")
        cursor.execute("ANALYZE thing")
    assert rows_of("SELECT name FROM thing WHERE number BETWEEN %s AND %s", [101, 200]) == 100
