"""Projects, and what is read from their repositories."""

from collections.abc import Iterable

from pydantic import Field

from speedtrack.projects.models import Annotation, Branch, Commit, Project, PullRequest, Tag
from speedtrack.projects.releases import version_of
from speedtrack.reports.common import Document, Order, Sent, Text, Time, Tried, Whole
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
    repository: Text = Field(description="address of its repository")
    default_branch: Text
    suite: str = Field(description="name of the suite that measures it")
    is_public: bool = Field(description="everybody may read it; else its members only")
    is_tracked: bool = Field(description="its repository is looked at; else only its history is kept")
    created: Time
    synced_at: Time | None = Field(description="when its repository was last looked at with success")
    error: Text = Field(description="why the last look at the repository failed; empty if it did not")
    url: str

    @staticmethod
    def of(project: Project) -> "ProjectDocument":
        return ProjectDocument(
            slug=project.slug,
            name=project.name,
            repository=project.url,
            default_branch=project.default_branch,
            suite=project.suite,
            is_public=project.is_public,
            is_tracked=project.untracked_at is None,
            created=project.created,
            synced_at=project.synced_at,
            error=project.error,
            url=f"/api/v1/projects/{project.slug}",
        )


class TrackedDocument(ProjectDocument):
    """A project that is tracked now, with what its forge needs."""

    hook_url: str = Field(description="where the forge sends its webhooks")
    hook_secret: str | None = Field(description="by which it signs them; not shown again. null: replace it to see one")

    @staticmethod
    def of_new(project: Project, shows_secret: bool) -> "TrackedDocument":
        hook = tracking.hook_of(project, is_new=shows_secret)
        fields = ProjectDocument.of(project).model_dump()
        return TrackedDocument(**fields, hook_url=hook.url, hook_secret=hook.secret)


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
    head: str | None = Field(description="commit id of its newest commit; null: it has none")
    is_default: bool
    is_tracked: bool = Field(description="its new commits are measured")
    deleted_at: Time | None = Field(description="when it was found deleted; its history stays")
    unmeasured_since: Time | None = Field(description="since when its head waits to be measured; null: it is measured")

    @staticmethod
    def of(branch: Branch, project: Project) -> "BranchDocument":
        return BranchDocument(
            name=branch.name,
            head=branch.head.sha if branch.head else None,
            is_default=branch.name == project.default_branch,
            is_tracked=branch.tracked,
            deleted_at=branch.deleted_at,
            unmeasured_since=branch.awaited_since,
        )


class CommitDocument(Document):
    """One revision."""

    sha: str
    parents: list[str]
    author: Text = Field(description="name of its author")
    authored_at: Time
    committed_at: Time
    subject: Text
    position: int | None = Field(
        description="its place on the branch that was asked for, counted from the root along first parents"
    )
    unreachable_since: Time | None = Field(description="since when no tracked branch and no tag leads to it")
    url: str

    @staticmethod
    def of(commit: Commit, slug: str, position: int | None = None) -> "CommitDocument":
        return CommitDocument(
            sha=commit.sha,
            parents=commit.parents,
            author=commit.author_name,
            authored_at=commit.authored_at,
            committed_at=commit.committed_at,
            subject=commit.subject,
            position=position,
            unreachable_since=commit.unreachable_since,
            url=f"/api/v1/projects/{slug}/commits/{commit.sha}",
        )


class TagDocument(Document):
    """A tag of the repository, as last seen."""

    name: Text
    sha: str = Field(description="the commit that it points at")
    is_release: bool = Field(description="its name is a version, such as `v1.6.21`, not that of a candidate")

    @staticmethod
    def of(tag: Tag) -> "TagDocument":
        return TagDocument(name=tag.name, sha=tag.sha, is_release=version_of(tag.name) is not None)


class ApprovalDocument(Document):
    """A maintainer's permission to measure a head."""

    head: str
    at: Time
    planned_at: Time | None = Field(description="when its runs were queued; null: not yet, or not possible")
    error: Text = Field(description="why nothing could be queued; empty if it could")


class PullDocument(Document):
    """A pull or merge request, as its forge last described it."""

    number: int
    title: Text
    head: str = Field(description="commit id, which some forges abbreviate")
    base_branch: Text = Field(description="the branch that it is for")
    is_from_fork: bool
    state: str = Field(description="`open`, `closed` or `merged`")
    updated_at: Time
    approvals: list[ApprovalDocument] = Field(description="the heads that may be measured, newest first")

    @staticmethod
    def of(pull: PullRequest) -> "PullDocument":
        approvals = sorted(pull.approvals.all(), key=lambda approval: -approval.pk)
        return PullDocument(
            number=pull.number,
            title=pull.title,
            head=pull.head_sha,
            base_branch=pull.base_ref,
            is_from_fork=pull.from_fork,
            state=pull.state,
            updated_at=pull.updated_at,
            approvals=[
                ApprovalDocument(
                    head=approval.head_sha, at=approval.at, planned_at=approval.planned_at, error=approval.error
                )
                for approval in approvals
            ],
        )


class AnnotationDocument(Document):
    """What a person noted about a commit or a moment, in Markdown."""

    id: int
    project: str | None = Field(description="null: it concerns all projects")
    sha: str | None = Field(description="the commit that it is about; null: it is about a moment")
    moment: Time | None
    text: Text
    author: str | None
    created: Time
    changed: Time
    url: str

    @staticmethod
    def of(annotation: Annotation) -> "AnnotationDocument":
        return AnnotationDocument(
            id=annotation.pk,
            project=annotation.project.slug if annotation.project else None,
            sha=annotation.commit.sha if annotation.commit else None,
            moment=annotation.moment,
            text=annotation.text,
            author=annotation.author.get_username() if annotation.author else None,
            created=annotation.created,
            changed=annotation.changed,
            url=f"/api/v1/annotations/{annotation.pk}",
        )


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


def projects_of(rows: Iterable[Project]) -> list[ProjectDocument]:
    return [ProjectDocument.of(project) for project in rows]
