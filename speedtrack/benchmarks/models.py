"""Versions and edits of suites, benchmarks by the digest of their definition, and sets of benchmarks."""

from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from speedtrack.benchmarks.metrics import LONGEST_KEY, METRICS, Metric
from speedtrack.projects.models import Project

LONGEST_NAME = 200  # of a benchmark: names from outside contain the parameters


class Suite(models.Model):
    """One version of a suite file. A run refers to the version of its planning, so later edits do not affect it."""

    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=80, unique=True)
    definition = models.JSONField()
    created = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.name

    def smallest_effect(self, metric: str, default: float) -> float:
        """The suite's own smallest effect of a metric, as a ratio, or the default."""
        override: dict[str, Any] = self.definition.get("metrics", {}).get(metric, {})
        return float(override.get("smallest_effect", default))

    @property
    def settling_s(self) -> int | None:
        """The seconds for which a suspicion may be measured again; None if the suite sets no limit."""
        settle: dict[str, int] = self.definition.get("settle") or {}
        return settle.get("budget_s")


class SuiteEdit(models.Model):
    """A version of a suite that a person saved in the browser. The newest one of a name is in force, not the file.

    ``text``: null if the file is in force again. ``file_digest``: of the file at that time; empty if there was none.
    """

    name = models.CharField(max_length=100)
    number = models.PositiveIntegerField(help_text="counts the edits of the suite from 1")
    text = models.TextField(null=True)
    file_digest = models.CharField(max_length=80, default="", blank=True)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    created = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["name", "number"], name="an_edit_once_per_number")]

    def __str__(self) -> str:
        return f"{self.name}, edit {self.number}"


class Benchmark(models.Model):
    """One workload with one server configuration, identified by its name and the digest of its definition."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="benchmarks", db_index=False)
    name = models.CharField(max_length=LONGEST_NAME)
    digest = models.CharField(max_length=80)
    definition = models.JSONField()
    why = models.TextField(default="")
    rate_from = models.ForeignKey(
        "self",
        models.RESTRICT,
        null=True,
        related_name="+",
        help_text="the benchmark whose first throughput on a machine sets the rate of this one there",
    )

    ladder = models.CharField(max_length=100, default="", help_text="the ladder that it is a rung of")
    axis = models.CharField(max_length=20, default="", help_text="the setting that differs from rung to rung")
    rung = models.FloatField(null=True, help_text="its value of that setting")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "name", "digest"], name="a_benchmark_once_per_definition"),
            models.CheckConstraint(
                condition=Q(ladder="", axis="", rung=None) | (Q(rung__isnull=False) & ~Q(ladder="") & ~Q(axis="")),
                name="a_rung_has_a_ladder_an_axis_and_a_value",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class BenchmarkSet(models.Model):
    """The benchmarks that a run measures. Many runs share the row of equal sets."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="benchmark_sets", db_index=False)
    digest = models.CharField(max_length=80, help_text="over the names and digests of its benchmarks")
    benchmarks = models.ManyToManyField(Benchmark, through="SetMember", related_name="sets")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "digest"], name="a_benchmark_set_once_per_project"),
        ]

    def __str__(self) -> str:
        return ", ".join(self.names)

    @property
    def names(self) -> list[str]:
        return list(self.benchmarks.order_by("pk").values_list("name", flat=True))


class SetMember(models.Model):
    """A benchmark in a set."""

    benchmark_set = models.ForeignKey(BenchmarkSet, models.CASCADE, related_name="members", db_index=False)
    benchmark = models.ForeignKey(Benchmark, models.RESTRICT, related_name="+")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["benchmark_set", "benchmark"], name="a_benchmark_once_in_a_set"),
        ]


class OutsideMetric(models.Model):
    """A metric of a project's results from outside; ``key`` encodes its unit and direction.

    ``first_key``: the key before it was renamed. Digests of results contain it, so results sent again are recognised
    whatever name the metric has now.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="outside_metrics", db_index=False)
    name = models.CharField(max_length=60)
    key = models.CharField(max_length=LONGEST_KEY)
    first_key = models.CharField(max_length=LONGEST_KEY, null=True, help_text="null: it was never renamed")
    smallest_effect = models.FloatField(null=True, help_text="as a ratio; null: that of all metrics from outside")
    created = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "name"], name="an_outside_metric_once_per_project"),
            models.CheckConstraint(
                condition=Q(smallest_effect=None) | Q(smallest_effect__gt=0, smallest_effect__lt=1),
                name="a_smallest_effect_is_a_ratio",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def metric(self) -> Metric:
        return METRICS[self.key]
