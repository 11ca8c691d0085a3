"""Tracked repositories: projects, branches, commits, tags, people's annotations, and webhook calls as they arrived."""

import secrets
import zlib
from datetime import timedelta
from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Exists, F, OuterRef, Q, Value
from django.db.models.expressions import RawSQL
from django.db.models.functions import Least, Now, Power

from speedtrack.wakeups import Wakes

SYNC_LOCK = 0x5337  # class of the advisory lock that a look at a repository holds; its object is the project
# Pauses after a failed look at a repository; they double with every further failure.
FIRST_PAUSE = timedelta(seconds=30)
LONGEST_PAUSE = timedelta(hours=1)
DOUBLINGS = 7  # as many as the longest pause allows
LOOKED_AT_NOW = """SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = %s
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


def new_hook_id() -> str:
    return secrets.token_urlsafe(16)


def new_hook_secret() -> str:
    return secrets.token_urlsafe(32)


def pause_is_over() -> Q:
    """False for projects whose last look failed and whose pause lasts."""
    doublings = Least(F("failures") - 1, Value(DOUBLINGS), output_field=models.FloatField())
    pause = Least(
        Value(FIRST_PAUSE) * Power(Value(2.0), doublings), Value(LONGEST_PAUSE), output_field=models.DurationField()
    )
    return Q(failures=0) | Q(polled_at=None) | Q(polled_at__lt=Now() - pause)


class ProjectQuerySet(models.QuerySet["Project"]):
    def tracked(self) -> "ProjectQuerySet":
        return self.filter(untracked_at=None)

    def due(self, every_s: int) -> "ProjectQuerySet":
        """Projects not looked at within their polling interval, which a jitter lengthens by up to a quarter."""
        interval = (1 + F("poll_jitter")) * Value(timedelta(seconds=every_s))
        return self.tracked().filter(pause_is_over(), Q(polled_at=None) | Q(polled_at__lt=Now() - interval))

    def with_deliveries(self) -> "ProjectQuerySet":
        """Projects with waiting deliveries. A delivery that came after a failure waits for the first pause only."""
        waiting = Delivery.objects.filter(project=OuterRef("pk"), status="received")
        fresh = Exists(waiting.filter(received_at__gt=OuterRef("polled_at")))
        again = Q(fresh, polled_at__lt=Now() - Value(FIRST_PAUSE))
        return self.tracked().filter(pause_is_over() | again, Exists(waiting))

    def at_rest(self) -> "ProjectQuerySet":
        """Without the projects that a process is looking at now."""
        return self.exclude(pk__in=RawSQL(LOOKED_AT_NOW, [SYNC_LOCK]))  # noqa: S611 - constants


class Project(models.Model):
    """A tracked repository."""

    slug = models.SlugField(unique=True)
    name = models.CharField(max_length=100)
    url = models.CharField(max_length=500)
    default_branch = models.CharField(max_length=250)
    branch_patterns = models.CharField(
        max_length=200, default="", blank=True, help_text="such as `8.* release/*`: new branches that match are tracked"
    )
    suite = models.CharField(max_length=100, help_text="name of a suite")
    hook_id = models.CharField(max_length=40, unique=True, default=new_hook_id)
    hook_secret = models.CharField(max_length=100, default=new_hook_secret)
    created = models.DateTimeField(db_default=Now())
    untracked_at = models.DateTimeField(
        null=True, help_text="since when its repository is not looked at; what was measured stays"
    )
    polled_at = models.DateTimeField(null=True)
    poll_jitter = models.FloatField(default=0)
    synced_at = models.DateTimeField(null=True)
    error = models.TextField(default="", blank=True, help_text="why the last look at the repository failed")
    failures = models.PositiveIntegerField(default=0, help_text="failed looks since the last one that succeeded")
    mail_history_verdicts = models.BooleanField(
        default=False, help_text="alert for slowdowns found in the history alone, where measuring again is impossible"
    )
    left_out = models.JSONField(
        default=dict, help_text="branches and tags that could not be fetched: reference name -> {sha, why}"
    )

    objects: ClassVar = ProjectQuerySet.as_manager()

    def __str__(self) -> str:
        return self.slug


class Commit(models.Model):
    """One revision. It is stored once per project, and may be on any number of branches."""

    id = models.AutoField(primary_key=True)  # of 4 bytes, as each measurement has it twice
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

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "sha"], name="a_commit_once_per_project"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["project"], name="commits_that_revert", condition=~Q(reverts=[])),
            models.Index(fields=["project", "committed_at"], name="commits_by_date"),
        ]

    def __str__(self) -> str:
        return f"{self.short} {self.subject}"

    @property
    def short(self) -> str:
        return self.sha[:10]


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
    commits = models.ManyToManyField(Commit, through="Position", related_name="branches")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "name"], name="a_branch_once_per_project"),
        ]

    def __str__(self) -> str:
        return self.name


class Position(models.Model):
    """The place of a commit on a branch, counted from the root along first parents."""

    branch = models.ForeignKey(Branch, models.CASCADE, related_name="positions", db_index=False)
    commit = models.ForeignKey(Commit, models.CASCADE, related_name="positions")
    number = models.IntegerField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["branch", "number"], name="one_commit_per_position"),
            models.UniqueConstraint(fields=["branch", "commit"], name="one_position_per_commit"),
        ]


class Tag(models.Model):
    """A tag of the repository, as last seen."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="tags", db_index=False)
    name = models.CharField(max_length=250)
    sha = models.CharField(max_length=64, help_text="the commit it points at")
    is_new = models.BooleanField(default=False, help_text="made or moved after the first look at the repository")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "name"], name="a_tag_once_per_project"),
        ]


class Annotation(models.Model):
    """What a person notes about a commit or a moment, in Markdown; without a project, for all of them."""

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


class Delivery(models.Model):
    """One webhook call as it arrived."""

    class Status(models.TextChoices):
        RECEIVED = "received"  #: stored, waits for a look at its repository
        PROCESSED = "processed"  #: its repository was looked at
        IGNORED = "ignored"  #: its signature is right, and its event is not interesting

    project = models.ForeignKey(Project, models.CASCADE, related_name="deliveries", db_index=False)
    provider = models.CharField(max_length=20)
    delivery_id = models.CharField(max_length=100)
    event = models.CharField(max_length=50)
    headers = models.JSONField()
    packed_body = models.BinaryField(help_text="zlib")
    body_digest = models.CharField(max_length=64, help_text="of the body as it arrived")
    received_at = models.DateTimeField(db_default=Now(), help_text="when it, or an equal one, last arrived")
    status = models.CharField(max_length=20, choices=Status, default=Status.RECEIVED)
    outcome = models.TextField(default="")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "delivery_id"], name="a_delivery_once_per_id"),
            models.UniqueConstraint(
                fields=["project", "body_digest"],
                condition=Q(status="received"),
                name="one_waiting_delivery_per_body",
            ),
            Wakes(name="a_delivery_wakes", after="INSERT OR UPDATE OF status"),
        ]

    @property
    def body(self) -> bytes:
        """As it arrived."""
        return zlib.decompress(self.packed_body)
