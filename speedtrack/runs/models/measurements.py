"""The results of attempts: builds, trials, profiles, and the measurements of each series."""

from collections.abc import Iterator
from typing import Any, ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import ExpressionWrapper, Q
from django.db.models.functions import Now

from speedtrack.benchmarks.metrics import LONGEST_KEY
from speedtrack.benchmarks.models import Benchmark
from speedtrack.ground.postgres.wakeups import Wakes
from speedtrack.ground.postgres.words import WordsField
from speedtrack.projects.models import Commit, Project
from speedtrack.runs.models.machines import Environment, Machine
from speedtrack.runs.models.runs import Attempt, Side


class Build(models.Model):
    """A commit built by one attempt: artifacts by digest, or why it failed. ``phase`` finds its part of the log."""

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="builds", db_index=False)
    commit = models.ForeignKey(Commit, models.CASCADE, related_name="builds")
    side = models.CharField(max_length=4, choices=Side, default=Side.HEAD)
    recipe_digest = models.CharField(max_length=80)
    succeeded = models.BooleanField()
    cached = models.BooleanField(help_text="the artifacts of an earlier build of this commit were used")
    seconds = models.FloatField()
    artifacts = models.JSONField(help_text="name -> digest and bytes")
    ccache = models.JSONField(null=True, help_text="hits and misses of the compiler cache; null without one")
    error = models.TextField(default="")
    created = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["attempt", "side"], name="a_build_once_per_attempt_and_side"),
        ]

    @property
    def phase(self) -> str:
        return f"build {self.commit.sha}"


class SeriesQuerySet(models.QuerySet["Series"]):
    def undetected(self) -> "SeriesQuerySet":
        """Series with new measurements; after a failure, only once the pause is over."""
        return self.filter(Q(retry_at=None) | Q(retry_at__lte=Now()), undetected_since__isnull=False)


class Series(models.Model):
    """One line on a chart. It is independent of branches: a branch is a path through the commits of a series.

    ``error``, ``failures`` and ``retry_at``: why the last search for changes failed, the number of failures in a row,
    and when it is tried again.
    """

    id = models.AutoField(primary_key=True)  # of 4 bytes, as each measurement has it several times
    project = models.ForeignKey(Project, models.CASCADE, related_name="series", db_index=False)
    benchmark = models.ForeignKey(Benchmark, models.CASCADE, related_name="series")
    metric = models.CharField(max_length=LONGEST_KEY)
    machine = models.ForeignKey(Machine, models.PROTECT, related_name="series")
    environment = models.ForeignKey(Environment, models.PROTECT, related_name="series")
    # When the oldest measurement that detection has not seen was accepted; cleared by compare-and-swap.
    undetected_since = models.DateTimeField(null=True)
    error = models.TextField(default="")
    failures = models.IntegerField(default=0)
    retry_at = models.DateTimeField(null=True)

    objects: ClassVar = SeriesQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "series"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["project", "benchmark", "metric", "machine", "environment"], name="a_series_once"
            ),
            Wakes(
                name="new_measurements_wake",
                after="UPDATE OF undetected_since",
                rows="NEW.undetected_since IS NOT NULL",
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["undetected_since"], name="series_undetected", condition=Q(undetected_since__isnull=False)
            ),
        ]


class Measurement(models.Model):
    """A run's samples of one series for one commit, with their summary. A new run adds rows and overwrites none.

    ``accepted`` follows the attempt: measurements of a lost attempt stay here, and charts and detection ignore them.
    The same holds for canary runs, whose measurements describe the machine, not the commit.
    """

    # The columns of 8 bytes first, and the foreign keys, which migrations put last, also by size: nothing is padded.
    value = models.FloatField(help_text="median of the samples, in the metric's unit")
    low = models.FloatField(help_text="lower end of the median's 95% interval")
    high = models.FloatField()
    n = models.SmallIntegerField()
    accepted = models.BooleanField(default=False)
    paired = models.BooleanField(help_text="from a paired run: evidence of a change, not a point of the line")
    side = models.CharField(max_length=4, choices=Side, default=Side.HEAD)
    flags = WordsField(default=list, help_text="why the value is not to be trusted")
    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="measurements", db_index=False)
    commit = models.ForeignKey(Commit, models.CASCADE, related_name="measurements")
    series = models.ForeignKey(Series, models.CASCADE, related_name="measurements")

    class Meta:
        constraints: ClassVar = [
            # Whether it is the base, not the name of the side: that takes 8 bytes more of each measurement.
            models.UniqueConstraint(
                "attempt",
                "series",
                ExpressionWrapper(Q(side=Side.BASE), models.BooleanField()),
                name="a_measurement_once_per_attempt",
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["series", "commit"],
                name="points_of_a_series",
                condition=Q(accepted=True, paired=False),
                include=["value", "low", "high", "n", "flags", "attempt"],
            ),
        ]


