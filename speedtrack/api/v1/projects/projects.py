"""Projects, and what is read off their repositories."""

from datetime import datetime
from typing import Annotated

from django.db.models import QuerySet, Subquery
from ninja import Query, Router, Schema
from pydantic import Field

import speedtrack
from speedtrack.accounts import access
from speedtrack.api.v1.serving.callers import ApiRequest, actor_of, project_or_404
from speedtrack.api.v1.serving.paging import Page, Paging, key_of, page_of
from speedtrack.api.v1.serving.refusals import Conflict
from speedtrack.api.v1.serving.revisions import branch_given, commit_named, position_given
from speedtrack.api.v1.serving.writing import CREATED, HEADER, OK, Answer, write
from speedtrack.operations import projects as operations
from speedtrack.projects.models import Commit, Position, PullRequest
from speedtrack.projects.positions import heads
from speedtrack.projects.releases import version_of
from speedtrack.reports.commits import CommitDetails
from speedtrack.reports.common import Time, read_columns
from speedtrack.reports.operating import Outcome
from speedtrack.reports.projects import (
    BranchDocument,
    CommitDocument,
    Installation,
    ProjectDocument,
    PullDocument,
    TagDocument,
    TrackedDocument,
    TrackOrder,
)
from speedtrack.reports.readings.commits import TAGS, read
from speedtrack.runs.requests import changing
from speedtrack.runs.requests.tracking import TrackingRequest

router = Router(tags=["Projects"])


@router.get("", response=Installation, summary="What answers here, and to whom")
def installation(request: ApiRequest) -> Installation:
    """Which release answers, and whose token it was called with: programs check their settings by it."""
    user = request.auth.user
    return Installation(
        name="SpeedTrack",
        version=speedtrack.__version__,
        api="v1",
        documentation="/api/v1/docs",
        openapi="/api/v1/openapi.json",
        user=user.get_username() if user else None,
        scopes=sorted(request.auth.scopes) if request.auth.token_id else ["read"],
    )


@router.get("projects", response=Page[ProjectDocument], summary="List projects")
def list_projects(request: ApiRequest, paging: Query[Paging], tracked: bool | None = None) -> Page[ProjectDocument]:
    """The projects that you may see, by their slugs."""
    rows = access.visible(request.auth)
    if tracked is not None:
        rows = rows.filter(untracked_at__isnull=tracked)
    return page_of(request, rows, paging, lambda projects: map(ProjectDocument.of, projects), by=["slug"])


@router.post("projects", response={200: Outcome, 201: TrackedDocument}, summary="Track a repository")
@write
def track(request: ApiRequest, order: TrackOrder) -> Answer:
    """Its history is fetched afterwards, then its newest commits are measured. Needs an operator of the installation
    and the scope `settings`: what a repository holds is built and run on the machines.

    The answer has the address and the secret of the webhook. With an Idempotency-Key it has no secret: answers are kept
    with their keys, and a secret is not kept in the clear. Of a dry run the answer is 200. It reads the newest commits
    at once, and is refused if they take too long.
    """
    tracking = TrackingRequest(order.repository, order.suite, order.branch, order.last, order.name)
    try:
        result = operations.track(actor_of(request, order), tracking)
    except changing.Taken as e:
        raise Conflict(str(e)) from None
    if result.outlook:
        return OK, Outcome.of(result.outlook)
    return CREATED, TrackedDocument.of_new(result.row, shows_secret=HEADER not in request.headers)


@router.get("projects/{slug}", response=ProjectDocument, summary="Read a project")
def read_project(request: ApiRequest, slug: str) -> ProjectDocument:
    return ProjectDocument.of(project_or_404(request, slug))


@router.get("projects/{slug}/branches", response=Page[BranchDocument], summary="List branches")
def list_branches(request: ApiRequest, slug: str, paging: Query[Paging]) -> Page[BranchDocument]:
    """The branches whose history is tracked, also deleted ones, by name."""
    project = project_or_404(request, slug)
    rows = project.branches.select_related("head")
    return page_of(request, rows, paging, lambda branches: map(BranchDocument.of, branches), by=["name"])


