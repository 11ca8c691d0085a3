"""Begin and end alarms: each begins once per episode, and ends once, however often its cause is seen."""

from typing import Any

from django.db.models.functions import Now

from speedtrack.projects.models import Branch
from speedtrack.runs.models import Alarm, Machine

LONGEST_WHY = 1000


def begin(kind: Alarm.Kind, why: str, machine: Machine | None = None, branch: Branch | None = None) -> bool:
    """Begin an alarm, unless one of this kind is open for the machine or branch. Return whether it was begun."""
    if Alarm.objects.open().filter(kind=kind, machine=machine, branch=branch).exists():
        return False
    alarm = Alarm(kind=kind, machine=machine, branch=branch, why=why[:LONGEST_WHY])
    Alarm.objects.bulk_create([alarm], ignore_conflicts=True)  # another process may have begun it meanwhile
    return True


def end(kind: Alarm.Kind, why: str, **where: Any) -> int:
    """End the open alarms of this kind of a ``machine`` or of branches. Return the number of alarms ended."""
    changes = {"ended_at": Now(), "ended_why": why[:LONGEST_WHY], "untold": True}
    return Alarm.objects.open().filter(kind=kind, **where).update(**changes)
