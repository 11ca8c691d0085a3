"""Bisections: what they found, and how programs begin and end them."""

from functools import partial

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import Http404
from ninja import Path, Query, Router

from speedtrack.accounts import access
from speedtrack.alerts.bisections import bisecting
from speedtrack.alerts.bisections.remaining import remaining_time
from speedtrack.alerts.bisections.searches import stored_searches
from speedtrack.alerts.models import Bisection
from speedtrack.api.v1.projects.operating import answered
from speedtrack.api.v1.serving.callers import ApiRequest, actor_of, project_or_404
from speedtrack.api.v1.serving.paging import Page, Paging, page_of
from speedtrack.api.v1.serving.revisions import commit_given
from speedtrack.api.v1.serving.writing import CREATED, OK, Answer, write
from speedtrack.operations import runs
from speedtrack.projects.models import Commit, Project
from speedtrack.reports.common import Id, Tried
from speedtrack.reports.evidence import (
    BisectionDetails,
    BisectionDocument,
    BisectionOrder,
    search_document,
)
from speedtrack.reports.operating import Outcome
from speedtrack.runs.requests import byhand

router = Router(tags=["Evidence"])


@router.get("projects/{slug}/bisections", response=Page[BisectionDocument], summary="List bisections")
def list_bisections(request: ApiRequest, slug: str, paging: Query[Paging]) -> Page[BisectionDocument]:
    """Searches for the commit of a change that people asked for, the newest first."""
    rows = known_bisections().filter(project=project_or_404(request, slug))
    return page_of(request, rows, paging, lambda bisections: map(BisectionDocument.of, bisections))


@router.get("bisections/{bisection_id}", response=BisectionDetails, summary="Read a bisection")
def read_bisection(request: ApiRequest, bisection_id: Path[Id]) -> BisectionDetails:
    """A bisection with the answers about each benchmark so far."""
    bisection = bisection_or_404(request, bisection_id)
    shas = dict(Commit.objects.filter(pk__in=[bisection.before_id, *bisection.path]).values_list("pk", "sha"))
    searches = stored_searches(bisection)
    remaining = remaining_time(bisection, searches)
    return BisectionDetails.of(
        bisection,
        searches=[search_document(search, bisection, shas) for search in searches],
        runs=list(bisection.runs.order_by("pk").values_list("pk", flat=True)),
        steps_left=remaining.steps,
        seconds_left=remaining.seconds,
    )


def bisection_or_404(request: ApiRequest, bisection_id: int) -> Bisection:
    bisection: Bisection | None = (
        known_bisections().filter(pk=bisection_id, project__in=access.visible(request.auth)).first()
    )
    if bisection is None:
        raise Http404(f"There is no bisection {bisection_id}, or its project is private.")
    return bisection


def known_bisections() -> QuerySet[Bisection]:
    related = Bisection.objects.select_related("project", "machine", "before", "commit", "asked_by", "benchmark_set")
    return related.defer("machine__facts")


@router.post("projects/{slug}/bisections", response={200: Outcome, 201: BisectionDocument}, summary="Begin a bisection")
@write
def begin_bisection(request: ApiRequest, slug: str, order: BisectionOrder) -> Answer:
    """Search by pairs for the commit at which benchmarks changed. Needs the scope `runs` and the role maintainer.

    If an equal bisection is under way, the answer is that one. A dry run answers 200 with what would be queued first,
    and about how long the whole search would take.
    """
    project, actor = project_or_404(request, slug), actor_of(request, order)
    result = runs.begin_bisection(actor, project, partial(begin, project, order))
    return (OK, Outcome.of(result.outlook)) if result.outlook else (CREATED, BisectionDocument.of(result.row))


def begin(project: Project, order: BisectionOrder, user: User | None) -> Bisection:
    """Begin a bisection by the order's names. Raises Invalid, NotMeasurable, NoSuchThing or DefinitionError."""
    before = commit_given(project, order.before, field="before")
    commit = commit_given(project, order.commit, field="commit")
    machine = byhand.machines_to_measure(project, order.machine)[0]
    return bisecting.start(before, commit, machine, order.benchmarks, order.metric, user)


@router.post("bisections/{bisection_id}/end", response=Outcome, summary="End a bisection")
@write
def end_bisection(request: ApiRequest, bisection_id: Path[Id], order: Tried | None = None) -> Answer:
    """What waits for it alone is cancelled; its answers stay. Needs the scope `runs` and the role maintainer."""
    return answered(request, order, runs.stop_bisection, bisection_or_404(request, bisection_id))
