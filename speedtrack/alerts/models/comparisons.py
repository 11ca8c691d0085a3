"""What each measured commit did against the one before it."""

from typing import ClassVar

from django.db import models

from speedtrack.projects.models import Commit
from speedtrack.runs.models import Series


class CommitComparison(models.Model):
    """A commit against the last clean one before it that the series measured, ``distance`` commits back.

    Positions count along first parents from the root, so this is the same on every branch. ``old``: the value of that
    commit, in the metric's unit; ``ratio`` is new / old with its 95% interval.
    """

    class Answer(models.TextChoices):
        DIFFERENT = "different"  #: significant, and large enough to matter
        SAME = "same"  #: the whole interval is too small to matter
        UNKNOWN = "unknown"  #: neither, or too few samples are kept

    pk = models.CompositePrimaryKey("commit_id", "series_id")
    commit = models.ForeignKey(Commit, models.CASCADE, related_name="comparisons", db_index=False)
    series = models.ForeignKey(Series, models.CASCADE, related_name="comparisons")
    distance = models.SmallIntegerField()
    old = models.FloatField()
    ratio = models.FloatField()
    low = models.FloatField()
    high = models.FloatField()
    answer = models.CharField(max_length=9, choices=Answer)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=models.Q(distance__gt=0), name="a_comparison_is_with_an_earlier_commit"),
        ]
