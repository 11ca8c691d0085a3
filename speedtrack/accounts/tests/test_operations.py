"""One operation has one name in the audit log, and each name that the code notes is in the catalogue."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection

from speedtrack.accounts import audit
from speedtrack.accounts.models import AuditEntry
from speedtrack.accounts.operations import FORMER, OPERATIONS
from speedtrack.processes.devstack import BASE_DIR
from speedtrack.web.accounts import notifications
from speedtrack.web.views import channels

NOTES = {"note", "operation"}
NAME = re.compile(r"[a-z]+\.[a-z-]+")
#: noun -> verbs that a table of a page or a command offers under it, and that are noted
TABLES = {
    "channel": [channels.ACTIONS],
    "notification": [notifications.ACTS, {"trial": ""}],
}


def literal_names() -> Iterator[tuple[str, str]]:
    """(file, name) of each name that is written in a call that notes, or returned by a command's ``change``."""
    for file in (BASE_DIR / "speedtrack").rglob("*.py"):
        if "tests" in file.parts or "migrations" in file.parts:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            called = node.func if isinstance(node, ast.Call) else None
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            is_change = isinstance(node, ast.FunctionDef) and node.name == "change" and "commands" in file.parts
            if name in NOTES or is_change:
                texts = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))
                for text in texts:
                    if isinstance(text, str) and NAME.fullmatch(text):
                        yield file.name, text


def test_each_noted_name_is_in_the_catalogue() -> None:
    found = set(literal_names())
    assert len(found) > 60
    assert {(file, name) for file, name in found if name not in OPERATIONS} == set()
    offered = {f"{noun}.{verb}" for noun, tables in TABLES.items() for table in tables for verb in table}
    assert offered - OPERATIONS.keys() == set()


def test_a_name_beside_the_catalogue_is_not_noted(db: None) -> None:
    with pytest.raises(ValueError, match="is no operation"):
        audit.note(None, "mute.make", "x")


def test_entries_of_former_names_are_found_by_the_new_ones(db: None) -> None:
    for name in FORMER:
        AuditEntry.objects.create(name="ada", door="page", action=name, target=name)
    AuditEntry.objects.create(name="ada", door="command", action="machine.canary", target="set")
    AuditEntry.objects.create(name="ada", door="page", action="machine.canary", target="measured")
    migration = import_module("speedtrack.accounts.migrations.0006_one_name_per_operation")
    with connection.schema_editor() as editor:
        migration.rename(apps, editor)
    found = dict(AuditEntry.objects.values_list("target", "action"))
    assert found == FORMER | {"set": "machine.freeze", "measured": "machine.canary"}
    assert migration.RENAMED == FORMER
