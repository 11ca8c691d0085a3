"""The triggers that wake the dispatcher (dispatch.py), each declared on the model whose rows may cause work."""

from typing import Any

from django.db import models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

CHANNEL = "speedtrack_work"
# Every trigger's SQL includes this function, so that the order of migrations does not matter.
FUNCTION = f"""
CREATE OR REPLACE FUNCTION wake_the_dispatcher() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN NOTIFY {CHANNEL}; RETURN NULL; END $$
"""


class Wakes(models.BaseConstraint):
    """A trigger that notifies the dispatcher at the commit of an insert or change.

    PostgreSQL runs it, so no writer can forget it; as one of the model's constraints, makemigrations includes it.
    PostgreSQL sends equal notifications of one transaction once. NOTIFY holds a lock until the commit, so no table that
    is written for every sample may have such a trigger.
    """

    def __init__(self, *, name: str, after: str, rows: str = "") -> None:
        """``after``: the statements, such as ``UPDATE OF status``; ``rows``: a condition for the rows, if any."""
        super().__init__(name=name)
        self.after, self.rows = after, rows

    def create_sql(self, model: type[models.Model] | None, schema_editor: BaseDatabaseSchemaEditor | None) -> str:
        assert model is not None
        each = f"ROW WHEN ({self.rows})" if self.rows else "STATEMENT"
        return (
            f"{FUNCTION}; CREATE TRIGGER {self.name} AFTER {self.after} ON {model._meta.db_table}"
            f" FOR EACH {each} EXECUTE FUNCTION wake_the_dispatcher()"
        )

    def constraint_sql(self, model: type[models.Model] | None, schema_editor: BaseDatabaseSchemaEditor | None) -> str:
        """An empty text: CREATE TABLE cannot contain a trigger, so it follows once the table exists."""
        assert schema_editor is not None
        schema_editor.deferred_sql.append(self.create_sql(model, schema_editor))
        return ""

    def remove_sql(self, model: type[models.Model] | None, schema_editor: BaseDatabaseSchemaEditor | None) -> str:
        assert model is not None
        return f"DROP TRIGGER {self.name} ON {model._meta.db_table}"

    def validate(self, *_: Any, **__: Any) -> None:
        """Accept every row."""

    def deconstruct(self) -> tuple[str, tuple[()], dict[str, str]]:
        return (
            "speedtrack.ground.postgres.wakeups.Wakes",
            (),
            {"name": self.name, "after": self.after, "rows": self.rows},
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Wakes) and self.deconstruct() == other.deconstruct()

    def __hash__(self) -> int:
        return hash(self.name)
