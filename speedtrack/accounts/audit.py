"""The audit log: each change by a person or their program writes an entry, in the same transaction."""

import getpass
from typing import Any

from speedtrack.accounts.access import Caller
from speedtrack.accounts.models import AuditEntry
from speedtrack.accounts.operations import OPERATIONS
from speedtrack.projects.models import Project

LONGEST_VALUE = 200


def note(
    caller: Caller | None,
    action: str,
    target: object,
    project: Project | None = None,
    changes: dict[str, tuple[Any, Any]] | None = None,
) -> None:
    """Write an entry of the audit log. Raises ValueError if ``action`` is not in the catalogue of operations.

    ``caller``: None if a command did it. ``changes``: field -> (before, after), never a secret; what is equal is left
    out, numbers and truth are kept as they are, the rest as text.
    """
    if action not in OPERATIONS:
        raise ValueError(f"{action!r} is no operation: add it to accounts/operations.py")
    door = AuditEntry.Door.COMMAND
    if caller is not None:
        door = AuditEntry.Door.API if caller.token_id else AuditEntry.Door.PAGE
    user = caller.user if caller else None
    AuditEntry.objects.create(
        user=user,
        name=user.get_username() if user else getpass.getuser(),
        door=door,
        token_id=caller.token_id if caller else None,
        project=project,
        action=action,
        target=str(target)[:300],
        changes=differing(changes or {}),
    )


def differing(changes: dict[str, tuple[Any, Any]]) -> dict[str, list[Any]]:
    values = {field: [entry_value(before), entry_value(after)] for field, (before, after) in changes.items()}
    return {field: [before, after] for field, (before, after) in values.items() if before != after}


def entry_value(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float) else str(value)[:LONGEST_VALUE]
