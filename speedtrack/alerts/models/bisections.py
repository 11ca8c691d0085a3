"""Bisections that people ask for."""

from typing import ClassVar

from django.contrib.auth.models import User
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Exists, F, OuterRef, Q
from django.db.models.functions import Coalesce, Now

from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.benchmarks.models import Benchmark, BenchmarkSet, Suite
from speedtrack.ground.postgres.wakeups import Wakes
from speedtrack.projects.models import Commit, Project
from speedtrack.runs.models import Machine, Run


class BisectionQuerySet(models.QuerySet["Bisection"]):
    def measuring(self) -> "BisectionQuerySet":
        return self.filter(ended_at=None)

    def ripe(self) -> "BisectionQuerySet":
        """Bisections whose next step is due: a run has ended since the last step, or none is unfinished."""
        runs = Run.objects.filter(bisections=OuterRef("pk"))
        news = Exists(runs.filter(ended_at__gt=Coalesce(OuterRef("stepped_at"), OuterRef("created"))))
        return self.measuring().filter(news | ~Exists(runs.unfinished()))


class Bisection(models.Model):
    """A search, by pairs, for the commit between two others at which each of some benchmarks changed.

    ``path``: the ids of the commits after ``before`` up to ``commit``, oldest first, as the branch was when it began.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="bisections")
    machine = models.ForeignKey(Machine, models.PROTECT, related_name="+")
    suite = models.ForeignKey(Suite, models.PROTECT, related_name="+")
    benchmark_set = models.ForeignKey(BenchmarkSet, models.PROTECT, related_name="+")
    metric_name = models.CharField(max_length=100)
    before = models.ForeignKey(Commit, models.PROTECT, related_name="+")
    commit = models.ForeignKey(Commit, models.PROTECT, related_name="+")
    path = ArrayField(models.IntegerField())
    runs = models.ManyToManyField(Run, related_name="bisections")
    asked_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    created = models.DateTimeField(db_default=Now())
    stepped_at = models.DateTimeField(null=True, help_text="when its runs were last looked at")
    ended_at = models.DateTimeField(null=True)
    note = models.TextField(default="", help_text="why it ended, if not because all is known")

    objects: ClassVar = BisectionQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["before", "commit", "machine", "benchmark_set", "metric_name"],
                condition=Q(ended_at=None),
                name="one_bisection_at_a_time_of_two_commits",
            ),
            models.CheckConstraint(condition=~Q(before=F("commit")), name="a_bisection_has_two_commits"),
            Wakes(name="a_new_bisection_wakes", after="INSERT"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["project", "-id"], name="bisections_of_project"),
            models.Index(fields=["id"], name="bisections_measuring", condition=Q(ended_at=None)),
        ]

    def __str__(self) -> str:
        return f"bisection {self.pk} of {self.project}: {self.before.short} to {self.commit.short}"

    @property
    def metric(self) -> Metric:
        return METRICS[self.metric_name]


class BisectionAnswer(models.Model):
    """What all pairs of the older end and a commit have shown so far about a benchmark.

    ``ratio``: commit / older end.
    """

    class Answer(models.TextChoices):
        DIFFERENT = "different"  #: of the newer end: the benchmark changed
        SAME = "same"  #: of the newer end: it did not
        OLD = "old"  #: it runs on the level of the older end
        NEW = "new"  #: it runs on the level of the newer end
        UNKNOWN = "unknown"  #: the pairs do not decide yet
        UNDECIDED = "undecided"  #: they do not decide, and no more are measured
        FAILED = "failed"  #: it could not be built or measured

    bisection = models.ForeignKey(Bisection, models.CASCADE, related_name="answers", db_index=False)
    benchmark = models.ForeignKey(Benchmark, models.CASCADE, related_name="+")
    commit = models.ForeignKey(Commit, models.PROTECT, related_name="+")
    answer = models.CharField(max_length=9, choices=Answer)
    ratio = models.FloatField(null=True)
    low = models.FloatField(null=True)
    high = models.FloatField(null=True)
    pairs = models.IntegerField(default=0)
    why = models.TextField(default="", help_text="why it could not be built or measured")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["bisection", "benchmark", "commit"], name="a_bisection_answers_once_per_benchmark_and_commit"
            ),
        ]
