"""What is tracked: projects, branches, commits, tags, and the webhook calls as they arrived."""

import secrets
from datetime import timedelta
from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Exists, F, OuterRef, Q, Value
from django.db.models.functions import Now

RETRY_PAUSE_S = 30  # after a look at a repository that failed


def hook_id() -> str:
    return secrets.token_urlsafe(16)


def hook_secret() -> str:
    return secrets.token_urlsafe(32)


class ProjectQuerySet(models.QuerySet["Project"]):
    def due(self, every_s: int) -> "ProjectQuerySet":
        """Projects not looked at for their polling interval, which a jitter spreads by up to a quarter."""
        return self.filter(
            Q(polled_at=None) | Q(polled_at__lt=Now() - (1 + F("poll_jitter")) * Value(timedelta(seconds=every_s)))
        )

    def told(self) -> "ProjectQuerySet":
        """Projects with a delivery to be looked into; after a failed look, not before a pause."""
        rested = Q(error="") | Q(polled_at__lt=Now() - timedelta(seconds=RETRY_PAUSE_S))
        return self.filter(rested, Exists(Delivery.objects.filter(project=OuterRef("pk"), status="received")))


class Project(models.Model):
    """A tracked repository."""

    slug = models.SlugField(unique=True)
    name = models.CharField(max_length=100)
    url = models.CharField(max_length=500)
    default_branch = models.CharField(max_length=250)
    suite = models.CharField(max_length=100, help_text="name of a suite file")
    hook_id = models.CharField(max_length=40, unique=True, default=hook_id)
    hook_secret = models.CharField(max_length=100, default=hook_secret)
    created = models.DateTimeField(db_default=Now())
    polled_at = models.DateTimeField(null=True)
    poll_jitter = models.FloatField(default=0)
    synced_at = models.DateTimeField(null=True)
    error = models.TextField(default="", blank=True, help_text="why the last look at the repository failed")

    objects: ClassVar = ProjectQuerySet.as_manager()

    def __str__(self) -> str:
        return self.slug


class Commit(models.Model):
    """One revision. It exists once per project, on any number of branches."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="commits")
    sha = models.CharField(max_length=64)
    parents = ArrayField(models.CharField(max_length=64), default=list)
    author_name = models.CharField(max_length=200)
    author_email = models.CharField(max_length=254)
    authored_at = models.DateTimeField()
    committed_at = models.DateTimeField()
    subject = models.CharField(max_length=500)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "sha"], name="a_commit_once_per_project"),
        ]

    def __str__(self) -> str:
        return f"{self.short} {self.subject}"

    @property
    def short(self) -> str:
        return self.sha[:10]


class Branch(models.Model):
    """A name whose first-parent history is tracked."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="branches")
    name = models.CharField(max_length=250)
    head = models.ForeignKey(Commit, models.PROTECT, null=True, related_name="+")
    deleted_at = models.DateTimeField(null=True, help_text="when the branch was found gone; its history stays")
    commits = models.ManyToManyField(Commit, through="Position", related_name="branches")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "name"], name="a_branch_once_per_project"),
        ]

    def __str__(self) -> str:
        return self.name


class Position(models.Model):
    """The place of a commit on a branch, counted from the root along first parents."""

    branch = models.ForeignKey(Branch, models.CASCADE, related_name="positions")
    commit = models.ForeignKey(Commit, models.CASCADE, related_name="positions")
    number = models.IntegerField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["branch", "number"], name="one_commit_per_position"),
            models.UniqueConstraint(fields=["branch", "commit"], name="one_position_per_commit"),
        ]


class Tag(models.Model):
    """A tag of the repository, as last seen."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="tags")
    name = models.CharField(max_length=250)
    sha = models.CharField(max_length=64, help_text="the commit it points at")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "name"], name="a_tag_once_per_project"),
        ]


class Delivery(models.Model):
    """One webhook call as it arrived."""

    class Status(models.TextChoices):
        RECEIVED = "received"  #: stored, not yet looked at
        PROCESSED = "processed"  #: its repository was looked at
        IGNORED = "ignored"  #: verified, and of no interest

    project = models.ForeignKey(Project, models.CASCADE, related_name="deliveries")
    provider = models.CharField(max_length=20)
    delivery_id = models.CharField(max_length=100)
    event = models.CharField(max_length=50)
    headers = models.JSONField()
    body = models.BinaryField()
    body_digest = models.CharField(max_length=64)
    received_at = models.DateTimeField(db_default=Now())
    # Two equal bodies are one delivery only within a day; midnight may let one through twice, which costs one fetch.
    received_on = models.DateField(db_default=Now())
    status = models.CharField(max_length=20, choices=Status, default=Status.RECEIVED)
    outcome = models.TextField(default="")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "delivery_id"], name="a_delivery_once_per_id"),
            models.UniqueConstraint(
                fields=["project", "body_digest", "received_on"], name="a_delivery_once_per_body_and_day"
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["id"], name="deliveries_waiting", condition=Q(status="received")),
        ]
