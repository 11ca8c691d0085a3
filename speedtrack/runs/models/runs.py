"""Runs and their lifecycle: attempts, events and logs."""

from typing import Any, ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Case, Exists, F, OuterRef, Q, Value, When
from django.db.models.functions import Length, Now, Replace

from speedtrack.benchmarks.models import BenchmarkSet, Suite
from speedtrack.ground.postgres.wakeups import Wakes
from speedtrack.projects.models import Commit, Position, Project, Tag
from speedtrack.runs.models.canaries import Canary
from speedtrack.runs.models.machines import Machine


class Status(models.TextChoices):
    QUEUED = "queued"  #: waits for its machine
    LEASED = "leased"  #: a runner claimed it and has not called since; after a crash ``queue.reap`` queues it again
    RUNNING = "running"  #: the runner renews its lease; after a crash ``queue.reap`` queues it again
    SUCCEEDED = "succeeded"  #: all its measurements are accepted
    FAILED = "failed"  #: it ended without all measurements; ``error`` says why
    CANCELLED = "cancelled"  #: a person cancelled it, or its commit left its branch


ACTIVE = (Status.LEASED, Status.RUNNING)
ENDED = (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED)
MEASURED = (Status.SUCCEEDED, Status.FAILED)  #: what such a run has measured until its end is accepted
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
    PROFILE = "profile"  #: both sides of a change are sampled by a profiler; nothing is measured
    EFFECT = "effect"  #: both sides of a named commit: every benchmark of its suite in pairs, or counted
    HUNKS = "hunks"  #: a named commit, and the same one without some of its hunks: both are counted
    SWEEP = "sweep"  #: two distant commits in pairs, by an idle machine: it looks for changes that lines hide
    PULL = "pull"  #: the head of a pull request against its merge base, in pairs
    IMPORT = "import"  #: measured elsewhere and sent in; it is stored when it has ended, and no machine takes it


class Side(models.TextChoices):
    HEAD = "head"
    BASE = "base"


ROUTINE = (Reason.PUSH, Reason.BACKFILL)  #: a commit needs a run for one of them only
SETTLING = (Reason.CONFIRM, Reason.BISECT)  #: paired runs that settle a suspicion; A/A runs and profiles are paired too


class RunQuerySet(models.QuerySet["Run"]):
    def own(self) -> "RunQuerySet":
        """Runs that measure a commit for its line: no paired runs, canary runs or results from outside."""
        return self.filter(base=None, canary=None, imported=None)

    def newest_first(self, project_id: int) -> "RunQuerySet":
        """The runs of a project, by an index of project and id.

        With the project as an equality and the id alone as the order, PostgreSQL may walk the ids of all projects.
        """
        return self.filter(project__gte=project_id, project__lte=project_id).order_by("project_id", "-id")

    def active(self) -> "RunQuerySet":
        return self.filter(status__in=ACTIVE)

    def routine(self) -> "RunQuerySet":
        """Unpaired runs of pushes and backfills: they make the points of lines."""
        return self.filter(base=None, reason__in=ROUTINE)

    def unfinished(self) -> "RunQuerySet":
        return self.filter(status__in=(Status.QUEUED, *ACTIVE))

    def claimable(self) -> "RunQuerySet":
        """Waiting runs that may start now; of a machine in quarantine, only canary runs."""
        return self.filter(Q(machine__quarantined_at=None) | Q(reason=Reason.CANARY)).filter(
            status=Status.QUEUED, not_before__lte=Now()
        )

    def lost(self) -> "RunQuerySet":
        return self.active().filter(lease_until__lt=Now())

    def given_up(self) -> "RunQuerySet":
        """Failed runs that no machine finished and whose pause is over.

        Left out are runs of untracked projects and of retired machines, and runs of commits that left their branches.
        The last kind stays if a person asked for the run, or if the project keeps unreachable commits.
        """
        on_a_branch = Exists(Position.objects.filter(commit=OuterRef("commit")))
        has_a_tag = Exists(Tag.objects.filter(project=OuterRef("project"), sha=OuterRef("commit__sha")))
        is_kept = Q(commit__unreachable_since=None) | Q(project__cancel_unreachable=False)
        by_hand = ~Q(reason__in=ROUTINE)
        in_service = Q(project__untracked_at=None, machine__retired_at=None)
        needed = by_hand | (on_a_branch | has_a_tag) & is_kept
        return self.filter(needed, in_service, status=Status.FAILED, retry_at__lte=Now())


