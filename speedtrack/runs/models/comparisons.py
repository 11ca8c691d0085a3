"""Two commits that somebody wants to have measured against each other in pairs."""

from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from speedtrack.ground.postgres.wakeups import Wakes
from speedtrack.projects.models import Commit, Project
from speedtrack.runs.models.machines import Machine
from speedtrack.runs.models.runs import Run


class PairedComparisonQuerySet(models.QuerySet["PairedComparison"]):
    def unplanned(self) -> "PairedComparisonQuerySet":
        """The approved comparisons that have neither runs nor an error yet."""
        return self.filter(planned_at=None, error="", is_approved=True)


class PairedComparison(models.Model):
    """A head that is to be measured in pairs against its merge base with another commit."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="paired_comparisons", db_index=False)
    head_name = models.CharField(max_length=250, help_text="as it was asked for: a commit id, branch or tag")
    base_name = models.CharField(max_length=250)
    benchmarks = ArrayField(models.CharField(max_length=100), default=list, help_text="none: the suite's usual ones")
    machine = models.ForeignKey(Machine, models.SET_NULL, null=True, related_name="+", help_text="null: by the policy")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    created = models.DateTimeField(db_default=Now())
    is_approved = models.BooleanField(
        default=True, db_default=True, help_text="whoever asked for it, or approved it, may let its code be built"
    )
    planned_at = models.DateTimeField(null=True, help_text="when its runs were queued")
    head = models.ForeignKey(Commit, models.PROTECT, null=True, related_name="+")
    base = models.ForeignKey(Commit, models.PROTECT, null=True, related_name="+", help_text="the merge base")
    error = models.TextField(default="", help_text="why nothing could be queued, with the remedy")
    runs = models.ManyToManyField(Run, related_name="paired_comparisons")

    objects: ClassVar = PairedComparisonQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(planned_at=None) | (Q(head__isnull=False) & Q(base__isnull=False)),
                name="a_planned_comparison_has_its_commits",
            ),
            Wakes(name="a_paired_comparison_wakes", after="INSERT"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["project", "id"], name="comparisons_of_a_project"),
            models.Index(fields=["id"], name="comparisons_unplanned", condition=Q(planned_at=None, error="")),
        ]

    def __str__(self) -> str:
        return f"{self.head_name} against {self.base_name}"
