"""The whole way under bad conditions: full disks, broken networks, wrong clocks, an upgrade, deliveries in disorder.

As in ``test_faults``, each ends with the same truth.
"""

import contextlib
import hashlib
import hmac
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.db import connection

from runners.tests.broker_servers import Valkey
from speedtrack.processes import devstack
from speedtrack.projects.models import Delivery
from speedtrack.runs import naming
from speedtrack.runs.fleet import registering
from speedtrack.runs.models import Attempt, Machine, Run
from speedtrack.runs.requests import tracking
from speedtrack.runs.requests.tracking import TrackingRequest
from speedtrack.tests import builders
from speedtrack.tests.clusters import Cluster, databases
from speedtrack.tests.installation import Installation, server_environment
from speedtrack.tests.proxy import Condition, Network
from speedtrack.tests.real_system import (
    SUITE,
    System,
    all_done,
    check_truth,
    fsck_faults,
    keys_in,
    left_over,
    one_machine,
    write_history,
)

pytestmark = pytest.mark.django_db(transaction=True)
LONG = SUITE.replace("duration_s = 0.3", "duration_s = 3")
SURE = SUITE.replace("duration_s = 0.3", "duration_s = 1")  # a busy machine answers some request in it
RUNNER = ["-m", "runners"]
LASTING = "180"  # seconds of a lease, where none is to end: a busy machine starts servers and answers slowly


@pytest.fixture
def system(live_server: Any, tmp_path: Path, settings: Any, broker: Valkey) -> Iterator[System]:
    with one_machine(tmp_path, live_server.url, settings, broker, SURE) as system:
        yield system


@pytest.fixture
def servers(tmp_path: Path, settings: Any, broker_url: str) -> Iterator[Installation]:
    """The server's processes and a runner that polls, none of which is started yet, and one commit to be measured."""
    builders.use_suite(settings, tmp_path / "suites", SURE)
    settings.MIRRORS = tmp_path / "mirrors"
    write_history(tmp_path / "kvd", 2)
    token = registering.add_machine("m1")
    tracking.track(TrackingRequest(str(tmp_path / "kvd"), "tiny", last=1))
    more = {"LEASE_S": "30", "MAX_ATTEMPTS": "9", "POLL_EVERY_S": "3600", "ALLOWED_HOSTS": "*"}
    servers = Installation(tmp_path, dict(server_environment(tmp_path, broker_url, **more)))
    servers.commands["runner"] = [*RUNNER, "--poll", "--every", "0.5"]
    servers.own["runner"] = {
        "SPEEDTRACK_URL": servers.url,
        "SPEEDTRACK_TOKEN": token,
        "SPEEDTRACK_RUNNER_HOME": str(tmp_path / "runner"),
        "SPEEDTRACK_PATIENCE_S": "1",
    }
    try:
        yield servers
    finally:
        servers.stop()


@contextlib.contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[Path]:
    place.mkdir(parents=True, mode=0o755)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0755", "none", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path) -> Path:
    """Take all that is free on this disk, by one file."""
    filler = place / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 65536)
    with contextlib.suppress(OSError), filler.open("ab", buffering=0) as file:
        while True:
            file.write(b"x")
    return filler


def loading(system: System) -> bool:
    return keys_in(system.runner_home / "trial-0" / "socket" / "s") > 0


# -- full disks ------------------------------------------------------------------------------------------------------


@pytest.mark.mount
def test_a_database_whose_disk_is_full_loses_nothing(servers: Installation, tmp_path: Path) -> None:
    """PostgreSQL refuses to write, or ends itself where its log has no room; runner and dispatcher wait for it."""
    tmp_path.chmod(0o755)  # PostgreSQL runs as another user
    with small_disk(tmp_path / "disk", 400) as disk:
        cluster = Cluster(disk / "postgresql", servers.environment["DATABASE_URL"])
        servers.environment["DATABASE_URL"] = cluster.url
        try:
            with databases(DATABASE_URL=cluster.url):
                servers.start_web()
                servers.start("dispatcher", "git", "runner")
                servers.until(lambda: Run.objects.active().exists(), "the run has begun")
                filler = fill(disk)
                with pytest.raises(Exception, match=r"No space left|could not|terminat|closed|refused|recovery"):
                    write_until_refused()
                connection.close()
                filler.unlink()
                cluster.stop()
                cluster.start()
                servers.until(lambda: answers(all_done), "all is done")
                check_truth()
        finally:
            servers.stop()
            cluster.stop()