class Run(models.Model):
    """One commit on one machine with one set of benchmarks. A retry raises ``attempt``; it is never a new row."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="runs", db_index=False)
    commit = models.ForeignKey(Commit, models.PROTECT, related_name="runs", db_index=False)
    base = models.ForeignKey(
        Commit, models.PROTECT, null=True, related_name="+", db_index=False, help_text="the other side of a paired run"
    )
    machine = models.ForeignKey(Machine, models.PROTECT, related_name="runs")
    canary = models.ForeignKey(Canary, models.RESTRICT, null=True, related_name="runs", db_index=False)
    suite = models.ForeignKey(Suite, models.PROTECT, related_name="+")
    benchmark_set = models.ForeignKey(BenchmarkSet, models.PROTECT, related_name="runs")
    reason = models.CharField(max_length=20, choices=Reason)
    round = models.IntegerField(default=0)
    trials = models.IntegerField(help_text="trials per benchmark, or pairs of a paired run")
    metrics = ArrayField(
        models.CharField(max_length=100),
        default=list,
        help_text="those the run is for; none: each benchmark's headline",
    )
    status = models.CharField(max_length=20, choices=Status, default=Status.QUEUED)
    linked = models.ForeignKey(
        "self",
        models.SET_NULL,
        null=True,
        related_name="+",
        db_index=False,
        help_text="the run that measured the identical program",
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
        null=True, help_text="when a run that no machine finished is queued again; null: not automatically"
    )
    floors_due = models.BooleanField(
        default=False, help_text="the noise floors or changes that its pairs show have not been stored yet"
    )

    imported = models.ForeignKey(
        "Import",
        models.RESTRICT,
        null=True,
        related_name="runs",
        db_index=False,
        help_text="the batch that its results came with",
    )

    begun: "Attempt | None" = None  #: the attempt that a claim has just begun, so that it need not be loaded
    #: rates of its open loops, and why others have none, once they were looked up (``jobs.open_loops_of``)
    open_loops: tuple[dict[str, float], dict[str, str]] | None = None

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
            models.CheckConstraint(
                condition=Q(reason="import", imported__isnull=False, status="succeeded", base=None)
                | (~Q(reason="import") & Q(imported=None)),
                name="an_import_has_ended_and_one_side",
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
            models.Index(
                fields=["project", "-id"],
                name="own_runs_of_project",
                condition=Q(base=None, canary=None, imported=None),
            ),
            models.Index(fields=["machine"], name="canary_runs", condition=Q(reason="canary")),
            models.Index(fields=["machine", "ended_at"], name="runs_ended", condition=Q(ended_at__isnull=False)),
            # Most runs have none of these four, and each change of a run writes to all indexes that it is in.
            models.Index(fields=["imported"], name="runs_of_imports", condition=Q(imported__isnull=False)),
            models.Index(fields=["base"], name="runs_of_a_base", condition=Q(base__isnull=False)),
            models.Index(fields=["canary"], name="runs_of_a_canary", condition=Q(canary__isnull=False)),
            models.Index(fields=["linked"], name="runs_linked_to_a_run", condition=Q(linked__isnull=False)),
            models.Index(fields=["retry_at"], name="runs_given_up", condition=Q(retry_at__isnull=False)),
            models.Index(fields=["id"], name="runs_with_floors_due", condition=Q(floors_due=True)),
            models.Index(
                fields=["machine", "project"],
                name="runs_unfinished",
                condition=Q(status__in=["queued", "leased", "running"]),
            ),
            models.Index(
                fields=["project", "commit"],
                name="runs_without_point",
                condition=Q(~Q(status="succeeded") | Q(linked__isnull=False), base=None, canary=None),
            ),
            models.Index(
                F("started_at").desc(nulls_last=True),
                name="runs_failed_or_lost",
                condition=Q(status="failed") | Q(status="queued", attempt__gt=0),
            ),
        ]

    def __str__(self) -> str:
        return f"run {self.pk}: {self.reason} of {self.commit.short} on {self.machine}"

    @property
    def paired(self) -> bool:
        """Return whether it measures two sides, for whatever reason."""
        return self.base_id is not None

    @property
    def done(self) -> bool:
        return self.status in ENDED

    def move(self, to: Status, why: str, **changes: Any) -> bool:
        """Change the status by compare-and-swap and store the event, in the caller's transaction.

        False if the status or the lease has changed meanwhile. Raises ValueError for a move that is not in MOVES.
        """
        if to not in MOVES[Status(self.status)]:
            raise ValueError(f"run {self.pk} cannot move from {self.status} to {to}")
        same = Run.objects.filter(pk=self.pk, status=self.status, lease_token=self.lease_token)
        if same.update(status=to, **changes) != 1:
            return False
        before = self.status
        self.reload()
        RunEvent.objects.create(run=self, attempt=self.attempt, before=before, after=to, why=why[:2000])
        return True

    def reload(self) -> None:
        """Load the columns again, and keep those related objects that still fit them."""
        related = dict(self._state.fields_cache)
        self.refresh_from_db()
        for name, row in related.items():
            if row is not None and getattr(self, f"{name}_id", None) == row.pk:
                setattr(self, name, row)


class RunEvent(models.Model):
    """A change of a run's status, stored in the same transaction."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="events")
    at = models.DateTimeField(db_default=Now())
    attempt = models.IntegerField()
    before = models.CharField(max_length=20)
    after = models.CharField(max_length=20)
    why = models.TextField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["at"], name="run_events_by_time")]


