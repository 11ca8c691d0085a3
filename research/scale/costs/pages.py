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
from speedtrack.projects.models import Annotation, Branch, Commit, Delivery, Project
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


@dataclass(frozen=True)
class Subject:
    """The slugs of the projects whose pages are measured: one with many series, and one with a long history."""

    wide: str = "wide"
    long: str = "long"

    @property
    def machine(self) -> str:
        """The first machine of the wide project, or the first that has sent results of it."""
        machines = Machine.objects.order_by("pk").values_list("name", flat=True)
        return machines.filter(projects__slug=self.wide).first() or machines.filter(series__project__slug=self.wide)[0]


HISTORIES = Subject()


def pages(subject: Subject) -> list[Page]:
    return [*pages_of_projects(subject), *other_pages()]


def pages_of_projects(subject: Subject) -> list[Page]:
    """Those that are about its projects."""
    return [
        *project_pages(subject.wide),
        *grid_pages(subject),
        *list_pages(subject.wide),
        *timeline_pages(subject),
        *run_pages(subject.wide),
        *alert_pages(subject.wide),
        *settings_pages(subject.wide),
    ]


def grid_pages(subject: Subject) -> Iterable[Page]:
    for slug in dict.fromkeys((subject.wide, subject.long)):
        benchmarks = Benchmark.objects.filter(project__slug=slug, series__isnull=False).distinct().count()
        yield Page("project", f"a grid of {benchmarks} benchmarks", [to("project", slug)])
    yield Page("machine", "", [to("machine", subject.machine)])
    yield Page("machine-values", "", [to("machine-values", subject.machine, "json")])


def list_pages(slug: str) -> Iterable[Page]:
    for name in ("alerts", "change_points", "commits", "measurements", "runs", "sensitivity", "series"):
        yield Page(f"api:list_{name}", "1,000 rows", [to(f"api:list_{name}", slug, query="?limit=1000")])


def project_pages(slug: str) -> Iterable[Page]:
    wide = Project.objects.get(slug=slug)
    measured = Run.objects.filter(project=wide, reason__in=("push", "import")).values("commit")
    commits = newest(Commit.objects.filter(pk__in=measured))
    series = Series.objects.filter(project=wide).count()
    yield Page("project-values", "", [to("project-values", slug, "json")])
    yield Page("board", "60 plots", [to("board", slug)])
    yield Page("gains", "", [to("gains", slug)])
    yield Page("releases", "", [to("releases", slug)])
    yield Page("changes-feed", "", [to("changes-feed", slug)])
    yield Page("releases-feed", "", [to("releases-feed", slug)])
    yield Page("badge", "the change since the last release", [to("badge", slug, "svg", query="?show=release")])
    yield Page("project-picture", "", [to("project-picture", slug)])
    yield Page("releases-values", "", [to("releases-values", slug, "json")])
    if commits:
        head = newest(Commit.objects.filter(pk__in=measured, positions__branch__name=wide.default_branch))
        since = (
            f"{min(commit.committed_at for commit in head):%Y-%m-%dT%H:%M:%SZ}"  # those of other branches are far apart
        )
        yield Page("export", f"{len(head)} commits", [to("export", slug, "ndjson", query=f"?since={since}")])
    yield Page("openmetrics", "", [to("openmetrics", slug)])
    yield Page("commit", f"{series} series", [to("commit", slug, one.sha) for one in commits])
    yield Page("commit-values", f"{series} series", [to("commit-values", slug, one.sha, "json") for one in commits])
    ends = [f"?base={old.sha}&head={new.sha}" for new, old in pairwise(commits)]
    yield Page("compare", f"{series} series", [to("compare", slug, query=both) for both in ends])
    yield Page("compare", "all rows", [to("compare", slug, query=f"{both}&rows=all") for both in ends])
    yield Page("story", f"{series} series", [to("story", slug, query=both) for both in ends])
    yield Page("story-text", "", [to("story-text", slug, query=both) for both in ends])
    yield Page("compare-values", "", [to("compare-values", slug, "json", query=both) for both in ends])
    benchmarks = Benchmark.objects.filter(project=wide).order_by("pk").values_list("name", flat=True)
    yield Page("latency", "", [to("latency", slug, name) for name in benchmarks[:CALLS]])
    yield Page("latency-values", "", [to("latency-values", slug, name, "json") for name in benchmarks[:CALLS]])
    yield Page("compare-picture", "", [to("compare-picture", slug, query=both) for both in ends])
    yield Page("alerts", "", [to("alerts", slug, query="?status=all")])
    yield Page("alerts-values", "", [to("alerts-values", slug, "json", query="?status=all")])
    yield Page("alerts-feed", "", [to("alerts-feed", slug)])
    yield Page("sensitivity", "", [to("sensitivity", slug)])
    yield Page("sensitivity-values", "", [to("sensitivity-values", slug, "json")])
    yield Page("mutes", "", [to("mutes", slug)])
    yield Page("policies", "", [to("policies", slug)])
    yield Page("measure", "", [to("measure", slug)])
    yield Page("pulls", "", [to("pulls", slug)])
    yield Page("tries", "", [to("tries", slug)])
    if comparison := PairedComparison.objects.filter(project=wide).first():
        yield Page("try", "", [to("try", slug, comparison.pk)])
    yield Page("bisect", "", [to("bisect", slug)])
    yield Page("channels", "", [to("channels", slug)])
    yield Page("channel-add", "", [to("channel-add", slug, "webhook")])
    if channel := Channel.objects.filter(project=wide).first():
        yield Page("channel", "", [to("channel", slug, channel.pk)])


