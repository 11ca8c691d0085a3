"""Who measures, what is to be measured, and what came out. PostgreSQL holds the rules, by named constraints."""

import hashlib
import hmac
import secrets
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from speedtrack.benchmarks.models import Benchmark, Suite
from speedtrack.projects.models import Commit, Position, Project
from speedtrack.wakeups import Wakes


class UnknownToken(Exception):
    """The token is not that of a registered machine."""


class Machine(models.Model):
    """A box that measures. It does one thing at a time."""

    name = models.SlugField(unique=True)
    token_id = models.CharField(max_length=16, unique=True)
    token_digest = models.CharField(max_length=64)
    projects = models.ManyToManyField(Project, related_name="machines")
    paused = models.BooleanField(default=False, help_text="gets no new work")
    created = models.DateTimeField(db_default=Now())
    last_seen_at = models.DateTimeField(null=True)
    runner_version = models.CharField(max_length=40, default="", blank=True)
    facts = models.JSONField(default=dict)
    aa_looked_at = models.DateTimeField(null=True, help_text="when it was last asked whether an A/A run is due")
    quarantined_at = models.DateTimeField(null=True, help_text="its canary moved: it gets canary runs only")
    quarantined_why = models.TextField(default="", blank=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(quarantined_at=None, quarantined_why="")
                | (Q(quarantined_at__isnull=False) & ~Q(quarantined_why="")),
                name="a_quarantine_has_a_reason",
            ),
            Wakes(name="a_resumed_machine_wakes", after="UPDATE OF paused, quarantined_at"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def queue(self) -> str:
        return f"machine.{self.name}"

    def new_token(self) -> str:
        """Give the machine a new token, and return it. Only its digest is kept; the old one ends with ``save``."""
        self.token_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        self.token_digest = hashlib.sha256(secret.encode()).hexdigest()
        return f"strn_{self.token_id}_{secret}"

    @classmethod
    def of_token(cls, token: str) -> "Machine":
        """The machine of a token. Raises UnknownToken."""
        _, _, rest = token.partition("_")
        token_id, _, secret = rest.partition("_")
        machine = cls.objects.filter(token_id=token_id).first()
        digest = hashlib.sha256(secret.encode()).hexdigest()
        if machine is None or not hmac.compare_digest(machine.token_digest, digest):
            raise UnknownToken(
                "unknown machine token: `manage.py machine add NAME` (or `machine token NAME`) makes one"
            )
        return machine


class MachineEvent(models.Model):
    """What happened to a machine, written in the same transaction; ``who`` is empty for what happened by itself.

    ``untold`` until the mails to the operators are in the outbox.
    """

    class Kind(models.TextChoices):
        CANARY = "canary"  #: it got a canary, or another one, or the same with a new level
        QUARANTINED = "quarantined"  #: its canary moved
        LIFTED = "lifted"  #: its canary is steady again, or a person said that all is well
        BLIND = "blind"  #: its canary cannot be measured, so nobody watches over it

    TOLD = (Kind.QUARANTINED, Kind.LIFTED, Kind.BLIND)  #: those of which operators are told

    machine = models.ForeignKey(Machine, models.CASCADE, related_name="events")
    at = models.DateTimeField(db_default=Now())
    kind = models.CharField(max_length=20, choices=Kind)
    why = models.TextField()
    who = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    untold = models.BooleanField(default=False)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["id"], name="machine_events_untold", condition=Q(untold=True)),
        ]
        constraints: ClassVar = [Wakes(name="an_untold_event_wakes", after="INSERT", rows="NEW.untold")]


class Environment(models.Model):
    """What was on the machine. A new environment starts new series; it never bends the old line."""

    machine = models.ForeignKey(Machine, models.PROTECT, related_name="environments")
    digest = models.CharField(max_length=80)
    facts = models.JSONField()
    created = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["machine", "digest"], name="an_environment_once_per_machine"),
        ]


class Status(models.TextChoices):
    QUEUED = "queued"  #: waiting for its machine
    LEASED = "leased"  #: given to a runner that has not yet spoken; after a crash ``queue.reap`` queues it again
    RUNNING = "running"  #: the runner renews its lease; after a crash ``queue.reap`` queues it again
    SUCCEEDED = "succeeded"  #: all its measurements are accepted
    FAILED = "failed"  #: it ended without all measurements; ``error`` says why
    CANCELLED = "cancelled"  #: somebody, or the end of its branch, made it needless


