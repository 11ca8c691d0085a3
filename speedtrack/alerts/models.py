"""What was found in the history, and the work it makes for people."""

from datetime import timedelta
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Count, Exists, F, OuterRef, Q, Subquery
from django.db.models.functions import Now
from django.utils.functional import cached_property

from speedtrack.benchmarks.metrics import METRICS, Direction, Metric
from speedtrack.projects.models import Branch, Commit, Position, Project
from speedtrack.runs.models import Machine, Reason, Run, Series
from speedtrack.runs.models import Status as RunStatus
from speedtrack.wakeups import Wakes

LATELY = timedelta(days=30)  # so long is what pairs have left open worth more of them


class AlertQuerySet(models.QuerySet["Alert"]):
    def standing(self) -> "AlertQuerySet":
        """Those that were not merged into another one."""
        return self.filter(merged_into=None)

    def open(self) -> "AlertQuerySet":
        """Those that nobody has settled."""
        return self.standing().filter(status__in=Alert.OPEN)

    def work(self) -> "AlertQuerySet":
        """Those that somebody has to look at: open ones of slowdowns."""
        return self.open().filter(improvement=False)


class Alert(models.Model):
    """Work for a person: the change points that one range of commits caused, on however many branches.

    The range is (``before``, ``commit``]: the last commit known to run on the old level, and the first known to run on
    the new one. Where commits lie between, any of those after ``before`` may be the cause. ``branch`` is the one on
    which it was found; the range is a path along it. ``placed`` by a person, it follows no measurement any more.

    ``improvement``: nothing of it got worse. ``muted``: it was raised silently, as all that got worse was muted.
    """

    class Status(models.TextChoices):
        SUSPECTED = "suspected"  #: not yet confirmed by measuring again: shown, never mailed
        CONFIRMED = "confirmed"  #: measured again, and true
        EXPECTED = "expected"  #: true, and meant
        INVALID = "invalid"  #: a person found it untrue
        FIXED = "fixed"  #: a later commit brought the speed back

    OPEN = (Status.SUSPECTED, Status.CONFIRMED)

    project = models.ForeignKey(Project, models.CASCADE, related_name="alerts")
    branch = models.ForeignKey(Branch, models.CASCADE, related_name="alerts")
    before = models.ForeignKey(Commit, models.PROTECT, related_name="+")
    commit = models.ForeignKey(Commit, models.PROTECT, related_name="alerts")
    status = models.CharField(max_length=20, choices=Status)
    assignee = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    created = models.DateTimeField(db_default=Now())
    improvement = models.BooleanField(default=False)
    muted = models.BooleanField(default=False)
    part = models.PositiveIntegerField(default=0, help_text="above 0: a person split it off another one of its range")
    placed = models.BooleanField(default=False, help_text="a person said which commit it was")
    reverted_by = models.ForeignKey(
        Commit, models.PROTECT, null=True, related_name="+", help_text="its message says that it reverts the cause"
    )
    fixed_by = models.ForeignKey(
        Commit, models.PROTECT, null=True, related_name="+", help_text="it brought the old level back"
    )
    merged_into = models.ForeignKey("self", models.CASCADE, null=True, related_name="merged")

    objects: ClassVar = AlertQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["project", "before", "commit", "part"],
                condition=Q(status__in=["suspected", "confirmed"], merged_into=None),
                name="one_open_alert_per_project_and_range",
            ),
            models.CheckConstraint(
                condition=Q(merged_into=None) | ~Q(merged_into=F("id")), name="no_alert_is_merged_into_itself"
            ),
            models.CheckConstraint(
                condition=Q(fixed_by=None) | Q(status="fixed"), name="only_a_fixed_alert_names_who_fixed_it"
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["project"],
                name="alerts_open",
                condition=Q(status__in=["suspected", "confirmed"], merged_into=None),
            ),
        ]

    def __str__(self) -> str:
        return f"alert {self.pk}: {self.commit.short} of {self.project}"

    def candidates(self) -> models.QuerySet[Commit]:
        """The commits that may be the cause, oldest first: one, where it is known. None once they left the branch."""
        places = Position.objects.filter(branch=self.branch_id)
        return Commit.objects.filter(
            positions__branch=self.branch_id,
            positions__number__gt=Subquery(places.filter(commit=self.before_id).values("number")),
            positions__number__lte=Subquery(places.filter(commit=self.commit_id).values("number")),
        ).order_by("positions__number")

    @cached_property
    def width(self) -> int:
        """How many commits may be the cause; 1 once they left the branch."""
        return self.candidates().count() or 1

    @cached_property
    def drift(self) -> str:
        """What the level drifted away from, little by little; empty where one commit is the cause."""
        found = self.change_points.filter(kind=ChangePoint.Kind.DRIFT).values_list("reference", flat=True)
        return found.first() or ""

    @property
    def cause(self) -> str:
        """In words, for the end of a sentence: no commit is named alone while another may be the cause."""
        if self.drift:
            return f"little by little since {self.drift}, {self.before.short}..{self.commit.short}"
        one = f"since {self.commit.short}"
        return one if self.width == 1 else f"by one of {self.width} commits up to {self.commit.short}"

    def branch_names(self) -> list[str]:
        """The tracked branches that have the newest commit of the range, the one on which it was found first."""
        names = Branch.objects.filter(positions__commit=self.commit_id, deleted_at=None).order_by("name")
        return list(dict.fromkeys([self.branch.name, *names.values_list("name", flat=True)]))

    def branches_fixed(self) -> tuple[list[str], list[str]]:
        """The branches with the newest commit of the range: those that have the fix too, and those that lack it."""
        names = Branch.objects.filter(positions__commit=self.commit_id, deleted_at=None).order_by("name")
        has_fix = Position.objects.filter(branch=OuterRef("pk"), commit=self.fixed_by_id)
        rows = names.annotate(has_fix=Exists(has_fix)).values_list("name", "has_fix")
        return [name for name, fixed in rows if fixed], [name for name, fixed in rows if not fixed]


