"""State for tests, made through the verbs that make it in production."""

import contextlib
import hashlib
import hmac
import json
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import redis
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from speedtrack.benchmarks.digests import json_digest
from speedtrack.notices import subscribing
from speedtrack.projects import intake
from speedtrack.projects.models import Commit, Delivery, Project
from speedtrack.runs.documents import BuildReport, ProfileReport, Renewal, ResultDocument
from speedtrack.runs.fleet import registering
from speedtrack.runs.models import Machine, Reason, Run, Trial
from speedtrack.runs.planning import pushes
from speedtrack.runs.queue import jobs, queue
from speedtrack.runs.requests import tracking
from speedtrack.runs.requests.tracking import Tracked, TrackingRequest
from speedtrack.runs.results import builds, profiles, results

SUITE = """
name = "tiny"
trials = 5
[build]
command = "make"
artifacts = ["kvd"]
[server]
command = "{artifact:kvd} --unixsocket {socket}"
protocol = "resp"
[metrics.server_cpu_ns_per_request]
smallest_effect = 0.03
[[benchmark]]
name = "get-p1"
why = "the plain read path"
workload = { test = "get", clients = 50, pipeline = 1, keys = { count = 1000 }, values = { bytes = 32 }, \
prefill = true, expect = { hit_rate = 1.0 } }
[[benchmark]]
name = "set-p1"
why = "the plain write path"
workload = { test = "set", clients = 50, pipeline = 1, keys = { count = 1000 }, values = { bytes = 32 } }
"""
SERIES_FACTS = {"cpu_model": "Test CPU", "kernel": "6.1", "compiler": "cc 12", "driver_digest": "sha256:" + "d" * 64}
DIGEST = "sha256:" + "a" * 64


class Repository:
    """A real git repository to be tracked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.count = 0
        self.git("init", "--quiet", "--initial-branch=main")

    @property
    def now(self) -> str:
        return f"{1_700_000_000 + 3600 * self.count} +0000"

    def git(self, *arguments: str) -> str:
        at = self.now
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.path),
            "GIT_AUTHOR_NAME": "Ada Example",
            "GIT_AUTHOR_EMAIL": "ada@example.org",
            "GIT_AUTHOR_DATE": at,
            "GIT_COMMITTER_NAME": "Ada Example",
            "GIT_COMMITTER_EMAIL": "ada@example.org",
            "GIT_COMMITTER_DATE": at,
        }
        return subprocess.run(
            ["git", "-C", str(self.path), *arguments], env=environment, check=True, capture_output=True, text=True
        ).stdout.strip()

    def commit(self, subject: str = "", text: str | None = None) -> str:
        self.count += 1
        (self.path / "file.txt").write_text(text if text is not None else f"{self.count}\n")
        self.git("add", "-A")
        self.git("commit", "--quiet", "--allow-empty", "-m", subject or f"Change number {self.count}")
        return self.git("rev-parse", "HEAD")

    def commits(self, count: int) -> list[str]:
        """Commits as ``commit`` makes them; the first ones of a repository by one process, as most tests need some."""
        if self.count or not count:
            return [self.commit() for _ in range(count)]
        stream = ""
        for self.count in range(1, count + 1):
            person, text = f"Ada Example <ada@example.org> {self.now}", f"{self.count}\n"
            subject = f"Change number {self.count}\n"
            stream += f"commit refs/heads/main\nauthor {person}\ncommitter {person}\ndata {len(subject)}\n{subject}"
            stream += f"M 100644 inline file.txt\ndata {len(text)}\n{text}\n"
        self.feed(["fast-import", "--quiet"], stream.encode())
        self.git("reset", "--quiet", "--hard")
        return self.git("rev-list", "--reverse", "HEAD").split()

    def fast_import(self, count: int, branch: str = "main") -> None:
        """A long history at once: ``count`` commits whose subjects count from 0, on a new branch."""
        self.feed(
            ["fast-import", "--quiet"],
            "".join(
                f"commit refs/heads/{branch}\ncommitter Ada Example <ada@example.org> {1_700_000_000 + i} +0000\n"
                f"data <<.\nChange {i}\n.\nM 100644 inline file.txt\ndata <<.\n{i}\n.\n\n"
                for i in range(count)
            ).encode(),
        )

    def commit_object(self, content: bytes) -> str:
        """A commit of exactly these bytes (``TREE`` stands for HEAD's tree) as the new head, however odd they are."""
        content = content.replace(b"TREE", self.git("rev-parse", "HEAD^{tree}").encode())
        sha = self.feed(["hash-object", "-t", "commit", "-w", "--literally", "--stdin"], content).decode().strip()
        self.git("update-ref", "HEAD", sha)
        return sha

    def feed(self, arguments: list[str], content: bytes) -> bytes:
        return subprocess.run(
            ["git", "-C", str(self.path), *arguments], input=content, check=True, capture_output=True
        ).stdout


def redis_client(broker_url: str) -> redis.Redis:
    """A client of an embedded broker, by its URL for Celery."""
    return redis.Redis.from_url(broker_url.replace("redis+socket:", "unix:"))


def processes_with(fragment: str) -> list[str]:
    """The command lines of all running processes that contain this word."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has just ended
            lines.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in lines if fragment in line]


def use_suite(settings: Any, directory: Path, text: str = SUITE, name: str = "tiny") -> None:
    """Make ``name`` the only suite."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.toml").write_text(text)
    settings.SUITES = directory
    settings.MIRRORS = directory / "mirrors"


