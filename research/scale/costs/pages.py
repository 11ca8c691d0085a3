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
class PageKind:
    """Addresses of one kind. ``name``: that of ``urls.py``; ``title``: how these differ from others of the name."""

    name: str
    title: str
    addresses: list[str]


@dataclass(frozen=True)
class PageCost:
    page: PageKind
    cost: Cost
    wire: int


def to(name: str, *arguments: Any, query: str = "") -> str:
    return reverse(name, args=arguments) + query


def newest(rows: Any, count: int = CALLS) -> list[Any]:
    return list(rows.order_by("-pk")[:count])


@dataclass(frozen=True)
class MeasuredProjects:
    """The slugs of the projects whose pages are measured: one with many series, and one with a long history."""

    wide: str = "wide"
    long: str = "long"

    @property
    def machine(self) -> str:
        """The first machine of the wide project, or the first that has sent results of it."""
        machines = Machine.objects.order_by("pk").values_list("name", flat=True)
        return machines.filter(projects__slug=self.wide).first() or machines.filter(series__project__slug=self.wide)[0]


HISTORIES = MeasuredProjects()


def pages(subject: MeasuredProjects) -> list[PageKind]:
    return [*pages_of_projects(subject), *other_pages()]


def pages_of_projects(subject: MeasuredProjects) -> list[PageKind]:
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


def grid_pages(subject: MeasuredProjects) -> Iterable[PageKind]:
    for slug in dict.fromkeys((subject.wide, subject.long)):
        benchmarks = Benchmark.objects.filter(project__slug=slug, series__isnull=False).distinct().count()
        yield PageKind("project", f"a grid of {benchmarks} benchmarks", [to("project", slug)])
    yield PageKind("machine", "", [to("machine", subject.machine)])
    yield PageKind("machine-values", "", [to("machine-values", subject.machine, "json")])


def list_pages(slug: str) -> Iterable[PageKind]:
    for name in ("alerts", "change_points", "commits", "measurements", "runs", "sensitivity", "series"):
        yield PageKind(f"api:list_{name}", "1,000 rows", [to(f"api:list_{name}", slug, query="?limit=1000")])


def project_pages(slug: str) -> Iterable[PageKind]:
    wide = Project.objects.get(slug=slug)
    measured_commits = Run.objects.filter(project=wide, reason__in=("push", "import")).values("commit")
    commits = newest(Commit.objects.filter(pk__in=measured_commits))
    series = Series.objects.filter(project=wide).count()
    yield PageKind("project-values", "", [to("project-values", slug, "json")])
    yield PageKind("board", "60 plots", [to("board", slug)])
    yield PageKind("gains", "", [to("gains", slug)])
    yield PageKind("releases", "", [to("releases", slug)])
    yield PageKind("changes-feed", "", [to("changes-feed", slug)])
    yield PageKind("releases-feed", "", [to("releases-feed", slug)])
    yield PageKind("badge", "the change since the last release", [to("badge", slug, "svg", query="?show=release")])
    yield PageKind("project-picture", "", [to("project-picture", slug)])
    yield PageKind("releases-values", "", [to("releases-values", slug, "json")])
    if commits:
        head = newest(Commit.objects.filter(pk__in=measured_commits, positions__branch__name=wide.default_branch))
        since = (
            f"{min(commit.committed_at for commit in head):%Y-%m-%dT%H:%M:%SZ}"  # those of other branches are far apart
        )
        yield PageKind("export", f"{len(head)} commits", [to("export", slug, "ndjson", query=f"?since={since}")])
    yield PageKind("openmetrics", "", [to("openmetrics", slug)])
    yield PageKind("commit", f"{series} series", [to("commit", slug, commit.sha) for commit in commits])
    yield PageKind(
        "commit-values", f"{series} series", [to("commit-values", slug, commit.sha, "json") for commit in commits]
    )
    ends = [f"?base={old.sha}&head={new.sha}" for new, old in pairwise(commits)]
    yield PageKind("compare", f"{series} series", [to("compare", slug, query=both) for both in ends])
    yield PageKind("compare", "all rows", [to("compare", slug, query=f"{both}&rows=all") for both in ends])
    yield PageKind("story", f"{series} series", [to("story", slug, query=both) for both in ends])
    yield PageKind("story-text", "", [to("story-text", slug, query=both) for both in ends])
    yield PageKind("compare-values", "", [to("compare-values", slug, "json", query=both) for both in ends])
    benchmarks = Benchmark.objects.filter(project=wide).order_by("pk").values_list("name", flat=True)
    yield PageKind("latency", "", [to("latency", slug, name) for name in benchmarks[:CALLS]])
    yield PageKind("latency-values", "", [to("latency-values", slug, name, "json") for name in benchmarks[:CALLS]])
    yield PageKind("compare-picture", "", [to("compare-picture", slug, query=both) for both in ends])
    yield PageKind("alerts", "", [to("alerts", slug, query="?status=all")])
    yield PageKind("alerts-values", "", [to("alerts-values", slug, "json", query="?status=all")])
    yield PageKind("alerts-feed", "", [to("alerts-feed", slug)])
    yield PageKind("sensitivity", "", [to("sensitivity", slug)])
    yield PageKind("sensitivity-values", "", [to("sensitivity-values", slug, "json")])
    yield PageKind("mutes", "", [to("mutes", slug)])
    yield PageKind("policies", "", [to("policies", slug)])
    yield PageKind("measure", "", [to("measure", slug)])
    yield PageKind("pulls", "", [to("pulls", slug)])
    yield PageKind("tries", "", [to("tries", slug)])
    if comparison := PairedComparison.objects.filter(project=wide).first():
        yield PageKind("try", "", [to("try", slug, comparison.pk)])
    yield PageKind("bisect", "", [to("bisect", slug)])
    yield PageKind("channels", "", [to("channels", slug)])
    yield PageKind("channel-add", "", [to("channel-add", slug, "webhook")])
    if channel := Channel.objects.filter(project=wide).first():
        yield PageKind("channel", "", [to("channel", slug, channel.pk)])


