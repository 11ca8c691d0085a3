"""The history of a project: commits, branches as chains and segments, tags, pull requests, and notes about commits."""

from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from speedtrack.projects.forges.events import CLOSED, MERGED, OPEN
from speedtrack.projects.models.projects import Project


def sha_begins(digits: str, to_commit: str = "") -> Q:
    """The condition that a commit's sha begins with these digits, as a range, which an index finds.

    ``to_commit``: the way to the commit, such as ``commit__``.
    """
    conditions = {"gte": digits, "lt": f"{digits}g", "startswith": digits}
    return Q(**{f"{to_commit}sha__{lookup}": value for lookup, value in conditions.items()})


class Commit(models.Model):
    """One revision, stored once per project. It may be on any number of branches."""

    id = models.AutoField(primary_key=True)  # 4 bytes, because each measurement has it twice
    project = models.ForeignKey(Project, models.CASCADE, related_name="commits", db_index=False)
    sha = models.CharField(max_length=64)
    parents = ArrayField(models.CharField(max_length=64), default=list)
    author_name = models.CharField(max_length=200)
    author_email = models.CharField(max_length=254)
    authored_at = models.DateTimeField()
    committed_at = models.DateTimeField()
    subject = models.CharField(max_length=500)
    reverts = ArrayField(
        models.CharField(max_length=64), default=list, help_text="ids, perhaps abbreviated, that its message reverts"
    )

    unreachable_since = models.DateTimeField(
        null=True, help_text="since when no tracked branch and no tag leads to it, after a forced push or a deletion"
    )

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "sha"], name="a_commit_once_per_project"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["project"], name="commits_that_revert", condition=~Q(reverts=[])),
            models.Index(fields=["project", "committed_at"], name="commits_by_date"),
            models.Index(fields=["project"], name="unreachable_commits", condition=Q(unreachable_since__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.short} {self.subject}"

    @property
    def short(self) -> str:
        return self.sha[:10]


class BranchQuerySet(models.QuerySet["Branch"]):
    """Branches, with the question that many ask."""

    def default(self) -> "BranchQuerySet":
        """The default branches of their projects, also those that are gone."""
        return self.filter(name=models.F("project__default_branch"))


class Branch(models.Model):
    """A name whose first-parent history is tracked."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="branches", db_index=False)
    name = models.CharField(max_length=250)
    head = models.ForeignKey(Commit, models.PROTECT, null=True, related_name="+")
    deleted_at = models.DateTimeField(null=True, help_text="when the branch was found deleted; its history stays")
    tracked = models.BooleanField(default=True, help_text="its new commits are measured; without, its history stays")
    first_commits = models.PositiveIntegerField(
        default=0, help_text="how many of its newest commits the first look at it queues"
    )
    awaited_number = models.IntegerField(
        null=True, help_text="position that is to be measured: the head, when it was seen"
    )
    awaited_since = models.DateTimeField(null=True, help_text="since when it is; null: the head is measured")
    commits = models.ManyToManyField(Commit, through="Position", related_name="branches")

    objects = BranchQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "name"], name="a_branch_once_per_project"),
        ]

    def __str__(self) -> str:
        return self.name

    @classmethod
    def followed(cls, project: Project) -> "Branch | None":
        """The project's default branch; None if it was never seen, or is gone."""
        return cls.objects.default().filter(project=project, deleted_at=None).first()


class Chain(models.Model):
    """Commits of which each is the first parent of the next one; a commit of a history is on exactly one chain."""

    id = models.AutoField(primary_key=True)  # 4 bytes, because each commit has it
    project = models.ForeignKey(Project, models.CASCADE, related_name="chains")


class ChainCommit(models.Model):
    """A commit of a chain. ``number``: how many commits lead to it along first parents."""

    pk = models.CompositePrimaryKey("chain_id", "number")
    chain = models.ForeignKey(Chain, models.CASCADE, related_name="commits", db_index=False)
    number = models.IntegerField()
    commit = models.OneToOneField(Commit, models.CASCADE, related_name="+")


class Segment(models.Model):
    """The beginning of a chain, up to ``last``, that belongs to a branch. Each branch consists of such segments.

    ``first`` is the number at which the chain begins. A chain goes no further than the last segment of it.
    """

    pk = models.CompositePrimaryKey("branch_id", "chain_id")
    branch = models.ForeignKey(Branch, models.CASCADE, related_name="segments", db_index=False)
    chain = models.ForeignKey(Chain, models.CASCADE, related_name="segments", db_index=False)
    first = models.IntegerField()
    last = models.IntegerField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["chain", "last"], name="segments_of_a_chain")]
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(first__lte=F("last")), name="a_segment_has_a_commit"),
        ]


class Position(models.Model):
    """The position of a commit on a branch, counted from the root along first parents: a view of chains and segments.

    ``speedtrack.projects.chains`` writes what it shows.
    """

    pk = models.CompositePrimaryKey("branch_id", "number")
    branch = models.ForeignKey(Branch, models.DO_NOTHING, related_name="positions", db_index=False)
    commit = models.ForeignKey(Commit, models.DO_NOTHING, related_name="positions", db_index=False)
    number = models.IntegerField()

    class Meta:
        managed = False


class Tag(models.Model):
    """A tag of the repository at the last fetch."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="tags", db_index=False)
    name = models.CharField(max_length=250)
    sha = models.CharField(max_length=64, help_text="the commit it points at")
    is_new = models.BooleanField(default=False, help_text="made or moved after the first look at the repository")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "name"], name="a_tag_once_per_project"),
        ]


class Annotation(models.Model):
    """A person's note about a commit or a moment, in Markdown. Without a project it concerns all of them."""

    project = models.ForeignKey(Project, models.CASCADE, null=True, related_name="annotations")
    commit = models.ForeignKey(Commit, models.CASCADE, null=True, related_name="annotations")
    moment = models.DateTimeField(null=True, help_text="when something happened that no commit did")
    text = models.TextField()
    author = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    created = models.DateTimeField(db_default=Now())
    changed = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(commit=None, moment__isnull=False)
                | Q(commit__isnull=False, project__isnull=False, moment=None),
                name="an_annotation_has_a_moment_or_a_commit_of_its_project",
            ),
            models.CheckConstraint(condition=~Q(text=""), name="an_annotation_says_something"),
        ]

    def __str__(self) -> str:
        return self.text[:100]


class PullRequest(models.Model):
    """A pull or merge request in its forge's last description."""

    class State(models.TextChoices):
        OPEN = OPEN
        CLOSED = CLOSED
        MERGED = MERGED

    project = models.ForeignKey(Project, models.CASCADE, related_name="pull_requests", db_index=False)
    number = models.BigIntegerField(help_text="as people see it")
    title = models.CharField(max_length=300, default="")
    head_sha = models.CharField(max_length=64, help_text="perhaps abbreviated, by Bitbucket Cloud")
    head_ref = models.CharField(max_length=250, default="", help_text="the branch that it comes from")
    head_repository = models.CharField(max_length=250, default="", help_text="owner/name; empty: the forge names none")
    base_ref = models.CharField(max_length=250, help_text="the branch that it is for")
    from_fork = models.BooleanField(default=True, help_text="its commits lie in another repository")
    state = models.CharField(max_length=20, choices=State, default=State.OPEN)
    updated_at = models.DateTimeField(help_text="by the forge's clock; an older report changes nothing")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "number"], name="a_pull_request_once_per_number"),
            models.CheckConstraint(
                condition=Q(number__gt=0) & ~Q(head_sha="") & ~Q(base_ref=""),
                name="a_pull_request_has_a_head_and_a_base",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.project} #{self.number}"