def machine(name: str = "m1") -> Machine:
    registering.add_machine(name)
    return Machine.objects.get(name=name)


def tracked_machine(settings: Any, folder: Path) -> Machine:
    """The machine of a project whose repository has three commits, which are queued."""
    use_suite(settings, folder / "suites")
    repository = Repository(folder / "repository")
    repository.commits(3)
    new_machine = machine()
    track(repository)
    return new_machine


def track(
    repository: Repository, last: int = 100, pushed: bool = False, emails: Sequence[str] = (), **options: Any
) -> Tracked:
    """Track a repository as it is; ``pushed``: as it was with its first commit, and then push the others.

    Who is to be told (``emails``) is told at once of what was pushed only, so for them the others are pushed.
    """
    pushed = pushed or (bool(emails) and last == 100 and not Project.objects.exists())
    request = TrackingRequest(str(repository.path), "tiny", last=last, **options)
    if not pushed:
        tracked = tracking.track(request)
        subscribing.subscribe(tracked.project, emails)
        return tracked
    head = repository.git("rev-parse", "HEAD")
    repository.git("update-ref", "HEAD", repository.git("rev-list", "--max-parents=0", "HEAD"))
    tracked = tracking.track(request)
    subscribing.subscribe(tracked.project, emails)
    repository.git("update-ref", "HEAD", head)
    pushes.sync_and_plan(tracked.project)
    return tracked


def call_hook(
    project: Project, document: Any, event: str = "push", id: str = "d1", secret: str = ""
) -> Delivery | None:
    """Call the project's webhook as GitHub does, by default with the present secret."""
    body = json.dumps(document).encode()
    signature = hmac.new((secret or project.hook_secret.reveal()).encode(), body, hashlib.sha256).hexdigest()
    headers = {"X-GitHub-Event": event, "X-GitHub-Delivery": id, "Content-Type": "application/json"}
    return intake.receive(project, headers | {"X-Hub-Signature-256": f"sha256={signature}"}, body)


def trials(metrics: list[dict[str, float]], flags: list[list[str]] | None = None) -> list[dict[str, Any]]:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        {
            "trial": i,
            "order": i,
            "started_at": (begin + timedelta(seconds=i)).isoformat(),
            "seconds": 1.0,
            "metrics": values,
            "flags": flags[i] if flags else [],
            "driver": {"schema": "speedbench.v1"},
        }
        for i, values in enumerate(metrics)
    ]


def side_of(run: Run, commit: Commit) -> str:
    """The side that a commit of a run is on; of an A/A run, whose sides are one commit, the base."""
    return "base" if run.base_id == commit.pk else "head"


def sides_of(run: Run) -> list[tuple[str, Commit]]:
    return [*([("base", run.base)] if run.base else []), ("head", run.commit)]


def environment() -> dict[str, Any]:
    return {"digest": json_digest(SERIES_FACTS), "series": SERIES_FACTS, "recorded": {}}


def result(run: Run, benchmark: str, commit: Commit, values: list[float], **changes: Any) -> ResultDocument:
    """A result document of one side, with ``values`` as server CPU in ns per request."""
    benchmark_row = run.benchmark_set.benchmarks.get(name=benchmark)
    metrics = [{"server_cpu_ns_per_request": v, "throughput_rps": 1e9 / v} for v in values]
    document: dict[str, Any] = {
        "schema": "speedtrack.result/1",
        "token": run.lease_token,
        "side": side_of(run, commit),
        "sha": commit.sha,
        "benchmark": {"name": benchmark_row.name, "digest": benchmark_row.digest},
        "environment": environment(),
        "artifacts": {"kvd": digest_of_binary(commit.sha)},
        "trials": trials(metrics, changes.pop("flags", None)),
        **changes,
    }
    return ResultDocument.model_validate(document)


def digest_of_binary(content: str) -> str:
    return f"sha256:{hashlib.sha256(content.encode()).hexdigest()}"


def send_build(
    run: Run,
    commit: Commit,
    succeeded: bool = True,
    binary: str | None = None,
    side: str | None = None,
    environment: dict[str, Any] | None = None,
    **changes: Any,
) -> Run | None:
    """Report a build whose artifact is made of ``binary`` (default: something of this commit alone)."""
    digest = digest_of_binary(binary or commit.sha)
    token = changes.pop("token", run.lease_token)
    build = {
        "side": side or side_of(run, commit),
        "sha": commit.sha,
        "succeeded": succeeded,
        "cached": False,
        "seconds": 1.5,
        "artifacts": {"kvd": {"digest": digest, "bytes": 1000}} if succeeded else {},
        "recipe_digest": DIGEST,
        "error": None if succeeded else "make exited with code 2",
        **changes,
    }
    document = {"token": token, "build": build, "environment": environment}
    return builds.accept_build(run.machine, run.pk, BuildReport.model_validate(document))


