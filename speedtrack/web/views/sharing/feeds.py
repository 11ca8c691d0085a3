"""Atom feeds: the alerts of one project or of all, by status as on their page; a project's changes and releases."""

import hashlib
from collections import defaultdict
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.contrib.syndication.views import Feed
from django.db.models import Max, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.feedgenerator import Atom1Feed
from django.utils.html import escape
from django.views.decorators.http import condition, require_safe

from speedtrack.accounts.access import Access
from speedtrack.alerts.headlines import headline
from speedtrack.alerts.models import Alert, AlertEvent
from speedtrack.alerts.triage.restorations import restoration_in_words
from speedtrack.benchmarks import numbers
from speedtrack.ground.texts.text import plain
from speedtrack.judging.summaries import summaries_of
from speedtrack.judging.verdicts import way_of
from speedtrack.projects.models import Project
from speedtrack.projects.releases import version_of
from speedtrack.web import scope
from speedtrack.web.addresses import commit_path
from speedtrack.web.pages import changes
from speedtrack.web.pages.alerting.alerts import ListedAlert, count_alerts, list_alerts
from speedtrack.web.pages.changes import ChangeGroup
from speedtrack.web.pages.sharing import releaseentries
from speedtrack.web.pages.sharing.releaseentries import ReleaseEntries, ReleaseEntry
from speedtrack.web.requests.permissions import access_of

LISTED = 30  # changes
LONGEST_NAME = 250  # as Tag.name
CERTAIN = ("confirmed", "history")
NO_XML = dict.fromkeys((0xFFFE, 0xFFFF))  # not allowed in XML, nor are control characters, which ``plain`` replaces


def xml_text(text: str) -> str:
    return " ".join(plain(text).translate(NO_XML).split())


if TYPE_CHECKING:
    FeedOfAlerts = Feed[ListedAlert, None]
    FeedOfChanges = Feed[ChangeGroup, None]
    FeedOfReleases = Feed[ReleaseEntry, None]
else:
    FeedOfAlerts = FeedOfChanges = FeedOfReleases = Feed


class AlertsFeed(FeedOfAlerts):
    """The newest alerts of a status. An entry keeps its id; each event of its alert changes ``updated``."""

    feed_type = Atom1Feed
    author_name = "SpeedTrack"

    def __init__(self, project: Project | None, status: str, access: Access) -> None:
        self.project, self.status, self.access = project, status, access
        page = reverse("alerts", args=[project.slug]) if project else reverse("all-alerts")
        self.link = f"{settings.URL}{page}?status={status}"
        self.feed_url = f"{settings.URL}{feed_path(project)}?status={status}"
        self.feed_guid = tag(f"alerts/{project.slug if project else ''}/{status}")
        self.title = f"{xml_text(project.name)}: alerts" if project else "SpeedTrack: alerts"
        if status != "all":
            self.title += f" ({status})"

    def items(self) -> list[ListedAlert]:
        rows = list_alerts(self.project, self.status, self.access)
        self.events: dict[int, list[AlertEvent]] = defaultdict(list)
        for event in AlertEvent.objects.filter(alert__in=[row.alert for row in rows]).order_by("pk"):
            self.events[event.alert_id].append(event)
        return rows

    def item_title(self, item: ListedAlert) -> str:
        title = headline(item.changes) or "changed"
        return xml_text(f"[{item.alert.project.slug}] {title} ({item.alert.status})")

    def item_description(self, item: ListedAlert) -> str:
        """The summary, which is HTML in Django's feeds."""
        alert = item.alert
        is_one_commit = not alert.drift and alert.width == 1
        commit = f" {alert.commit.subject} by {alert.commit.author_name}" if is_one_commit else ""
        restoration = restoration_in_words(self.events[alert.pk])
        cause = f"{alert.cause}{commit}, on {', '.join(alert.branch_names())}"
        return escape(xml_text("; ".join(filter(None, (cause, restoration)))))

    def item_link(self, item: ListedAlert) -> str:
        return settings.URL + reverse("alert", args=[item.alert.pk])

    def item_guid(self, item: ListedAlert) -> str:
        return tag(f"alert/{item.alert.pk}")

    def item_pubdate(self, item: ListedAlert) -> datetime:
        return item.alert.created

    def item_updateddate(self, item: ListedAlert) -> datetime:
        return max((event.at for event in self.events[item.alert.pk]), default=item.alert.created)

    def item_categories(self, item: ListedAlert) -> tuple[str, ...]:
        return (item.alert.status, item.alert.project.slug)


