"""Changes found in the history, and what pairs of commits showed about them."""

from datetime import timedelta
from typing import ClassVar

from django.db import models
from django.db.models import Exists, F, OuterRef, Q, Subquery, Sum
from django.db.models.functions import Now

from speedtrack.alerts.headlines import Rank, rank_of
from speedtrack.alerts.models.alerts import Alert
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import METRICS, Direction, Metric
from speedtrack.projects.models import Branch, Commit, Position
from speedtrack.runs.models import Machine, Reason, Run, Series
from speedtrack.runs.models import Status as RunStatus

LATELY = timedelta(days=30)  # for so long further pairs are measured for what the first ones left open
#: A change point whose metric is the better, the higher it is.
HIGHER_IS_BETTER = Q(
    series__metric__in=[name for name, metric in METRICS.items() if metric.better == Direction.HIGHER]
) | Q(series__metric__endswith=f"--{Direction.HIGHER}")


class ChangePointQuerySet(models.QuerySet["ChangePoint"]):
    def gains(self) -> "ChangePointQuerySet":
        """Those that are no slowdowns."""
        return self.filter(Q(HIGHER_IS_BETTER, ratio__gt=1) | Q(~HIGHER_IS_BETTER, ratio__lte=1))

    def decidable(self) -> "ChangePointQuerySet":
        """Change points of machines outside quarantine, and of series that are not paused after a failure."""
        rested = Q(series__retry_at=None) | Q(series__retry_at__lte=Now())
        return self.filter(rested, series__machine__quarantined_at=None)

    def settling(self) -> "ChangePointQuerySet":
        """Change points that are being measured again."""
        return self.decidable().filter(status=ChangePoint.Status.SETTLING)

    def waiting(self) -> "ChangePointQuerySet":
        """Suspicions with a commit inside their range that still waits to be measured on that machine."""
        positions = Position.objects.filter(branch=OuterRef("branch"))
        between = (
            Run.objects.own()
            .unfinished()
            .filter(
                machine=OuterRef("series__machine"),
                commit__positions__branch=OuterRef("branch"),
                commit__positions__number__gt=OuterRef("first"),
                commit__positions__number__lt=OuterRef("last"),
            )
        )
        return (
            self.filter(status=ChangePoint.Status.SUSPECTED, kind=ChangePoint.Kind.STEP)
            .annotate(
                first=Subquery(positions.filter(commit=OuterRef("before")).values("number")),
                last=Subquery(positions.filter(commit=OuterRef("commit")).values("number")),
            )
            .filter(Exists(between))
        )

    def ripe(self) -> "ChangePointQuerySet":
        """Suspicions that can be settled now.

        Those that take over the result of another suspicion are left out.
        """
        there = Verdict.objects.filter(change_point=OuterRef("pk"), answer=Verdict.Answer.DIFFERENT)
        unanswered = ChangePoint.objects.filter(~Exists(there), status__in=ChangePoint.OPEN)
        return (
            self.decidable()
            .filter(status=ChangePoint.Status.SUSPECTED)
            .exclude(returns_from__status__in=ChangePoint.OPEN)
            .exclude(Exists(unanswered.filter(pk=OuterRef("spoken_for_by"))))
            .exclude(pk__in=ChangePoint.objects.waiting().values("pk"))
        )

    def open_to_further(self, machine: Machine, usual: int, most: int) -> "ChangePointQuerySet":
        """Suspicions of the last weeks on this machine that had ``usual`` to ``most`` pairs and are still undecided."""
        spent = Sum("runs__trials", filter=Q(runs__reason=Reason.CONFIRM, runs__status=RunStatus.SUCCEEDED))
        unknown = Verdict.objects.filter(change_point=OuterRef("pk"), answer=Verdict.Answer.UNKNOWN)
        return (
            self.decidable()
            .filter(Exists(unknown), status=ChangePoint.Status.UNSETTLED, series__machine=machine)
            .filter(settled_at__gt=Now() - LATELY)
            .annotate(spent=spent)
            .filter(spent__gte=usual, spent__lt=most)
        )

    def overlapping(self, change_point: "ChangePoint") -> "ChangePointQuerySet":
        """Change points whose range shares a commit with this one's, on a branch that has all four ends."""
        return self.exclude(pk=change_point.pk).filter(shares_commit(change_point))

    def alike(self, change_point: "ChangePoint") -> "ChangePointQuerySet":
        """Change points of the same benchmark, metric and machine whose range shares a commit with this one's."""
        series = change_point.series
        identity = {"benchmark": series.benchmark_id, "metric": series.metric, "machine": series.machine_id}
        alike = {f"series__{name}": value for name, value in identity.items()}
        return self.filter(shares_commit(change_point), **alike)


def shares_commit(change_point: "ChangePoint") -> Q:
    """The condition that a row's range (``before``, ``commit``] shares a commit with the change point's range.

    Ranges are compared on the branches that contain both ends of both.
    """
    shared = Position.objects.filter(branch=OuterRef("branch"))
    begin = shared.filter(commit=change_point.before_id).values("number")
    end = shared.filter(commit=change_point.commit_id).values("number")
    first = shared.filter(commit=OuterRef(OuterRef("before"))).values("number")
    last = shared.filter(commit=OuterRef(OuterRef("commit"))).values("number")
    branches = Position.objects.filter(commit=change_point.commit_id).annotate(
        begin=Subquery(begin), end=Subquery(end), first=Subquery(first), last=Subquery(last)
    )
    return Q(Exists(branches.filter(begin__lt=F("last"), first__lt=F("end"))))


