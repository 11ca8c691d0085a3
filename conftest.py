"""Tests with needs beyond this checkout: each need is a marker, detected once; a test whose need is absent is left out.

The last lines list what was left out, and what it lacks. `TESTS_MUST_HAVE="docker ..."` makes an absence an error.
"""

import gc
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.errors import DockerException, ImageNotFound
from hypothesis import HealthCheck, settings
from pytest_django.plugin import DjangoDbBlocker
from xdist.scheduler import LoadScopeScheduling

from runners.tests import broker_servers
from speedtrack.tests.programs import find_nginx

pytest_plugins = ["pytester"]

BUILD_IMAGE = "speedtrack-test:bookworm"
# No test is timed: on a busy machine an example takes as long as it takes.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
gc.set_threshold(100_000, 50, 1000)  # Django makes and drops so many objects that the usual collections take a sixth


def lacks_docker() -> str:
    try:
        docker.from_env(timeout=5).images.get(BUILD_IMAGE)
    except ImageNotFound:
        return f"the Docker daemon has no image {BUILD_IMAGE}"
    except DockerException:
        return f"no Docker daemon answers at {os.environ.get('DOCKER_HOST') or 'the usual socket'}"
    return ""


def lacks_program(name: str) -> Callable[[], str]:
    return lambda: "" if shutil.which(name) else f"{name} is not on PATH"


def lacks_browser() -> str:
    from speedtrack.web.tests.conftest import browser  # models: only once Django is set up

    built = Path(__file__).parent / "frontend" / "dist" / "timeline.js"
    if browser() is None:
        return "no chromium on PATH"
    return "" if built.exists() else "frontend/dist is not built (npm ci && npm run build)"


def lacks_perf() -> str:
    if lack := lacks_program("perf")():
        return lack
    tried = subprocess.run(
        ["perf", "record", "--quiet", "-e", "cpu-clock", "-o", "/dev/null", "true"], stderr=subprocess.PIPE
    )
    return f"perf may not sample here ({tried.stderr.decode().strip()[:200]})" if tried.returncode else ""


def lacks_sandbox() -> str:
    tried = subprocess.run([sys.executable, "-m", "runners.sandbox"], capture_output=True, text=True)
    return tried.stdout.strip() if tried.returncode else ""


def lacks_ordinary_user() -> str:
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if os.geteuid() or not shutil.which("setpriv"):
        return "only root with setpriv can run a test as another user"
    absent = subprocess.run(["/usr/bin/env", "-i", python, "-c", ""], capture_output=True).returncode
    return f"there is no {python} for all users" if absent else ""


def lacks_mount() -> str:
    """Tests of full disks fill a small tmpfs."""
    with tempfile.TemporaryDirectory() as place:
        argv = ["unshare", "--mount", "mount", "-t", "tmpfs", "-o", "size=1m", "none", place]
        tried = subprocess.run(argv, capture_output=True, text=True) if shutil.which("unshare") else None
    return "" if tried and tried.returncode == 0 else "only root may mount a tmpfs, and not in every container"


def lacks_netns() -> str:
    if missing := [name for name in ("ip", "iptables") if not shutil.which(name)]:
        return f"{missing[0]} is not on PATH"
    name = f"st-try-{os.getpid()}"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    listed = subprocess.run(["iptables", "-S"], capture_output=True, text=True)
    subprocess.run(["ip", "netns", "del", name], capture_output=True)
    lack = (tried.stderr if tried.returncode else "") or (listed.stderr if listed.returncode else "")
    return f"no network namespaces or no iptables ({lack.strip()[:200]})" if lack else ""


def lacks_faketime() -> str:
    return "" if any(Path("/usr/lib").glob("*/faketime/libfaketime.so.1")) else "libfaketime is not installed"


def lacks_avx512() -> str:
    return "" if "avx512f" in Path("/proc/cpuinfo").read_text() else "the processor has no AVX-512"


def lacks_sshd() -> str:
    return "" if Path("/usr/sbin/sshd").exists() else "openssh-server is not installed"


def lacks_rabbitmq() -> str:
    return "" if broker_servers.RABBITMQ.exists() else "rabbitmq-server is not installed"


def lacks_debian_postgresql() -> str:
    return "" if any(Path("/usr/lib/postgresql").glob("*/bin/initdb")) else "Debian's postgresql is not installed"


# Marker: returns what is missing ("" for nothing). The text after it is shown by `pytest --markers`.
NEEDS: dict[str, tuple[Callable[[], str], str]] = {
    "browser": (lacks_browser, "needs Chromium, and the pages' scripts built"),
    "docker": (lacks_docker, f"needs a Docker daemon with the image {BUILD_IMAGE} (`.ci/docker up` makes both)"),
    "compose": (lacks_program("docker-compose"), "needs docker-compose (1.29 or 2)"),
    "perf": (lacks_perf, "needs perf (linux-perf), allowed to sample"),
    "caddy": (lacks_program("caddy"), "needs Caddy (2.6 or newer)"),
    "curl": (lacks_program("curl"), "needs curl"),
    "memcached": (lacks_program("memcached"), "needs memcached"),
    "mold": (lacks_program("ld.mold"), "needs the linker mold"),
    "lld": (lacks_program("ld.lld"), "needs the linker lld"),
    "gold": (lacks_program("ld.gold"), "needs the linker gold (binutils)"),
    "promtool": (lacks_program("promtool"), "needs promtool (prometheus)"),
    "debian_postgresql": (lacks_debian_postgresql, "needs a PostgreSQL of Debian's package (postgresql)"),
    "nginx": (lambda: "" if find_nginx() else "nginx is not installed", "needs nginx (nginx-light)"),
    "pgbouncer": (lacks_program("pgbouncer"), "needs pgbouncer"),
    "sandbox": (lacks_sandbox, "needs a kernel that allows user namespaces"),
    "ordinary_user": (lacks_ordinary_user, "needs root, setpriv and a Python that other users can run"),
    "root": (lambda: "only root can start processes of two users" if os.geteuid() else "", "needs root"),
    "mount": (lacks_mount, "needs root, and leave to mount a tmpfs"),
    "netns": (lacks_netns, "needs root, network namespaces and iptables"),
    "faketime": (lacks_faketime, "needs libfaketime"),
    "avx512": (lacks_avx512, "needs a processor with AVX-512"),
    "valgrind": (lacks_program("valgrind"), "needs valgrind"),
    "systemd_analyze": (lacks_program("systemd-analyze"), "needs systemd-analyze (systemd, which need not run)"),
    "sshd": (lacks_sshd, "needs OpenSSH's server"),
    "rabbitmq": (lacks_rabbitmq, "needs RabbitMQ's server (rabbitmq-server)"),
    "redis": (lacks_program("redis-server"), "needs redis-server, with TLS and Sentinel in it, and openssl"),
}
left_out: Counter[str] = Counter()
not_begun: Counter[str] = Counter()  # of which each worker knows its own


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--for-seconds", type=float, help="leave out slow tests, and those not begun after this time")


