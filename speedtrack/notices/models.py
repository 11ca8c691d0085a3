"""Subscribers and their subscriptions, the notices for them, and the messages that wait to be sent."""

from datetime import time
from functools import reduce
from operator import or_
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Lower, Now

from speedtrack.accounts.models import PersonToken
from speedtrack.alerts.models import Alert, AlertEvent
from speedtrack.ground.postgres.wakeups import Wakes
from speedtrack.ground.secrets.sealed import SealedField, Secret
from speedtrack.notices.hours import Hours
from speedtrack.projects.models import Commit, Project
from speedtrack.runs.models import Alarm, MachineEvent

MAIL_LANE = 0
DEFAULT_MOST_PER_DAY = 20
MOST_SUBSCRIPTIONS = 50  # of one subscriber


class Pace(models.TextChoices):
    NOW = "now", "at once"
    DAILY = "daily", "once a day, as a table"
    WEEKLY = "weekly", "on Mondays, as a table"


class Subscriber(models.Model):
    """A mail address with subscriptions; it belongs to an account, or is managed only by the links in its mails."""

    email = models.EmailField()
    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="subscriber")
    own_commits = models.BooleanField(default=True, help_text="notify at once about the person's own commits")
    own_time_only = models.BooleanField(
        default=False, help_text="such commits count even where the same instructions take other time"
    )
    follow_ups = models.BooleanField(default=True, help_text="notify about later events of such alerts")
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
    """Defines the alerts that a subscriber is notified of, and how soon.

    A field may hold several globs, separated by spaces, of which any may match.
    """

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
    skip_same_instructions = models.BooleanField(
        default=False, help_text="a change of time does not match if the count of instructions stayed the same"
    )

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
        """Unsent rows that may be sent now, except those of paused channels."""
        return self.filter(sent_at=None, given_up_at=None, not_before__lte=Now(), channel__paused_at=None)

    def of_lane(self, lane: int) -> "OutboxQuerySet":
        """Rows for one receiver, which ``Outbox.lane`` numbers."""
        return self.filter(channel=None if lane == MAIL_LANE else lane)

    def lanes(self) -> list[int]:
        return [pk or MAIL_LANE for pk in self.order_by().values_list("channel", flat=True).distinct()]

    def failing(self) -> "OutboxQuerySet":
        """Rows that were given up, or that failed and wait for another attempt."""
        return self.filter(Q(given_up_at__isnull=False) | ~Q(error=""), sent_at=None)


#: The possible subjects of a message in the outbox; a digest has none of them.
SUBJECTS = ("alert", "machine_event", "alarm", "token", "commit_status")


def about(subject: str | None) -> Q:
    return Q(**{f"{name}__isnull": name != subject for name in SUBJECTS}, digest=subject is None)


class Outbox(models.Model):
    """A message to send: about an alert, once per recipient and event; about a machine, an alarm or a token; a
    digest of ``notices``; or a commit status.
    """

    recipient = models.EmailField(help_text="empty: it goes to the channel")
    alert = models.ForeignKey(Alert, models.CASCADE, null=True, related_name="outbox")
    machine_event = models.ForeignKey(MachineEvent, models.CASCADE, null=True, related_name="outbox")
    alarm = models.ForeignKey(Alarm, models.CASCADE, null=True, related_name="outbox")
    token = models.ForeignKey(PersonToken, models.CASCADE, null=True, related_name="outbox")
    channel = models.ForeignKey("Channel", models.CASCADE, null=True, related_name="outbox")
    commit_status = models.ForeignKey("CommitStatus", models.CASCADE, null=True, related_name="outbox")
    digest = models.BooleanField(default=False)
    event = models.CharField(max_length=40)
    created = models.DateTimeField(db_default=Now())
    not_before = models.DateTimeField(db_default=Now())
    attempts = models.IntegerField(default=0)
    sent_at = models.DateTimeField(null=True)
    given_up_at = models.DateTimeField(null=True)
    unanswered = models.IntegerField(
        default=0, help_text="attempts after which the receiver had the whole message but did not answer"
    )
    error = models.TextField(default="")

    objects: ClassVar = OutboxQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["recipient", "alert", "event"],
                condition=Q(channel=None),
                name="a_mail_once_per_recipient_alert_event",
            ),
            models.UniqueConstraint(
                fields=["recipient", "machine_event"], name="a_mail_once_per_recipient_machine_event"
            ),
            models.UniqueConstraint(
                fields=["recipient", "alarm", "event"], name="a_mail_once_per_recipient_alarm_event"
            ),
            models.UniqueConstraint(
                fields=["channel", "alert", "event"], name="a_message_once_per_channel_alert_event"
            ),
            models.UniqueConstraint(fields=["commit_status", "event"], name="a_commit_status_once_per_version"),
            models.UniqueConstraint(
                fields=["recipient", "event"], condition=Q(digest=True), name="a_digest_once_per_recipient"
            ),
            models.UniqueConstraint(fields=["token", "event"], name="a_mail_once_per_token_event"),
            models.CheckConstraint(
                condition=reduce(or_, map(about, (*SUBJECTS, None))), name="a_message_tells_of_one_thing"
            ),
            models.CheckConstraint(
                condition=Q(channel=None, commit_status=None) & ~Q(recipient="")
                | Q(channel__isnull=False, recipient="", machine_event=None, alarm=None, token=None, digest=False),
                name="a_message_goes_to_an_address_or_a_channel",
            ),
            Wakes(name="a_mail_wakes", after="INSERT"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["not_before"], name="outbox_waiting", condition=Q(sent_at=None, given_up_at=None)),
        ]

    @property
    def lane(self) -> int:
        """The number of its receiver; rows of one lane are sent one after another, in one connection."""
        return self.channel_id or MAIL_LANE

    @property
    def receiver(self) -> str:
        """The receiver as text for people."""
        return self.recipient or str(self.channel)

    def message_id(self) -> str:
        """The Message-ID, the same for every attempt of a row: a mail sent twice after a crash is shown once."""
        subjects = {"machine": self.machine_event_id, "alarm": self.alarm_id, "token": self.token_id}
        subject: Any = self.alert_id or next((f"{name}{pk}" for name, pk in subjects.items() if pk), "digest")
        data = (subject, self.event.replace(" ", "-"), self.pk)
        return "<speedtrack.{}.{}.{}@{}>".format(*data, settings.DEFAULT_FROM_EMAIL.rpartition("@")[2].rstrip(">"))


