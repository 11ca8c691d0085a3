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

NAME = re.compile(r"[a-z]+\.[a-z-]+")
#: Files that write entries, although they are no operations, by why.
NOTING = {
    "operations/performing.py": "all operations",
    "web/accounts/noting.py": "the views of django-allauth make the change",
    "web/management/commands/changepassword.py": "Django's command makes the change",
    "web/management/commands/createsuperuser.py": "Django's command makes the change",
    "web/accounts/first.py": "who asks has no account before the change",
    "web/accounts/notifications.py": "the link in a mail is another key than an account: then nothing is noted",
}


def calls() -> Iterator[tuple[str, ast.Call, str]]:
    """(file, call, name of the function) of each call."""
    for file in (BASE_DIR / "speedtrack").rglob("*.py"):
        if "tests" in file.parts or "migrations" in file.parts:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                yield str(file.relative_to(BASE_DIR / "speedtrack")), node, ast.unparse(node.func)


def test_entries_are_written_by_operations() -> None:
    writing = {file for file, _, name in calls() if name in ("audit.note", "AuditEntry.objects.create")}
    assert writing - {"accounts/audit.py"} == NOTING.keys()


def test_each_name_of_the_catalogue_is_noted() -> None:
    """By a verb, or by what django-allauth and Django do."""
    texts = {
        node.value
        for _, call, name in calls()
        if name in ("operation", "note", "audit.note")
        for node in ast.walk(call)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value)
    }
    assert texts | {f"notification.{verb}" for verb in [*notifications.ACTS, "trial"]} == OPERATIONS.keys()


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
