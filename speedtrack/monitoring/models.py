"""Facts that processes store about themselves for another process to report: signs of life, and times of tasks."""

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now


class Heartbeat(models.Model):
    """The last sign of life of a process that runs only once."""

    process = models.CharField(max_length=40, primary_key=True)
    at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.process


class TaskTime(models.Model):
    """The number of executions of a task with one outcome, and their times, in all processes of the server so far.

    ``buckets``: for each of ``tasktimes.BUCKETS_S`` the number of executions up to that long, and longer than the bound
    before.
    """

    class Outcome(models.TextChoices):
        SUCCEEDED = "succeeded"
        FAILED = "failed"

    task = models.CharField(max_length=60)
    outcome = models.CharField(max_length=20, choices=Outcome)
    count = models.BigIntegerField(default=0)
    seconds = models.FloatField(default=0)
    buckets = ArrayField(models.BigIntegerField())
    last_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["task", "outcome"], name="a_task_time_once_per_outcome"),
        ]

    def __str__(self) -> str:
        return f"{self.task} {self.outcome}"