class NoticeQuerySet(models.QuerySet["Notice"]):
    def due(self) -> "NoticeQuerySet":
        return self.filter(mail=None, not_before__lte=Now())


class Notice(models.Model):
    """The notice of an event to a subscriber: only one, even if several subscriptions match.

    ``mail`` is null while it waits. ``subscription``: the matching one with the soonest pace; null if the notice is
    about the person's own commit (``own``).
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


class Channel(models.Model):
    """A way other than mail to report a project's alerts (speedtrack.notices.channels).

    ``url`` is sealed because a chat's URL contains its password; pages show only ``origin``. While a webhook's secret
    is being replaced, messages are also signed with the former one.
    """

    class Kind(models.TextChoices):
        WEBHOOK = "webhook", "Webhook"
        SLACK = "slack", "Slack"
        MATRIX = "matrix", "Matrix"
        TEAMS = "teams", "Microsoft Teams"
        GITHUB = "github", "GitHub"
        GITLAB = "gitlab", "GitLab"
        GITEA = "gitea", "Gitea or Forgejo"

    FORGES = (Kind.GITHUB, Kind.GITLAB, Kind.GITEA)

    project = models.ForeignKey(Project, models.CASCADE, related_name="channels")
    kind = models.CharField(max_length=20, choices=Kind)
    name = models.CharField(max_length=100)
    url = SealedField()
    origin = models.CharField(max_length=300)
    place = models.CharField(max_length=300, default="", help_text="a Matrix room, or a repository of a forge")
    secret = SealedField(default=Secret)
    former_secret = SealedField(default=Secret)
    improvements = models.BooleanField(default=False, help_text="also reports improvements")
    former_document = models.BooleanField(default=False, help_text="a webhook gets speedtrack.alert/1")
    created = models.DateTimeField(db_default=Now())
    paused_at = models.DateTimeField(null=True)
    paused_why = models.TextField(default="")
    tried_at = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)
    failures = models.PositiveIntegerField(default=0, help_text="failed deliveries since the last success")
    error = models.TextField(default="", help_text="why the last delivery failed")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "name"], name="a_channel_once_per_project_and_name"),
            models.CheckConstraint(condition=~Q(url="") & ~Q(origin=""), name="a_channel_has_an_address"),
            models.CheckConstraint(
                condition=Q(paused_at=None, paused_why="") | (Q(paused_at__isnull=False) & ~Q(paused_why="")),
                name="a_paused_channel_has_a_reason",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.name}"

    @property
    def is_forge(self) -> bool:
        return self.kind in self.FORGES


class CommitStatusQuerySet(models.QuerySet["CommitStatus"]):
    def due(self) -> "CommitStatusQuerySet":
        """Statuses whose commits must be checked now."""
        return self.filter(look_at__lte=Now(), channel__paused_at=None)


class CommitStatus(models.Model):
    """The status of a commit at a forge: the state to show under the context of a project.

    ``version`` counts the changes of the state; ``sent_version`` is the last version that the forge accepted.
    ``look_at``: when the commit is checked again; null: only an event of an alert can change it.
    """

    class State(models.TextChoices):
        PENDING = "pending"  #: it waits, is being measured, or a suspicion about it is being settled
        SUCCESS = "success"  #: measured, without a known slowdown
        FAILURE = "failure"  #: a confirmed alert names it
        ERROR = "error"  #: it cannot be measured

    channel = models.ForeignKey(Channel, models.CASCADE, related_name="statuses")
    commit = models.ForeignKey(Commit, models.CASCADE, related_name="+")
    state = models.CharField(max_length=20, choices=State, default=State.PENDING)
    description = models.CharField(max_length=200, default="")
    version = models.IntegerField(default=0)
    sent_version = models.IntegerField(default=0)
    look_at = models.DateTimeField(null=True, db_default=Now())
    created = models.DateTimeField(db_default=Now())

    objects: ClassVar = CommitStatusQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "commit statuses"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["channel", "commit"], name="a_status_once_per_channel_and_commit"),
            models.CheckConstraint(
                condition=Q(sent_version__lte=models.F("version")), name="a_forge_has_no_newer_status_than_there_is"
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["look_at"], name="statuses_to_be_looked_at", condition=Q(look_at__isnull=False)),
        ]


class PullComment(models.Model):
    """The only comment of a channel on a pull request; it is edited."""

    channel = models.ForeignKey(Channel, models.CASCADE, related_name="comments")
    number = models.BigIntegerField(help_text="of the pull request, as people see it")
    comment_id = models.CharField(max_length=40, default="", help_text="the forge's id of it; empty: not made yet")
    text = models.TextField(default="", help_text="as the forge last accepted it")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["channel", "number"], name="one_comment_per_pull_request"),
        ]