ACTIVE = (Status.LEASED, Status.RUNNING)
MOVES = {
    Status.QUEUED: {Status.LEASED, Status.CANCELLED},
    Status.LEASED: {Status.RUNNING, Status.QUEUED, Status.SUCCEEDED, Status.FAILED, Status.CANCELLED},
    Status.RUNNING: {Status.QUEUED, Status.SUCCEEDED, Status.FAILED, Status.CANCELLED},
    Status.FAILED: {Status.QUEUED},
    Status.CANCELLED: {Status.QUEUED},
    Status.SUCCEEDED: set(),
}


class Reason(models.TextChoices):
    PUSH = "push"
    BACKFILL = "backfill"
    CONFIRM = "confirm"
    BISECT = "bisect"
    MANUAL = "manual"
    CANARY = "canary"
    AA = "aa", "A/A"
    PROFILE = "profile"  #: both sides of a change are sampled; nothing is measured


class Side(models.TextChoices):
    HEAD = "head"
    BASE = "base"


PAIRED = (Reason.CONFIRM, Reason.BISECT)


class Canary(models.Model):
    """A frozen server and a frozen workload: what a machine measures of them speaks of the machine alone.

    ``artifacts`` (name -> digest) are those of its first successful build; nothing else is ever measured under its
    name. Its history begins ``since``: values before, and those of another environment, say nothing about a level.
    """

    machine = models.ForeignKey(Machine, models.CASCADE, related_name="canaries")
    project = models.ForeignKey(Project, models.CASCADE, related_name="+")
    commit = models.ForeignKey(Commit, models.PROTECT, related_name="+")
    suite = models.ForeignKey(Suite, models.PROTECT, related_name="+")
    benchmarks = ArrayField(models.CharField(max_length=100))
    benchmark_set = models.CharField(max_length=80, help_text="as that of its runs")
    artifacts = models.JSONField(null=True)
    created = models.DateTimeField(db_default=Now())
    since = models.DateTimeField(db_default=Now())
    retired_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "canaries"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["machine"], condition=Q(retired_at=None), name="one_canary_in_use_per_machine"
            ),
        ]

    def __str__(self) -> str:
        return f"canary of {self.machine}: {', '.join(self.benchmarks)} of {self.project} at {self.commit.short}"


class RunQuerySet(models.QuerySet["Run"]):
    def own(self) -> "RunQuerySet":
        """Runs that measure a commit for its line: neither one side of a pair nor the machine's canary."""
        return self.filter(base=None, canary=None)

    def active(self) -> "RunQuerySet":
        return self.filter(status__in=ACTIVE)

    def unfinished(self) -> "RunQuerySet":
        return self.filter(status__in=(Status.QUEUED, *ACTIVE))

    def claimable(self) -> "RunQuerySet":
        """Waiting runs whose time has come; of a quarantined machine, those of its canary."""
        return self.filter(Q(machine__quarantined_at=None) | Q(reason=Reason.CANARY)).filter(
            status=Status.QUEUED, not_before__lte=Now()
        )

    def lost(self) -> "RunQuerySet":
        return self.active().filter(lease_until__lt=Now())

    def given_up(self) -> "RunQuerySet":
        """Runs that failed for want of a machine, whose time has come; not of commits that left their branches."""
        on_a_branch = Exists(Position.objects.filter(commit=OuterRef("commit")))
        by_hand = ~Q(reason__in=(Reason.PUSH, Reason.BACKFILL))
        return self.filter(on_a_branch | by_hand, status=Status.FAILED, retry_at__lte=Now())


