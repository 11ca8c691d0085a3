"""What each measured commit did against the one before it."""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from speedtrack.ground.postgres.reals import RealField
from speedtrack.projects.models import Commit


class ComparisonBatch(models.Model):
    """A commit in series that were compared at once, each against the last clean commit before it that it measured.

    The columns have an element for each of the ``series``, since a row for each would be as large as its measurement.
    ``distances``: how many commits back the other one is. Positions count along first parents from the root, so this is
    the same on every branch. ``old``: the value of the other one, in the metric's unit; ``ratios``: new / old with
    their 95% intervals; ``answers``: the initials of those of ComparisonAnswer. If several batches of a commit have a
    series, the newest counts.
    """

    commit = models.ForeignKey(Commit, models.CASCADE, related_name="comparisons")
    series = ArrayField(models.IntegerField())
    distances = ArrayField(models.SmallIntegerField())
    old = ArrayField(models.FloatField())
    ratios = ArrayField(RealField())
    lows = ArrayField(RealField())
    highs = ArrayField(RealField())
    answers = models.TextField()

    class Meta:
        verbose_name_plural = "comparison batches"
