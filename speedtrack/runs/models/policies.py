"""Planning policies of branches, and the commits that these leave out or put off."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from speedtrack.projects.models import Branch, Commit, Project
from speedtrack.runs.models.machines import Machine


class PlanningPolicy(models.Model):
    """Which commits of a project's branches are measured by themselves, with what, and where.

    A project without one measures every commit of every tracked branch. The defaults of a new row say the same.
    """

    project = models.ForeignKey(Project, models.CASCADE, related_name="policies", db_index=False)
    branches = models.CharField(
        max_length=200, default="", blank=True, help_text="a pattern such as 8.*; empty: all that no other policy names"
    )
    every = models.PositiveIntegerField(default=1, help_text="measure every n-th commit, counted from the root")
    most_waiting = models.PositiveIntegerField(
        null=True, help_text="commits of a branch that wait at most; the others are put off"
    )
    fills_gaps = models.BooleanField(
        default=False, help_text="measure what every n-th leaves out, too, while a machine has nothing else to do"
    )
    ignored_paths = models.TextField(
        default="", blank=True, help_text="patterns as in .gitignore: commits that change nothing else are skipped"
    )
    suite = models.CharField(max_length=100, default="", blank=True, help_text="instead of the project's")
    machines = models.ManyToManyField(Machine, blank=True, related_name="+", help_text="none: all of the project")
    extended_at = models.TimeField(null=True, help_text="when the head is measured with the extended set each day")
    zone = models.CharField(max_length=64, default="UTC", help_text="of extended_at")
    extended_on = models.DateField(null=True, help_text="the day, in that zone, for which this was last planned")
    filled_at = models.DateTimeField(null=True, help_text="when it was last asked whether deferred commits may wait")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "branches"], name="one_policy_per_pattern"),
            models.CheckConstraint(condition=Q(every__gte=1), name="every_first_commit_at_least"),
            models.CheckConstraint(
                condition=Q(most_waiting=None) | Q(most_waiting__gte=1), name="at_least_one_commit_may_wait"
            ),
        ]

    def __str__(self) -> str:
        return f"policy of {self.branches or 'all other branches'}"

    @property
    def patterns(self) -> list[str]:
        """The patterns of paths that cannot matter."""
        return [line for line in map(str.strip, self.ignored_paths.splitlines()) if line]

    @property
    def takes_all(self) -> bool:
        """Return whether the policy queues every commit at once."""
        return self.every == 1 and self.most_waiting is None and not self.patterns


class DeferralQuerySet(models.QuerySet["Deferral"]):
    def put_off(self) -> "DeferralQuerySet":
        """Deferrals that wait for an idle machine; not those of commits that are left out for good."""
        return self.filter(why__in=Deferral.PUT_OFF)


class Deferral(models.Model):
    """A commit of a branch that the planning policy does not measure now, and why.

    It is deleted once the commit is planned.
    """

    class Why(models.TextChoices):
        PATHS = "paths"  #: it changes only paths that cannot matter
        STEP = "step"  #: it is not the n-th; never measured by itself
        GAP = "gap"  #: it is not the n-th; measured once there is time
        CAP = "cap"  #: enough others waited; measured once there is time

    PUT_OFF = (Why.GAP, Why.CAP)

    project = models.ForeignKey(Project, models.CASCADE, related_name="deferrals", db_index=False)
    branch = models.ForeignKey(Branch, models.CASCADE, related_name="deferrals", db_index=False)
    commit = models.ForeignKey(Commit, models.CASCADE, related_name="deferrals")
    why = models.CharField(max_length=10, choices=Why)
    detail = models.CharField(max_length=300, help_text="the reason as a sentence")
    created = models.DateTimeField(db_default=Now())

    objects: ClassVar = DeferralQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["branch", "commit"], name="a_deferral_once_per_branch"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["project"], name="deferrals_put_off", condition=Q(why__in=["gap", "cap"])),
        ]

    def __str__(self) -> str:
        return f"{self.commit.short} on {self.branch}: {self.detail}"
