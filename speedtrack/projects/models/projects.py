"""Tracked projects, the credentials of private repositories, and the calls of webhooks."""

import base64
import secrets
import zlib
from datetime import timedelta
from typing import ClassVar

from django.db import models
from django.db.models import Exists, F, OuterRef, Q, Value
from django.db.models.expressions import RawSQL
from django.db.models.functions import Least, Now, Power

from speedtrack.ground.postgres.wakeups import Wakes
from speedtrack.ground.secrets.sealed import SealedField, Secret
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
