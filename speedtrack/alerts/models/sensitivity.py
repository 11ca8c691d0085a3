"""How small a change each series shows."""

from typing import Any

from django.db import models

from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.runs.models import Series

TOO_NOISY = 0.05  # a smallest change above this, and above TIMES the metric's smallest effect, is of no use
TIMES = 5
SAME = 1.01  # a smallest change up to this multiple of the smallest effect is limited by it


class SeriesSensitivity(models.Model):
    """The noise of a series and the smallest changes that it shows, by its line and by A/A runs.

    All as of the newest of its ``points``, at ``position`` of the project's default branch. ``between``, ``within`` and
    ``modes`` are those of stats/noise/noise.py. ``visible``: the smallest lasting change that the line shows, within
    ``visible_within`` points; ``paired``: the smallest one that ten pairs confirm. Null: not known.
    """

    series = models.OneToOneField(Series, models.CASCADE, primary_key=True, related_name="sensitivity")
    position = models.IntegerField()
    points = models.IntegerField()
    between = models.FloatField(null=True)
    within = models.FloatField(null=True)
    modes = models.FloatField(null=True)
    visible = models.FloatField(null=True)
    visible_within = models.IntegerField(null=True)
    paired = models.FloatField(null=True)
    aa_runs = models.IntegerField(help_text="A/A runs with an answer")
    aa_different = models.IntegerField(help_text="those that found the same program different at 95%")
    smallest_effect = models.FloatField()
    causes: Any = models.JSONField(default=list, help_text="of too much noise: pairs of a likely reason and a remedy")

    @property
    def metric(self) -> Metric:
        return METRICS[self.series.metric]

    @property
    def smallest(self) -> float | None:
        """The smallest change that is both suspected by the line and confirmed by ten pairs."""
        return max((value for value in (self.visible, self.paired) if value is not None), default=None)

    @property
    def reason(self) -> str:
        """What the smallest change is limited by, in words; empty if that is not known."""
        if self.smallest is None:
            return ""
        if self.paired is not None and self.paired == self.smallest:
            return "ten pairs confirm no smaller one"
        if self.smallest <= SAME * self.smallest_effect:
            return "smaller ones do not count here"
        if self.between is None or self.within is None:
            return ""
        by_runs = f"its runs differ by {self.between:.2%}", f"the error of a run is {self.within:.2%}"
        return by_runs[self.between < self.within]

    @property
    def limit(self) -> float:
        """A smallest change above this is of no use."""
        return max(TOO_NOISY, TIMES * self.smallest_effect)

    @property
    def too_noisy(self) -> bool:
        return self.smallest is not None and self.smallest > self.limit