def timeline_pages(subject: MeasuredProjects) -> Iterable[PageKind]:
    lines = Series.objects.select_related("benchmark", "machine").order_by("pk")
    line, wide = (lines.filter(project__slug=slug).first() for slug in (subject.long, subject.wide))
    if line is None or wide is None:
        return
    about = (subject.long, line.benchmark.name, line.metric)
    machines = Machine.objects.filter(series__project__slug=subject.long).order_by("pk").distinct()
    everywhere = "?last=all&" + "&".join(f"machine={machine.name}" for machine in machines[:8])
    all_commits = (
        f"{Commit.objects.filter(measurements__series=line, measurements__paired=False).distinct().count()} commits"
    )
    yield PageKind("timeline", "200 commits", [to("timeline", *about)])
    newest_commit = Commit.objects.filter(measurements__series=line).order_by("-pk").first()
    assert newest_commit
    yield PageKind("timeline-why", "", [to("timeline-why", *about, query=f"?commit={newest_commit.sha}")])
    yield PageKind("takes", "", [to("takes", *about)])
    yield PageKind("embed", "", [to("embed", *about)])
    yield PageKind("timeline-picture", "", [to("timeline-picture", *about)])
    on_all = f"{all_commits} x {len(machines[:8])} machines"
    yield PageKind("timeline", on_all, [to("timeline", *about, query=everywhere)])
    yield PageKind(
        "timeline-values", f"JSON, {all_commits}", [to("timeline-values", *about, "json", query="?last=all")]
    )
    yield PageKind("timeline-values", f"JSON, {on_all}", [to("timeline-values", *about, "json", query=everywhere)])
    points_address = to("api:read_points", line.pk, query=f"?limit={MOST_POINTS}")
    yield PageKind("api:read_points", f"the API's JSON, {all_commits}", [points_address])
    yield PageKind("timeline-values", f"SVG, {all_commits}", [to("timeline-values", *about, "svg", query="?last=all")])
    line_key = f"{subject.wide}/{wide.benchmark.name}/{wide.metric}@{wide.machine.name}"
    branches = Branch.objects.filter(project__slug=subject.wide).order_by("pk").values_list("name", flat=True)[:8]
    each = "?" + "&".join(f"line={line_key}:{branch}" for branch in branches)
    title = f"JSON, lines of {len(branches)} branches"
    yield PageKind("timeline-values", title, [to("timeline-values", *about, "json", query=each)])
    yield PageKind("lines", "", [to("lines", subject.wide, query="?q=get+main")])
    yield PageKind("timeline-values", f"CSV, {all_commits}", [to("timeline-values", *about, "csv", query="?last=all")])


def run_pages(slug: str) -> Iterable[PageKind]:
    succeeded_runs = Run.objects.filter(project__slug=slug, status=Status.SUCCEEDED)
    documented = Result.objects.filter(attempt__run=OuterRef("pk"))
    pushed = newest(succeeded_runs.filter(Exists(documented), reason="push")) or newest(succeeded_runs)
    waiting_runs = newest(Run.objects.filter(project__slug=slug, status=Status.QUEUED))
    paired = newest(succeeded_runs.filter(reason="confirm"))
    yield PageKind("run", "of a push", [to("run", run.pk) for run in pushed])
    yield PageKind("run-values", "", [to("run-values", run.pk, "json") for run in pushed])
    yield PageKind("run", "of pairs", [to("run", run.pk) for run in paired])
    yield PageKind("run", "that waits", [to("run", run.pk) for run in waiting_runs])
    for name in ("run-log", "run-log-lines", "run-log-text"):
        yield PageKind(name, "", [to(name, run.pk) for run in pushed])
    yield PageKind("run-script", "", [to("run-script", run.pk) for run in pushed])
    if profile := Profile.objects.filter(attempt__run__project__slug=slug).first():
        yield PageKind("profile-folded", "", [to("profile-folded", profile.pk)])


