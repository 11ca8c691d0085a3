"""Paired comparisons: a program asks for one, asks until it has ended, and lets a change pass or not."""

from django.db.models import QuerySet
from django.http import Http404
from ninja import Path, Query, Router

from speedtrack.api.v1.serving.callers import ApiRequest, actor_of, project_or_404
from speedtrack.api.v1.serving.paging import Page, Paging, page_of
from speedtrack.api.v1.serving.writing import ACCEPTED, OK, Answer, write
from speedtrack.judging.pulls import judge_pulls
from speedtrack.judging.summaries import comparison_summary
from speedtrack.judging.verdicts import worst_of
from speedtrack.operations import runs as operations
from speedtrack.reports.common import Id
from speedtrack.reports.comparing import (
    PairedComparisonDocument,
    PairedComparisonOrder,
    PairedRow,
    PairedRun,
    PatchOrder,
)
from speedtrack.reports.operating import Outcome
from speedtrack.runs.models import PairedComparison
from speedtrack.runs.requests import comparing
from speedtrack.runs.requests.comparing import AskedComparison

router = Router(tags=["Comparisons"])


@router.post(
    "projects/{slug}/comparisons", response={202: PairedComparisonDocument}, summary="Measure a change in pairs"
)
@write
def ask_for_comparison(request: ApiRequest, slug: str, order: PairedComparisonOrder) -> Answer:
    """Measure a commit against its merge base with another one, interleaved on the same machines.

    Ask its address until `is_ended`; then `verdict` says whether something got worse. A commit that the server has
    not fetched yet is fetched first, from the project's own repository only: give its whole id. Needs the scope
    `runs` (to ask for the answer also `read`) and the role maintainer, since its code is built and run.
    """
    project = project_or_404(request, slug)
    base = order.base or project.default_branch
    comparison = AskedComparison(order.head, base, order.benchmarks, order.machine)
    result = operations.compare(actor_of(request), project, comparison, order.reason)
    return ACCEPTED, document_of(comparison_or_404(request, slug, result.row.pk))


@router.post(
    "projects/{slug}/comparisons/patches",
    response={200: Outcome, 202: PairedComparisonDocument},
    summary="Try a patch",
)
@write
def try_patch(request: ApiRequest, slug: str, order: PatchOrder) -> Answer:
    """Measure a patch in pairs against the commit that it was made from. It becomes a commit that no branch has.

    Its comparison is asked for as any other. Needs the scope `runs` (to ask for the answer also `read`) and the role
    triager; that of a triager waits until a maintainer approves it on its `page`. Of a dry run the answer is 200.
    """
    project, actor = project_or_404(request, slug), actor_of(request, order)
    base = order.base or project.default_branch
    patch = AskedComparison("", base, order.benchmarks, order.machine, order.diff)
    result = operations.try_patch(actor, project, patch, order.reason)
    if result.outlook:
        return OK, Outcome.of(result.outlook)
    return ACCEPTED, document_of(comparison_or_404(request, slug, result.row.pk))


@router.get("projects/{slug}/comparisons", response=Page[PairedComparisonDocument], summary="List paired comparisons")
def list_comparisons(request: ApiRequest, slug: str, paging: Query[Paging]) -> Page[PairedComparisonDocument]:
    """The newest first, without their rows: read one for these."""
    rows = visible_comparisons(request, slug).prefetch_related("runs__machine")
    return page_of(
        request,
        rows,
        paging,
        lambda comparisons: [document_of(comparison, with_rows=False) for comparison in comparisons],
    )


@router.get(
    "projects/{slug}/comparisons/{comparison_id}",
    response=PairedComparisonDocument,
    summary="Read a paired comparison",
)
def read_comparison(request: ApiRequest, slug: str, comparison_id: Path[Id]) -> PairedComparisonDocument:
    """The progress of a comparison, and its verdict for each benchmark once it has ended."""
    return document_of(comparison_or_404(request, slug, comparison_id))


def visible_comparisons(request: ApiRequest, slug: str) -> QuerySet[PairedComparison]:
    rows: QuerySet[PairedComparison] = PairedComparison.objects.filter(project=project_or_404(request, slug))
    return rows.select_related("project", "head", "base")


def comparison_or_404(request: ApiRequest, slug: str, pk: int) -> PairedComparison:
    comparison = visible_comparisons(request, slug).prefetch_related("runs__machine").filter(pk=pk).first()
    if comparison is None:
        raise Http404(f"{slug} has no paired comparison {pk}.")
    return comparison


def document_of(comparison: PairedComparison, with_rows: bool = True) -> PairedComparisonDocument:
    runs = sorted(comparison.runs.all(), key=lambda run: run.pk)
    state = comparing.state_of(comparison, runs)
    judgements = judge_pulls(runs) if with_rows and runs else []
    is_ended = state in ("done", "failed")
    return PairedComparisonDocument(
        id=comparison.pk,
        project=comparison.project.slug,
        state=state,
        is_ended=is_ended,
        verdict=worst_of({row.judgement.verdict for row in judgements}) if is_ended else None,
        head=comparison.head.sha if comparison.head else None,
        base=comparison.base.sha if comparison.base else None,
        error=comparing.error_of(comparison, runs),
        created=comparison.created,
        runs=list(map(PairedRun.of, runs)),
        rows=list(map(PairedRow.of, judgements)),
        summary=comparison_summary(comparison, judgements, runs).sentence if with_rows else "",
        url=f"/api/v1/projects/{comparison.project.slug}/comparisons/{comparison.pk}",
        page=f"/p/{comparison.project.slug}/tries/{comparison.pk}/",
    )