class ChangePoint(models.Model):
    """A fact from the statistics: a series moved within a range of commits, (``before``, ``commit``].

    The range is that of the suspicion (two neighbouring points of the line), then the bracket around it that is
    measured again, then what narrowing leaves of it. ``branch`` is the branch on which it was found.
    """

    class Status(models.TextChoices):
        SUSPECTED = "suspected"  #: seen in the history; may be recomputed until it is measured again
        SETTLING = "settling"  #: both sides are being measured again, or the range is being narrowed
        CONFIRMED = "confirmed"  #: measuring again showed it; final
        REFUTED = "refuted"  #: measuring again did not show it; kept as noise
        UNSETTLED = "unsettled"  #: measuring again did not decide, or was not possible; ``note`` says why
        HISTORY = "history"  #: the history shows it, and it cannot be measured again
        MACHINE = "machine"  #: the machine changed, not the code: many of its series moved; ``note`` gives the evidence

    class Kind(models.TextChoices):
        STEP = "step"  #: the level moved at one place
        DRIFT = "drift"  #: the level moved little by little since ``before``, without a single step

    OPEN = (Status.SUSPECTED, Status.SETTLING)

    series = models.ForeignKey(Series, models.CASCADE, related_name="change_points")
    branch = models.ForeignKey(Branch, models.CASCADE, related_name="change_points")
    before = models.ForeignKey(Commit, models.PROTECT, related_name="+")
    commit = models.ForeignKey(Commit, models.PROTECT, related_name="change_points")
    kind = models.CharField(max_length=20, choices=Kind, default=Kind.STEP)
    reference = models.CharField(max_length=100, default="", help_text="of a drift: what ``before`` is, in words")
    status = models.CharField(max_length=20, choices=Status, default=Status.SUSPECTED)
    ratio = models.FloatField(help_text="new level / old level: by the history, then by pairs")
    low = models.FloatField(help_text="lower end of the ratio's 95% interval")
    high = models.FloatField()
    from_zero = models.FloatField(null=True, help_text="the new level, where the old one is 0 and has no ratio")
    score = models.FloatField(help_text="the shift in the history / the threshold that it had to exceed")
    note = models.TextField(default="")
    past = models.BooleanField(default=False, help_text="suspected in old history: alerts/lines/past.py")
    created = models.DateTimeField(db_default=Now())
    settled_at = models.DateTimeField(null=True)
    runs = models.ManyToManyField(Run, related_name="change_points", help_text="the paired runs that settle it")
    alert = models.ForeignKey(Alert, models.SET_NULL, null=True, related_name="change_points")
    returns_from = models.ForeignKey(
        "self", models.CASCADE, null=True, related_name="returns", help_text="the change that this one undoes"
    )
    spoken_for_by = models.ForeignKey(
        "self",
        models.SET_NULL,
        null=True,
        related_name="speaks_for",
        help_text="the clearest of many simultaneous changes, which is measured first",
    )

    objects: ClassVar = ChangePointQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["series", "kind", "before", "commit"],
                condition=Q(status="suspected"),
                name="one_suspicion_per_series_and_range",
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["status"], name="change_points_unsettled", condition=Q(status__in=["suspected", "settling"])
            ),
        ]

    @property
    def metric(self) -> Metric:
        return METRICS[self.series.metric]

    @property
    def is_slowdown(self) -> bool:
        """Return whether the metric got worse."""
        return self.metric.is_worse(self.ratio)

    @property
    def change_in_words(self) -> str:
        return numbers.change_from(self.metric, self.ratio, self.from_zero)

    @property
    def interval_in_words(self) -> str:
        return numbers.interval_from(self.ratio, self.low, self.high, self.from_zero)

    @property
    def benchmark_name(self) -> str:
        return self.series.benchmark.name

    @property
    def alert_state(self) -> str:
        """The state of its alert; empty without one."""
        return self.alert.status if self.alert else ""

    @property
    def rank(self) -> Rank:
        """Sort key of the changes of an alert."""
        return rank_of(self)


class BestLevel(models.Model):
    """The best level that a series ever had on a branch, in the metric's unit: a reference for drift."""

    series = models.ForeignKey(Series, models.CASCADE, related_name="+")
    branch = models.ForeignKey(Branch, models.CASCADE, related_name="+")
    commit = models.ForeignKey(Commit, models.CASCADE, related_name="+")
    level = models.FloatField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["series", "branch"], name="one_best_level_per_series_and_branch"),
        ]


class Verdict(models.Model):
    """What all pairs of two commits have shown so far about a change point: one step on the way to its commit."""

    class Answer(models.TextChoices):
        DIFFERENT = "different"  #: the change is there
        SAME = "same"  #: it is not
        OLD = "old"  #: the commit runs on the level before the change
        NEW = "new"  #: the commit runs on the level after it
        UNKNOWN = "unknown"  #: the pairs do not decide

    change_point = models.ForeignKey(ChangePoint, models.CASCADE, related_name="verdicts")
    base = models.ForeignKey(Commit, models.PROTECT, related_name="+")
    commit = models.ForeignKey(Commit, models.PROTECT, related_name="+")
    answer = models.CharField(max_length=20, choices=Answer)
    ratio = models.FloatField(help_text="commit / base")
    low = models.FloatField(help_text="lower end of the ratio's 95% interval")
    high = models.FloatField()
    p = models.FloatField(null=True, help_text="of the null hypothesis; null where pairs placed a commit on a side")
    pairs = models.IntegerField()
    created = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["change_point", "base", "commit", "pairs"], name="a_verdict_once_per_number_of_pairs"
            ),
        ]