@router.get("projects/{slug}/commits", response=Page[CommitDocument], summary="List commits of a branch")
def list_commits(
    request: ApiRequest,
    slug: str,
    paging: Query[Paging],
    branch: Annotated[str | None, Field(max_length=250, description="null: the default branch")] = None,
    after: Annotated[
        str | None, Field(max_length=250, description="only those behind this commit, tag or branch")
    ] = None,
    until: Annotated[str | None, Field(max_length=250, description="only those up to this one")] = None,
    since: Annotated[Time | None, Field(description="committed at this time or later")] = None,
    before: Annotated[Time | None, Field(description="committed before this time")] = None,
) -> Page[CommitDocument]:
    """The commits on a branch along first parents, the newest first."""
    project = project_or_404(request, slug)
    tracked_branch = branch_given(project, branch)
    rows = Position.objects.filter(branch=tracked_branch)
    ends = [key_of(paging.cursor) - 1] if paging.cursor else []
    if after:
        rows = rows.filter(number__gt=position_given(tracked_branch, project, after, "after"))
    if until:
        ends.append(position_given(tracked_branch, project, until, "until"))
        rows = rows.filter(number__lte=ends[-1])
    if since or before:
        rows = within_dates(rows, since, before)
    else:
        end = min(ends, default=Subquery(heads().filter(branch=tracked_branch).values("number")))
        rows = rows.filter(number__gt=end - paging.limit - 1)

    def documents(positions: list[Position]) -> list[CommitDocument]:
        return [CommitDocument.of(position.commit, position=position.number) for position in positions]

    columns = ["number", *(f"commit__{column}" for column in read_columns(CommitDocument, "project__slug"))]
    return page_of(request, rows, paging, documents, by=["-number"], columns=columns)


def within_dates(rows: QuerySet[Position], since: datetime | None, before: datetime | None) -> QuerySet[Position]:
    if since:
        rows = rows.filter(commit__committed_at__gte=since)
    return rows.filter(commit__committed_at__lt=before) if before else rows


class CommitQuery(Schema):
    """Where the commit is looked at."""

    branch: Annotated[str | None, Field(max_length=250, description="null: the default branch, if it is on it")] = None
    machine: Annotated[str | None, Field(max_length=50, description="null: the first that measured it")] = None


@router.get("projects/{slug}/commits/{path:revision}", response=CommitDetails, summary="Read a commit")
def read_commit(request: ApiRequest, slug: str, revision: str, query: Query[CommitQuery]) -> CommitDetails:
    """A commit by its id (6 digits or more), a tag or a branch, with what one machine measured of it, its newest runs
    and the alerts that name it."""
    commit_row = commit_named(project_or_404(request, slug), revision)
    commit = Commit.objects.select_related("project").annotate(tags=TAGS).get(pk=commit_row.pk)
    return CommitDetails.read(read(commit, query.branch, query.machine))


@router.get("projects/{slug}/tags", response=Page[TagDocument], summary="List tags and releases")
def list_tags(
    request: ApiRequest,
    slug: str,
    paging: Query[Paging],
    releases: Annotated[bool, Field(description="only those whose name is a version")] = False,
) -> Page[TagDocument]:
    """The tags of the repository by name."""
    rows = project_or_404(request, slug).tags.all()
    if releases:
        rows = rows.filter(name__in=[name for name in rows.values_list("name", flat=True) if version_of(name)])
    return page_of(request, rows, paging, lambda tags: map(TagDocument.of, tags), by=["name"])


@router.get("projects/{slug}/pulls", response=Page[PullDocument], summary="List pull requests")
def list_pulls(
    request: ApiRequest,
    slug: str,
    paging: Query[Paging],
    state: Annotated[str | None, Field(pattern="^(open|closed|merged)$")] = None,
) -> Page[PullDocument]:
    """The pull or merge requests that the forge has told of, the newest first, with the heads that may be measured."""
    rows = PullRequest.objects.filter(project=project_or_404(request, slug)).prefetch_related("approvals")
    if state:
        rows = rows.filter(state=state)
    return page_of(request, rows, paging, lambda pulls: map(PullDocument.of, pulls), by=["-number"])