class AlertEvent(models.Model):
    """What happened to an alert, and who did it; ``who`` is empty for what SpeedTrack did by itself.

    Who wants to hear of it is told once (speedtrack.notices): until then it is ``untold``. What is muted is told to
    nobody. ``past``: it tells of commits that were there before anybody could be told (alerts/past.py); it belongs into
    a digest. ``improvement``: nothing had got worse at that time.
    """

    class Kind(models.TextChoices):
        RAISED = "raised"  #: its change was confirmed; again where the first slowdown joins improvements or muted ones
        GREW = "grew"  #: another change of the same commits was confirmed
        NARROWED = "narrowed"  #: fewer commits may be the cause
        DECIDED = "decided"  #: a person gave it a status or an assignee
        NOTED = "noted"  #: a person left a note, or SpeedTrack saw what may matter to it
        MOVED = "moved"  #: a person said which commit it was
        SPLIT = "split"  #: some of its change points became an alert of their own, or it is that alert
        MERGED = "merged"  #: another alert was merged into it, or it into another one
        FIXED = "fixed"  #: a later commit brought the old level back
        REOPENED = "reopened"  #: a person opened it again

    alert = models.ForeignKey(Alert, models.CASCADE, related_name="events")
    kind = models.CharField(max_length=20, choices=Kind)
    untold = models.BooleanField(default=True)
    past = models.BooleanField(default=False)
    improvement = models.BooleanField(default=False)
    at = models.DateTimeField(db_default=Now())
    who = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    before = models.CharField(max_length=20, default="")
    after = models.CharField(max_length=20, default="")
    note = models.TextField(default="")

    class Meta:
        indexes: ClassVar = [models.Index(fields=["id"], name="alert_events_untold", condition=Q(untold=True))]
        constraints: ClassVar = [Wakes(name="an_event_of_an_alert_wakes", after="INSERT")]


