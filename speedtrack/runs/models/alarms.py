"""Alarms: nothing has failed, and still commits are not measured."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from speedtrack.ground.postgres.wakeups import Wakes
from speedtrack.projects.models import Branch
from speedtrack.runs.models.machines import Machine


class AlarmQuerySet(models.QuerySet["Alarm"]):
    def open(self) -> "AlarmQuerySet":
        return self.filter(ended_at=None)


class Alarm(models.Model):
    """An episode of trouble of a machine or a branch. Operators get a mail when it begins, and one when it is over;
    of a branch that is gone its project's owners too.

    ``untold``: the mails of its beginning or its end are not in the outbox yet.
    """

    class Kind(models.TextChoices):
        STALLED = "stalled"  #: its run makes no progress, though its runner is alive
        UNABLE = "unable"  #: its runner takes no work, since its disk is full
        LAG = "lag"  #: the head of a branch has waited too long for its measurement
        GONE = "gone"  #: the default branch of a repository was deleted, or has another name

    WORDS: ClassVar[dict[str, str]] = {
        Kind.STALLED: "is alive, but not finishing",
        Kind.UNABLE: "takes no work",
        Kind.LAG: "is not measured",
        Kind.GONE: "is gone",
    }

    kind = models.CharField(max_length=20, choices=Kind)
    machine = models.ForeignKey(Machine, models.CASCADE, null=True, related_name="alarms")
    branch = models.ForeignKey(Branch, models.CASCADE, null=True, related_name="alarms")
    why = models.TextField()
    began = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    ended_why = models.TextField(default="")
    untold = models.BooleanField(default=True)

    objects: ClassVar = AlarmQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["kind", "machine", "branch"],
                condition=Q(ended_at=None),
                nulls_distinct=False,
                name="one_open_alarm_of_a_kind",
            ),
            models.CheckConstraint(
                condition=Q(kind__in=["lag", "gone"], machine=None, branch__isnull=False)
                | (~Q(kind__in=["lag", "gone"]) & Q(machine__isnull=False, branch=None)),
                name="an_alarm_is_of_a_machine_or_a_branch",
            ),
            Wakes(name="an_untold_alarm_wakes", after="INSERT OR UPDATE", rows="NEW.untold"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["id"], name="alarms_untold", condition=Q(untold=True)),
            models.Index(fields=["began"], name="alarms_open", condition=Q(ended_at=None)),
        ]

    @property
    def words(self) -> str:
        """What is wrong, as the end of a sentence that begins with the subject."""
        return self.WORDS[self.kind]

    @property
    def subject(self) -> str:
        """The machine or branch that the alarm is about, as people name it."""
        return str(self.machine) if self.machine else f"{self.branch.project} {self.branch}" if self.branch else ""
