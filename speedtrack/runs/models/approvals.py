"""Pull requests that a maintainer lets the machines measure."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from speedtrack.ground.postgres.wakeups import Wakes
from speedtrack.projects.models import Commit, Project, PullRequest


class ApprovalQuerySet(models.QuerySet["Approval"]):
    def unplanned(self) -> "ApprovalQuerySet":
        """Approvals whose runs are not queued yet, without those that failed."""
        return self.filter(planned_at=None, error="")


class Approval(models.Model):
    """A maintainer's permission to build and measure one head of a pull request. A new push needs a new one."""

    pull_request = models.ForeignKey(PullRequest, models.CASCADE, related_name="approvals", db_index=False)
    head_sha = models.CharField(max_length=64)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    at = models.DateTimeField(db_default=Now())
    planned_at = models.DateTimeField(null=True, help_text="when its runs were queued")
    head = models.ForeignKey(Commit, models.PROTECT, null=True, related_name="+")
    base = models.ForeignKey(Commit, models.PROTECT, null=True, related_name="+", help_text="the merge base")
    error = models.TextField(default="", blank=True, help_text="why nothing could be queued, with the remedy")

    objects: ClassVar = ApprovalQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["pull_request", "head_sha"], name="an_approval_once_per_head"),
            Wakes(name="an_approval_wakes", after="INSERT OR UPDATE OF error"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["id"], name="approvals_unplanned", condition=Q(planned_at=None, error="")),
        ]

    @property
    def project(self) -> Project:
        return self.pull_request.project

    def __str__(self) -> str:
        return f"{self.pull_request} at {self.head_sha[:10]}"
