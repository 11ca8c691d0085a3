"""Results that were measured elsewhere: who sent them, and what they state about themselves."""

from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from speedtrack.ground.postgres.wakeups import Wakes
from speedtrack.projects.models import Project
from speedtrack.runs.models.measurements import Measurement


class Import(models.Model):
    """A batch of results from outside, of which at least one was stored."""

    class Door(models.TextChoices):
        API = "api", "the API"
        CODESPEED = "codespeed", "the Codespeed address"
        COMMAND = "command", "`manage.py import`"

    project = models.ForeignKey(Project, models.CASCADE, related_name="imports")
    at = models.DateTimeField(db_default=Now())
    door = models.CharField(max_length=10, choices=Door)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    name = models.CharField(
        max_length=150, help_text="of the user at that time; empty if nobody had to say who they are"
    )
    tool = models.CharField(max_length=100, default="", help_text="what wrote the results, as the sender names it")
    source = models.CharField(max_length=300, default="", help_text="the name of the file")
    url = models.CharField(max_length=500, default="", help_text="a page about the batch, such as a CI job")

    unmarked = ArrayField(
        models.IntegerField(),
        default=list,
        help_text="its series that detection held while it was stored: they are to be marked for detection",
    )

    class Meta:
        constraints: ClassVar = [
            Wakes(name="an_unmarked_import_wakes", after="INSERT OR UPDATE OF unmarked", rows="NEW.unmarked <> '{}'"),
        ]
        indexes: ClassVar = [models.Index(fields=["id"], name="imports_unmarked", condition=~Q(unmarked=[]))]

    def __str__(self) -> str:
        return f"import {self.pk}"


class Origin(models.Model):
    """What a measurement from outside states about itself. ``digest``: of all that; unique within a project."""

    measurement = models.OneToOneField(Measurement, models.CASCADE, primary_key=True, related_name="origin")
    project = models.ForeignKey(Project, models.CASCADE, related_name="+", db_index=False)
    digest = models.BinaryField(max_length=16)
    measured_at = models.DateTimeField(null=True)
    external_id = models.CharField(max_length=100, default="")
    url = models.CharField(max_length=500, default="")
    tags = models.JSONField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "digest"], name="an_outside_result_once_per_project"),
        ]
