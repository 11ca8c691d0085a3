"""Alerts, and what happened to them."""

from datetime import timedelta
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.postgres.expressions import ArraySubquery
from django.db import models
from django.db.models import Exists, F, OuterRef, Q, Subquery, Value
from django.db.models.functions import Coalesce, Greatest, Now
from django.utils.functional import cached_property

from speedtrack.ground.postgres.wakeups import Wakes
from speedtrack.projects.models import Branch, Commit, Position, Project
from speedtrack.runs.models import Run

LATELY = timedelta(days=7)  # for so long what an alert did is looked into by itself
PATIENCE = timedelta(minutes=10)  # an event waits no longer for the run that completes what is told of it


class AlertQuerySet(models.QuerySet["Alert"]):
    def with_range(self) -> "AlertQuerySet":
        """Annotate what each alert would otherwise look up by itself: its range, drift and branches.

        The properties ``width``, ``ends``, ``drift`` and ``containing`` then need no query.
        """
        positions = Position.objects.filter(branch=OuterRef("branch"))
        first = Subquery(positions.filter(commit=OuterRef("before")).values("number"))
        last = Subquery(positions.filter(commit=OuterRef("commit")).values("number"))
        drifts = self.model.change_points.rel.related_model._default_manager.filter(alert=OuterRef("pk"), kind="drift")
        branches = Branch.objects.filter(positions__commit=OuterRef("commit"), deleted_at=None).order_by("name")
        ends = positions.filter(Q(commit=OuterRef("before")) | Q(commit=OuterRef("commit"))).order_by("number")
        annotations: dict[str, Any] = {
            "ends": ArraySubquery(ends.values("number")),
            "width": Greatest(Coalesce(last - first, 1), 1),
            "drift": Coalesce(Subquery(drifts.order_by("pk").values("reference")[:1]), Value("")),
            "containing": ArraySubquery(branches.values("name")),
        }
        return self.annotate(**annotations)

    def naming_one(self) -> "AlertQuerySet":
        """Alerts of which a single commit is the cause."""
        single: dict[str, Any] = {"width": 1, "drift": ""}
        return self.with_range().filter(**single)

    def naming_lately(self) -> "AlertQuerySet":
        """Confirmed open alerts of the last days that name a commit and are not muted."""
        alerts = self.naming_one().open().filter(status=Alert.Status.CONFIRMED, muted=False)
        return alerts.filter(created__gt=Now() - LATELY)

    def standing(self) -> "AlertQuerySet":
        """Alerts that were not merged into another one."""
        return self.filter(merged_into=None)

    def open(self) -> "AlertQuerySet":
        """Alerts that nobody has settled."""
        return self.standing().filter(status__in=Alert.OPEN)

    def work(self) -> "AlertQuerySet":
        """Open alerts of slowdowns: somebody has to look at them."""
        return self.open().filter(improvement=False)


