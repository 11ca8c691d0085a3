"""Hunks on trial: which hunks of a named commit changed its instructions."""

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from speedtrack.benchmarks.models import BenchmarkSet, Suite
from speedtrack.projects.models import Commit, Project
from speedtrack.runs.models import ENDED, Machine, Run


class HunkTrialQuerySet(models.QuerySet["HunkTrial"]):
    def under_way(self) -> "HunkTrialQuerySet":
        return self.filter(ended_at=None)

    def ripe(self) -> "HunkTrialQuerySet":
        """Trials whose next step is due: none of their runs is unfinished, or will be queued again by itself."""
        awaited = ~Q(run__status__in=ENDED) | Q(run__retry_at__isnull=False)
        steps = HunkStep.objects.filter(awaited, trial=OuterRef("pk"), run__isnull=False)
        return self.under_way().filter(~Exists(steps))


class HunkTrial(models.Model):
    """A search for the fewest hunks of ``commit`` that explain its change of instructions against ``before``.

    ``pieces``: what the commit's change consists of, without the text, by path and line; null until it was split.
    ``texts``: by the index of a named piece, how it reads.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="hunk_trials", db_index=False)
    before = models.ForeignKey(Commit, models.PROTECT, related_name="+", db_index=False)
    commit = models.ForeignKey(Commit, models.PROTECT, related_name="+")
    machine = models.ForeignKey(Machine, models.PROTECT, related_name="+", db_index=False)
    suite = models.ForeignKey(Suite, models.PROTECT, related_name="+", db_index=False)
    benchmark_set = models.ForeignKey(BenchmarkSet, models.PROTECT, related_name="+", db_index=False)
    pieces = models.JSONField(null=True)
    texts = models.JSONField(default=dict)
    created = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    note = models.TextField(default="", help_text="why nothing can be counted")

    objects: ClassVar = HunkTrialQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["before", "commit", "machine"], name="hunks_are_tried_once_per_machine"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["project", "-id"], name="hunk_trials_of_project"),
            models.Index(fields=["id"], name="hunk_trials_under_way", condition=Q(ended_at=None)),
        ]

    def __str__(self) -> str:
        return f"hunks of {self.commit.short} of {self.project}"


class HunkStep(models.Model):
    """Some pieces that are taken back, and what that showed.

    ``commit``: the commit without them; null if git could not take them back. ``growths``: instructions per request
    that the pieces add, by benchmark; null until its run was read. A benchmark that was not counted is missing.
    """

    trial = models.ForeignKey(HunkTrial, models.CASCADE, related_name="steps", db_index=False)
    pieces = ArrayField(models.IntegerField(), help_text="their indexes, ascending")
    commit = models.ForeignKey(Commit, models.PROTECT, null=True, related_name="+")
    run = models.ForeignKey(Run, models.SET_NULL, null=True, related_name="+")
    growths = models.JSONField(null=True)
    refusal = models.TextField(default="", help_text="why it was not counted")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["trial", "commit"], name="a_commit_without_hunks_once_per_trial"),
        ]

    def __str__(self) -> str:
        return f"{self.trial}: without {len(self.pieces)}"
