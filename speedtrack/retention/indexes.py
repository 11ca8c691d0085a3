"""Rebuild the index of points once its pages are half empty.

Each measured commit adds a point at the end of every series, in the middle of a page. PostgreSQL splits such a page
into halves, of which the first one gets no more points. A rebuilt index takes half the room.
"""

from speedtrack.ground.postgres import pgsession

INDEX = "points_of_a_series"
DENSE_BYTES = 68  # of a point in full pages
SPARSE = 1.2  # times as much room, from which on the index is rebuilt
LEAST_BYTES = 1 << 26  # smaller ones are not worth it
IS_SPARSE = """
    SELECT pg_relation_size(oid) > greatest(%s, reltuples * %s) FROM pg_class WHERE oid = to_regclass(%s)
"""
# A rebuilding makes the new index as _ccnew, exchanges the names, and drops the former one, by then named _ccold.
LEFT_OVER = """
    SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    WHERE NOT indisvalid AND relname ~ ('^' || %s || '_cc(new|old)[0-9]*$')
"""


def rebuild_sparse() -> bool:
    """Rebuild the index if it is sparse, beside everything else. Return whether it was rebuilt.

    Needs room for a second index. What interrupted rebuildings have left is removed. Raises DatabaseError.
    """
    with pgsession.session().cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        try:
            cursor.execute(LEFT_OVER, [INDEX])
            for (name,) in cursor.fetchall():
                cursor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
            cursor.execute(IS_SPARSE, [LEAST_BYTES, SPARSE * DENSE_BYTES, INDEX])
            is_sparse = bool(cursor.fetchone()[0])
            if is_sparse:
                cursor.execute(f"REINDEX INDEX CONCURRENTLY {INDEX}")
        finally:
            cursor.execute("RESET statement_timeout")
    return is_sparse
