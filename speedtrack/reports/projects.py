"""Projects, and what is read from their repositories."""

from typing import Annotated

from django.conf import settings
from pydantic import Field

from speedtrack.projects.models import Project, PullRequest
from speedtrack.projects.releases import version_of
from speedtrack.reports.common import Document, Filled, From, Order, Sent, Text, Time, Tried, Whole
from speedtrack.runs.naming import LONGEST_SLUG
from speedtrack.runs.requests import tracking
from speedtrack.runs.requests.changing import MOST_FIRST


class Installation(Document):
    """The server that answers."""

    name: str = Field(description="always `SpeedTrack`")
    version: str = Field(description="release of this server")
    api: str = Field(description="version of the API; it only grows")
    documentation: str = Field(description="address of a page about the API")
    openapi: str = Field(description="address of its description for programs")
    user: str | None = Field(description="whose token or session this is; null: anybody's")
    scopes: list[str] = Field(description="what the token may be used for; of a session, `read`")


class ProjectDocument(Document):
    """A tracked repository."""

    slug: str = Field(description="its name in addresses")
    name: Text
    repository: Annotated[Text, From("url")] = Field(description="address of its repository")
    default_branch: Text
    branch_gone_at: Time | None = Field(description="when its default branch was found deleted in the repository")
    successor: Text = Field(description="the branch that goes on from that one, if it is known")
    suite: str = Field(description="name of the suite that measures it")
    is_public: bool = Field(description="everybody may read it; else its members only")
    is_tracked: Annotated[bool, From(lambda project: project.untracked_at is None)] = Field(
        description="its repository is looked at; else only its history is kept"
    )
    created: Time
    synced_at: Time | None = Field(description="when its repository was last looked at with success")
    error: Text = Field(description="why the last look at the repository failed; empty if it did not")
    url: Annotated[str, Filled("/api/v1/projects/{0.slug}")]


class TrackedDocument(ProjectDocument):
    """A project that is tracked now, with what its forge needs."""

    hook_url: str = Field(description="where the forge sends its webhooks")
    hook_secret: str | None = Field(description="by which it signs them; not shown again. null: replace it to see one")

    @staticmethod
    def of_new(project: Project, shows_secret: bool) -> "TrackedDocument":
        hook = tracking.hook_of(project, is_new=shows_secret)
        return TrackedDocument.of(project, hook_url=hook.url, hook_secret=hook.secret)


class TrackOrder(Tried):
    """A repository to be tracked, which is read without a credential: private ones are tracked on their page."""

    repository: Sent = Field(
        min_length=1,
        max_length=500,
        description="its address",
        examples=["https://github.com/valkey-io/valkey"],
    )
    suite: Sent = Field(
        min_length=1, max_length=50, description="name of the suite that builds and measures it", examples=["valkey"]
    )
    branch: Sent | None = Field(
        None, min_length=1, max_length=250, description="null: the repository's own default branch"
    )
    name: Sent | None = Field(
        None,
        min_length=1,
        max_length=LONGEST_SLUG,
        description="null: the last part of the address",
        examples=["valkey"],
    )
    last: Whole = Field(10, ge=0, le=MOST_FIRST, description="how many of its newest commits are measured now")


class BranchDocument(Document):
    """A branch whose first-parent history is tracked."""

    name: Text
    head: Annotated[str | None, From("head.sha")] = Field(
        description="commit id of its newest commit; null: it has none"
    )
    is_default: Annotated[bool, From(lambda branch: branch.name == branch.project.default_branch)]
    is_tracked: Annotated[bool, From("tracked")] = Field(description="its new commits are measured")
    deleted_at: Time | None = Field(description="when it was found deleted; its history stays")
    unmeasured_since: Annotated[Time | None, From("awaited_since")] = Field(
        description="since when its head waits to be measured; null: it is measured"
    )


class CommitDocument(Document):
    """One revision."""

    sha: str
    parents: list[str]
    author: Annotated[Text, From("author_name")] = Field(description="name of its author")
    authored_at: Time
    committed_at: Time
    subject: Text
    position: Annotated[int | None, From(lambda commit: getattr(commit, "position", None))] = Field(
        description="its place on the branch that was asked for, counted from the root along first parents"
    )
    unreachable_since: Time | None = Field(description="since when no tracked branch and no tag leads to it")
    url: Annotated[str, Filled("/api/v1/projects/{0.project.slug}/commits/{0.sha}")]
    page_url: Annotated[str, From(lambda commit: f"{settings.URL}/p/{commit.project.slug}/c/{commit.sha}/")] = Field(
        description="address of its page"
    )


class TagDocument(Document):
    """A tag of the repository, as last seen."""

    name: Text
    sha: str = Field(description="the commit that it points at")
    is_release: Annotated[bool, From(lambda tag: version_of(tag.name) is not None)] = Field(
        description="its name is a version, such as `v1.6.21`, not that of a candidate"
    )


class ApprovalDocument(Document):
    """A maintainer's permission to measure a head."""

    head: Annotated[str, From("head_sha")]
    at: Time
    planned_at: Time | None = Field(description="when its runs were queued; null: not yet, or not possible")
    error: Text = Field(description="why nothing could be queued; empty if it could")


class PullDocument(Document):
    """A pull or merge request, as its forge last described it."""

    number: int
    title: Text
    head: Annotated[str, From("head_sha")] = Field(description="commit id, which some forges abbreviate")
    base_branch: Annotated[Text, From("base_ref")] = Field(description="the branch that it is for")
    is_from_fork: Annotated[bool, From("from_fork")]
    state: str = Field(description="`open`, `closed` or `merged`")
    updated_at: Time
    approvals: Annotated[list[ApprovalDocument], From(lambda pull: approvals_of(pull))] = Field(
        description="the heads that may be measured, newest first"
    )


def approvals_of(pull: PullRequest) -> list[ApprovalDocument]:
    return list(map(ApprovalDocument.of, sorted(pull.approvals.all(), key=lambda approval: -approval.pk)))


class AnnotationDocument(Document):
    """What a person noted about a commit or a moment, in Markdown."""

    id: int
    project: Annotated[str | None, From("project.slug")] = Field(description="null: it concerns all projects")
    sha: Annotated[str | None, From("commit.sha")] = Field(
        description="the commit that it is about; null: it is about a moment"
    )
    moment: Time | None
    text: Text
    author: Annotated[Text | None, From("author.username")]
    created: Time
    changed: Time
    url: Annotated[str, Filled("/api/v1/annotations/{0.pk}")]


LONGEST_NOTE = 10_000


class AnnotationOrder(Order):
    """A new annotation: of a commit, or of a moment."""

    commit: Sent | None = Field(
        None,
        min_length=1,
        max_length=250,
        description="a commit id (6 digits or more), branch or tag",
        examples=["main"],
    )
    moment: Time | None = Field(None, description="a moment that has passed")
    text: Sent = Field(
        min_length=1, max_length=LONGEST_NOTE, description="Markdown", examples=["The kernel was upgraded."]
    )


class AnnotationChange(Order):
    """What to change of an annotation."""

    text: Sent = Field(
        min_length=1, max_length=LONGEST_NOTE, description="Markdown", examples=["The kernel is 6.12 now."]
    )