FOLDED = {
    "base": "kvd;main;serve;read_[k] 600\nkvd;main;serve;get 400\n",
    "head": "kvd;main;serve;read_[k] 600\nkvd;main;serve;get 400\nkvd;main;serve;get;count_keys 200\n",
}


def send_profile(run: Run, benchmark: str, commit: Commit, **changes: Any) -> None:
    """Send a profile of one side: the head has a function that the base does not have."""
    benchmark_row = run.benchmark_set.benchmarks.get(name=benchmark)
    side = side_of(run, commit)
    document = {
        "token": run.lease_token,
        "side": side,
        "sha": commit.sha,
        "benchmark": {"name": benchmark_row.name, "digest": benchmark_row.digest},
        "event": "cpu-clock",
        "frequency_hz": 997,
        "samples": {"base": 1000, "head": 1200}[side],
        "folded": FOLDED[side],
        "cpu_ns_per_request": {"base": 5000.0, "head": 6000.0}[side],
        "unavailable": "",
        **changes,
    }
    profiles.accept_profile(run.machine, run.pk, ProfileReport.model_validate(document))


def measured(run: Run) -> list[str]:
    """The benchmarks that a claimed run's job asks for."""
    return [benchmark["name"] for benchmark in jobs.job_document(run)["benchmarks"]]


def oldest_first() -> list[Run]:
    """Let the waiting runs be measured in the order of the history, whatever their priorities are; return them."""
    runs = list(Run.objects.order_by("commit__positions__number"))
    for number, run in enumerate(runs):
        Run.objects.filter(pk=run.pk).update(priority=100, rank=-number)
    return runs


def work(machine: Machine, speed: Any, until: int = 1000) -> list[Run]:
    """Play the runner: claim, build, send each measurement and complete, until there is no work.

    ``speed(sha, benchmark, trial)`` is the server CPU in ns per request that a trial shows.
    """
    runs: list[Run] = []
    while len(runs) < until and (run := queue.claim(machine)):
        for side, commit in sides_of(run):
            send_build(run, commit, side=side)
            for name in measured(run):
                if run.reason == Reason.PROFILE:
                    send_profile(run, name, commit)
                    continue
                values = [speed(commit.sha, name, trial) for trial in range(run.trials)]
                results.accept_result(machine, run.pk, result(run, name, commit, values, side=side))
        queue.complete(machine, run.pk, run.lease_token)
        runs.append(run)
    return runs


def claim(machine: Machine) -> Run:
    """Claim the machine's next run, which must exist."""
    run = queue.claim(machine)
    assert run is not None
    return run


def measure(run: Run, value: float = 5000.0) -> None:
    """Send a measurement of every benchmark of both sides, without completing the run."""
    for side, commit in sides_of(run):
        for name in measured(run):
            values = [value + i for i in range(run.trials)]
            results.accept_result(run.machine, run.pk, result(run, name, commit, values, side=side))


def take_time(run: Run, build_s: float, trial_s: float, between_s: float, around_s: float) -> float:
    """Let the last attempt of an ended run have taken this long, and end now. Return how long it took in all.

    Each build that was not cached took ``build_s``, a trial or pair ``trial_s``, and ``between_s`` passed after each.
    """
    attempt = run.attempts.latest("pk")
    built = attempt.builds.filter(cached=False).update(seconds=build_s)
    attempt.builds.filter(cached=True).update(seconds=0.0)
    blocks = list(
        Trial.objects.filter(result__attempt=attempt).values_list("result__benchmark", "number").distinct().order_by()
    )
    begin = timezone.now() - timedelta(hours=1)
    for index, (benchmark, number) in enumerate(sorted(blocks)):
        rows = Trial.objects.filter(result__attempt=attempt, result__benchmark=benchmark, number=number)
        rows.update(seconds=trial_s, started_at=begin + timedelta(seconds=index * (trial_s + between_s)))
    took = built * build_s + len(blocks) * (trial_s + between_s) - between_s + around_s
    Run.objects.filter(pk=run.pk).update(started_at=Now() - timedelta(seconds=took), ended_at=Now())
    return took


def expire_lease(run: Run) -> None:
    """Make the run's lease end a second ago by the database's clock."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE runs_run SET lease_until = now() - interval '1 second' WHERE id = %s", [run.pk])


def moves(run: Run) -> list[tuple[str, str]]:
    """The status changes of a run by its events."""
    return list(run.events.order_by("id").values_list("before", "after"))


def renewal(run: Run) -> Renewal:
    return Renewal(token=run.lease_token)
