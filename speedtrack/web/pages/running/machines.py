"""The machines: what each does, and a summary of their health."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, QuerySet

from speedtrack.accounts.access import Access
from speedtrack.ground.postgres.preparedquery import PreparedQuery
from speedtrack.reports.machines import keep_secret, said_alarms
from speedtrack.runs.models import Alarm, Machine
from speedtrack.runs.scheduling import standing, states
from speedtrack.web.pages.running import queue
from speedtrack.web.pages.running.queue import MachineWork


@dataclass(frozen=True)
class MachineRow:
    """A machine with the projects that it measures."""

    work: MachineWork
    projects: list[tuple[str, str]]

    @property
    def machine(self) -> Machine:
        return self.work.machine


def load(access: Access) -> list[MachineRow]:
    links = access.among(Machine.projects.through.objects.all()).order_by("project__name")
    names: dict[int, list[tuple[str, str]]] = {}
    for pk, slug, name in links.values_list("machine", "project__slug", "project__name"):
        names.setdefault(pk, []).append((slug, name))
    return [MachineRow(work, names.get(work.machine.pk, [])) for work in queue.work_of_all(access)]


@dataclass(frozen=True)
class Health:
    """How many machines are in each state, the most frequent first, those in quarantine, and the open alarms.

    ``version``: of the queues when they were read.
    """

    counts: list[tuple[str, int]]
    quarantined: Sequence[Machine]
    alarms: list[Alarm]
    version: str

    @property
    def machines(self) -> int:
        return sum(count for _, count in self.counts)


def health(access: Access) -> Health:
    """The health of all machines in service, by one statement while no alarm is open."""
    rows = MACHINES.rows()
    machines = [row for row in {row.pk: row for row in rows}.values() if row.retired_at is None and not row.outside]
    version = states.version_of_all(rows)  # before secrets are hidden
    keep_secret(machines, access)
    counts = Counter(machine_standing.state for machine_standing in standing.of_machines(machines).values())
    quarantined: list[Machine] = [machine for machine in machines if machine.quarantined_at]
    alarms = open_alarms(access) if not rows or rows[0].any_alarm else []
    return Health(counts.most_common(), quarantined, alarms, version)


def rows_of_health() -> QuerySet[Any]:
    """All machines with what ``health`` needs."""
    machines = standing.with_work(Machine.objects.defer("facts").order_by("name"))
    return states.with_version(machines.annotate(any_alarm=Exists(Alarm.objects.open())))


MACHINES = PreparedQuery(rows_of_health)


def open_alarms(access: Access) -> list[Alarm]:
    """The open alarms, the oldest first."""
    alarms = access.among(Alarm.objects.open(), "branch__project").select_related("machine", "branch__project")
    return said_alarms(alarms.defer("machine__facts").order_by("began"), access)
