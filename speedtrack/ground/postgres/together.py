"""What migrations need to be quick: Django makes the classes of all related models again after each step."""

from collections.abc import Sequence
from importlib import import_module

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState


class Together(Operation):
    """Steps of a migration that may be taken in any order, for which Django makes the classes of the models once.

    Each step sees the models as they are before the first one and after the last one. So none may change what another
    one makes: a model with its indexes and constraints is one step, and so are all changes of a field.
    """

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = list(operations)

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        state.__dict__.pop("apps", None)  # a cached property
        for operation in self.operations:
            operation.state_forwards(app_label, state)

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        for operation in self.operations:
            operation.database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        for operation in reversed(self.operations):
            operation.database_backwards(app_label, schema_editor, from_state, to_state)

    def describe(self) -> str:
        return "; ".join(operation.describe() for operation in self.operations)


def operations_of(migration: str) -> list[Operation]:
    """The operations of a migration, such as `alerts.0004_views_for_other_programs`, for one that replaces it."""
    app, _, name = migration.partition(".")
    operations: list[Operation] = import_module(f"speedtrack.{app}.migrations.{name}").Migration.operations
    return operations