class ChangePointQuerySet(models.QuerySet["ChangePoint"]):
    def decidable(self) -> "ChangePointQuerySet":
        """Those of trusted machines (in quarantine nothing is decided) and of series that did not just fail."""
        rested = Q(series__retry_at=None) | Q(series__retry_at__lte=Now())
        return self.filter(rested, series__machine__quarantined_at=None)

    def settling(self) -> "ChangePointQuerySet":
        """Those being measured again."""
        return self.decidable().filter(status=ChangePoint.Status.SETTLING)

    def waiting(self) -> "ChangePointQuerySet":
        """Suspicions between whose two commits one still waits for its own measurement on that machine."""
        places = Position.objects.filter(branch=OuterRef("branch"))
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
                first=Subquery(places.filter(commit=OuterRef("before")).values("number")),
                last=Subquery(places.filter(commit=OuterRef("commit")).values("number")),
            )
            .filter(Exists(between))
        )

    def ripe(self) -> "ChangePointQuerySet":
        """Suspicions that can be settled now; not those for which another one speaks that was not answered yet."""
        there = Verdict.objects.filter(change_point=OuterRef("pk"), answer=Verdict.Answer.DIFFERENT)
        unanswered = ChangePoint.objects.filter(~Exists(there), status__in=ChangePoint.OPEN)
        return (
            self.decidable()
            .filter(status=ChangePoint.Status.SUSPECTED)
            .exclude(returns_from__status__in=ChangePoint.OPEN)
            .exclude(Exists(unanswered.filter(pk=OuterRef("spoken_for_by"))))
            .exclude(pk__in=ChangePoint.objects.waiting().values("pk"))
        )

    def open_to_further(self, machine: Machine, looks: int) -> "ChangePointQuerySet":
        """Those that so many rounds of pairs on this machine have left open, lately."""
        rounds = Count("runs", filter=Q(runs__reason=Reason.CONFIRM, runs__status=RunStatus.SUCCEEDED))
        unknown = Verdict.objects.filter(change_point=OuterRef("pk"), answer=Verdict.Answer.UNKNOWN)
        return (
            self.decidable()
            .filter(Exists(unknown), status=ChangePoint.Status.UNSETTLED, series__machine=machine)
            .filter(settled_at__gt=Now() - LATELY)
            .annotate(rounds=rounds)
            .filter(rounds=looks)
        )

    def overlapping(self, change_point: "ChangePoint") -> "ChangePointQuerySet":
        """Those whose range shares a commit with that of this one, on a branch on which all four ends lie."""
        return self.exclude(pk=change_point.pk).filter(shares_commit(change_point))


def shares_commit(change_point: "ChangePoint") -> Q:
    """Of anything with a range (``before``, ``commit``]: does it share a commit with that of the change point?

    Ranges are compared on the branches that hold both ends of both.
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
    measured again, then what the narrowing leaves of it. ``branch`` is the one on which it was found.
    """

    class Status(models.TextChoices):
        SUSPECTED = "suspected"  #: seen in the history; may be recomputed until it is measured again
        SETTLING = "settling"  #: both sides are being measured again, or the range is being narrowed
        CONFIRMED = "confirmed"  #: measured again, and true; stays for good
        REFUTED = "refuted"  #: measured again, and not there; kept as noise
        UNSETTLED = "unsettled"  #: measured again in vain, or not measurable; ``note`` says why
        HISTORY = "history"  #: the history shows it; it was not measured again, as that is not possible
        MACHINE = "machine"  #: many series of the machine moved with it: the machine, not the commit; ``note`` says why

    class Kind(models.TextChoices):
        STEP = "step"  #: the level moved at one place
        DRIFT = "drift"  #: the level moved little by little since ``before``, without one step

    OPEN = (Status.SUSPECTED, Status.SETTLING)

    series = models.ForeignKey(Series, models.CASCADE, related_name="change_points")
    branch = models.ForeignKey(Branch, models.CASCADE, related_name="change_points")
    before = models.ForeignKey(Commit, models.PROTECT, related_name="+")
    commit = models.ForeignKey(Commit, models.PROTECT, related_name="change_points")
    kind = models.CharField(max_length=20, choices=Kind, default=Kind.STEP)
    reference = models.CharField(max_length=100, default="", help_text="of a drift: what ``before`` is, in words")
    status = models.CharField(max_length=20, choices=Status, default=Status.SUSPECTED)
    ratio = models.FloatField(help_text="new level / old level: of the history, then of the paired measurement")
    low = models.FloatField(help_text="lower end of the ratio's 95% interval")
    high = models.FloatField()
    score = models.FloatField(help_text="shift of the history over the yardstick that it had to exceed")
    note = models.TextField(default="")
    past = models.BooleanField(default=False, help_text="suspected in what was there before: alerts/past.py")
    created = models.DateTimeField(db_default=Now())
    settled_at = models.DateTimeField(null=True)
    runs = models.ManyToManyField(Run, related_name="change_points", help_text="the paired runs that settle it")
    alert = models.ForeignKey(Alert, models.SET_NULL, null=True, related_name="change_points")
    returns_from = models.ForeignKey(
        "self", models.CASCADE, null=True, related_name="returns", help_text="the change that this one takes back"
    )
    spoken_for_by = models.ForeignKey(
        "self",
        models.SET_NULL,
        null=True,
        related_name="speaks_for",
        help_text="the clearest change of many that moved at once: it is measured first",
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
        """Did the metric get worse?"""
        return (self.ratio > 1) == (self.metric.better == Direction.LOWER)


class BestLevel(models.Model):
    """The best level that a series ever had on a branch, in the metric's unit: a reference against drift."""

    series = models.ForeignKey(Series, models.CASCADE, related_name="+")
    branch = models.ForeignKey(Branch, models.CASCADE, related_name="+")
    commit = models.ForeignKey(Commit, models.CASCADE, related_name="+")
    level = models.FloatField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["series", "branch"], name="one_best_level_per_series_and_branch"),
        ]


