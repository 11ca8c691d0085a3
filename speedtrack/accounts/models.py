"""Roles in projects, tokens of people, their boards, and the audit log."""

from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from speedtrack.projects.models import Project

MOST_DAYS = 3650
MOST_PINS = 20


class Role(models.TextChoices):
    """The rights of a member of a project; each role includes the roles before it."""

    READER = "reader"  #: see it, if it is private
    TRIAGER = "triager"  #: decide on alerts, mute, annotate
    MAINTAINER = "maintainer"  #: queue, cancel and import measurements; change settings, policies, webhooks
    OWNER = "owner"  #: admit and remove members, make it private or public, stop tracking it


class Scope(models.TextChoices):
    """The permitted uses of a token; its user's role must allow them, too."""

    READ = "read"  #: read what its user may see
    TRIAGE = "triage"  #: states of alerts, annotations, mutes
    RUNS = "runs"  #: queue, cancel and retry runs
    RESULTS = "results"  #: send results measured elsewhere
    SETTINGS = "settings"  #: policies, webhooks; track repositories and operate machines, as an operator may


class Membership(models.Model):
    """The role of a person in a project."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="memberships", db_index=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=20, choices=Role)
    created = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "user"], name="one_role_per_person_and_project"),
        ]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.project}"


class Invitation(models.Model):
    """A link that makes whoever accepts it a member. Only the digest of its code is stored."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="invitations")
    role = models.CharField(max_length=20, choices=Role)
    digest = models.CharField(max_length=64, unique=True)
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    created = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    most_uses = models.PositiveIntegerField(default=1)
    uses = models.PositiveIntegerField(default=0)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(uses__lte=F("most_uses")), name="an_invitation_is_not_used_more_often"),
        ]

    def __str__(self) -> str:
        return f"invitation {self.pk} to {self.project} as {self.role}"


class WrongInvitation(models.Model):
    """A failed attempt with a wrong code of an invitation, counted against guessing."""

    address = models.GenericIPAddressField(null=True)
    at = models.DateTimeField(db_default=Now())


class PersonToken(models.Model):
    """A token of a person's program. It has its user's rights within its scopes; in one project, if it has one."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="tokens")
    project = models.ForeignKey(Project, models.CASCADE, null=True, related_name="+", help_text="null: in all projects")
    name = models.CharField(max_length=100, help_text="what it is for")
    scopes = ArrayField(models.CharField(max_length=20, choices=Scope))
    key = models.CharField(max_length=12, unique=True)
    digest = models.CharField(max_length=64)
    created = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    last_used_from = models.GenericIPAddressField(null=True, help_text="of an IPv6 address only the network")

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=~Q(scopes=[]), name="a_token_has_a_scope"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= timezone.now()


class Pin(models.Model):
    """A timeline or a comparison on a person's board.

    It has no key to a project: who looks at the board is shown what the address answers then.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="pins", db_index=False)
    address = models.CharField(max_length=1500, help_text="path and query on this site, in ASCII")
    place = models.PositiveSmallIntegerField(help_text="on the board, from 0")

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(place__lt=MOST_PINS), name="a_board_has_20_places"),
            models.UniqueConstraint(
                fields=["user", "place"], name="one_pin_per_place_of_a_board", deferrable=models.Deferrable.DEFERRED
            ),
            models.UniqueConstraint(fields=["user", "address"], name="an_address_is_pinned_once"),
        ]

    def __str__(self) -> str:
        return self.address


class AuditEntry(models.Model):
    """A change by somebody: the person, the way, the subject, and the values before and after. Never a secret."""

    class Door(models.TextChoices):
        PAGE = "page"
        API = "api"
        COMMAND = "command"

    at = models.DateTimeField(db_default=Now())
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    name = models.CharField(max_length=150, help_text="of the user at that time; of a command the one of the system")
    door = models.CharField(max_length=10, choices=Door)
    token = models.ForeignKey(PersonToken, models.SET_NULL, null=True, related_name="+")
    project = models.ForeignKey(Project, models.SET_NULL, null=True, related_name="+")
    action = models.CharField(max_length=60, help_text="noun and verb, such as `alert.decide`")
    target = models.CharField(max_length=300, help_text="what was changed, in words")
    changes = models.JSONField(default=dict, help_text="field -> [before, after]")

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["project", "id"], name="audit_of_a_project"),
        ]

    def __str__(self) -> str:
        return f"{self.name}: {self.action} {self.target}"


class OwnerLink(models.Model):
    """A link by which the first operator makes an account. Using one ends all."""

    digest = models.CharField(max_length=64, unique=True)
    created = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"made {self.created:%Y-%m-%d %H:%M} UTC"