class Alert(models.Model):
    """Work for a person: the change points that one range of commits caused, on however many branches.

    The range is (``before``, ``commit``]: the last commit known to run on the old level, and the first known to run on
    the new one. Where commits lie between, any of those after ``before`` may be the cause. ``branch`` is the branch on
    which it was found; the range is a path along it. ``placed``: a person chose the commit, and measurements no longer
    move it.

    ``improvement``: nothing got worse. ``muted``: it was raised silently, because everything that got worse was muted.
    """

    class Status(models.TextChoices):
        SUSPECTED = "suspected"  #: not yet confirmed by measuring again: shown, never mailed
        CONFIRMED = "confirmed"  #: measuring again showed it, or a person said so
        EXPECTED = "expected"  #: true and intended
        INVALID = "invalid"  #: a person found it to be false
        FIXED = "fixed"  #: later commits restored the old level of each series that got worse

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
    part = models.PositiveIntegerField(default=0, help_text="above 0: a person split it off another alert of its range")
    placed = models.BooleanField(default=False, help_text="a person chose the commit")
    reverted_by = models.ForeignKey(
        Commit, models.PROTECT, null=True, related_name="+", help_text="its message says that it reverts the cause"
    )
    fixed_by = models.ForeignKey(
        Commit, models.PROTECT, null=True, related_name="+", help_text="the commit that restored the old level"
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
        """The commits that may be the cause, oldest first; empty once they have left the branch."""
        positions = Position.objects.filter(branch=self.branch_id)
        return Commit.objects.filter(
            positions__branch=self.branch_id,
            positions__number__gt=Subquery(positions.filter(commit=self.before_id).values("number")),
            positions__number__lte=Subquery(positions.filter(commit=self.commit_id).values("number")),
        ).order_by("positions__number")

    @cached_property
    def width(self) -> int:
        """How many commits may be the cause; 1 once they have left the branch."""
        return self.candidates().count() or 1

    @cached_property
    def ends(self) -> list[int]:
        """The positions of ``before`` and ``commit`` on the branch; fewer than two once they have left it."""
        positions = Position.objects.filter(branch=self.branch_id, commit__in=[self.before_id, self.commit_id])
        return list(positions.order_by("number").values_list("number", flat=True))

    @cached_property
    def drift(self) -> str:
        """The name of the reference from which the level drifted; empty if the change is a step."""
        references = self.change_points.filter(kind="drift").values_list("reference", flat=True)
        return references.first() or ""

    @property
    def is_slowdown(self) -> bool:
        return not self.improvement

    @property
    def alert_state(self) -> str:
        """Its own state: an alert is shown as its changes are."""
        return self.status

    @property
    def cause(self) -> str:
        """The cause as the end of a sentence. It names no single commit as long as another one may be the cause."""
        if self.drift:
            return f"little by little since {self.drift}, {self.before.short}..{self.commit.short}"
        since = f"since {self.commit.short}"
        return since if self.width == 1 else f"by one of {self.width} commits up to {self.commit.short}"

    @cached_property
    def containing(self) -> list[str]:
        """The names of the tracked branches that contain the newest commit of the range."""
        names = Branch.objects.filter(positions__commit=self.commit_id, deleted_at=None).order_by("name")
        return list(names.values_list("name", flat=True))

    def branch_names(self) -> list[str]:
        """The tracked branches that contain the newest commit of the range; first the one on which it was found."""
        return list(dict.fromkeys([self.branch.name, *self.containing]))

    def branches_fixed(self) -> tuple[list[str], list[str]]:
        """The branches with the newest commit of the range: those that also contain the fix, and those that do not."""
        names = Branch.objects.filter(positions__commit=self.commit_id, deleted_at=None).order_by("name")
        has_fix = Position.objects.filter(branch=OuterRef("pk"), commit=self.fixed_by_id)
        rows = names.annotate(has_fix=Exists(has_fix)).values_list("name", "has_fix")
        return [name for name, fixed in rows if fixed], [name for name, fixed in rows if not fixed]


class AlertEventQuerySet(models.QuerySet["AlertEvent"]):
    def waiting(self) -> "AlertEventQuerySet":
        """Events that are told once their run has ended and was read, or their patience has."""
        awaiting = self.exclude(kind=AlertEvent.Kind.MEASURED)
        return awaiting.filter(untold=True, run__isnull=False, at__gt=Now() - PATIENCE)

    def tellable(self) -> "AlertEventQuerySet":
        """Untold events of alerts of which no event waits."""
        waiting_events = AlertEvent.objects.waiting().filter(alert=OuterRef("alert"))
        return self.filter(~Exists(waiting_events), untold=True)


class AlertEvent(models.Model):
    """What happened to an alert, and who did it. ``who`` is empty for what SpeedTrack did by itself.

    An event is ``untold`` until speedtrack.notices has notified its subscribers. Events of muted alerts notify
    nobody. ``past``: its commits were there before anybody could be notified (alerts/lines/past.py), so it belongs in
    a digest. ``improvement``: the alert was an improvement at that time. ``run``: what it waits for, for a while; of
    MEASURED, what was measured.
    """

    class Kind(models.TextChoices):
        RAISED = "raised"  #: its change was confirmed; again when the first change of the other direction joins
        GREW = "grew"  #: another change of the same commits was confirmed
        MEASURED = "measured"  #: every benchmark of the suite was measured for its commit; ``note`` says what moved too
        TRACED = "traced"  #: the hunks of its commit were tried; ``note`` says which of them did it
        NARROWED = "narrowed"  #: fewer commits may be the cause
        DECIDED = "decided"  #: a person gave it a status or an assignee
        NOTED = "noted"  #: a person left a note, or SpeedTrack saw something that may matter
        MOVED = "moved"  #: a person chose the commit
        SPLIT = "split"  #: some of its change points became another alert, or it is that other alert
        MERGED = "merged"  #: another alert was merged into it, or it into another one
        FIXED = "fixed"  #: a later commit restored the old level
        REOPENED = "reopened"  #: a person reopened it, or SpeedTrack, because it is not fixed

    alert = models.ForeignKey(Alert, models.CASCADE, related_name="events")
    kind = models.CharField(max_length=20, choices=Kind)
    untold = models.BooleanField(default=True)
    past = models.BooleanField(default=False)
    improvement = models.BooleanField(default=False)
    run = models.ForeignKey(Run, models.SET_NULL, null=True, related_name="+", help_text="it is told when this is read")
    at = models.DateTimeField(db_default=Now())
    who = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    before = models.CharField(max_length=20, default="")
    after = models.CharField(max_length=20, default="")
    note = models.TextField(default="")

    objects: ClassVar = AlertEventQuerySet.as_manager()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["id"], name="alert_events_untold", condition=Q(untold=True))]
        constraints: ClassVar = [Wakes(name="an_event_of_an_alert_wakes", after="INSERT")]
