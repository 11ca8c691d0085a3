"""The subjects of streams: a run with its log, or the queue. One query serves all viewers of all subjects."""

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.contrib.auth.models import User

from speedtrack.accounts.models import Membership
from speedtrack.projects.models import Project
from speedtrack.runs.models import ACTIVE, Machine, Run
from speedtrack.runs.queue import estimates
from speedtrack.runs.queue.estimates import DurationEstimate
from speedtrack.runs.queue.progress import Progress, progress_of
from speedtrack.runs.results import logs
from speedtrack.runs.results.logs import LogIndex
from speedtrack.runs.scheduling import states

OF_MACHINE = (*states.OF_MACHINE, "last_seen_at")
SHOWN = (
    *(*states.OF_RUN, "machine_id", "benchmark_set_id", "lease_token", "reason", "project_id"),
    *(f"machine__{name}" for name in OF_MACHINE if name != "pk"),
)
expected: dict[int, DurationEstimate | None] = {}


@dataclass(frozen=True)
class SubjectState:
    """The state of a subject.

    ``version``: of the page's part; ``done``: nothing will change any more. ``readers``: the users who may see it, if
    its project is private; None: everybody.
    """

    version: str
    progress: dict[int, Progress]
    done: bool = False
    readers: frozenset[int] | None = None

    def may_be_seen_by(self, viewer: int | None) -> bool:
        return self.readers is None or viewer in self.readers

    def encode(self) -> bytes:
        progress = {run: run_progress.document for run, run_progress in self.progress.items()}
        return encode({"version": self.version, "progress": progress, "done": self.done})


class LogWindow(NamedTuple):
    """Lines of a log as JSON, and the number of the next line: the last one again, if it is incomplete."""

    document: bytes
    following: int


class LookResult(NamedTuple):
    """The result of a query: the states of the runs that exist, and the runs whose logs have grown."""

    runs: dict[int, SubjectState]
    queue: SubjectState | None
    grown: set[int]


def look(indexes: dict[int, LogIndex | None], is_queue_watched: bool) -> tuple[LookResult, dict[int, LogIndex]]:
    """Query the watched runs and the queue. A run without an index of its log gets one."""
    runs = list(Run.objects.filter(pk__in=indexes).select_related("machine").only(*SHOWN))
    active = list(Run.objects.active().select_related("machine").only(*SHOWN)) if is_queue_watched else []
    progress = progress_of([*runs, *active], expected_of([*runs, *active]))
    readers = readers_of({run.project_id for run in (*runs, *active)})
    states_by_run = {run.pk: state_of(run, progress, readers.get(run.project_id)) for run in runs}
    queue = None
    if is_queue_watched:
        public = [run for run in active if run.pk in progress and run.project_id not in readers]
        machines = Machine.objects.only(*OF_MACHINE)
        version = states.queue_version(active, machines, states.newest_rows())
        queue = SubjectState(version, {run.pk: progress[run.pk] for run in public})
    fresh = {run.pk: logs.index_of(run.pk) for run in runs if indexes[run.pk] is None}
    indexes_by_run = {pk: index for pk in states_by_run if (index := indexes[pk]) is not None}
    return LookResult(states_by_run, queue, logs.extend(indexes_by_run) | fresh.keys()), fresh


def expected_of(runs: list[Run]) -> dict[int, DurationEstimate | None]:
    """The estimates of active runs, computed once for each, because that costs more than all other queries."""
    active = {run.pk for run in runs if run.status in ACTIVE}
    for gone in expected.keys() - active:
        del expected[gone]
    if new := active - expected.keys():
        expected.update(estimates.of_runs(Run.objects.filter(pk__in=new)))
    return expected


def readers_of(projects: set[int]) -> dict[int, frozenset[int]]:
    """By project id: the users who may see it; private projects only."""
    private = list(Project.objects.filter(pk__in=projects, is_public=False).values_list("pk", flat=True))
    if not private:
        return {}
    operators = set(User.objects.filter(is_superuser=True, is_active=True).values_list("pk", flat=True))
    members = Membership.objects.filter(project__in=private, user__is_active=True).values_list("project", "user")
    readers = {pk: set(operators) for pk in private}
    for project, user in members:
        readers[project].add(user)
    return {pk: frozenset(users) for pk, users in readers.items()}


def state_of(run: Run, progress: dict[int, Progress], readers: frozenset[int] | None) -> SubjectState:
    own = {run.pk: progress[run.pk]} if run.pk in progress else {}
    return SubjectState(states.version_of(run), own, run.done, readers)


def window_of(index: LogIndex, line: int) -> LogWindow:
    """The lines from ``line`` on; if there are too many, only the last ones."""
    first, end = max(line, index.start_before(index.total + 1)), index.total + 1
    return LogWindow(encode(logs.document(index, logs.read(index, first, end))), index.complete_lines + 1)


def encode(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
