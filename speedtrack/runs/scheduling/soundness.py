"""Is a machine sound, in one line: by its standing, and by the newest check of its canary."""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import NamedTuple

from django.db.models import OuterRef, Subquery
from django.db.models.functions import JSONObject

from speedtrack.benchmarks import numbers
from speedtrack.runs.models import Canary, CanaryCheck, Machine
from speedtrack.runs.scheduling.standing import MachineStanding

Answer = CanaryCheck.Answer
#: States in which a machine measures, or could: then its canary decides whether it is sound.
MEASURING = ("working", "idle", "draining", "closed", "waiting", "paused")
WITHOUT = "No canary watches it, so drift would go unnoticed"


class Soundness(NamedTuple):
    """``at``: when the canary was measured on which the words rest; None: they rest on none."""

    is_sound: bool
    words: str
    at: datetime | None = None


class NewestCheck(NamedTuple):
    """The newest check of a canary. ``ratio``, ``limit``: None where there is none, or the caller may not know it."""

    answer: str
    at: datetime
    ratio: float | None
    limit: float | None


def of_machine(machine: Machine, stands: MachineStanding, hidden: Collection[int] = ()) -> Soundness:
    return of_machines([machine], {machine.pk: stands}, hidden)[machine.pk]


def of_machines(
    machines: Iterable[Machine], standings: dict[int, MachineStanding], hidden: Collection[int] = ()
) -> dict[int, Soundness]:
    """Each machine's soundness, by its id, in one statement. ``hidden``: projects whose canaries show no numbers."""
    rows = list(machines)
    checks = newest_checks([machine.pk for machine in rows], hidden)
    return {
        machine.pk: soundness_of(standings[machine.pk], machine.pk in checks, checks.get(machine.pk))
        for machine in rows
    }


def newest_checks(machine_ids: Collection[int], hidden: Collection[int]) -> dict[int, NewestCheck | None]:
    """By id of the machines that have a canary: its newest check, if there is one."""
    newest = CanaryCheck.objects.filter(canary=OuterRef("pk")).order_by("-pk")
    columns = JSONObject(**{name: name for name in NewestCheck._fields})
    canaries = Canary.objects.filter(machine__in=machine_ids, retired_at=None)
    rows = canaries.values_list("machine", "project", Subquery(newest.values(check=columns)[:1]))
    return {machine: check_of(check, project in hidden) if check else None for machine, project, check in rows}


def check_of(columns: dict[str, object], is_secret: bool) -> NewestCheck:
    check = NewestCheck._make(columns[name] for name in NewestCheck._fields)
    check = check._replace(at=datetime.fromisoformat(str(check.at)))
    return check._replace(ratio=None, limit=None) if is_secret else check


def soundness_of(stands: MachineStanding, has_canary: bool, check: NewestCheck | CanaryCheck | None) -> Soundness:
    if stands.why and stands.state not in MEASURING:
        return Soundness(False, stands.sentence.rstrip("."))
    if check is None:
        return Soundness(False, "Not known: its canary was not measured yet" if has_canary else WITHOUT)
    is_sound, reason = verdict_on(check)
    return Soundness(is_sound, reason, check.at)


def verdict_on(check: NewestCheck | CanaryCheck) -> tuple[bool, str]:
    if check.answer == Answer.STEADY:
        return True, f"Healthy: canary {f'within {check.limit:.1%}' if check.limit else 'steady'}"
    if check.answer == Answer.LEARNING:
        return True, "Healthy so far: its canary is learning its level"
    if check.answer == Answer.OFF:
        move = f" moved {numbers.change(check.ratio)}" if check.ratio else " moved"
        limit = f", more than {check.limit:.1%}" if check.limit else ""
        return False, f"Doubtful: canary{move}{limit}"
    return False, "Not known: its last canary gave no value"
