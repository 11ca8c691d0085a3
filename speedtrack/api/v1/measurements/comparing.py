"""Compare any two commits, by what was measured of each."""

from typing import Annotated

from django.db.models import Count
from ninja import Query, Router, Schema
from pydantic import Field

from speedtrack.alerts.lines import lines
from speedtrack.api.v1.serving.callers import ApiRequest, project_or_404
from speedtrack.api.v1.serving.refusals import Invalid
from speedtrack.api.v1.serving.revisions import commit_given
from speedtrack.judging.points import CommitOnMachine
from speedtrack.judging.sides import Between, compare_sides
from speedtrack.projects.models import Commit
from speedtrack.reports.comparing import ComparisonDocument
from speedtrack.runs.models import Machine

router = Router(tags=["Comparisons"])


class ComparisonQuery(Schema):
    """Which two commits, and where they were measured."""

    base: Annotated[
        str, Field(min_length=1, max_length=250, description="a commit id (6 digits or more), tag or branch")
    ]
    head: Annotated[str, Field(min_length=1, max_length=250, description="likewise")]
    machine: Annotated[str | None, Field(max_length=50, description="null: the one that measured most of both")] = None


@router.get("projects/{slug}/compare", response=ComparisonDocument, summary="Compare two measured commits")
def compare(request: ApiRequest, slug: str, query: Query[ComparisonQuery]) -> ComparisonDocument:
    """Compare two measured commits by every benchmark that both have, with intervals and verdicts."""
    project = project_or_404(request, slug)
    base, head = (commit_given(project, getattr(query, side), parameter=side) for side in ("base", "head"))
    machine = machine_of(base, head, query.machine)
    comparison = Between([])
    if machine:
        sides = CommitOnMachine(base.pk, machine.pk), CommitOnMachine(head.pk, machine.pk)
        comparison = compare_sides(*sides)
    return ComparisonDocument.of(
        comparison, project=slug, base=base.sha, head=head.sha, machine=machine.name if machine else None
    )


def machine_of(base: Commit, head: Commit, name: str | None) -> Machine | None:
    """The named machine, otherwise the one that has measured most of both commits. Raises Invalid."""
    if name:
        machine = Machine.objects.filter(name=name).first()
        if machine is None:
            raise Invalid(f"there is no machine {name[:100]!r}", parameter="machine")
        return machine
    points = lines.point_measurements().filter(commit__in=[base.pk, head.pk])
    most = points.values("series__machine").annotate(sides=Count("commit", distinct=True), measured=Count("pk"))
    best = most.order_by("-sides", "-measured", "series__machine").first()
    return Machine.objects.get(pk=best["series__machine"]) if best else None