class Attempt(models.Model):
    """One lease of a run, from its claim to its end. Logs, builds and measurements belong to it."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="attempts", db_index=False)
    number = models.IntegerField()
    token = models.BigIntegerField()
    instance = models.CharField(max_length=64, default="", help_text="which runner of the machine claimed it")
    started_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=20, default="", help_text="the run's status after it; empty while it lasts")
    postponed = models.JSONField(default=dict, help_text="benchmarks that cannot be measured yet: name -> reason")
    out_of_reach = models.JSONField(
        default=dict, help_text="benchmarks that the machine cannot measure: name -> reason"
    )

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["run", "token"], name="an_attempt_once_per_lease"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["ended_at"], name="attempts_ended", condition=Q(ended_at__isnull=False)),
        ]


class LogChunk(models.Model):
    """A piece of the log of a build or a measurement. PostgreSQL counts its lines: a page reads only those it shows."""

    attempt = models.ForeignKey(Attempt, models.CASCADE, related_name="log", db_index=False)
    seq = models.IntegerField()
    phase = models.CharField(max_length=100)
    text = models.TextField()
    at = models.DateTimeField(db_default=Now(), help_text="when it arrived")
    newlines = models.GeneratedField(
        expression=Length("text") - Length(Replace("text", Value("\n"), Value(""))),
        output_field=models.IntegerField(),
        db_persist=True,
    )
    unended = models.GeneratedField(
        expression=Case(When(text__endswith="\n", then=Value(False)), default=Value(True)),
        output_field=models.BooleanField(),
        db_persist=True,
        help_text="its last line goes on in the next piece of its phase, or is the last one there",
    )

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["attempt", "seq"], name="a_log_chunk_once")]
