"""What runners, forges and the server's own processes do, each in a transaction that is rolled back."""

import copy
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import Max, QuerySet
from django.test import Client
from django.urls import reverse

from research.scale.costs import claimers, crowd, viewers, webhooks
from research.scale.costs.meter import Cost, cost_of, together
from research.scale.histories.world import METRICS, golden
from speedtrack.accounts import tokens as person_tokens
from speedtrack.accounts.models import Scope
from speedtrack.alerts.detection import detection
from speedtrack.processes import dispatch
from speedtrack.projects import chains
from speedtrack.projects.models import Branch, Commit, Project
from speedtrack.runs.fleet import tokens
from speedtrack.runs.models import Attempt, Environment, Machine, Reason, Series
from speedtrack.runs.planning import planning

SAMPLES = 100_000
COMMITS = 2048
SENT = 10_000  # results of a batch
DELIVERIES = 200
LOOKS = 50
#: What -> the tables it is stored in, and how many there are.
STORED = {
    "measurement": (("runs_measurement",), "SELECT count(*) FROM runs_measurement"),
    "trial": (("runs_trial", "runs_result"), "SELECT count(*) FROM runs_trial"),
    "sample": (("runs_samples",), "SELECT coalesce(sum(cardinality(values)), 0) FROM runs_samples"),
    "run": (("runs_run",), "SELECT count(*) FROM runs_run"),
    "commit": (("projects_commit",), "SELECT count(*) FROM projects_commit"),
    "comparison": (
        ("alerts_comparisonbatch",),
        "SELECT coalesce(sum(cardinality(series)), 0) FROM alerts_comparisonbatch",
    ),
    "position": (
        ("projects_chaincommit", "projects_segment", "projects_chain"),
        "SELECT count(*) FROM projects_position",
    ),
}


@dataclass(frozen=True)
class WorkCost:
    """``result``: the figure that the budget is about, in words; ``missed``: it is not kept."""

    title: str
    cost: Cost
    result: str
    budget: str
    missed: bool


@contextmanager
def undone() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def measure(dearest: str) -> Iterable[WorkCost]:
    """``dearest``: the address of the page that takes most CPU."""
    yield idle()  # first: what is undone below leaves dead rows, which an idle installation does not have
    yield claims()
    yield race_of_claims()
    yield viewers_of_logs()
    yield crowd_of_tabs(dearest)
    yield renewals()
    yield accepted("of 5 trials", trials=5, documents=50, budget_s=20)
    yield accepted("of 250 trials", trials=250, documents=8, budget_s=5)
    yield sent_in()
    yield sent_in(commits=SENT, series=1)
    yield detect()
    yield plan()
    yield deliveries()
    yield large_deliveries()


def new_token(machine: Machine) -> dict[str, str]:
    return {"authorization": f"Bearer {tokens.give(machine)}"}


def post(client: Client, address: str, document: object, headers: dict[str, str]) -> Any:
    answer = client.post(address, json.dumps(document), content_type="application/json", headers=headers)
    assert answer.status_code in (200, 202), f"{address}: {answer.status_code} {answer.content[:300]!r}"
    return answer


def claims(rounds: int = 10) -> WorkCost:
    client = Client(SERVER_NAME="localhost")
    costs = []
    for _ in range(rounds + 1):
        with undone():
            tokens = [new_token(machine) for machine in Machine.objects.all()]
            for token in tokens:  # the first use of a token ends older ones: not a part of every claim
                assert client.get("/api/runner/me", headers=token).status_code == 200
            costs.append(
                cost_of(
                    [partial(post, client, "/api/runner/claim", claimers.CLAIM, token) for token in tokens], warm=False
                )
            )
    cost = together(costs[1:])
    rate = 1000 / cost.cpu
    return WorkCost(
        "claim over HTTP", cost, f"{rate:.0f} claims per second of CPU", "> 150 (300 on 2 cores)", rate < 150
    )


def race_of_claims() -> WorkCost:
    cost, rate = claimers.race()
    title = f"{cost.calls} claims by 8 machines at once, from a web server"
    return WorkCost(title, cost, f"{rate:.0f} per second, none double", "> 300 on 2 cores", rate <= 300)


def viewers_of_logs() -> WorkCost:
    """Claims while viewers read growing logs, against the same claims without viewers."""
    load = viewers.watch()
    title = f"claim beside {viewers.VIEWERS} viewers of logs, a line a second each"
    result = (
        f"{100 * load.share:.1f}% of a core for {load.events / viewers.SECONDS:.0f} events/s;"
        f" without viewers p50 {load.alone.p50:.1f}, p95 {load.alone.p95:.1f} ms"
    )
    slow = load.beside.p50 > 2 * load.alone.p50
    return WorkCost(title, load.beside, result, "< 10% of a core, no claim delayed", load.share >= 0.1 or slow)


