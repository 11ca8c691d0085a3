"""What programs can ask the machines to measure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from django.db.models import F, QuerySet, Window
from django.db.models.functions import RowNumber
from django.http import Http404

from speedtrack.projects.models import Project, PullRequest
from speedtrack.projects.sync import store_commits
from speedtrack.reports.runs import QueuedRuns, RunsOrder
from speedtrack.runs.models import Reason, Run, Status
from speedtrack.runs.requests import byhand
from speedtrack.runs.requests.byhand import RunSelection, Thinning

MOST_IDS = 1000


def queued_runs(project: Project, selection: RunSelection, count: int) -> QueuedRuns:
    """The document of runs that were just queued, in the caller's transaction."""
    own = Run.objects.filter(project=project, reason=Reason.MANUAL, base=None, commit__in=selection.ranks)
    newest = own.order_by("-pk").values_list("pk", flat=True)[:count]
    runs = sorted(newest)[:MOST_IDS]
    return QueuedRuns(queued=count, commits=len(selection.ranks), runs=runs, approved_head=None)


def selection_of(project: Project, order: RunsOrder) -> RunSelection:
    """The benchmarks, machines and commits of an order.

    Nothing is fetched: a thread of the web server may not wait for minutes.
    """
    first, *names = order.commits or [order.range or order.branch or order.releases or ""]
    thinning = Thinning(order.every, halves=order.halves) if order.range else Thinning()
    selection = byhand.choose(
        project.slug,
        first,
        order.benchmarks,
        order.machine,
        order.extended,
        order.releases is not None,
        thinning=thinning,
        fetches=False,
    )
    if not names:
        return selection
    shas = [sha for name in names for sha in byhand.find_range(project, name, fetches=False)]
    commits = store_commits(project, list(dict.fromkeys(shas)))
    every = dict.fromkeys([*selection.ranks, *(commits[sha].pk for sha in shas)])
    return replace(selection, ranks={pk: rank for rank, pk in enumerate(every)})


def pull_or_404(project: Project, number: int) -> PullRequest:
    pull = project.pull_requests.filter(number=number).first()
    if pull is None:
        raise Http404(f"{project.slug} has no pull request {number}, or its forge has not told of it.")
    return pull


def words_of(order: RunsOrder) -> str:
    """The order in words, for the audit log."""
    return order.range or order.branch or order.releases or ", ".join(order.commits or [])


def first_waiting(runs: QuerySet[Run], machines: Sequence[int], count: int) -> dict[int, list[Run]]:
    """By machine id: its waiting runs with the highest priority, at most ``count``."""
    position = Window(
        RowNumber(), partition_by="machine", order_by=[F("priority").desc(), F("rank").desc(), F("pk").asc()]
    )
    queued_runs = (
        runs.filter(status=Status.QUEUED, machine__in=machines).annotate(place=position).filter(place__lte=count)
    )
    by_machine: dict[int, list[Run]] = defaultdict(list)
    for run in queued_runs.order_by("machine", "place"):
        by_machine[run.machine_id].append(run)
    return by_machine