class ChangesFeed(FeedOfChanges):
    """The newest changes on the default branch of a project, as far as they are certain: no suspicions."""

    feed_type = Atom1Feed
    author_name = "SpeedTrack"

    def __init__(self, project: Project, groups: list[ChangeGroup]) -> None:
        self.project, self.groups = project, groups
        self.link = settings.URL + reverse("project", args=[project.slug])
        self.feed_url = settings.URL + reverse("changes-feed", args=[project.slug])
        self.feed_guid = tag(f"changes/{project.slug}")
        self.title = f"{xml_text(project.name)}: changes"

    def items(self) -> list[ChangeGroup]:
        self.summaries = summaries_of({group.commit.pk for group in self.groups}, with_progress=False)
        return self.groups

    def item_title(self, item: ChangeGroup) -> str:
        """The sentence of its commit."""
        return xml_text(self.summaries[item.commit.pk].sentence)

    def item_description(self, item: ChangeGroup) -> str:
        """The summary, which is HTML in Django's feeds."""
        commit = item.commit
        position = f"{commit.short} {commit.subject} by {commit.author_name}"
        if item.width > 1:
            position = f"one of {item.width} commits after {item.before.short} and up to {commit.short}"
        return escape(xml_text(f"{item.worst.metric.title} on {item.worst.series.machine.name}: {position}"))

    def item_link(self, item: ChangeGroup) -> str:
        page = (
            reverse("alert", args=[item.alert_id]) if item.alert_id else commit_path(self.project.slug, item.commit.sha)
        )
        return settings.URL + page

    def item_guid(self, item: ChangeGroup) -> str:
        return tag(f"change/{min(point.pk for point in item.points)}")

    def item_pubdate(self, item: ChangeGroup) -> datetime:
        return item.commit.committed_at

    item_updateddate = item_pubdate

    def item_categories(self, item: ChangeGroup) -> tuple[str, ...]:
        return (item.state, str(way_of(item.is_slowdown)))


class PagedFeed(Atom1Feed):
    """A feed with a link to the page of older entries (RFC 5005), if there is one."""

    def add_root_elements(self, handler: Any) -> None:
        super().add_root_elements(handler)
        if older := self.feed["older"]:
            handler.addQuickElement("link", "", {"rel": "next", "href": older})


class ReleasesFeed(FeedOfReleases):
    """The measured releases of a project, each against the one before it."""

    feed_type = PagedFeed
    author_name = "SpeedTrack"

    def __init__(self, project: Project, page: ReleaseEntries) -> None:
        self.project, self.page = project, page
        self.link = settings.URL + reverse("releases", args=[project.slug])
        self.feed_url = settings.URL + reverse("releases-feed", args=[project.slug])
        self.feed_guid = tag(f"releases/{project.slug}")
        self.title = f"{xml_text(project.name)}: releases"

    def feed_extra_kwargs(self, _: None) -> dict[str, str]:
        older = self.page.older
        return {"older": f"{self.feed_url}?{urlencode({'before': older})}" if older else ""}

    def items(self) -> list[ReleaseEntry]:
        return self.page.entries

    def item_title(self, item: ReleaseEntry) -> str:
        comparison = item.change
        if comparison is None or comparison.total.mean is None:
            return xml_text(f"{item.tag}: measured")
        total = comparison.total
        return xml_text(
            f"{item.tag}: {total.words}, {numbers.change(comparison.total.mean.ratio)} against {comparison.before}"
        )

    def item_description(self, item: ReleaseEntry) -> str:
        comparison, metric = item.change, item.metric
        if comparison is None:
            return escape(xml_text(f"The first release that was measured: {metric.title}."))
        total = comparison.total
        mean = f"geometric mean of {total.rests_on}" if total.benchmarks > 1 else total.rests_on
        interval = f"; 95% interval {total.interval_in_words}" if total.interval else ""
        return escape(xml_text(f"{metric.title} ({metric.better} is better), {mean}{interval}"))

    def item_link(self, item: ReleaseEntry) -> str:
        return settings.URL + commit_path(self.project.slug, item.sha)

    def item_guid(self, item: ReleaseEntry) -> str:
        return tag(f"release/{self.project.slug}/{item.sha}")

    def item_pubdate(self, item: ReleaseEntry) -> datetime:
        return item.committed_at

    item_updateddate = item_pubdate


@require_safe
def changes_feed(request: HttpRequest, slug: str) -> HttpResponse:
    project = scope.project_or_404(slug)
    branches = project.branches.default().values_list("pk", flat=True)
    groups_found = [group for groups in changes.newest_groups(branches, LISTED).values() for group in groups]
    return ChangesFeed(project, [group for group in groups_found if group.state in CERTAIN])(request)


@require_safe
def releases_feed(request: HttpRequest, slug: str) -> HttpResponse:
    project = scope.project_or_404(slug)
    before = request.GET.get("before", "")
    if before and (len(before) > LONGEST_NAME or version_of(before) is None):
        raise Http404(f"There is no release before {before[:80]!r}: give a version such as 2.1.0.")
    return ReleasesFeed(project, releaseentries.load(project, before))(request)


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
    access = access_of(request)
    events: QuerySet[AlertEvent] = AlertEvent.objects.filter(**({"alert__project": project} if project else {}))
    events = access.among(events, "alert__project")
    newest: dict[str, Any] = events.aggregate(pk=Max("pk"), at=Max("at"))
    count = sum(count_alerts(project, access).values())
    state = f"{settings.URL} {slug} {status} {newest['pk']} {count} {sorted(access.hidden)}"
    etag = f'"{hashlib.sha256(state.encode()).hexdigest()[:32]}"'
    answer = condition(lambda _: etag, lambda _: newest["at"])(AlertsFeed(project, status, access))
    return answer(request)
