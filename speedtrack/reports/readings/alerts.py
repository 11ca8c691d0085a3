"""Alerts with the data of their sentences."""

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef
from django.db.models.functions import JSONObject

from speedtrack.alerts.models import ChangePoint
from speedtrack.alerts.models.alerts import AlertQuerySet


def for_banners(alerts: AlertQuerySet) -> AlertQuerySet:
    """The alerts with all that a banner shows, by one query; ``change_rows``: their changes."""
    points = ChangePoint.objects.filter(alert=OuterRef("pk")).order_by("pk")
    columns = {"benchmark": "series__benchmark__name", "metric": "series__metric"}
    change_rows = points.values(row=JSONObject(**columns, ratio="ratio", low="low", high="high", from_zero="from_zero"))
    related = alerts.select_related("commit", "before", "branch", "assignee", "fixed_by")
    return related.with_range().annotate(listed=ArraySubquery(change_rows))
