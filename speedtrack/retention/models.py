"""The progress of each policy of retention."""

from django.db import models


class Pruning(models.Model):
    """The progress of one policy (policies.py); the row NIGHT only has the time when all of them were last applied."""

    NIGHT = "night"

    policy = models.CharField(max_length=20, primary_key=True)
    through = models.DateTimeField(null=True, help_text="what is older was looked at: it is deleted, or was kept")
    done_at = models.DateTimeField(null=True, help_text="when it was last applied to its end, or refused, or failed")
    problem = models.TextField(default="", help_text="why it was refused or failed; empty if it was applied")

    def __str__(self) -> str:
        return self.policy
