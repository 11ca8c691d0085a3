"""Change points that are not settled yet: how they are read, and how they end."""

from django.db.models.functions import Now

from speedtrack.alerts.models import ChangePoint
from speedtrack.ground.postgres.preparedquery import RareRows

RELATED = ("series__benchmark", "series__machine", "series__project", "branch", "before", "commit")
SETTLING_CHANGES = RareRows(lambda: ChangePoint.objects.settling())


def end_settling(cp: ChangePoint, status: ChangePoint.Status, note: str) -> None:
    cp.status, cp.note = status, note
    ChangePoint.objects.filter(pk=cp.pk).update(status=status, note=note, settled_at=Now())
