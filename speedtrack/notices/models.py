"""Who wants to be told, and what waits to be sent."""

from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from speedtrack.alerts.models import Alert
from speedtrack.projects.models import Project
from speedtrack.runs.models import MachineEvent

MAIL_LANE = 0


class Subscription(models.Model):
    """Who wants a mail when a project got slower."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="subscriptions")
    email = models.EmailField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "email"], name="a_subscription_once"),
        ]


class OutboxQuerySet(models.QuerySet["Outbox"]):
    def due(self) -> "OutboxQuerySet":
        return self.filter(sent_at=None, given_up_at=None, not_before__lte=Now())

    def of_lane(self, lane: int) -> "OutboxQuerySet":
        """Those for one receiver, as ``Outbox.lane`` numbers them."""
        return self

    def lanes(self) -> list[int]:
        return [MAIL_LANE] if self.exists() else []


class Outbox(models.Model):
    """A mail to be sent, once per recipient, alert and event; or of a machine, once per recipient and event."""

    recipient = models.EmailField()
    alert = models.ForeignKey(Alert, models.CASCADE, null=True, related_name="outbox")
    machine_event = models.ForeignKey(MachineEvent, models.CASCADE, null=True, related_name="outbox")
    event = models.CharField(max_length=40)
    created = models.DateTimeField(db_default=Now())
    not_before = models.DateTimeField(db_default=Now())
    attempts = models.IntegerField(default=0)
    sent_at = models.DateTimeField(null=True)
    given_up_at = models.DateTimeField(null=True)
    unanswered = models.IntegerField(
        default=0, help_text="attempts after which the receiver had all of it and did not answer"
    )
    error = models.TextField(default="")

    objects: ClassVar = OutboxQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["recipient", "alert", "event"], name="a_mail_once_per_recipient_alert_event"
            ),
            models.UniqueConstraint(
                fields=["recipient", "machine_event"], name="a_mail_once_per_recipient_machine_event"
            ),
            models.CheckConstraint(
                condition=Q(alert__isnull=False, machine_event=None) | Q(alert=None, machine_event__isnull=False),
                name="a_mail_tells_of_an_alert_or_a_machine",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["not_before"], name="outbox_waiting", condition=Q(sent_at=None, given_up_at=None)),
        ]

    @property
    def lane(self) -> int:
        """The receiver that it goes to; rows of one lane are sent one after another, in one connection."""
        return MAIL_LANE

    def message_id(self) -> str:
        """Always the same for one row, so that a mail sent twice by a crash is shown once."""
        data: Any = (self.alert_id or f"machine{self.machine_event_id}", self.event, self.pk)
        return "<speedtrack.{}.{}.{}@{}>".format(*data, settings.DEFAULT_FROM_EMAIL.rpartition("@")[2].rstrip(">"))
