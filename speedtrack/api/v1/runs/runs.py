"""Runs, their logs and the queue: what was measured when, what waits, and what people ask for."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from django.db.models import Count, QuerySet
from django.http import Http404
from ninja import Path, Query, Router, Schema
from pydantic import Field

from speedtrack.accounts import access
from speedtrack.api.v1.runs import asking
from speedtrack.api.v1.serving.callers import ApiRequest, actor_of, project_or_404
from speedtrack.api.v1.serving.paging import LARGEST_KEY, Page, Paging, page_of
from speedtrack.api.v1.serving.revisions import commit_given
from speedtrack.api.v1.serving.writing import ACCEPTED, CREATED, OK, Answer, write
from speedtrack.operations import runs as operations
from speedtrack.operations.performing import Done
from speedtrack.reports.common import Id, Time, Tried
from speedtrack.reports.operating import Outcome
from speedtrack.reports.runs import (
    LISTED,
    LogDocument,
    LogLine,
    Queue,
    QueuedMachine,
    QueuedRuns,
    RunAction,
    RunDetails,
    RunDocument,
    RunsOrder,
    known_runs,
)
from speedtrack.runs.models import ACTIVE, Machine, Run, Status
from speedtrack.runs.results import logs
from speedtrack.runs.scheduling import standing
from speedtrack.runs.scheduling.standing import MachineStanding

router = Router(tags=["Runs"])

STATUSES = f"^({'|'.join(Status.values)}|unfinished)$"
NEXT = 20  # runs of a machine that the queue shows


class RunFilters(Schema):
    """Which runs."""

    status: Annotated[str | None, Field(pattern=STATUSES, description="`unfinished`: queued, leased or running")] = None
    machine: Annotated[str | None, Field(max_length=50, description="name of a machine")] = None
    reason: Annotated[str | None, Field(max_length=20, description="such as `push`")] = None
    since: Annotated[Time | None, Field(description="queued at this time or later")] = None

    def of(self, rows: QuerySet[Run]) -> QuerySet[Run]:
        own: dict[str, Any] = {"machine__name": self.machine, "reason": self.reason, "created__gte": self.since}
        if self.status == "unfinished":
            own["status__in"] = (Status.QUEUED, *ACTIVE)
        else:
            own["status"] = self.status
        return rows.filter(**{column: value for column, value in own.items() if value is not None})


def visible_runs(request: ApiRequest) -> QuerySet[Run]:
    return known_runs().filter(project__in=access.visible(request.auth))


@router.get("runs", response=Page[RunDocument], summary="List runs of all projects")
def list_all_runs(request: ApiRequest, paging: Query[Paging], filters: Query[RunFilters]) -> Page[RunDocument]:
    """The newest first."""
    rows = filters.of(Run.objects.filter(project__in=access.visible(request.auth)))
    return page_of(request, rows, paging, lambda runs: map(RunDocument.of, runs), columns=LISTED)


@router.get("projects/{slug}/runs", response=Page[RunDocument], summary="List runs of a project")
def list_runs(
    request: ApiRequest,
    slug: str,
    paging: Query[Paging],
    filters: Query[RunFilters],
    commit: Annotated[str | None, Field(max_length=250, description="only of this commit, tag or branch")] = None,
) -> Page[RunDocument]:
    """The newest first."""
    project = project_or_404(request, slug)
    rows = filters.of(Run.objects.newest_first(project.pk))
    if commit:
        rows = rows.filter(commit=commit_given(project, commit, parameter="commit"))
    return page_of(request, rows, paging, lambda runs: map(RunDocument.of, runs), columns=LISTED, within=["project_id"])


@router.get("runs/{run_id}", response=RunDetails, summary="Read a run")
def read_run(request: ApiRequest, run_id: Path[Id]) -> RunDetails:
    """A run with its events, attempts, and builds with the sizes of what they made."""
    return RunDetails.of(run_or_404(request, run_id))


def run_or_404(request: ApiRequest, run_id: int) -> Run:
    run = visible_runs(request).select_related("benchmark_set").filter(pk=run_id).first()
    if run is None:
        raise Http404(f"There is no run {run_id}, or its project is private.")
    return run


class LogQuery(Schema):
    """Which lines."""

    first: Annotated[int, Field(ge=1, le=LARGEST_KEY, description="number of the first line, from 1 on")] = 1
    limit: Annotated[int, Field(ge=1, le=1000)] = 1000


@router.get("runs/{run_id}/log", response=LogDocument, summary="Read the log of a run")
def read_log(request: ApiRequest, run_id: Path[Id], query: Query[LogQuery]) -> LogDocument:
    """Lines are numbered over all attempts. A log only grows: ask again from its end on while the run lasts."""
    run = run_or_404(request, run_id)
    index = logs.index_of(run.pk)
    # Of long lines fewer than asked for are read at once.
    lines = logs.read(index, query.first, min(query.first + query.limit, index.total + 1))
    after = lines[-1].number + 1 if lines else query.first
    return LogDocument(
        run=run.pk,
        total=index.total,
        lines=[LogLine(number=line.number, text=line.text, is_cut=line.cut) for line in lines],
        next=f"{request.path_info}?first={after}&limit={query.limit}" if lines and after <= index.total else None,
    )


@router.get("queue", response=Queue, summary="Read the queue")
def read_queue(request: ApiRequest) -> Queue:
    """What each machine in service does now, and what waits for it."""
    machines = list(Machine.objects.filter(retired_at=None).defer("facts").order_by("name"))
    queued_counts = Run.objects.filter(status=Status.QUEUED).values_list("machine").annotate(count=Count("pk"))
    counts = dict(queued_counts.order_by())
    running = {run.machine_id: run for run in visible_runs(request).filter(status__in=ACTIVE)}
    first = asking.first_waiting(visible_runs(request), [machine.pk for machine in machines], NEXT)
    standings = standing.of_machines(machines)
    return Queue(machines=[queued(machine, standings[machine.pk], counts, running, first) for machine in machines])


def queued(
    machine: Machine,
    stands: MachineStanding,
    counts: dict[int, int],
    running: dict[int, Run],
    first: dict[int, list[Run]],
) -> QueuedMachine:
    now = running.get(machine.pk)
    return QueuedMachine(
        machine=machine.name,
        state=stands.state,
        why=stands.sentence,
        is_paused=machine.paused,
        is_quarantined=machine.quarantined_at is not None,
        running=RunDocument.of(now) if now else None,
        waiting=counts.get(machine.pk, 0),
        next=list(map(RunDocument.of, first.get(machine.pk, []))),
    )


@router.post("projects/{slug}/runs", response={200: Outcome, 201: QueuedRuns, 202: QueuedRuns}, summary="Queue runs")
@write
def queue_runs(request: ApiRequest, slug: str, order: RunsOrder) -> Answer:
    """Queue runs of commits, a range, a branch's head, releases or a pull request. Needs scope `runs`, role maintainer.

    What the server has not fetched yet is refused: push it to a tracked branch first, or ask for a paired comparison,
    which fetches. Of a pull request the answer is 202: its runs are queued once its head is fetched. Of a dry run it is
    200: what would be queued, and how long that takes.
    """
    project, actor = project_or_404(request, slug), actor_of(request, order)
    if order.pull_request is not None:
        actor.require("pull.approve", project)
        pull = asking.pull_or_404(project, order.pull_request)
        result = operations.approve(actor, pull, order.head or "", order.reason)
    else:
        select = partial(asking.selection_of, project, order)
        result = operations.queue(actor, project, select, asking.words_of(order), order.reason)
    if result.outlook:
        return OK, Outcome.of(result.outlook)
    if order.pull_request is not None:
        return ACCEPTED, QueuedRuns(queued=0, commits=0, runs=[], approved_head=result.row.head_sha)
    return CREATED, asking.queued_runs(project, *result.row)


def act(request: ApiRequest, run_id: int, verb: Callable[..., Done], order: Tried | None) -> Answer:
    result = verb(actor_of(request, order), run_or_404(request, run_id))
    return OK, RunAction(message=str(result), run=RunDocument.of(run_or_404(request, run_id)))


@router.post("runs/{run_id}/cancel", response=RunAction, summary="Cancel a run")
@write
def cancel_run(request: ApiRequest, run_id: Path[Id], order: Tried | None = None) -> Answer:
    """A run under way ends as soon as its runner hears of it. Needs the scope `runs` and the role maintainer."""
    return act(request, run_id, operations.cancel, order)


@router.post("runs/{run_id}/retry", response=RunAction, summary="Retry a run")
@write
def retry_run(request: ApiRequest, run_id: Path[Id], order: Tried | None = None) -> Answer:
    """Queue a failed or cancelled run again. Needs the scope `runs` and the role maintainer."""
    return act(request, run_id, operations.retry, order)


@router.post("runs/{run_id}/raise", response=RunAction, summary="Let a run be the next")
@write
def raise_run(request: ApiRequest, run_id: Path[Id], order: Tried | None = None) -> Answer:
    """A waiting run becomes the next of its machine. Needs the scope `runs` and the role maintainer."""
    return act(request, run_id, operations.let_be_next, order)
