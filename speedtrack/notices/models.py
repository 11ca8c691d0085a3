"""Who wants to be told of what and when, what they are to be told, and what waits to be sent."""

from datetime import time
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Lower, Now

from speedtrack.alerts.models import Alert, AlertEvent
from speedtrack.notices.hours import Hours
from speedtrack.projects.models import Project
from speedtrack.runs.models import MachineEvent

MAIL_LANE = 0
DEFAULT_MOST_PER_DAY = 20
MOST_SUBSCRIPTIONS = 50  # of one subscriber


class Pace(models.TextChoices):
    NOW = "now", "at once"
    DAILY = "daily", "once a day, as a table"
    WEEKLY = "weekly", "on Mondays, as a table"


class Subscriber(models.Model):
    """An address that is told of things; with an account, or managed by the links in its mails alone."""

    email = models.EmailField()
    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="subscriber")
    own_commits = models.BooleanField(default=True, help_text="of the person's own commits it is told at once")
    follow_ups = models.BooleanField(default=True, help_text="it is told what became of an alert that it was told of")
    time_zone = models.CharField(max_length=64, default="UTC")
    quiet_from = models.TimeField(null=True, blank=True)
    quiet_until = models.TimeField(null=True, blank=True)
    digest_hour = models.PositiveSmallIntegerField(default=8)
    most_per_day = models.PositiveSmallIntegerField(default=DEFAULT_MOST_PER_DAY)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(Lower("email"), name="a_subscriber_once_per_address"),
            models.CheckConstraint(
                condition=Q(quiet_from=None, quiet_until=None)
                | Q(quiet_from__isnull=False, quiet_until__isnull=False) & ~Q(quiet_from=F("quiet_until")),
                name="quiet_hours_have_two_ends",
            ),
            models.CheckConstraint(condition=Q(digest_hour__lte=23), name="a_digest_goes_out_at_an_hour_of_the_day"),
            models.CheckConstraint(condition=Q(most_per_day__gte=1), name="at_least_one_mail_a_day"),
        ]

    def __str__(self) -> str:
        return self.email

    @property
    def hours(self) -> Hours:
        quiet: tuple[time, time] | None = None
        if self.quiet_from is not None and self.quiet_until is not None:
            quiet = (self.quiet_from, self.quiet_until)
        return Hours(ZoneInfo(self.time_zone), quiet, self.digest_hour)


class Subscription(models.Model):
    """Which alerts a subscriber wants to be told of, and how soon. Of several globs, with spaces between, any fits."""

    class Direction(models.TextChoices):
        WORSE = "worse", "slower"
        BOTH = "both", "slower or faster"

    subscriber = models.ForeignKey(Subscriber, models.CASCADE, related_name="subscriptions")
    project = models.ForeignKey(
        Project, models.CASCADE, null=True, blank=True, related_name="subscriptions", help_text="null: all projects"
    )
    branches = models.CharField(max_length=200, default="*")
    benchmarks = models.CharField(max_length=200, default="*")
    smallest_percent = models.FloatField(default=0)
    direction = models.CharField(max_length=10, choices=Direction, default=Direction.WORSE)
    pace = models.CharField(max_length=10, choices=Pace, default=Pace.NOW)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["subscriber", "project", "branches", "benchmarks", "direction"],
                nulls_distinct=False,
                name="a_subscription_once",
            ),
            models.CheckConstraint(
                condition=Q(smallest_percent__gte=0, smallest_percent__lte=1000),
                name="the_smallest_change_is_0_to_1000_percent",
            ),
            models.CheckConstraint(condition=Q(pace__in=Pace.values), name="a_subscription_has_a_known_pace"),
        ]

    def __str__(self) -> str:
        project = self.project.slug if self.project else "all projects"
        return f"{project}, branches {self.branches}, benchmarks {self.benchmarks}, {self.get_pace_display()}"


class OutboxQuerySet(models.QuerySet["Outbox"]):
    def due(self) -> "OutboxQuerySet":
        return self.filter(sent_at=None, given_up_at=None, not_before__lte=Now())

    def of_lane(self, lane: int) -> "OutboxQuerySet":
        """Those for one receiver, as ``Outbox.lane`` numbers them."""
        return self

    def lanes(self) -> list[int]:
        return [MAIL_LANE] if self.exists() else []

    def failing(self) -> "OutboxQuerySet":
        """Those given up, and those that were tried in vain and wait."""
        return self.filter(Q(given_up_at__isnull=False) | ~Q(error=""), sent_at=None)


class Outbox(models.Model):
    """A mail to be sent, once per recipient, alert and event; or of a machine; or a digest, of its ``notices``."""

    recipient = models.EmailField()
    alert = models.ForeignKey(Alert, models.CASCADE, null=True, related_name="outbox")
    machine_event = models.ForeignKey(MachineEvent, models.CASCADE, null=True, related_name="outbox")
    digest = models.BooleanField(default=False)
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
            models.UniqueConstraint(
                fields=["recipient", "event"], condition=Q(digest=True), name="a_digest_once_per_recipient"
            ),
            models.CheckConstraint(
                condition=Q(alert__isnull=False, machine_event=None, digest=False)
                | Q(alert=None, machine_event__isnull=False, digest=False)
                | Q(alert=None, machine_event=None, digest=True),
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
        subject: Any = self.alert_id or (f"machine{self.machine_event_id}" if self.machine_event_id else "digest")
        data = (subject, self.event.replace(" ", "-"), self.pk)
        return "<speedtrack.{}.{}.{}@{}>".format(*data, settings.DEFAULT_FROM_EMAIL.rpartition("@")[2].rstrip(">"))


class NoticeQuerySet(models.QuerySet["Notice"]):
    def due(self) -> "NoticeQuerySet":
        return self.filter(mail=None, not_before__lte=Now())


class Notice(models.Model):
    """An event that a subscriber is told of, once, whatever subscriptions overlap; without ``mail`` while it waits.

    ``subscription`` is the one that asked for it soonest; null with ``own`` for the person's own commit.
    """

    subscriber = models.ForeignKey(Subscriber, models.CASCADE, related_name="notices")
    event = models.ForeignKey(AlertEvent, models.CASCADE, related_name="notices")
    subscription = models.ForeignKey(Subscription, models.SET_NULL, null=True, related_name="notices")
    own = models.BooleanField(default=False)
    pace = models.CharField(max_length=10, choices=Pace)
    not_before = models.DateTimeField()
    mail = models.ForeignKey(Outbox, models.CASCADE, null=True, related_name="notices")

    objects: ClassVar = NoticeQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["subscriber", "event"], name="a_subscriber_is_told_once_of_an_event"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["not_before"], name="notices_waiting", condition=Q(mail=None)),
        ]