def write_until_refused() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE filling (text text)")
        for _ in range(10_000):
            cursor.execute("INSERT INTO filling SELECT repeat(md5(random()::text), 300) FROM generate_series(1, 100)")


def answers(question: Any) -> bool:
    """The answer of the database; false while it is away."""
    try:
        return bool(question())
    except Exception:
        connection.close()
        return False


# -- networks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", [Condition.CUT, Condition.HALF_OPEN])
def test_a_network_that_fails_for_longer_than_the_lease_costs_an_attempt_only(
    system: System, settings: Any, condition: Condition
) -> None:
    builders.use_suite(settings, system.home / "suites", LONG)
    network = Network(int(system.url.rpartition(":")[2]))
    settings.LEASE_S = 4
    system.start_runner(SPEEDTRACK_URL=network.url)
    system.at(loading)
    network.set(condition)
    system.until(lambda: Run.objects.get().status == "queued")
    settings.LEASE_S = 30
    network.set(Condition.SOUND)
    system.until(all_done)
    system.until(lambda: left_over(system.home) == [])
    network.close()
    outcomes = list(Attempt.objects.order_by("number").values_list("outcome", flat=True))
    assert outcomes[0] == "queued" and outcomes[-1] == "succeeded"
    check_truth()


@pytest.mark.parametrize("condition", [Condition.CUT, Condition.HALF_OPEN, Condition.SLOW])
def test_a_network_that_fails_for_less_than_the_lease_costs_nothing(
    system: System, settings: Any, condition: Condition
) -> None:
    builders.use_suite(settings, system.home / "suites", LONG)
    settings.LEASE_S = int(LASTING)
    network = Network(int(system.url.rpartition(":")[2]))
    system.start_runner(SPEEDTRACK_URL=network.url)
    system.at(loading)
    network.set(condition)
    system.until(lambda: not loading(system))
    network.set(Condition.SOUND)
    system.until(all_done)
    network.close()
    assert Run.objects.get().attempt == 1
    check_truth()


@contextlib.contextmanager
def other_host(name: str) -> Iterator[str]:
    """A network namespace with one line to this host; the address of this host on it."""
    here, there = f"{name}-a", f"{name}-b"
    number = os.getpid() % 250
    commands = [
        f"ip netns add {name}",
        f"ip link add {here} type veth peer name {there} netns {name}",
        f"ip addr add 10.213.{number}.1/30 dev {here}",
        f"ip link set {here} up",
        f"ip netns exec {name} ip addr add 10.213.{number}.2/30 dev {there}",
        f"ip netns exec {name} ip link set {there} up",
        f"ip netns exec {name} ip link set lo up",
    ]
    try:
        for command in commands:
            subprocess.run(command.split(), check=True, capture_output=True)
        yield f"10.213.{number}.1"
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False)


@pytest.mark.netns
def test_a_line_that_loses_what_the_server_answers_loses_no_result(servers: Installation, tmp_path: Path) -> None:
    """Packets are dropped in one direction: requests arrive and are carried out, and nobody hears of it."""
    name = f"st{os.getpid()}"
    with other_host(name) as address:
        servers.commands["web"] = [*devstack.PROCESSES["web"], "--bind", f"{address}:{servers.port}"]
        servers.own["runner"]["SPEEDTRACK_URL"] = f"http://{address}:{servers.port}"
        servers.start("web", "dispatcher")
        log = servers.log("runner").open("ab")
        runner = subprocess.Popen(
            ["ip", "netns", "exec", name, sys.executable, *servers.commands["runner"]],
            cwd=devstack.BASE_DIR,
            env=servers.environment | servers.own["runner"],
            stdout=log,
            stderr=log,
        )
        servers.processes["runner"] = runner
        drop = f"OUTPUT -d {address.removesuffix('1')}2 -p tcp -j DROP".split()
        servers.until(lambda: Run.objects.filter(status="running").exists(), "the run has begun")
        subprocess.run(["iptables", "-I", *drop], check=True)
        try:
            servers.until(lambda: Run.objects.get().status == "queued" or all_done(), "the lease has ended")
        finally:
            subprocess.run(["iptables", "-D", *drop], check=True)
        servers.until(all_done, "all is done")
        servers.stop("runner")
        check_truth()
        assert left_over(tmp_path) == []