def crowd_of_tabs(dearest: str, tabs: int = crowd.TABS, count: int = crowd.BESIDE) -> WorkCost:
    """Claims while a visitor loads the most expensive page in many tabs and a scraper calls each second."""
    crowded = crowd.crowd(dearest, ["/metrics", reverse("openmetrics", args=["wide"])], tabs, count)
    title = f"claim beside {tabs} tabs of {dearest.partition('?')[0]} and a scraper each second"
    slowest = max(crowded.beside.clock_ms)
    result = f"the slowest {slowest:.0f} ms, alone {max(crowded.alone.clock_ms):.0f}; {crowded.rate:.1f} pages a second"
    return WorkCost(title, crowded.beside, result, "< 250 ms", slowest >= 250)


def renewals(calls: int = 50) -> WorkCost:
    """What the server does for a machine at work every third of its lease."""
    client = Client(SERVER_NAME="localhost")
    with undone():
        token = new_token(Machine.objects.get(name="m1"))
        job = post(client, "/api/runner/claim", claimers.CLAIM, token).json()
        address = f"/api/runner/runs/{job['run']}/renew"
        cost = cost_of([partial(post, client, address, {"token": job["token"]}, token)] * calls)
    return WorkCost("renewal of a lease", cost, f"{1000 / cost.cpu:.0f} per second of CPU", "", False)


def accepted(title: str, trials: int, documents: int, budget_s: float) -> WorkCost:
    """The cost of accepting this many documents of a wide run, scaled to SAMPLES samples."""
    client = Client(SERVER_NAME="localhost")
    with undone():
        machine = Machine.objects.get(name="m1")
        token = new_token(machine)
        job = post(client, "/api/runner/claim", claimers.CLAIM, token).json()
        bodies = list(result_documents(job, trials))[:documents]
        address = f"/api/runner/runs/{job['run']}/measurement"
        post(client, address, bodies.pop(), token)  # libraries are imported
        cost = cost_of([partial(post, client, address, body, token) for body in bodies], warm=False)
    seconds = cost.seconds * SAMPLES / (len(bodies) * trials * len(METRICS))
    return WorkCost(
        f"result document {title}",
        cost,
        f"{seconds:.0f} s for {SAMPLES:,} samples",
        f"< {budget_s:.0f} s",
        seconds >= budget_s,
    )


def result_documents(job: dict[str, Any], trials: int) -> Iterator[dict[str, Any]]:
    pattern = golden()
    stored_environment = Environment.objects.filter(machine__name="m1", series__project__slug="wide").earliest("id")
    environment = {
        "digest": stored_environment.digest,
        "series": stored_environment.facts["series"],
        "recorded": stored_environment.facts["recorded"],
    }
    began_at = datetime.now(UTC) - timedelta(hours=1)
    for number, benchmark in enumerate(job["benchmarks"]):
        trial_documents = []
        for trial in range(trials):
            document = copy.copy(pattern["trials"][0])
            values = {name: usual * (1 + 0.001 * (trial + number)) for name, usual in METRICS.items()}
            trial_documents.append(
                document | {"trial": trial, "order": trial, "metrics": values, "started_at": began_at.isoformat()}
            )
        identity = {"name": benchmark["name"], "digest": benchmark["digest"]}
        head = {
            "token": job["token"],
            "sha": job["sides"][-1]["sha"],
            "benchmark": identity,
            "environment": environment,
        }
        yield pattern | head | {"trials": trial_documents}


