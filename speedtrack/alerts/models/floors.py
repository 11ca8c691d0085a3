"""Noise floors: what pairs of identical builds show about a machine."""

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now

from speedtrack.runs.models import Run, Series


class NoiseFloor(models.Model):
    """The noise of one series on its machine, measured by pairs of identical builds. The newest row of a series counts.

    ``deviation``: the standard deviation of a pair's log ratio. ``ratio``: head / base, 1 but for random error.
    ``smallest``: the relative change that ten pairs show; for counts, the largest difference of two processes
    (stats/noise/floor.py). Null: too few clean pairs.
    """

    series = models.ForeignKey(Series, models.CASCADE, related_name="floors")
    run = models.ForeignKey(Run, models.CASCADE, related_name="floors")
    pairs = models.IntegerField()
    deviation = models.FloatField(null=True)
    ratio = models.FloatField(null=True)
    low = models.FloatField(null=True, help_text="lower end of the ratio's 95% interval")
    high = models.FloatField(null=True)
    smallest = models.FloatField(null=True)
    created = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["run", "series"], name="a_noise_floor_once_per_run_and_series"),
        ]