# -- clocks ----------------------------------------------------------------------------------------------------------


@pytest.mark.faketime
@pytest.mark.parametrize("shift", ["-2h", "+2h"])
def test_a_runner_whose_clock_is_wrong_by_hours_measures_as_any_other(servers: Installation, shift: str) -> None:
    """Only a clock that is a day ahead is refused (results.CLOCK_AHEAD): leases and deadlines are the database's."""
    servers.environment["LEASE_S"] = LASTING
    servers.start_web()
    start_at(servers, shift, "runner")
    servers.until(all_done, "all is done")
    assert Run.objects.get().attempt == 1
    check_truth()


@pytest.mark.faketime
@pytest.mark.parametrize("shift", ["-2h", "+2h"])
def test_servers_with_wrong_clocks_keep_leases_as_the_database_says(servers: Installation, shift: str) -> None:
    servers.environment["LEASE_S"] = LASTING
    start_at(servers, shift, "web")
    start_at(servers, "+2h" if shift == "-2h" else "-2h", "dispatcher")
    servers.start("runner")
    servers.until(all_done, "all is done")
    assert Run.objects.get().attempt == 1
    check_truth()


def start_at(servers: Installation, shift: str, name: str) -> None:
    """Start a process all of whose clocks are wrong by this much, but not those of what it starts itself."""
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    servers.start(name, LD_PRELOAD=str(library), FAKETIME=shift)


# -- an upgrade ------------------------------------------------------------------------------------------------------


def test_an_upgrade_with_a_migration_takes_no_lease_away(servers: Installation, tmp_path: Path) -> None:
    """The server is stopped, a table gets a column, and the new server goes on with the runs under way."""
    (tmp_path / "suites" / "tiny.toml").write_text(LONG)
    servers.environment["LEASE_S"] = LASTING
    servers.start_web()
    servers.start("runner", "dispatcher")
    try:
        servers.until(lambda: Run.objects.filter(status="running").exists(), "the run has begun")
        servers.stop("web", "dispatcher")
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE runs_run ADD COLUMN of_the_next_release text NOT NULL DEFAULT ''")
        servers.start_web()
        servers.start("dispatcher")
        servers.until(all_done, "all is done")
        assert Run.objects.get().attempt == 1
        check_truth()
    finally:
        servers.stop()
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE runs_run DROP COLUMN IF EXISTS of_the_next_release")


# -- deliveries ------------------------------------------------------------------------------------------------------


def test_deliveries_in_disorder_and_many_times_plan_each_commit_once(servers: Installation, tmp_path: Path) -> None:
    Run.objects.all().delete()
    servers.start_web()
    write_history(tmp_path / "kvd", 5)
    numbers = ["3", "1", "2", "2", *["4"] * 20, "1"]
    with ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(lambda number: tell(servers, number), numbers))
    assert set(codes) <= {200, 202}
    assert Delivery.objects.values("delivery_id").distinct().count() == Delivery.objects.count()
    servers.start("dispatcher", "git")
    servers.until(lambda: not Delivery.objects.filter(status="received").exists(), "all are processed")
    assert tell(servers, "1") in (200, 202), "sent again by hand"
    servers.until(lambda: not Delivery.objects.filter(status="received").exists(), "it is processed")
    assert sorted(Run.objects.values_list("reason", "rank")) == [("push", 2), ("push", 3), ("push", 4)]
    assert Machine.objects.count() == 1 and fsck_faults() == []


def tell(servers: Installation, number: str) -> int:
    project = naming.project_named("kvd")
    body = b'{"ref": "refs/heads/main", "number": ' + number.encode() + b"}"
    signature = hmac.new(project.hook_secret.reveal().encode(), body, hashlib.sha256).hexdigest()
    headers = {"X-Hub-Signature-256": f"sha256={signature}", "X-GitHub-Event": "push", "X-GitHub-Delivery": number}
    connection.close()  # that of this thread
    return httpx.post(f"{servers.url}/hooks/{project.hook_id}", content=body, headers=headers, timeout=60).status_code
