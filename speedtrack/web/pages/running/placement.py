"""The cores of the server, the driver and everything else on which a run was measured, from the facts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Subquery

from speedtrack.runs.models import Attempt, Environment, Machine, Measurement, Status

MOST_CPUS = 512
RANGE = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")
ROLES = {"server": "S", "driver": "D", "rest": "·"}
TITLES = {"server": "server", "driver": "load driver", "rest": "everything else"}


@dataclass(frozen=True)
class Cpu:
    """``roles``: those of ROLES that it has; none if it is left idle."""

    number: int
    roles: tuple[str, ...]

    @property
    def mark(self) -> str:
        return "".join(ROLES[role] for role in self.roles)

    @property
    def look(self) -> str:
        return self.roles[0] if self.roles else "idle"

    @property
    def title(self) -> str:
        return f"CPU {self.number}: {' and '.join(TITLES[role] for role in self.roles) or 'left idle'}"


@dataclass(frozen=True)
class ShownPlacement:
    """``override``: the rules that the machine could not keep; empty if it kept all."""

    cpus: list[Cpu]
    override: str
    interrupts: str

    @property
    def looks(self) -> list[str]:
        return list(dict.fromkeys(role for cpu in self.cpus for role in (cpu.roles or ("idle",))))


def environment_of(attempt: Attempt | None) -> Environment | None:
    """The environment in which an attempt measured; None before its first measurement."""
    if attempt is None:
        return None
    of_attempt = Measurement.objects.filter(attempt=attempt).values("series__environment")
    return Environment.objects.filter(pk=Subquery(of_attempt[:1])).first()


def environment_before(machine: Machine, attempt: Attempt) -> Environment | None:
    """The environment in which a machine last measured before an attempt; None if it never did."""
    earlier = Attempt.objects.filter(run__machine=machine, run__linked=None, pk__lt=attempt.pk)
    return environment_of(earlier.filter(outcome=Status.SUCCEEDED).order_by("-pk").first())


def placement_of(facts: Mapping[str, Any]) -> ShownPlacement | None:
    """The placement in the facts of an environment; None if they do not contain one."""
    series, recorded = facts.get("series", {}), facts.get("recorded", {})
    of_role = {
        "server": cpus_of(series.get("server_cpus")),
        "driver": cpus_of(series.get("driver_cpus")),
        "rest": cpus_of(recorded.get("housekeeping_cpus")),
    }
    if not of_role["server"]:
        return None
    threads = series.get("threads")
    last = max(max(cpus, default=0) for cpus in of_role.values())
    count = max(last + 1, threads if isinstance(threads, int) else 0)
    cpus = [
        Cpu(number, tuple(role for role in ROLES if number in of_role[role])) for number in range(min(count, MOST_CPUS))
    ]
    override = str(series.get("placement_override", "none"))
    interrupts = str(recorded.get("interrupts_on_measured_cpus", "unknown"))
    return ShownPlacement(cpus, "" if override == "none" else override, "" if interrupts == "unknown" else interrupts)


def cpus_of(text: object) -> frozenset[int]:
    """The numbers in a list such as ``0-3,8``; empty if it cannot be read."""
    cpus: set[int] = set()
    for span in str(text or "").split(","):
        if match := RANGE.fullmatch(span.strip()):
            first = int(match[1])
            cpus |= set(range(first, min(int(match[2] or first), MOST_CPUS) + 1))
    return frozenset(number for number in cpus if number < MOST_CPUS)