def timeline_pages(subject: Subject) -> Iterable[Page]:
    lines = Series.objects.select_related("benchmark", "machine").order_by("pk")
    line, wide = (lines.filter(project__slug=slug).first() for slug in (subject.long, subject.wide))
    if line is None or wide is None:
        return
    about = (subject.long, line.benchmark.name, line.metric)
    machines = Machine.objects.filter(series__project__slug=subject.long).order_by("pk").distinct()
    everywhere = "?last=all&" + "&".join(f"machine={machine.name}" for machine in machines[:8])
    whole = f"{Commit.objects.filter(measurements__series=line, measurements__paired=False).distinct().count()} commits"
    yield Page("timeline", "200 commits", [to("timeline", *about)])
    newest_commit = Commit.objects.filter(measurements__series=line).order_by("-pk").first()
    assert newest_commit
    yield Page("timeline-why", "", [to("timeline-why", *about, query=f"?commit={newest_commit.sha}")])
    yield Page("takes", "", [to("takes", *about)])
    yield Page("embed", "", [to("embed", *about)])
    yield Page("timeline-picture", "", [to("timeline-picture", *about)])
    on_all = f"{whole} x {len(machines[:8])} machines"
    yield Page("timeline", on_all, [to("timeline", *about, query=everywhere)])
    yield Page("timeline-values", f"JSON, {whole}", [to("timeline-values", *about, "json", query="?last=all")])
    yield Page("timeline-values", f"JSON, {on_all}", [to("timeline-values", *about, "json", query=everywhere)])
    points_address = to("api:read_points", line.pk, query=f"?limit={MOST_POINTS}")
    yield Page("api:read_points", f"the API's JSON, {whole}", [points_address])
    yield Page("timeline-values", f"SVG, {whole}", [to("timeline-values", *about, "svg", query="?last=all")])
    named = f"{subject.wide}/{wide.benchmark.name}/{wide.metric}@{wide.machine.name}"
    branches = Branch.objects.filter(project__slug=subject.wide).order_by("pk").values_list("name", flat=True)[:8]
    each = "?" + "&".join(f"line={named}:{branch}" for branch in branches)
    title = f"JSON, lines of {len(branches)} branches"
    yield Page("timeline-values", title, [to("timeline-values", *about, "json", query=each)])
    yield Page("lines", "", [to("lines", subject.wide, query="?q=get+main")])
    yield Page("timeline-values", f"CSV, {whole}", [to("timeline-values", *about, "csv", query="?last=all")])


def run_pages(slug: str) -> Iterable[Page]:
    ended = Run.objects.filter(project__slug=slug, status=Status.SUCCEEDED)
    documented = Result.objects.filter(attempt__run=OuterRef("pk"))
    pushed = newest(ended.filter(Exists(documented), reason="push")) or newest(ended)
    waiting = newest(Run.objects.filter(project__slug=slug, status=Status.QUEUED))
    paired = newest(ended.filter(reason="confirm"))
    yield Page("run", "of a push", [to("run", one.pk) for one in pushed])
    yield Page("run-values", "", [to("run-values", one.pk, "json") for one in pushed])
    yield Page("run", "of pairs", [to("run", one.pk) for one in paired])
    yield Page("run", "that waits", [to("run", one.pk) for one in waiting])
    for name in ("run-log", "run-log-lines", "run-log-text"):
        yield Page(name, "", [to(name, one.pk) for one in pushed])
    yield Page("run-script", "", [to("run-script", one.pk) for one in pushed])
    if profile := Profile.objects.filter(attempt__run__project__slug=slug).first():
        yield Page("profile-folded", "", [to("profile-folded", profile.pk)])


