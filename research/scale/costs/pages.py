"""Every GET address of ``urls.py`` with arguments from the data, through all middleware."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef
from django.test import Client
from django.urls import reverse

from research.scale.costs.meter import Cost, cost_of
from speedtrack.alerts.models import Alert
from speedtrack.api.v1.measurements.measuring import MOST_POINTS
from speedtrack.benchmarks.models import Benchmark
from speedtrack.http import webserver
from speedtrack.notices.models import Channel
from speedtrack.projects.models import Annotation, Commit, Delivery, Project
from speedtrack.runs.models import Machine, PairedComparison, Profile, Result, Run, Series, Status

CALLS = 12
#: Shown to people with an account.
PERSONAL = {
    *("channels", "channel-add", "channel", "notifications", "annotation", "installation", "machine-settings"),
    *("deliveries", "delivery"),
    *("settings", "project-settings", "project-untrack", "suites", "suite", "suite-new", "track"),
    *("members", "project-visibility", "audit", "audit-values", "project-audit", "project-audit-values"),
    *("pins", "policies", "measure", "account", "own-tokens", "own-sessions"),
}


@dataclass(frozen=True)
class Page:
    """Addresses of one kind. ``name``: that of ``urls.py``; ``title``: what is special about these."""

    name: str
    title: str
    addresses: list[str]


@dataclass(frozen=True)
class PageCost:
    page: Page
    cost: Cost
    wire: int


def to(name: str, *arguments: Any, query: str = "") -> str:
    return reverse(name, args=arguments) + query


def newest(rows: Any, count: int = CALLS) -> list[Any]:
    return list(rows.order_by("-pk")[:count])


def pages() -> list[Page]:
    return [*project_pages(), *timeline_pages(), *run_pages(), *other_pages(), *settings_pages()]


def project_pages() -> Iterable[Page]:
    wide = Project.objects.get(slug="wide")
    measured = Run.objects.filter(project=wide, reason="push").values("commit")
    commits = newest(Commit.objects.filter(pk__in=measured))
    series = Series.objects.filter(project=wide).count()
    yield Page("home", "", [to("home")])
    yield Page("home-values", "", [to("home-values")])
    yield Page("project", "a grid of 50 benchmarks", [to("project", "wide")])
    yield Page("project", "one benchmark, long history", [to("project", "long")])
    yield Page("project-values", "", [to("project-values", "wide", "json")])
    yield Page("board", "60 plots", [to("board", "wide")])
    yield Page("gains", "", [to("gains", "wide")])
    yield Page("all-gains", "", [to("all-gains")])
    yield Page("releases", "", [to("releases", "wide")])
    yield Page("changes-feed", "", [to("changes-feed", "long")])
    yield Page("releases-feed", "", [to("releases-feed", "wide")])
    yield Page("badge", "the change since the last release", [to("badge", "wide", "svg", query="?show=release")])
    yield Page("project-picture", "", [to("project-picture", "wide")])
    yield Page("releases-values", "", [to("releases-values", "wide", "json")])
    since = f"{min(one.committed_at for one in commits):%Y-%m-%dT%H:%M:%SZ}"
    yield Page("export", f"{len(commits)} commits", [to("export", "wide", "ndjson", query=f"?since={since}")])
    yield Page("openmetrics", "", [to("openmetrics", "wide")])
    yield Page("commit", f"{series} series", [to("commit", "wide", one.sha) for one in commits])
    yield Page("commit-values", f"{series} series", [to("commit-values", "wide", one.sha, "json") for one in commits])
    ends = [f"?base={old.sha}&head={new.sha}" for new, old in pairwise(commits)]
    yield Page("compare", f"{series} series", [to("compare", "wide", query=both) for both in ends])
    yield Page("compare", "all rows", [to("compare", "wide", query=f"{both}&rows=all") for both in ends])
    yield Page("story", f"{series} series", [to("story", "wide", query=both) for both in ends])
    yield Page("story-text", "", [to("story-text", "wide", query=both) for both in ends])
    yield Page("compare-values", "", [to("compare-values", "wide", "json", query=both) for both in ends])
    benchmarks = Benchmark.objects.filter(project=wide).order_by("pk").values_list("name", flat=True)
    yield Page("latency", "", [to("latency", "wide", name) for name in benchmarks[:CALLS]])
    yield Page("latency-values", "", [to("latency-values", "wide", name, "json") for name in benchmarks[:CALLS]])
    yield Page("compare-picture", "", [to("compare-picture", "wide", query=both) for both in ends])
    yield Page("alerts", "", [to("alerts", "wide", query="?status=all")])
    yield Page("alerts-values", "", [to("alerts-values", "wide", "json", query="?status=all")])
    yield Page("alerts-feed", "", [to("alerts-feed", "wide")])
    yield Page("sensitivity", "", [to("sensitivity", "wide")])
    yield Page("sensitivity-values", "", [to("sensitivity-values", "wide", "json")])
    yield Page("mutes", "", [to("mutes", "wide")])
    yield Page("policies", "", [to("policies", "wide")])
    yield Page("measure", "", [to("measure", "wide")])
    yield Page("pulls", "", [to("pulls", "wide")])
    yield Page("tries", "", [to("tries", "wide")])
    if comparison := PairedComparison.objects.select_related("project").first():
        yield Page("try", "", [to("try", comparison.project.slug, comparison.pk)])
    yield Page("bisect", "", [to("bisect", "wide")])
    yield Page("channels", "", [to("channels", "wide")])
    yield Page("channel-add", "", [to("channel-add", "wide", "webhook")])
    if channel := Channel.objects.first():
        yield Page("channel", "", [to("channel", channel.project.slug, channel.pk)])


def timeline_pages() -> Iterable[Page]:
    line = Series.objects.filter(project__slug="long").select_related("benchmark").order_by("pk")[0]
    about = ("long", line.benchmark.name, line.metric)
    everywhere = "?last=all&" + "&".join(f"machine={m}" for m in Machine.objects.values_list("name", flat=True))
    points = Run.objects.filter(project__slug="long", machine__name="m1", reason="push").count()
    whole = f"{points} commits"
    yield Page("timeline", "200 commits", [to("timeline", *about)])
    newest_commit = Commit.objects.filter(measurements__series=line).order_by("-positions__number").first()
    assert newest_commit
    yield Page("timeline-why", "", [to("timeline-why", *about, query=f"?commit={newest_commit.sha}")])
    yield Page("takes", "", [to("takes", *about)])
    yield Page("embed", "", [to("embed", *about)])
    yield Page("timeline-picture", "", [to("timeline-picture", *about)])
    yield Page("timeline", f"{whole} x 8 machines", [to("timeline", *about, query=everywhere)])
    yield Page("timeline-values", f"JSON, {whole}", [to("timeline-values", *about, "json", query="?last=all")])
    yield Page(
        "timeline-values", f"JSON, {whole} x 8 machines", [to("timeline-values", *about, "json", query=everywhere)]
    )
    points_address = to("api:read_points", line.pk, query=f"?limit={MOST_POINTS}")
    yield Page("api:read_points", f"the API's JSON, {whole}", [points_address])
    yield Page("timeline-values", f"SVG, {whole}", [to("timeline-values", *about, "svg", query="?last=all")])
    wide = Series.objects.filter(project__slug="wide").select_related("benchmark", "machine").order_by("pk")[0]
    named = f"wide/{wide.benchmark.name}/{wide.metric}@{wide.machine.name}"
    three = f"?line={named}:main&line={named}:2.0"
    yield Page("timeline-values", "JSON, lines of three branches", [to("timeline-values", *about, "json", query=three)])
    yield Page("lines", "", [to("lines", "wide", query="?q=get+main")])
    yield Page("timeline-values", f"CSV, {whole}", [to("timeline-values", *about, "csv", query="?last=all")])


def run_pages() -> Iterable[Page]:
    ended = Run.objects.filter(project__slug="wide", status=Status.SUCCEEDED)
    documented = Result.objects.filter(attempt__run=OuterRef("pk"))
    pushed = newest(ended.filter(Exists(documented), reason="push"))
    waiting = newest(Run.objects.filter(status=Status.QUEUED))
    paired = newest(ended.filter(reason="confirm"))
    yield Page("run", "400 measurements, 250 trials", [to("run", one.pk) for one in pushed])
    yield Page("run-values", "", [to("run-values", one.pk, "json") for one in pushed])
    yield Page("run", "of pairs", [to("run", one.pk) for one in paired])
    yield Page("run", "that waits", [to("run", one.pk) for one in waiting])
    for name in ("run-log", "run-log-lines", "run-log-text"):
        yield Page(name, "", [to(name, one.pk) for one in pushed])
    yield Page("run-script", "", [to("run-script", one.pk) for one in pushed])
    if profile := Profile.objects.first():
        yield Page("profile-folded", "", [to("profile-folded", profile.pk)])


def other_pages() -> Iterable[Page]:
    alerts = newest(Alert.objects.filter(project__slug="wide"))
    yield Page("all-alerts", "", [to("all-alerts", query="?status=all")])
    yield Page("all-alerts-values", "", [to("all-alerts-values", "json", query="?status=all")])
    yield Page("all-alerts-feed", "", [to("all-alerts-feed")])
    yield Page("alert", "of 5 machines", [to("alert", one.pk) for one in alerts])
    yield Page("alert-values", "", [to("alert-values", one.pk) for one in alerts])
    yield Page("alert-picture", "", [to("alert-picture", one.pk) for one in alerts])
    yield Page("machines", "", [to("machines")])
    yield Page("search", "words of subjects", [to("search", query="?q=change+number")])
    yield Page("search-values", "words of subjects", [to("search-values", query="?q=change+number")])
    yield Page("search-values", "a sha", [to("search-values", query="?q=abcde")])
    yield Page("ladders", "", [to("ladders")])
    yield Page("ladders-values", "", [to("ladders-values", "json")])
    waiting = Run.objects.filter(status=Status.QUEUED).count()
    yield Page("queue", f"{waiting} waiting", [to("queue")])
    yield Page("machine", "", [to("machine", "m1")])
    yield Page("machine-values", "", [to("machine-values", "m1", "json")])
    yield Page("notifications", "", [to("notifications")])
    yield Page("help-index", "", [to("help-index")])
    yield Page("help", "", [to("help", "methodology")])
    yield Page("api-docs", "", [to("api-docs")])
    yield Page("api-openapi", "", [to("api-openapi")])
    yield Page("login", "", [to("login")])
    yield Page("account", "", [to("account")])
    yield Page("own-tokens", "", [to("own-tokens")])
    yield Page("own-sessions", "", [to("own-sessions")])
    yield Page("healthz", "", [to("healthz")])
    yield Page("metrics", "", [to("metrics")])


def settings_pages() -> Iterable[Page]:
    notes = newest(Annotation.objects.filter(project__slug="wide"))
    yield Page("annotations", f"{Annotation.objects.filter(project__slug='wide').count()}", [to("annotations", "wide")])
    yield Page("all-annotations", "", [to("all-annotations")])
    yield Page("annotation", "", [to("annotation", one.pk) for one in notes])
    yield Page("settings", "", [to("settings")])
    yield Page("pins", "an empty board", [to("pins")])
    yield Page("project-settings", "", [to("project-settings", "wide")])
    yield Page("project-untrack", "", [to("project-untrack", "wide")])
    calls = Delivery.objects.filter(project__slug="wide")
    yield Page("deliveries", f"{calls.count()}", [to("deliveries", "wide")])
    yield Page("delivery", "", [to("delivery", "wide", one.pk) for one in newest(calls.only("pk"))])
    yield Page("track", "", [to("track")])
    yield Page("members", "", [to("members", "wide")])
    yield Page("project-visibility", "", [to("project-visibility", "wide")])
    yield Page("audit", "", [to("audit")])
    yield Page("audit-values", "", [to("audit-values", "json")])
    yield Page("project-audit", "", [to("project-audit", "wide")])
    yield Page("project-audit-values", "", [to("project-audit-values", "wide", "csv")])
    yield Page("suites", "", [to("suites")])
    yield Page("suite", "50 benchmarks", [to("suite", "wide")])
    yield Page("suite-new", "", [to("suite-new")])
    yield Page("machine-settings", "", [to("machine-settings")])
    yield Page("installation", "", [to("installation")])


def measure(calls: int = CALLS) -> Iterable[PageCost]:
    webserver.load_pages()
    user, _ = User.objects.get_or_create(
        username="bench", defaults={"email": "bench@example.org", "is_superuser": True}
    )
    person, visitor = (Client(SERVER_NAME="localhost", headers={"accept-encoding": "gzip"}) for _ in range(2))
    person.force_login(user, backend=settings.AUTHENTICATION_BACKENDS[-1])
    for page in pages():
        if page.addresses:
            yield cost_of_page(page, person if page.name in PERSONAL else visitor, calls)


def cost_of_page(page: Page, client: Client, calls: int) -> PageCost:
    sizes: list[int] = []
    targets = [page.addresses[number % len(page.addresses)] for number in range(calls)]
    each: list[Callable[[], object]] = [partial(get, client, address, sizes) for address in targets]
    return PageCost(page, cost_of(each), max(sizes))


def get(client: Client, address: str, sizes: list[int]) -> None:
    response: Any = client.get(address)
    assert response.status_code == 200, f"{address}: {response.status_code}"
    sent = b"".join(response.streaming_content) if response.streaming else response.content
    sizes.append(len(sent))