class Run(models.Model):
    """One commit on one machine for one set of benchmarks. A retry raises ``attempt``; it is never a new row."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="runs")
    commit = models.ForeignKey(Commit, models.PROTECT, related_name="runs")
    base = models.ForeignKey(
        Commit, models.PROTECT, null=True, related_name="+", help_text="the other side of a paired run"
    )
    machine = models.ForeignKey(Machine, models.PROTECT, related_name="runs")
    canary = models.ForeignKey(Canary, models.RESTRICT, null=True, related_name="runs")
    suite = models.ForeignKey(Suite, models.PROTECT, related_name="+")
    benchmarks = ArrayField(models.CharField(max_length=100), help_text="names, as the suite defines them")
    benchmark_set = models.CharField(max_length=80, help_text="digest over the benchmarks")
    reason = models.CharField(max_length=20, choices=Reason)
    round = models.IntegerField(default=0)
    trials = models.IntegerField(help_text="trials per benchmark, or pairs of a paired run")
    metrics = ArrayField(
        models.CharField(max_length=100), default=list, help_text="what it is to tell; none: each benchmark's headline"
    )
    status = models.CharField(max_length=20, choices=Status, default=Status.QUEUED)
    linked = models.ForeignKey(
        "self", models.SET_NULL, null=True, related_name="+", help_text="the run of the same program that stands for it"
    )
    priority = models.IntegerField(default=0)
    rank = models.IntegerField(default=0, help_text="position on the branch: of equal priority, newest first")
    attempt = models.IntegerField(default=0)
    lease_token = models.BigIntegerField(default=0)
    lease_until = models.DateTimeField(null=True)
    not_before = models.DateTimeField(db_default=Now())
    cancel_requested_at = models.DateTimeField(null=True)
    created = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    progress = models.JSONField(null=True)
    error = models.TextField(default="")
    retry_at = models.DateTimeField(
        null=True, help_text="it failed for want of a machine: when it is queued again; null: not by itself"
    )
    floors_due = models.BooleanField(
        default=False, help_text="what its pairs say of the machine's noise was not looked at yet"
    )

    objects: ClassVar = RunQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["machine"], condition=Q(status__in=["leased", "running"]), name="one_active_run_per_machine"
            ),
            models.UniqueConstraint(
                fields=["commit", "base", "machine", "benchmark_set", "reason", "round"],
                nulls_distinct=False,
                name="a_run_once_per_commit_machine_benchmarks_reason_round",
            ),
            models.CheckConstraint(
                condition=Q(status__in=["leased", "running"], lease_until__isnull=False)
                | ~Q(status__in=["leased", "running"]),
                name="an_active_run_has_a_lease",
            ),
            models.CheckConstraint(
                condition=Q(reason="canary", canary__isnull=False, base=None) | (~Q(reason="canary") & Q(canary=None)),
                name="a_canary_run_has_a_canary_and_one_side",
            ),
            models.UniqueConstraint(
                fields=["machine"],
                condition=Q(reason="canary", status__in=["queued", "leased", "running"]),
                name="one_unfinished_canary_run_per_machine",
            ),
            models.CheckConstraint(
                condition=Q(retry_at=None) | Q(status="failed"), name="only_a_failed_run_waits_for_its_machine"
            ),
            Wakes(name="a_new_run_wakes", after="INSERT"),
            # A run that is claimed is work for nobody.
            Wakes(
                name="a_run_that_waits_or_has_ended_wakes",
                after="UPDATE OF status",
                rows="NEW.status NOT IN ('leased', 'running')",
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["machine", "-priority", "-rank", "id"], name="runs_queued", condition=Q(status="queued")
            ),
            models.Index(fields=["lease_until"], name="runs_leased", condition=Q(status__in=["leased", "running"])),
            models.Index(fields=["project", "-id"], name="runs_of_project"),
            models.Index(fields=["machine"], name="canary_runs", condition=Q(reason="canary")),
            models.Index(fields=["machine", "ended_at"], name="runs_ended", condition=Q(ended_at__isnull=False)),
            models.Index(fields=["retry_at"], name="runs_given_up", condition=Q(retry_at__isnull=False)),
            models.Index(fields=["id"], name="runs_with_floors_due", condition=Q(floors_due=True)),
        ]

    def __str__(self) -> str:
        return f"run {self.pk}: {self.reason} of {self.commit.short} on {self.machine}"

    @property
    def paired(self) -> bool:
        return self.base_id is not None

    @property
    def done(self) -> bool:
        return self.status in (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED)

    def move(self, to: Status, why: str, **changes: Any) -> bool:
        """Change the status if nobody else did meanwhile, with its event, in the caller's transaction.

        False if the run has moved already or was taken again. Raises ValueError for a move that is not in MOVES.
        """
        if to not in MOVES[Status(self.status)]:
            raise ValueError(f"run {self.pk} cannot move from {self.status} to {to}")
        same = Run.objects.filter(pk=self.pk, status=self.status, lease_token=self.lease_token)
        if same.update(status=to, **changes) != 1:
            return False
        before = self.status
        self.refresh_from_db()
        RunEvent.objects.create(run=self, attempt=self.attempt, before=before, after=to, why=why[:2000])
        return True


class CanaryCheck(models.Model):
    """What one run of a canary said of its machine. ``answer`` is that of the series that moved most."""

    class Answer(models.TextChoices):
        LEARNING = "learning"  #: too little history in this environment to tell
        STEADY = "steady"
        OFF = "off"  #: beyond its own history
        UNKNOWN = "unknown"  #: not measured, or only with flags that void it

    GOOD = (Answer.LEARNING, Answer.STEADY)

    run = models.OneToOneField(Run, models.CASCADE, related_name="canary_check")
    canary = models.ForeignKey(Canary, models.CASCADE, related_name="checks")
    at = models.DateTimeField(help_text="when the run ended")
    answer = models.CharField(max_length=20, choices=Answer)
    series = models.ForeignKey("Series", models.SET_NULL, null=True, related_name="+")
    ratio = models.FloatField(null=True, help_text="value / usual level")
    limit = models.FloatField(null=True, help_text="how far from 1 the ratio may be; null while learning")

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(answer="unknown", ratio=None) | (~Q(answer="unknown") & Q(ratio__isnull=False)),
                name="a_check_that_says_something_has_a_ratio",
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["canary", "-id"], name="checks_newest_first")]

    @property
    def good(self) -> bool:
        return self.answer in self.GOOD


class RunEvent(models.Model):
    """A change of a run's status, written in the same transaction."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="events")
    at = models.DateTimeField(db_default=Now())
    attempt = models.IntegerField()
    before = models.CharField(max_length=20)
    after = models.CharField(max_length=20)
    why = models.TextField()


