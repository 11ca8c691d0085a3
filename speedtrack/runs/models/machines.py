"""The machines that measure: their pools, events and environments."""

from datetime import timedelta
from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from speedtrack.ground.postgres.wakeups import Wakes
from speedtrack.projects.models import Project

SEEN_EVERY = timedelta(seconds=5)


#: Machines that measure: neither retired nor without a runner.
IN_SERVICE = Q(retired_at=None, outside=False)


class Machine(models.Model):
    """A computer that measures. It does one thing at a time."""

    name = models.SlugField(unique=True)
    outside = models.BooleanField(
        default=False, db_default=False, help_text="it has no runner: its results are measured elsewhere and sent in"
    )
    pool = models.SlugField(default="", blank=True, help_text="machines of equal hardware; empty: it is its own pool")
    projects = models.ManyToManyField(Project, related_name="machines")
    paused = models.BooleanField(default=False, help_text="gets no new work")
    retired_at = models.DateTimeField(null=True, help_text="since when it is out of service; its results stay")
    created = models.DateTimeField(db_default=Now())
    last_seen_at = models.DateTimeField(null=True)
    runner_version = models.CharField(max_length=40, default="", blank=True)
    runner_protocol = models.IntegerField(null=True, help_text="of its calls; null: its runner has not named one")
    facts = models.JSONField(default=dict)
    runner_said = models.JSONField(
        null=True, help_text="why its idle runner takes no run (`standing.hear`); null: its runner does not send that"
    )
    aa_looked_at = models.DateTimeField(null=True, help_text="when it was last asked whether an A/A run is due")
    quarantined_at = models.DateTimeField(null=True, help_text="its canary moved: it gets canary runs only")
    quarantined_why = models.TextField(default="", blank=True)
    windows = ArrayField(
        models.CharField(max_length=40),
        default=list,
        help_text="when it takes work by itself, such as `mon-fri 22:00-06:00`; none: always",
    )
    zone = models.CharField(max_length=64, default="UTC", help_text="of the windows")
    shares = models.JSONField(
        default=dict, help_text="kind of work -> percent of its time; order.py says what a missing one means"
    )

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
            models.CheckConstraint(
                condition=Q(outside=False) | Q(pool="", last_seen_at=None, quarantined_at=None),
                name="an_outside_machine_has_no_runner",
            ),
            Wakes(name="a_resumed_machine_wakes", after="UPDATE OF paused, quarantined_at"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def queue(self) -> str:
        return f"machine.{self.name}"

    @property
    def takes_work(self) -> bool:
        """Return whether the machine takes runs other than its canary's while its windows are open."""
        return not self.outside and not self.paused and self.quarantined_at is None

    def note_call(self) -> None:
        """Store that the machine's runner has called, at most once every few seconds."""
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
        ENROLLED = "enrolled"  #: it got a token in exchange for a code
        ROTATED = "rotated"  #: its runner replaced its token
        REVOKED = "revoked"  #: its tokens were revoked
        POOLED = "pooled"  #: it joined or left a pool
        PAUSED = "paused"  #: it gets no new work
        RESUMED = "resumed"  #: it gets work again
        RETIRED = "retired"  #: it was taken out of service
        RETURNED = "returned"  #: it is in service again
        CHANGED = "changed"  #: a person changed when and what it measures

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


class Assignment(models.Model):
    """Which machine of a pool measures a project, where one of them is enough: its lines stay on this machine."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="assignments", db_index=False)
    pool = models.SlugField()
    machine = models.ForeignKey(Machine, models.CASCADE, related_name="assignments")
    since = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "pool"], name="one_machine_of_a_pool_per_project"),
        ]


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
