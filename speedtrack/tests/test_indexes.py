"""Each index costs every writer: in the tables that grow, none may be the beginning of another one.

So a foreign key with which a constraint begins has ``db_index=False``.
"""

from django.apps import apps
from django.db import connection

# Columns of whole-table btree indexes; one that is unique or has other columns stays whatever else there is.
REDUNDANT = """
    WITH listed AS (
        SELECT i.indrelid::regclass::text AS tab, c.relname AS name, i.indisunique AS is_unique,
               i.indkey::text || ' ' AS keys, i.indclass::text || ' ' AS classes
          FROM pg_index i
          JOIN pg_class c ON c.oid = i.indexrelid
          JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE n.nspname = 'public' AND i.indpred IS NULL AND i.indexprs IS NULL
    )
    SELECT a.tab, a.name, b.name
      FROM listed a JOIN listed b ON a.tab = b.tab AND a.name <> b.name AND NOT a.is_unique
     WHERE starts_with(b.keys, a.keys) AND starts_with(b.classes, a.classes) AND length(b.keys) > length(a.keys)
"""


def test_no_index_is_the_beginning_of_another(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(REDUNDANT)
        found = {f"{name} is the beginning of {other}" for table, name, other in cursor if own(table)}
    assert found == set()


def own(table: str) -> bool:
    """Is it a table of a model of these rooms? Those of a ManyToManyField have what Django gives them."""
    rooms = [apps.get_app_config(app) for app in ("projects", "benchmarks", "runs")]
    return table in {model._meta.db_table for room in rooms for model in room.get_models()}
