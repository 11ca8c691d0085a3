"""The installation under faults: its servers, processes and runners, and the work that it gets."""

import hashlib
import hmac
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
from django.conf import settings
from django.db import OperationalError, connection

from research.chaos.ledger import Ledger
from runners.tests.broker_servers import Valkey
from speedtrack.benchmarks.storing import store_set, store_suite
from speedtrack.benchmarks.suitefiles import load_suite
from speedtrack.processes import devstack, pgcluster, postgresql
from speedtrack.projects.models import Project
from speedtrack.runs.fleet import registering
from speedtrack.runs.models import Machine, Reason, Run
from speedtrack.runs.planning import planning
from speedtrack.runs.requests import tracking
from speedtrack.runs.requests.tracking import TrackingRequest
from speedtrack.tests import clusters
from speedtrack.tests.installation import Installation
from speedtrack.tests.proxy import Network

MACHINES = ("m1", "m2", "m3")
#: Commits of the sample server. One of them does not compile.
COMMITS, BROKEN = 14, 5
SUITE = """
name = "tiny"
trials = 5
most_trials = 5
[build]
command = "make -j{cores}"
artifacts = ["kvd"]
[server]
command = "{artifact:kvd} --bind 127.0.0.1 --port {port} --unixsocket {socket}"
protocol = "resp"
# Windows this short show large changes where there are none, and settling those would take longer than all the rest.
[metrics.server_cpu_ns_per_request]
smallest_effect = 0.9
[metrics.throughput_rps]
smallest_effect = 0.9
[metrics.instructions_per_request]
smallest_effect = 0.9
[settle]
budget_s = 20
[[benchmark]]
name = "get-p16"
why = "short"
target = 1.0
[benchmark.workload]
test = "get"
clients = 2
pipeline = 16
keys = { count = 100 }
values = { bytes = 16 }
requests = 2000
"""


@dataclass
class World:
    """An installation at work."""

    home: Path
    broker: Valkey
    servers: Installation
    networks: dict[str, Network]
    repository: Path
    database: pgcluster.Cluster
    pushed: int = 1
    delivered: int = 0
    refusals: int = 0  # deliveries that the server did not accept: the forge says so, and somebody sends them again
    rounds: int = 0
    deaths: dict[str, int] = field(default_factory=dict)

    @property
    def project(self) -> Project:
        return Project.objects.get()

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.home / "ledger.jsonl")

    # -- work --

    def push(self) -> None:
        """Add a commit, and tell of it as forges do: sometimes twice, sometimes in the wrong order, sometimes not."""
        self.pushed += 1
        write_history(self.repository, self.pushed)

    def deliver(self, number: str) -> None:
        body = b'{"ref": "refs/heads/main"}'
        signature = hmac.new(self.project.hook_secret.reveal().encode(), body, hashlib.sha256).hexdigest()
        signed = {"X-Hub-Signature-256": f"sha256={signature}", "X-GitHub-Event": "push", "X-GitHub-Delivery": number}
        try:
            answer = httpx.post(
                f"{self.servers.url}/hooks/{self.project.hook_id}", content=body, headers=signed, timeout=5
            )
        except httpx.HTTPError as e:
            self.ledger.note("refused", delivery=number, answer=str(e))
            self.refusals += 1
            return
        if answer.status_code in (200, 202):
            self.ledger.note("accepted", delivery=number)
            self.delivered += 1
        else:
            self.ledger.note("refused", delivery=number, answer=answer.status_code)
            self.refusals += 1

    def queue_round(self) -> int:
        """Queue all commits that are known and compile on all machines once more, one trial each."""
        project = self.project
        definition = load_suite(project.suite)
        suite, benchmarks = store_suite(project, definition)
        positions = project.branches.get().positions.exclude(number=BROKEN - 1)
        ranks = dict(positions.values_list("commit_id", "number"))
        self.rounds += 1
        own = store_set(suite, benchmarks)
        plan = planning.Plan(project, suite, own, Reason.MANUAL, round=self.rounds, trials=1)
        count = planning.plan_commits(plan, ranks, Machine.objects.all())
        self.ledger.note("ordered", round=self.rounds, runs=count)
        return count

    # -- processes --

    def revive(self) -> list[str]:
        """Start what has died, as an init system would. Returns its names."""
        with self.servers.lock:
            died = [name for name, process in self.servers.processes.items() if process.poll() is not None]
            for name in died:
                self.deaths[name] = self.deaths.get(name, 0) + 1
                self.servers.start(name)
        return died

    def runner_processes(self, name: str) -> list[psutil.Process]:
        """A runner and all that it has started."""
        process = self.servers.processes[f"runner-{name}"]
        return [psutil.Process(process.pid), *marked(self.home / f"runner-{name}")] if process.poll() is None else []

    def restart_postgresql(self) -> None:
        """As after a crash of it: no checkpoint, and every session is lost."""
        connection.close()
        clusters.kill(self.database)
        postgresql.launch(self.database)

    def broker_process(self) -> psutil.Process:
        return psutil.Process(self.broker.process.pid)


def build(home: Path) -> World:
    """An installation of which everything runs, with one commit tracked that is not measured."""
    suites = home / "suites"
    suites.mkdir()
    (suites / "tiny.toml").write_text(SUITE)
    repository = home / "kvd"
    write_history(repository, 1)
    tokens = {name: registering.add_machine(name) for name in MACHINES}
    tracking.track(TrackingRequest(str(repository), "tiny", last=0))
    broker = Valkey(home)
    broker.start()
    environment = {**os.environ, "BROKER_URL": broker.url, "SECRET_KEY": settings.SECRET_KEY}
    servers = Installation(home, environment)
    networks = {name: Network(servers.port) for name in MACHINES}
    for name in MACHINES:
        locks = home / f"locks-{name}"
        locks.mkdir()
        servers.commands[f"runner-{name}"] = ["-m", "runners"]
        servers.own[f"runner-{name}"] = {
            "SPEEDTRACK_URL": networks[name].url,
            "SPEEDTRACK_TOKEN": tokens[name],
            "SPEEDTRACK_RUNNER_HOME": str(home / f"runner-{name}"),
            "SPEEDTRACK_LOCK_DIR": str(locks),
            "SPEEDTRACK_PATIENCE_S": "1",
        }
    servers.start_web()
    servers.start(*(name for name in servers.commands if name != "web"))
    database = pgcluster.Cluster((home / "postgresql").resolve(), postgresql.programs(), postgresql.system_user())
    return World(home, broker, servers, networks, repository, database)


def write_history(repository: Path, commits: int) -> None:
    argv = [sys.executable, "-m", "runners.sample", str(repository), "--upto", str(commits)]
    subprocess.run(argv, cwd=devstack.BASE_DIR, check=True, capture_output=True)


def marked(runner_home: Path) -> list[psutil.Process]:
    """Running processes that the runner of this home has started, by its mark in their environment."""
    file = runner_home / "mark"
    mark = file.read_text().strip() if file.exists() else "none yet"
    return [
        process
        for process in psutil.process_iter(["environ", "status"])
        if (process.info["environ"] or {}).get("SPEEDTRACK_MARK", "").startswith(mark)
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def unfinished() -> int:
    """How many runs have not ended; -1 while the database is away."""
    try:
        return Run.objects.unfinished().count()
    except OperationalError:
        connection.close()
        return -1


def send(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            continue  # it has just ended
