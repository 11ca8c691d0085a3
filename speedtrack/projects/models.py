"""Tracked repositories: projects, branches, commits, tags, pull requests, annotations, and webhook calls."""

import base64
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

from speedtrack.ground.postgres.wakeups import Wakes
from speedtrack.ground.secrets.sealed import SealedField, Secret
from speedtrack.projects.forges.events import CLOSED, MERGED, OPEN
from speedtrack.projects.forges.signing import KEY_PREFIX, SignatureFault

SYNC_LOCK = 0x5337  # class of the advisory lock during a sync of a repository; its object is the project
# Pauses after a failed sync or poll of a repository; they double with every further failure.
FIRST_PAUSE = timedelta(seconds=30)
LONGEST_PAUSE = timedelta(hours=1)
DOUBLINGS = 7  # the longest pause allows no more
LOOKED_AT_NOW = """SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = %s
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


def new_hook_id() -> str:
    return secrets.token_urlsafe(16)


def new_hook_secret() -> Secret:
    """32 random bytes in the form that GitLab accepts for signing; for other forges it is just a text."""
    return Secret.of(KEY_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode())


def pause_is_over() -> Q:
    """The condition for projects that are not in a pause after a failure."""
    doublings = Least(F("failures") - 1, Value(DOUBLINGS), output_field=models.FloatField())
    pause = Least(
        Value(FIRST_PAUSE) * Power(Value(2.0), doublings), Value(LONGEST_PAUSE), output_field=models.DurationField()
    )
    return Q(failures=0) | Q(polled_at=None) | Q(polled_at__lt=Now() - pause)


def sha_begins(digits: str, to_commit: str = "") -> Q:
    """The condition that a commit's sha begins with these digits, as a range, which an index finds.

    ``to_commit``: the way to the commit, such as ``commit__``.
    """
    conditions = {"gte": digits, "lt": f"{digits}g", "startswith": digits}
    return Q(**{f"{to_commit}sha__{lookup}": value for lookup, value in conditions.items()})


class ProjectQuerySet(models.QuerySet["Project"]):
    def tracked(self) -> "ProjectQuerySet":
        return self.filter(untracked_at=None)

    def due(self, every_s: int) -> "ProjectQuerySet":
        """Projects not polled within their polling interval, which a jitter lengthens by up to a quarter."""
        interval = (1 + F("poll_jitter")) * Value(timedelta(seconds=every_s))
        return self.tracked().filter(pause_is_over(), Q(polled_at=None) | Q(polled_at__lt=Now() - interval))

    def with_deliveries(self) -> "ProjectQuerySet":
        """Projects with waiting deliveries. A delivery that came after a failure waits only for the first pause."""
        received = Delivery.objects.filter(project=OuterRef("pk"), status="received")
        fresh = Exists(received.filter(received_at__gt=OuterRef("polled_at")))
        again = Q(fresh, polled_at__lt=Now() - Value(FIRST_PAUSE))
        return self.tracked().filter(pause_is_over() | again, Exists(received))

    def at_rest(self) -> "ProjectQuerySet":
        """Projects that no process is syncing now."""
        return self.exclude(pk__in=RawSQL(LOOKED_AT_NOW, [SYNC_LOCK]))  # noqa: S611 - constants


class MachinePolicy(models.TextChoices):
    EACH = "each", "each of its machines"  #: the same commit is measured on all machines of the project
    ONE = "one", "one machine of each pool"  #: one of the machines with equal hardware, the same as long as it exists


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
    hook_secret = SealedField(default=new_hook_secret)
    former_hook_secret = SealedField(default=Secret, help_text="also valid while the forge gets the new one")
    former_hook_secret_until = models.DateTimeField(null=True)
    is_public = models.BooleanField(default=True, help_text="everybody may see it; else its members only")
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
    cancel_unreachable = models.BooleanField(
        default=True, help_text="cancel waiting runs of commits that no branch or tag has any more"
    )
    submodule_urls = models.TextField(
        default="", blank=True, help_text="repositories, one a line, that submodules may be fetched from"
    )
    machine_policy = models.CharField(
        max_length=10,
        choices=MachinePolicy,
        default=MachinePolicy.EACH,
        help_text="which of its machines measure a commit",
    )
    lag_alarm_hours = models.PositiveIntegerField(
        default=24, help_text="after how long an unmeasured head of a branch is an alarm; 0: never"
    )
    lag_looked_at = models.DateTimeField(
        db_default=Now(), help_text="when its branches were last asked for unmeasured heads"
    )
    left_out = models.JSONField(
        default=dict, help_text="branches and tags that could not be fetched: reference name -> {sha, why}"
    )

    branch_gone_at = models.DateTimeField(null=True, help_text="when its default branch was found deleted")
    successor = models.CharField(
        max_length=250, default="", help_text="the repository's branch since then, which contains the last commit"
    )
    renamed_to = models.CharField(max_length=300, default="", help_text="its new name, as its forge told")
    renamed_at = models.DateTimeField(null=True)

    objects: ClassVar = ProjectQuerySet.as_manager()

    def __str__(self) -> str:
        return self.slug


class Credential(models.Model):
    """A token for https or a deploy key for ssh that opens a private repository. It is sent only to one server."""

    class Kind(models.TextChoices):
        TOKEN = "token", "Access token (https)"
        KEY = "key", "Deploy key (ssh)"

    project = models.OneToOneField(Project, models.CASCADE, related_name="credential")
    kind = models.CharField(max_length=10, choices=Kind)
    origin = models.CharField(max_length=300, help_text="the server it was entered for: scheme, host and port")
    user = models.CharField(max_length=100, default="", help_text="the name that goes with a token")
    secret = SealedField(help_text="the token, or the private key")
    known_hosts = models.TextField(default="", help_text="lines of known_hosts that hold the keys of the ssh server")
    public_key = models.TextField(default="", help_text="the public part of a deploy key")
    changed = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=~Q(secret=""), name="a_credential_has_a_secret"),
            models.CheckConstraint(condition=Q(kind="token") | ~Q(known_hosts=""), name="a_key_comes_with_known_hosts"),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} for {self.origin}"


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

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "name"], name="a_branch_once_per_project"),
        ]

    def __str__(self) -> str:
        return self.name


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


class Delivery(models.Model):
    """One received webhook call."""

    class Status(models.TextChoices):
        RECEIVED = "received"  #: stored, waits for a fetch of its repository
        PROCESSED = "processed"  #: its repository was fetched, or its facts were stored
        IGNORED = "ignored"  #: its signature is valid, but its event has no effect

    project = models.ForeignKey(Project, models.CASCADE, related_name="deliveries", db_index=False)
    provider = models.CharField(max_length=20)
    delivery_id = models.CharField(max_length=100)
    event = models.CharField(max_length=50)
    summary = models.CharField(max_length=300, default="", help_text="what its body says, in words")
    headers = models.JSONField()
    size = models.PositiveIntegerField(default=0, help_text="of the body as it arrived, in bytes")
    packed_body = models.BinaryField(help_text="zlib")
    body_digest = models.CharField(max_length=64, help_text="of the body as it arrived")
    received_at = models.DateTimeField(db_default=Now(), help_text="when it, or an equal one, last arrived")
    status = models.CharField(max_length=20, choices=Status, default=Status.RECEIVED)
    outcome = models.TextField(default="", help_text="what followed, or why it was ignored")
    copies = models.PositiveIntegerField(default=1, help_text="how often it arrived or was replayed")
    with_former = models.BooleanField(default=False, help_text="it was signed with the former secret")

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["project", "id"], name="deliveries_of_a_project"),
        ]
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
        """The received body."""
        return zlib.decompress(self.packed_body)

    def beginning(self, length: int) -> bytes:
        """At most the first ``length`` bytes of the body."""
        return zlib.decompressobj().decompress(self.packed_body, length)


class Refusal(models.Model):
    """How many calls of a webhook were refused within an hour for one reason.

    A flood leaves nothing else.
    """

    class Reason(models.TextChoices):
        UNSIGNED = SignatureFault.UNSIGNED.value, "not signed"
        WEAK = SignatureFault.WEAK.value, "signed with SHA-1 only"
        WRONG = SignatureFault.WRONG.value, "signed with another secret, or altered on the way"
        TIME = SignatureFault.TIME.value, "signed too long ago, or ahead of time"

    project = models.ForeignKey(Project, models.CASCADE, related_name="refusals", db_index=False)
    hour = models.DateTimeField()
    reason = models.CharField(max_length=20, choices=Reason)
    count = models.PositiveIntegerField(default=1)
    last_at = models.DateTimeField(db_default=Now())
    event = models.CharField(max_length=50, default="", help_text="of the first one, as it said")
    size = models.PositiveIntegerField(default=0, help_text="of the first one's body, in bytes")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "hour", "reason"], name="refusals_once_per_hour_and_reason"),
        ]

    def __str__(self) -> str:
        return f"{self.count} calls {self.get_reason_display()}"
