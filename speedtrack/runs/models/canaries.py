"""Canaries and what their runs say about their machines."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from speedtrack.benchmarks.models import BenchmarkSet, Suite
from speedtrack.projects.models import Commit, Project
from speedtrack.runs.models.machines import Machine


class Canary(models.Model):
    """A frozen server and a frozen workload: when their results change, the machine has changed.

    ``artifacts`` (name -> digest) are those of the first successful build; its runs never measure others. The history
    begins ``since``: values before that, and values of another environment, do not count.
    """

    machine = models.ForeignKey(Machine, models.CASCADE, related_name="canaries")
    project = models.ForeignKey(Project, models.CASCADE, related_name="+")
    commit = models.ForeignKey(Commit, models.PROTECT, related_name="+")
    suite = models.ForeignKey(Suite, models.PROTECT, related_name="+")
    benchmark_set = models.ForeignKey(BenchmarkSet, models.PROTECT, related_name="+")
    artifacts = models.JSONField(null=True)
    created = models.DateTimeField(db_default=Now())
    since = models.DateTimeField(db_default=Now())
    retired_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "canaries"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["machine"], condition=Q(retired_at=None), name="one_canary_in_use_per_machine"
            ),
        ]

    def __str__(self) -> str:
        return f"canary of {self.machine}: {self.benchmark_set} of {self.project} at {self.commit.short}"


class CanaryCheck(models.Model):
    """What one canary run says about its machine. ``answer`` is that of the series that moved most."""

    class Answer(models.TextChoices):
        LEARNING = "learning"  #: too little history in this environment
        STEADY = "steady"
        OFF = "off"  #: further from its history than noise explains
        UNKNOWN = "unknown"  #: not measured, or only with flags that void the result

    GOOD = (Answer.LEARNING, Answer.STEADY)

    run = models.OneToOneField("Run", models.CASCADE, related_name="canary_check")
    canary = models.ForeignKey(Canary, models.CASCADE, related_name="checks", db_index=False)
    at = models.DateTimeField(help_text="when the run ended")
    answer = models.CharField(max_length=20, choices=Answer)
    series = models.ForeignKey("Series", models.SET_NULL, null=True, related_name="+")
    ratio = models.FloatField(null=True, help_text="value / usual level")
    limit = models.FloatField(null=True, help_text="how far from 1 the ratio may be; null while learning")

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(answer="unknown", ratio=None) | (~Q(answer="unknown") & Q(ratio__isnull=False)),
                name="a_check_that_says_something_has_a_ratio",
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["canary", "-id"], name="checks_newest_first")]

    @property
    def good(self) -> bool:
        return self.answer in self.GOOD
