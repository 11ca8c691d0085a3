"""Compare any two commits, by what was measured of each."""

from typing import Annotated

from ninja import Query, Router, Schema
from pydantic import Field

from speedtrack.api.v1.serving.callers import ApiRequest, project_or_404
from speedtrack.api.v1.serving.refusals import Invalid
from speedtrack.api.v1.serving.revisions import commit_given
from speedtrack.reports.comparing import ComparisonDocument
from speedtrack.reports.readings.comparisons import read
from speedtrack.reports.readings.sides import NamedSide, SidePlace, sides_of_commits
from speedtrack.runs.models import Machine

router = Router(tags=["Comparisons"])


class ComparisonQuery(Schema):
    """Which two commits, and where they were measured."""

    base: Annotated[
        str, Field(min_length=1, max_length=250, description="a commit id (6 digits or more), tag or branch")
    ]
    head: Annotated[str, Field(min_length=1, max_length=250, description="likewise")]
    machine: Annotated[
        str | None, Field(max_length=50, description="only this one; null: the one that measured most of both")
    ] = None


@router.get("projects/{slug}/compare", response=ComparisonDocument, summary="Compare two measured commits")
def compare(request: ApiRequest, slug: str, query: Query[ComparisonQuery]) -> ComparisonDocument:
    """Compare two measured commits by every benchmark that both have, with intervals and verdicts."""
    project = project_or_404(request, slug)
    names = {"base": query.base, "head": query.head}
    commits = {side: commit_given(project, name, parameter=side) for side, name in names.items()}
    base, head = (NamedSide(project, names[side], SidePlace(commit.pk)) for side, commit in commits.items())
    machine = query.machine or ""
    if machine and not Machine.objects.filter(name=machine).exists():
        raise Invalid(f"there is no machine {machine[:100]!r}", parameter="machine")
    return ComparisonDocument.of(read(sides_of_commits(base, head, machine)))
