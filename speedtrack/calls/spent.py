"""Delete what calls have left behind and serves nobody any more: answers after their day, allowances that are whole."""

from django.db.models.functions import Now

from speedtrack.calls.keys import KEPT
from speedtrack.calls.models import Allowance, KeptAnswer


def delete_spent() -> int:
    """Return how many rows went."""
    answers, _ = KeptAnswer.objects.filter(created__lt=Now() - KEPT).delete()
    allowances, _ = Allowance.objects.filter(whole_at__lt=Now()).delete()
    return answers + allowances
