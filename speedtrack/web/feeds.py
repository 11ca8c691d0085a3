"""Atom feeds of the alerts, of one project or of all, by status as on the page of alerts."""

import hashlib
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.syndication.views import Feed
from django.db.models import Max, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.feedgenerator import Atom1Feed
from django.utils.html import escape
from django.views.decorators.http import condition, require_safe

from speedtrack.alerts.models import Alert, AlertEvent
from speedtrack.benchmarks import numbers
from speedtrack.projects.models import Project
from speedtrack.text import plain
from speedtrack.web import scope
from speedtrack.web.pages.alerts import ListedAlert, count_alerts, list_alerts

NO_XML = dict.fromkeys((0xFFFE, 0xFFFF))  # not allowed in XML, nor are control characters, which ``plain`` replaces


def xml_text(text: str) -> str:
    return " ".join(plain(text).translate(NO_XML).split())


if TYPE_CHECKING:
    FeedOfAlerts = Feed[ListedAlert, None]
else:
    FeedOfAlerts = Feed


class AlertsFeed(FeedOfAlerts):
    """The newest alerts of a status. An entry keeps its id; each event of its alert changes ``updated``."""

    feed_type = Atom1Feed
    author_name = "SpeedTrack"

    def __init__(self, project: Project | None, status: str) -> None:
        self.project, self.status = project, status
        page = reverse("alerts", args=[project.slug]) if project else reverse("all-alerts")
        self.link = f"{settings.URL}{page}?status={status}"
        self.feed_url = f"{settings.URL}{feed_path(project)}?status={status}"
        self.feed_guid = tag(f"alerts/{project.slug if project else ''}/{status}")
        self.title = f"{xml_text(project.name)}: alerts" if project else "SpeedTrack: alerts"
        if status != "all":
            self.title += f" ({status})"

    def items(self) -> list[ListedAlert]:
        found = list_alerts(self.project, self.status)
        events = AlertEvent.objects.filter(alert__in=[row.alert for row in found])
        self.updated = dict(events.values_list("alert").annotate(Max("at")).order_by())
        return found

    def item_title(self, item: ListedAlert) -> str:
        change = "changed"
        if worst := item.worst:
            more = f" and {item.series - 1} more" if item.series > 1 else ""
            change = f"{worst.effect} {numbers.change(worst.ratio)} {worst.benchmark}{more}"
        return xml_text(f"[{item.alert.project.slug}] {change} ({item.alert.status})")

    def item_description(self, item: ListedAlert) -> str:
        """The summary, which is HTML in Django's feeds."""
        alert = item.alert
        one = not alert.drift and alert.width == 1
        commit = f" {alert.commit.subject} by {alert.commit.author_name}" if one else ""
        return escape(xml_text(f"{alert.cause}{commit}, on {', '.join(alert.branch_names())}"))

    def item_link(self, item: ListedAlert) -> str:
        return settings.URL + reverse("alert", args=[item.alert.pk])

    def item_guid(self, item: ListedAlert) -> str:
        return tag(f"alert/{item.alert.pk}")

    def item_pubdate(self, item: ListedAlert) -> datetime:
        return item.alert.created

    def item_updateddate(self, item: ListedAlert) -> datetime:
        return self.updated.get(item.alert.pk) or item.alert.created

    def item_categories(self, item: ListedAlert) -> tuple[str, ...]:
        return (item.alert.status, item.alert.project.slug)


def tag(name: str) -> str:
    """An id that stays the same when the server's scheme or port changes (RFC 4151)."""
    return f"tag:{urlsplit(settings.URL).hostname},2026:speedtrack/{name}"


def feed_path(project: Project | None) -> str:
    return reverse("alerts-feed", args=[project.slug]) if project else reverse("all-alerts-feed")


@require_safe
def alerts_feed(request: HttpRequest, slug: str | None = None) -> HttpResponse:
    """The feed, or 304 if these alerts have no new event since the reader fetched it."""
    project = scope.project_or_404(slug) if slug else None
    status = request.GET.get("status", "all")
    status = status if status in ("open", *Alert.Status.values) else "all"
    events: QuerySet[AlertEvent] = AlertEvent.objects.filter(**({"alert__project": project} if project else {}))
    newest: dict[str, Any] = events.aggregate(pk=Max("pk"), at=Max("at"))
    state = f"{settings.URL} {slug} {status} {newest['pk']} {sum(count_alerts(project).values())}"
    etag = f'"{hashlib.sha256(state.encode()).hexdigest()[:32]}"'
    answer = condition(lambda _: etag, lambda _: newest["at"])(AlertsFeed(project, status))
    return answer(request)
