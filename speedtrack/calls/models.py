"""Answers of the API that are kept for repetitions, and the levels of its rate limits."""

from typing import ClassVar

from django.db import models
from django.db.models.functions import Now

from speedtrack.accounts.models import PersonToken


class KeptAnswer(models.Model):
    """The answer to a request with an Idempotency-Key, stored in the transaction of the request's changes."""

    token = models.ForeignKey(PersonToken, models.CASCADE, related_name="+", db_index=False)
    key = models.CharField(max_length=255)
    request_digest = models.CharField(max_length=64, help_text="of method, address and body")
    status = models.SmallIntegerField()
    document = models.JSONField(null=True)
    rights = models.JSONField(null=True, help_text="what the request needed; null: an older version kept the answer")
    created = models.DateTimeField(db_default=Now())

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["token", "key"], name="an_answer_once_per_key"),
        ]
        indexes: ClassVar = [models.Index(fields=["created"], name="answers_by_time")]

    def __str__(self) -> str:
        return self.key


class Allowance(models.Model):
    """The time at which a caller's allowance is whole again. The table is unlogged: after a crash all are whole."""

    caller = models.CharField(max_length=80, primary_key=True)
    whole_at = models.DateTimeField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["whole_at"], name="allowances_by_time")]

    def __str__(self) -> str:
        return self.caller
