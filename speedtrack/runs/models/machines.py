"""The machines that measure: their tokens, events and environments."""

import hashlib
import hmac
import secrets
from datetime import timedelta
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from speedtrack.projects.models import Project
from speedtrack.wakeups import Wakes

SEEN_EVERY = timedelta(seconds=5)


class UnknownToken(Exception):
    """No registered machine has this token."""


class Machine(models.Model):
    """A computer that measures. It does one thing at a time."""

    name = models.SlugField(unique=True)
    token_id = models.CharField(max_length=16, unique=True)
    token_digest = models.CharField(max_length=64)
    projects = models.ManyToManyField(Project, related_name="machines")
    paused = models.BooleanField(default=False, help_text="gets no new work")
    retired_at = models.DateTimeField(null=True, help_text="since when it is out of service; its results stay")
    created = models.DateTimeField(db_default=Now())
    last_seen_at = models.DateTimeField(null=True)
    runner_version = models.CharField(max_length=40, default="", blank=True)
    facts = models.JSONField(default=dict)
    aa_looked_at = models.DateTimeField(null=True, help_text="when it was last asked whether an A/A run is due")
    quarantined_at = models.DateTimeField(null=True, help_text="its canary moved: it gets canary runs only")
    quarantined_why = models.TextField(default="", blank=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(quarantined_at=None, quarantined_why="")
                | (Q(quarantined_at__isnull=False) & ~Q(quarantined_why="")),
                name="a_quarantine_has_a_reason",
            ),
            models.CheckConstraint(
                condition=Q(retired_at=None) | Q(paused=True), name="a_retired_machine_gets_no_work"
            ),
            Wakes(name="a_resumed_machine_wakes", after="UPDATE OF paused, quarantined_at"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def queue(self) -> str:
        return f"machine.{self.name}"

    def new_token(self) -> str:
        """Give the machine a new token and return it. Only its digest is stored; ``save`` invalidates the old token."""
        self.token_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        self.token_digest = hashlib.sha256(secret.encode()).hexdigest()
        return f"strn_{self.token_id}_{secret}"

    @classmethod
    def of_token(cls, token: str) -> "Machine":
        """The machine that has this token. Raises UnknownToken."""
        _, _, rest = token.partition("_")
        token_id, _, secret = rest.partition("_")
        machine = cls.objects.filter(token_id=token_id).defer("facts").first()
        digest = hashlib.sha256(secret.encode()).hexdigest()
        if machine is None or not hmac.compare_digest(machine.token_digest, digest):
            raise UnknownToken(
                "unknown machine token: `manage.py machine add NAME` (or `machine token NAME`) makes one"
            )
        return machine

    def note_call(self) -> None:
        """Store that its runner has called; of many calls, one every few seconds."""
        if self.last_seen_at is None or abs(timezone.now() - self.last_seen_at) > SEEN_EVERY:
            Machine.objects.filter(pk=self.pk).update(last_seen_at=Now())


class MachineEvent(models.Model):
    """Something that happened to a machine, stored in the same transaction. ``who`` is empty if no person did it.

    ``untold``: operators are to be mailed, and the mails are not in the outbox yet.
    """

    class Kind(models.TextChoices):
        CANARY = "canary"  #: it got a canary, or another one
        QUARANTINED = "quarantined"  #: its canary moved
        LIFTED = "lifted"  #: its canary is steady again, or a person ended the quarantine
        BLIND = "blind"  #: its canary cannot be measured, so drift would go unnoticed
        RENEWED = "renewed"  #: it got a new token
        PAUSED = "paused"  #: it gets no new work
        RESUMED = "resumed"  #: it gets work again
        RETIRED = "retired"  #: it was taken out of service
        RETURNED = "returned"  #: it is in service again

    MAILED = (Kind.QUARANTINED, Kind.LIFTED, Kind.BLIND)  #: operators are mailed about these

    machine = models.ForeignKey(Machine, models.CASCADE, related_name="events")
    at = models.DateTimeField(db_default=Now())
    kind = models.CharField(max_length=20, choices=Kind)
    why = models.TextField()
    who = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    untold = models.BooleanField(default=False)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["id"], name="machine_events_untold", condition=Q(untold=True)),
        ]
        constraints: ClassVar = [Wakes(name="an_untold_event_wakes", after="INSERT", rows="NEW.untold")]


class Environment(models.Model):
    """Everything on a machine that affects measurements. A new environment starts new series."""

    machine = models.ForeignKey(Machine, models.PROTECT, related_name="environments", db_index=False)
    digest = models.CharField(max_length=80)
    facts = models.JSONField()
    created = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["machine", "digest"], name="an_environment_once_per_machine"),
        ]