def pytest_configure(config: pytest.Config) -> None:
    for name, (_, meaning) in NEEDS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    lacks = [lack for name in os.environ.get("TESTS_MUST_HAVE", "").split() if (lack := NEEDS[name][0]())]
    if lacks:
        raise pytest.UsageError("; ".join(lacks))


FAULTS = ("conditions", "failpoints", "faults")
# Tests that measure: a runner takes all cores, and two at once wait so long for quiet ones that tests lose patience.
MEASURING = (
    *(f"runners/tests/{room}/" for room in ("loads", "measuring", "servers", "work")),
    *(f"speedtrack/tests/test_{name}.py" for name in (*FAULTS, "installed_runner", "machine_at_work", "reproduce")),
)


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """Keeps the tests of a file on one worker, and those that measure together on one."""

    def _split_scope(self, nodeid: str) -> str:
        return "measuring" if nodeid.startswith(MEASURING) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    return ByFile(config, log)


def longest_first(item: pytest.Item) -> tuple[float, bool]:
    """The order of the files: a long one that is begun last would leave the other workers without work."""
    timeout = item.get_closest_marker("timeout")
    return -timeout.args[0] if timeout else 0, not item.nodeid.startswith(MEASURING)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    needs = [{name for name in NEEDS if item.get_closest_marker(name)} for item in items]
    lacks = {name: NEEDS[name][0]() for name in sorted(set().union(*needs))}
    absent = {name for name, lack in lacks.items() if lack}
    left_out.update(f"tests that need {name}: {lacks[name]}" for need in needs for name in need & absent)
    config.hook.pytest_deselected(items=[item for item, need in zip(items, needs, strict=True) if need & absent])
    items[:] = [item for item, need in zip(items, needs, strict=True) if not need & absent]
    if config.getoption("for_seconds") is None:
        items.sort(key=longest_first)
        return
    order = {name: place for place, name in enumerate(config.args)}  # pytest-django puts tests with a database first
    items.sort(key=lambda item: order.get(item.nodeid.partition("::")[0], len(order)))
    slow = [item for item in items if item.get_closest_marker("timeout")]
    left_out["slow tests, which are marked with a timeout of their own"] = len(slow)
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in slow]


STARTED_S = time.monotonic()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    limit_s = item.config.getoption("for_seconds")
    if limit_s is None or time.monotonic() - STARTED_S < limit_s:
        return None
    not_begun[f"tests that {limit_s:g} seconds were too short for"] += 1
    return True  # as if it had run, without a report


@pytest.fixture(scope="session", autouse=True)
def open_session_folders(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let other users enter: where root runs the tests, the embedded PostgreSQL and some processes run as others."""
    base = tmp_path_factory.getbasetemp()
    for directory in (base, *base.parents):
        if directory.name.startswith(("pytest-", "popen-")):
            directory.chmod(0o755)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None, django_db_blocker: DjangoDbBlocker) -> None:
    from speedtrack.tests import worlds

    with django_db_blocker.unblock():
        worlds.use_migrated_database()
        worlds.empty_quickly()


@pytest.fixture(autouse=True)
def forget_judgements() -> None:
    """An emptied database gives the same ids again."""
    if "speedtrack.judging.repeated" in sys.modules:
        sys.modules["speedtrack.judging.repeated"].forget()


@pytest.fixture
def broker() -> Iterator[broker_servers.Valkey]:
    """A broker of this test alone, at a socket: two tests that look for a free port at once may both find the same."""
    directory = tempfile.TemporaryDirectory(prefix="broker-")  # tmp_path may be too long for a socket's path
    with directory as name, broker_servers.Valkey(Path(name)) as server:
        yield server


@pytest.fixture
def broker_url(broker: broker_servers.Valkey) -> str:
    return broker.url


@pytest.fixture
def rabbitmq() -> Iterator[broker_servers.RabbitMQ]:
    with tempfile.TemporaryDirectory(prefix="rabbitmq-", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)
        with broker_servers.running_rabbitmq(Path(directory)) as server:
            yield server


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput |= {"left_out": dict(left_out), "not_begun": dict(not_begun)}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Every worker of pytest-xdist has collected all tests: each knows what was left out."""
    for what, count in getattr(node, "workeroutput", {}).get("left_out", {}).items():  # none from a worker that crashed
        left_out[what] = count
    not_begun.update(getattr(node, "workeroutput", {}).get("not_begun", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for what, count in (left_out + not_begun).items():
        terminalreporter.write_line(f"left out: {count} {what}")