class ReferenceRate(models.Model):
    """The throughput of a benchmark when it was first measured on a machine, in requests/s.

    Rates of open-loop benchmarks are shares of it, so they do not depend on the commit under test.
    """

    machine = models.ForeignKey(Machine, models.CASCADE, related_name="+", db_index=False)
    benchmark = models.ForeignKey(Benchmark, models.CASCADE, related_name="reference_rates")
    rps = models.FloatField()
    measurement = models.ForeignKey(Measurement, models.RESTRICT, related_name="+", help_text="where it comes from")
    created = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["machine", "benchmark"], name="a_reference_rate_once"),
            models.CheckConstraint(condition=Q(rps__gt=0), name="a_reference_rate_is_above_zero"),
        ]


class Result(models.Model):
    """What an attempt sent about one benchmark on one side: why its trials ended, and the trials' documents."""

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="results", db_index=False)
    benchmark = models.ForeignKey(Benchmark, models.CASCADE, related_name="+")
    side = models.CharField(max_length=4, choices=Side, default=Side.HEAD)
    stopping = models.JSONField(null=True, help_text="why its trials ended: docs/result-format.md")
    repeatable = models.BooleanField(help_text="its first trial has the recipe with which it is repeated by hand")
    documents = models.BinaryField(null=True, help_text="of its trials (packing.py); null once they are deleted")
    layouts = models.SmallIntegerField(db_default=0, help_text="how many random layouts its trials measured")
    no_layouts = models.TextField(db_default="", help_text="why its suite's layouts were not measured, if so")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["attempt", "benchmark", "side"], name="a_result_once_per_attempt"),
        ]

    def unpacked(self, **options: Any) -> Iterator[dict[str, Any]]:
        """What each trial reported about itself, with its number as ``trial``. Keys with empty values are absent.

        ``pairing``: its block, slot and slices, if both servers ran at the same time. ``layout``: the seed of the order
        of its program's functions. ``quiet``: readings of the quiet
        gate. ``server``: its resource usage, and the growth of its counters. ``reproduce``: how to repeat the trial by
        hand. ``driver``: the driver's whole document. ``options``: those of packing.unpack.
        """
        from speedtrack.runs import packing  # it loads numpy, which a process that waits for work does not need

        return iter(()) if self.documents is None else packing.unpack(bytes(self.documents), **options)


class Trial(models.Model):
    """One fresh server process, measured once within a run. Its document is in the result."""

    pk = models.CompositePrimaryKey("result_id", "number")
    result = models.ForeignKey(Result, models.CASCADE, related_name="trials", db_index=False)
    number = models.SmallIntegerField()
    order = models.IntegerField(help_text="place in the attempt; trials are interleaved in seeded random order")
    started_at = models.DateTimeField()
    seconds = models.FloatField()
    flags = ArrayField(models.CharField(max_length=40), default=list)


class Samples(models.Model):
    """The raw values of a measurement, in a row of their own so that they can be deleted while the summary stays.

    They are stored in the transaction that stores their trials, whose constraint refuses a second one.
    """

    measurement = models.OneToOneField(Measurement, models.CASCADE, primary_key=True, related_name="samples")
    values = ArrayField(
        models.FloatField(null=True), help_text="by the number of the trial; null where a trial gave none"
    )
    flagged = ArrayField(
        models.SmallIntegerField(), null=True, help_text="numbers of the trials with a flag that voids this metric"
    )

    @property
    def by_trial(self) -> dict[int, float]:
        """By trial number: the value."""
        return {trial: value for trial, value in enumerate(self.values) if value is not None}

    @property
    def clean_by_trial(self) -> dict[int, float]:
        """By trial number: the value, without trials whose flags void this metric."""
        void = set(self.flagged or ())
        return {trial: value for trial, value in self.by_trial.items() if trial not in void}


class Profile(models.Model):
    """What one side's server does under a benchmark, by stack; or the reason why the machine cannot tell."""

    class Kind(models.TextChoices):
        SAMPLES = "samples"  #: where the time goes, sampled by perf
        INSTRUCTIONS = "instructions"  #: what is executed, counted by callgrind

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="profiles", db_index=False)
    benchmark = models.ForeignKey(Benchmark, models.CASCADE, related_name="+")
    side = models.CharField(max_length=4, choices=Side)
    kind = models.CharField(max_length=12, choices=Kind)
    event = models.CharField(max_length=40)
    frequency_hz = models.IntegerField()
    samples = models.IntegerField(help_text="of counted instructions: those of 100 requests")
    folded = models.BinaryField(help_text="folded stacks, one per line, compressed by zlib")
    cpu_ns_per_request = models.FloatField(null=True, help_text="of the server, while it was sampled")
    unavailable = models.TextField(default="", help_text="empty, or cause and remedy")
    created = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["attempt", "benchmark", "side", "kind"], name="a_profile_once_per_attempt"),
        ]