def alert_pages(slug: str) -> Iterable[Page]:
    alerts = newest(Alert.objects.filter(project__slug=slug))
    yield Page("alert", "with its lines", [to("alert", one.pk) for one in alerts])
    yield Page("alert-values", "", [to("alert-values", one.pk) for one in alerts])
    yield Page("alert-picture", "", [to("alert-picture", one.pk) for one in alerts])


def other_pages() -> Iterable[Page]:
    yield Page("home", "", [to("home")])
    yield Page("home-values", "", [to("home-values")])
    yield Page("all-gains", "", [to("all-gains")])
    yield Page("all-alerts", "", [to("all-alerts", query="?status=all")])
    yield Page("all-alerts-values", "", [to("all-alerts-values", "json", query="?status=all")])
    yield Page("all-alerts-feed", "", [to("all-alerts-feed")])
    yield Page("machines", "", [to("machines")])
    yield Page("search", "words of subjects", [to("search", query="?q=change+number")])
    yield Page("search-values", "words of subjects", [to("search-values", query="?q=change+number")])
    yield Page("search-values", "a sha", [to("search-values", query="?q=abcde")])
    yield Page("ladders", "", [to("ladders")])
    yield Page("ladders-values", "", [to("ladders-values", "json")])
    waiting = Run.objects.filter(status=Status.QUEUED).count()
    yield Page("queue", f"{waiting} waiting", [to("queue")])
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
    yield Page("all-annotations", "", [to("all-annotations")])
    yield Page("settings", "", [to("settings")])
    yield Page("pins", "an empty board", [to("pins")])
    yield Page("track", "", [to("track")])
    yield Page("audit", "", [to("audit")])
    yield Page("audit-values", "", [to("audit-values", "json")])
    yield Page("suites", "", [to("suites")])
    yield Page("suite-new", "", [to("suite-new")])
    yield Page("machine-settings", "", [to("machine-settings")])
    yield Page("installation", "", [to("installation")])


def settings_pages(slug: str) -> Iterable[Page]:
    notes = newest(Annotation.objects.filter(project__slug=slug))
    yield Page("annotations", f"{Annotation.objects.filter(project__slug=slug).count()}", [to("annotations", slug)])
    yield Page("annotation", "", [to("annotation", one.pk) for one in notes])
    yield Page("project-settings", "", [to("project-settings", slug)])
    yield Page("project-untrack", "", [to("project-untrack", slug)])
    calls = Delivery.objects.filter(project__slug=slug)
    yield Page("deliveries", f"{calls.count()}", [to("deliveries", slug)])
    yield Page("delivery", "", [to("delivery", slug, one.pk) for one in newest(calls.only("pk"))])
    yield Page("members", "", [to("members", slug)])
    yield Page("project-visibility", "", [to("project-visibility", slug)])
    yield Page("project-audit", "", [to("project-audit", slug)])
    yield Page("project-audit-values", "", [to("project-audit-values", slug, "csv")])
    yield Page("suite", "", [to("suite", Project.objects.get(slug=slug).suite)])


def measure(subject: Subject = HISTORIES, calls: int = CALLS) -> Iterable[PageCost]:
    """Each page as a visitor sees it, or as an operator if it needs an account."""
    visitor, operator = client_of(None), client_of("")
    for page in pages(subject):
        if page.addresses:
            yield cost_of_page(page, operator if page.name in PERSONAL else visitor, calls)


def client_of(person: str | None) -> Client:
    """The browser of a visitor (None), of the person of this name, or of an operator (empty)."""
    webserver.load_pages()
    client = Client(SERVER_NAME="localhost", headers={"accept-encoding": "gzip"})
    if person is not None:
        client.force_login(operator_or(person), backend=settings.AUTHENTICATION_BACKENDS[-1])
    return client


def operator_or(person: str) -> User:
    if person:
        return User.objects.get(username=person)
    rights = {"email": "bench@example.org", "is_superuser": True}
    return User.objects.get_or_create(username="bench", defaults=rights)[0]


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