class Verdict(models.Model):
    """What all pairs of two commits so far said about a change point: one step on the way to its commit."""

    class Answer(models.TextChoices):
        DIFFERENT = "different"  #: the change is there
        SAME = "same"  #: it is not
        OLD = "old"  #: the commit runs on the level before the change
        NEW = "new"  #: the commit runs on the level after it
        UNKNOWN = "unknown"  #: the pairs do not tell

    change_point = models.ForeignKey(ChangePoint, models.CASCADE, related_name="verdicts")
    base = models.ForeignKey(Commit, models.PROTECT, related_name="+")
    commit = models.ForeignKey(Commit, models.PROTECT, related_name="+")
    answer = models.CharField(max_length=20, choices=Answer)
    ratio = models.FloatField(help_text="commit / base")
    low = models.FloatField(help_text="lower end of the ratio's 95% interval")
    high = models.FloatField()
    p = models.FloatField(null=True, help_text="of no difference; null where a side was asked for")
    pairs = models.IntegerField()
    created = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["change_point", "base", "commit", "pairs"], name="a_verdict_once_per_number_of_pairs"
            ),
        ]


class MuteQuerySet(models.QuerySet["Mute"]):
    def in_force(self) -> "MuteQuerySet":
        return self.filter(ended_at=None, until__gt=Now())

    def of(self, series: Series) -> "MuteQuerySet":
        """Those that cover a series, the one that holds longest first."""
        return self.filter(
            Q(benchmark="") | Q(benchmark=series.benchmark.name),
            Q(metric="") | Q(metric=series.metric),
            Q(machine=None) | Q(machine=series.machine_id),
            project=series.project_id,
        ).order_by("-until", "-id")


class Mute(models.Model):
    """For a while nobody is told of changes of a benchmark, a machine, or one metric of a benchmark on a machine.

    What is muted is watched and settled as ever, and its alerts are raised silently: they are on the pages, so that
    nothing has to be made up for when the mute ends, and nobody is told of the past then. An empty ``benchmark`` or
    ``metric`` and no ``machine`` mean any.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="mutes")
    benchmark = models.CharField(max_length=100, default="", blank=True)
    metric = models.CharField(max_length=60, default="", blank=True)
    machine = models.ForeignKey(Machine, models.CASCADE, null=True, blank=True, related_name="mutes")
    reason = models.TextField()
    until = models.DateTimeField()
    created = models.DateTimeField(db_default=Now())
    who = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    ended_at = models.DateTimeField(null=True, help_text="when a person ended it before its time")
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
        what = [self.benchmark or "all benchmarks"]
        if self.metric:
            what.append(METRICS[self.metric].title if self.metric in METRICS else self.metric)
        return ", ".join(what) + (f" on {self.machine}" if self.machine else "")

    def covers(self, series: Series) -> bool:
        """As ``of`` says it of many."""
        mine = (self.benchmark or series.benchmark.name, self.metric or series.metric)
        machine = self.machine_id or series.machine_id
        return (*mine, machine, self.project_id) == (
            series.benchmark.name,
            series.metric,
            series.machine_id,
            series.project_id,
        )


class NoiseFloor(models.Model):
    """What pairs of identical builds showed of a series: the machine's own noise. The newest of a series holds.

    ``deviation`` is the standard deviation of a pair's log ratio, ``ratio`` that of the sides, which is 1 but for
    chance; ``smallest`` is the relative change that a round of pairs shows (stats/floor.py). Null: too few clean pairs.
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