def alert_pages(slug: str) -> Iterable[PageKind]:
    alerts = newest(Alert.objects.filter(project__slug=slug))
    yield PageKind("alert", "with its lines", [to("alert", alert.pk) for alert in alerts])
    yield PageKind("alert-values", "", [to("alert-values", alert.pk) for alert in alerts])
    yield PageKind("alert-picture", "", [to("alert-picture", alert.pk) for alert in alerts])


def other_pages() -> Iterable[PageKind]:
    yield PageKind("home", "", [to("home")])
    yield PageKind("home-values", "", [to("home-values")])
    yield PageKind("all-gains", "", [to("all-gains")])
    yield PageKind("all-alerts", "", [to("all-alerts", query="?status=all")])
    yield PageKind("all-alerts-values", "", [to("all-alerts-values", "json", query="?status=all")])
    yield PageKind("all-alerts-feed", "", [to("all-alerts-feed")])
    yield PageKind("machines", "", [to("machines")])
    yield PageKind("search", "words of subjects", [to("search", query="?q=change+number")])
    yield PageKind("search-values", "words of subjects", [to("search-values", query="?q=change+number")])
    yield PageKind("search-values", "a sha", [to("search-values", query="?q=abcde")])
    yield PageKind("ladders", "", [to("ladders")])
    yield PageKind("ladders-values", "", [to("ladders-values", "json")])
    waiting_count = Run.objects.filter(status=Status.QUEUED).count()
    yield PageKind("queue", f"{waiting_count} waiting", [to("queue")])
    yield PageKind("notifications", "", [to("notifications")])
    yield PageKind("help-index", "", [to("help-index")])
    yield PageKind("help", "", [to("help", "methodology")])
    yield PageKind("api-docs", "", [to("api-docs")])
    yield PageKind("api-openapi", "", [to("api-openapi")])
    yield PageKind("login", "", [to("login")])
    yield PageKind("account", "", [to("account")])
    yield PageKind("own-tokens", "", [to("own-tokens")])
    yield PageKind("own-sessions", "", [to("own-sessions")])
    yield PageKind("healthz", "", [to("healthz")])
    yield PageKind("metrics", "", [to("metrics")])
    yield PageKind("all-annotations", "", [to("all-annotations")])
    yield PageKind("settings", "", [to("settings")])
    yield PageKind("pins", "an empty board", [to("pins")])
    yield PageKind("track", "", [to("track")])
    yield PageKind("audit", "", [to("audit")])
    yield PageKind("audit-values", "", [to("audit-values", "json")])
    yield PageKind("suites", "", [to("suites")])
    yield PageKind("suite-new", "", [to("suite-new")])
    yield PageKind("machine-settings", "", [to("machine-settings")])
    yield PageKind("installation", "", [to("installation")])


def settings_pages(slug: str) -> Iterable[PageKind]:
    notes = newest(Annotation.objects.filter(project__slug=slug))
    yield PageKind("annotations", f"{Annotation.objects.filter(project__slug=slug).count()}", [to("annotations", slug)])
    yield PageKind("annotation", "", [to("annotation", row.pk) for row in notes])
    yield PageKind("project-settings", "", [to("project-settings", slug)])
    yield PageKind("project-untrack", "", [to("project-untrack", slug)])
    calls = Delivery.objects.filter(project__slug=slug)
    yield PageKind("deliveries", f"{calls.count()}", [to("deliveries", slug)])
    yield PageKind("delivery", "", [to("delivery", slug, row.pk) for row in newest(calls.only("pk"))])
    yield PageKind("members", "", [to("members", slug)])
    yield PageKind("project-visibility", "", [to("project-visibility", slug)])
    yield PageKind("project-audit", "", [to("project-audit", slug)])
    yield PageKind("project-audit-values", "", [to("project-audit-values", slug, "csv")])
    yield PageKind("suite", "", [to("suite", Project.objects.get(slug=slug).suite)])


def measure(subject: MeasuredProjects = HISTORIES, calls: int = CALLS) -> Iterable[PageCost]:
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


def cost_of_page(page: PageKind, client: Client, calls: int) -> PageCost:
    sizes: list[int] = []
    targets = [page.addresses[number % len(page.addresses)] for number in range(calls)]
    each: list[Callable[[], object]] = [partial(get, client, address, sizes) for address in targets]
    return PageCost(page, cost_of(each), max(sizes))


def get(client: Client, address: str, sizes: list[int]) -> None:
    response: Any = client.get(address)
    assert response.status_code == 200, f"{address}: {response.status_code}"
    content = b"".join(response.streaming_content) if response.streaming else response.content
    sizes.append(len(content))