def sent_in(commits: int = 100, series: int = SENT // 100) -> WorkCost:
    """A batch of results that were measured elsewhere, of 5 samples each, by the API."""
    client = Client(SERVER_NAME="localhost")
    with undone():
        branch = Branch.objects.get(project__slug="wide", name="main")
        newest = branch.positions.order_by("-number").values_list("commit__sha", flat=True)
        batches = [sent_document(newest[:commits], range(series)), sent_document(newest[:1], range(1))]
        sender = User.objects.create(username="sender", is_superuser=True)
        token = {"authorization": f"Bearer {person_tokens.issue(sender, 'bench', [Scope.RESULTS], days=None)[1]}"}
        address = "/api/v1/projects/wide/results"
        post(client, address, batches.pop(), token)  # libraries are imported, the machine is registered
        cost = cost_of([partial(post, client, address, batches.pop(), token)], warm=False)
    title = f"{commits * series:,} results from outside, of {commits} commits"
    return WorkCost(title, cost, f"{cost.seconds:.1f} s", "< 2 s", cost.seconds >= 2)


def sent_document(shas: Iterable[str], series: Iterable[int]) -> dict[str, Any]:
    rows = [
        {
            "commit": sha,
            "benchmark": f"b{number}",
            "metric": "time",
            "samples": [1 + 0.001 * (number + i) for i in range(5)],
        }
        for sha in shas
        for number in series
    ]
    defined = [row | {"unit": "s", "better": "lower"} for row in rows]
    return {"schema": "speedtrack.points/1", "machine": "elsewhere", "environment": {"cpu": "Z80"}, "results": defined}


def detect() -> WorkCost:
    """The results of the newest commit of the wide project have just been accepted."""
    with undone():
        newest = Attempt.objects.filter(run__project__slug="wide", run__reason="push").aggregate(at=Max("ended_at"))
        series = Series.objects.filter(project__slug="wide")
        count = series.update(undetected_since=newest["at"] - timedelta(seconds=1))
        warm_up(series)
        cost = cost_of([detection.detect], warm=False)
    title = f"detection pass, {count} series with a new point each"
    return WorkCost(title, cost, f"{cost.seconds:.1f} s", "< 60 s", cost.seconds >= 60)


def warm_up(series: QuerySet[Series]) -> None:
    """Import what detection needs, for one series."""
    with undone():
        series.exclude(pk__in=series.order_by("pk").values("pk")[:1]).update(undetected_since=None)
        detection.detect()


def plan() -> WorkCost:
    with undone():
        branch = Branch.objects.select_related("project").get(project__slug="small-1", name="main")
        branch.project.machines.set(Machine.objects.all())
        new_commits = add_commits(branch)
        cost = cost_of([partial(planning.plan_branch, branch, new_commits, Reason.PUSH)], warm=False)
    result = f"{cost.seconds:.1f} s"
    return WorkCost(f"planning of {COMMITS} commits on 8 machines", cost, result, "< 10 s", cost.seconds >= 10)


def add_commits(branch: Branch) -> Any:
    now = datetime.now(UTC)
    authorship = {"author_name": "Ada", "author_email": "ada@example.org", "authored_at": now, "committed_at": now}
    rows = [
        Commit(project=branch.project, sha=f"{n:040x}", subject=f"Change {n}", **authorship) for n in range(COMMITS)
    ]
    commits = Commit.objects.bulk_create(rows)
    chains.append_commits(branch, commits)
    return Commit.objects.filter(pk__gte=commits[0].pk, project=branch.project)


def deliveries() -> WorkCost:
    client = Client(SERVER_NAME="localhost")
    project = Project.objects.get(slug="wide")
    with undone():
        cost = cost_of([partial(deliver, client, project, number) for number in range(DELIVERIES)])
    p99 = sorted(cost.clock_ms)[-2]
    return WorkCost("webhook delivery, one after another", cost, f"p99 {p99:.0f} ms", "< 250 ms", p99 >= 250)


def deliver(client: Client, project: Project, number: int) -> None:
    body = json.dumps({"ref": "refs/heads/main", "number": number, "padding": "x" * 6000}).encode()
    headers = webhooks.signed(project, "push", f"bench-{number}", body)
    answer = client.post(f"/hooks/{project.hook_id}", body, content_type="application/json", headers=headers)
    assert answer.status_code == 202, answer.content


def large_deliveries() -> WorkCost:
    cost, megabytes = webhooks.deliver_large(Project.objects.get(slug="wide"))
    slowest = max(cost.clock_ms) / 1000
    result = f"{slowest:.2f} s; the web server takes {megabytes:.0f} MB at most"
    missed = slowest >= 1 or megabytes >= 150
    return WorkCost("webhook delivery of 25 MB", cost, result, "< 1 s, < 150 MB", missed)


def idle() -> WorkCost:
    """The dispatcher's question, with the queue as it is: every five seconds where nothing happens."""
    session = dispatch.DispatcherSession()
    session.lead()
    calls: list[Callable[[], object]] = [partial(dispatch.duties_with_work, session.question)] * LOOKS
    cost = cost_of(calls)
    share = 100 * cost.cpu / (1000 * dispatch.TICK_S)
    return WorkCost("a look of the dispatcher", cost, f"{share:.2f}% of a core", "< 0.5% in all", share >= 0.5)


def sizes() -> list[tuple[str, int, int, int]]:
    """What, how many there are, the bytes of their rows, and the bytes with all indexes."""
    rows = []
    with connection.cursor() as cursor:
        for kind, (tables, number) in STORED.items():
            cursor.execute(number)
            (count,) = cursor.fetchone()
            cursor.execute(
                "SELECT sum(pg_table_size(t)), sum(pg_total_relation_size(t)) FROM unnest(%s::regclass[]) AS t",
                [list(tables)],
            )
            own, with_indexes = cursor.fetchone()
            rows.append((kind, int(count), int(own), int(with_indexes)))
    return rows