class Attempt(models.Model):
    """One lease of a run, from claim to its end. Logs, builds and measurements hang on it."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="attempts")
    number = models.IntegerField()
    token = models.BigIntegerField()
    instance = models.CharField(max_length=64, default="", help_text="which runner of the machine claimed it")
    started_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=20, default="", help_text="the run's status after it; empty while it lasts")
    postponed = models.JSONField(default=dict, help_text="benchmarks of the run that could not be measured yet: why")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["run", "token"], name="an_attempt_once_per_lease"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["ended_at"], name="attempts_ended", condition=Q(ended_at__isnull=False)),
        ]


class LogChunk(models.Model):
    """A piece of what the build or the measuring printed."""

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="log")
    seq = models.IntegerField()
    phase = models.CharField(max_length=100)
    text = models.TextField()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["attempt", "seq"], name="a_log_chunk_once")]


class Build(models.Model):
    """A commit built one way by one attempt: artifacts by digest, or why it failed. Its log is the attempt's phase."""

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="builds")
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
        """Those with new measurements; after a failure, not before a pause."""
        return self.filter(Q(retry_at=None) | Q(retry_at__lte=Now()), undetected_since__isnull=False)


class Series(models.Model):
    """One line on a chart. Not the branch: a branch is a path through the commits of a series.

    ``error``, ``failures`` and ``retry_at``: why the last look for changes failed, how often in a row, and when the
    next one is made.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="series")
    benchmark = models.ForeignKey(Benchmark, models.CASCADE, related_name="series")
    metric = models.CharField(max_length=60)
    machine = models.ForeignKey(Machine, models.PROTECT, related_name="series")
    environment = models.ForeignKey(Environment, models.PROTECT, related_name="series")
    # When the oldest measurement was accepted that detection has not seen; cleared with compare-and-swap.
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
    """A run's samples of one series for one commit, with their summary. A re-run adds one, never overwrites.

    ``accepted`` follows the attempt: what a lost attempt sent stays here, unseen by charts and detection. So does all
    that a canary run sent: it speaks of the machine, never of its commit.
    """

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="measurements")
    series = models.ForeignKey(Series, models.CASCADE, related_name="measurements")
    commit = models.ForeignKey(Commit, models.CASCADE, related_name="measurements")
    side = models.CharField(max_length=4, choices=Side, default=Side.HEAD)
    value = models.FloatField(help_text="median of the samples, in the metric's unit")
    low = models.FloatField(help_text="lower end of the median's 95% interval")
    high = models.FloatField()
    n = models.IntegerField()
    flags = ArrayField(models.CharField(max_length=40), default=list, help_text="why the value is not to be trusted")
    paired = models.BooleanField(help_text="from a paired run: evidence of a change, not a point of the line")
    stopping = models.JSONField(null=True, help_text="why its trials ended: docs/result-format.md")
    accepted = models.BooleanField(default=False)
    created = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["attempt", "series", "side"], name="a_measurement_once_per_attempt"),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["series", "commit"],
                name="points_of_a_series",
                condition=Q(accepted=True, paired=False),
                include=["value", "low", "high", "n", "flags", "attempt"],
            ),
            models.Index(fields=["commit"], name="measurements_of_a_commit", condition=Q(accepted=True)),
        ]


class ReferenceRate(models.Model):
    """What a benchmark reached when it was first measured on a machine, in requests/s.

    Rates of open-loop benchmarks are shares of it, so that they never move with the commit under test.
    """

    machine = models.ForeignKey(Machine, models.CASCADE, related_name="+")
    benchmark = models.ForeignKey(Benchmark, models.CASCADE, related_name="reference_rates")
    rps = models.FloatField()
    measurement = models.ForeignKey(Measurement, models.RESTRICT, related_name="+", help_text="where it comes from")
    created = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["machine", "benchmark"], name="a_reference_rate_once"),
            models.CheckConstraint(condition=Q(rps__gt=0), name="a_reference_rate_is_above_zero"),
        ]


class Trial(models.Model):
    """One fresh server process measured once, inside a run; with the driver's whole document."""

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="trials")
    benchmark = models.ForeignKey(Benchmark, models.CASCADE, related_name="+")
    commit = models.ForeignKey(Commit, models.CASCADE, related_name="+")
    side = models.CharField(max_length=4, choices=Side, default=Side.HEAD)
    number = models.IntegerField()
    order = models.IntegerField(help_text="place in the attempt; trials are interleaved in seeded random order")
    started_at = models.DateTimeField()
    seconds = models.FloatField()
    flags = ArrayField(models.CharField(max_length=40), default=list)
    pairing = models.JSONField(null=True, help_text="its block, slot and slices, where both sides were up at once")
    quiet = models.JSONField(default=dict, help_text="what the quiet gate read while it was measured")
    server = models.JSONField(default=dict, help_text="what the server did, and the growth of its own counters")
    reproduce = models.JSONField(null=True, help_text="how to repeat it by hand; null: from before that was kept")
    driver = models.JSONField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["attempt", "benchmark", "side", "number"], name="a_trial_once_per_attempt"),
        ]


class Profile(models.Model):
    """Where one side's server spent its CPU time under a benchmark, sampled; or why that cannot be known there."""

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="profiles")
    benchmark = models.ForeignKey(Benchmark, models.CASCADE, related_name="+")
    side = models.CharField(max_length=4, choices=Side)
    event = models.CharField(max_length=40)
    frequency_hz = models.IntegerField()
    samples = models.IntegerField()
    folded = models.BinaryField(help_text="folded stacks, one per line, compressed by zlib")
    cpu_ns_per_request = models.FloatField(null=True, help_text="of the server, while it was sampled")
    unavailable = models.TextField(default="", help_text="empty, or the cause and what to do")
    created = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["attempt", "benchmark", "side"], name="a_profile_once_per_attempt"),
        ]


class Sample(models.Model):
    """One raw value of one metric from one trial."""

    pk = models.CompositePrimaryKey("measurement_id", "trial")
    measurement = models.ForeignKey(Measurement, models.CASCADE, related_name="samples")
    trial = models.SmallIntegerField()
    value = models.FloatField()
    flagged = models.BooleanField(default=False, help_text="its trial carries a flag that voids this metric")
