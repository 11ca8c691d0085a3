"""Delete data of calls that nobody needs any more: answers after a day, and allowances that are whole."""

from django.db.models.functions import Now

from speedtrack.calls.keys import KEPT
from speedtrack.calls.models import Allowance, KeptAnswer


def delete_spent() -> int:
    """Delete these rows. Return their number."""
    answers, _ = KeptAnswer.objects.filter(created__lt=Now() - KEPT).delete()
    allowances, _ = Allowance.objects.filter(whole_at__lt=Now()).delete()
    return answers + allowances
