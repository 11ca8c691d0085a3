"""Mutes: for a while nobody is notified of some changes."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from speedtrack.benchmarks.metrics import LONGEST_KEY, METRICS
from speedtrack.benchmarks.models import LONGEST_NAME
from speedtrack.projects.models import Project
from speedtrack.runs.models import Machine, Series


class MuteQuerySet(models.QuerySet["Mute"]):
    def in_force(self) -> "MuteQuerySet":
        return self.filter(ended_at=None, until__gt=Now())

    def of(self, series: Series) -> "MuteQuerySet":
        """Mutes that cover a series, the one that lasts longest first."""
        return self.filter(
            Q(benchmark="") | Q(benchmark=series.benchmark.name),
            Q(metric="") | Q(metric=series.metric),
            Q(machine=None) | Q(machine=series.machine_id),
            project=series.project_id,
        ).order_by("-until", "-id")


class Mute(models.Model):
    """For a while nobody is notified of changes of a benchmark, a machine, or one metric of a benchmark on a machine.

    Muted series are watched and settled as usual, and their alerts are raised silently: pages show them, so nothing
    has to be caught up when the mute ends, and nobody is notified of the past then. An empty ``benchmark`` or
    ``metric`` and no ``machine`` match all.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="mutes")
    benchmark = models.CharField(max_length=LONGEST_NAME, default="", blank=True)
    metric = models.CharField(max_length=LONGEST_KEY, default="", blank=True)
    machine = models.ForeignKey(Machine, models.CASCADE, null=True, blank=True, related_name="mutes")
    reason = models.TextField()
    until = models.DateTimeField()
    created = models.DateTimeField(db_default=Now())
    who = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    ended_at = models.DateTimeField(null=True, help_text="when a person ended it early")
    ended_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")

    objects: ClassVar = MuteQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=~Q(benchmark="") | Q(machine__isnull=False), name="a_mute_names_a_benchmark_or_a_machine"
            ),
            models.CheckConstraint(
                condition=Q(metric="") | ~Q(benchmark=""), name="a_mute_of_a_metric_names_its_benchmark"
            ),
            models.CheckConstraint(condition=~Q(reason=""), name="a_mute_has_a_reason"),
            models.CheckConstraint(condition=Q(until__gt=F("created")), name="a_mute_ends_after_it_began"),
        ]

    def __str__(self) -> str:
        subject = [self.benchmark or "all benchmarks"]
        if self.metric:
            subject.append(METRICS[self.metric].title if self.metric in METRICS else self.metric)
        return ", ".join(subject) + (f" on {self.machine}" if self.machine else "")

    def covers(self, series: Series) -> bool:
        """Return whether this mute covers a series: the rule of ``MuteQuerySet.of``."""
        mine = (self.benchmark or series.benchmark.name, self.metric or series.metric)
        machine = self.machine_id or series.machine_id
        return (*mine, machine, self.project_id) == (
            series.benchmark.name,
            series.metric,
            series.machine_id,
            series.project_id,
        )
