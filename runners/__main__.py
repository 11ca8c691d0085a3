"""`python -m runners`: the runner of this machine."""

import argparse
import fcntl
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import runners
from runners import placement
from runners.agent import Agent
from runners.build.cache import Cache
from runners.build.host import HostBuilder
from runners.client import Client, Hello, Unreachable
from runners.driver import Driver
from runners.environment import Machine
from runners.errors import Permanent, RunnerError, SettingsError, Unauthorized
from runners.external import External
from runners.job import Tools
from runners.placement import Placement
from runners.processes import Processes
from runners.server import Launcher
from runners.settings import Settings, read_settings
from runners.spool import Spool

log = logging.getLogger("runners")

EXIT_FAILED, EXIT_USAGE = 1, 2
RETRY_EVERY_S = 5.0
SAY_AGAIN_AFTER_S = 60.0

HELP = """\
The runner of this machine: it asks the SpeedTrack server for work, builds the commit, measures it, and reports.

One runner per machine. It needs a C compiler, make and tar, and the native driver speedbench.
"""

ENVIRONMENT = """\
environment variables:
  SPEEDTRACK_URL          address of the server, for example https://speed.example.org
  SPEEDTRACK_TOKEN        token of this machine, printed by `manage.py machine add NAME` on the server
  SPEEDTRACK_TOKEN_FILE   a file that holds the token, instead of SPEEDTRACK_TOKEN
  BROKER_URL              broker that says when there is work (redis://...); not needed with --poll or --once
  SPEEDTRACK_RUNNER_HOME  where builds, caches and unsent results live (default ~/.cache/speedtrack-runner)
  SPEEDTRACK_DRIVER       path of speedbench (default: built in runners/driver, else found on PATH)
  SPEEDTRACK_REDIS_BENCHMARK, SPEEDTRACK_MEMTIER
                          paths of redis-benchmark (or valkey-benchmark) and memtier_benchmark, for benchmarks of suites
                          that use them (default: found on PATH)
  SPEEDTRACK_ALLOW_SHARED_CORES=1
                          measure on a machine with a single core; recorded with every result

examples:
  python -m runners                  wait for messages of the broker, work, until SIGTERM
  python -m runners --poll           the same without a broker: ask every 5 seconds
  python -m runners --once           work until there is none, then exit
  python -m runners plan             show which cores would be used, and why

exit codes: 0 stopped as asked, 1 the server refuses this machine or cannot be used, 2 a setting is missing or wrong
"""


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m runners",
        description=HELP,
        epilog=ENVIRONMENT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "command",
        nargs="?",
        choices=["run", "plan"],
        default="run",
        help="run (default): work; plan: print the placement with its reasons and exit",
    )
    parser.add_argument("--poll", action="store_true", help="ask the server for work, without a broker")
    parser.add_argument("--every", type=float, default=5.0, metavar="SECONDS", help="pause of --poll (default 5)")
    parser.add_argument("--once", action="store_true", help="work until there is none, then exit")
    parser.add_argument("--version", action="version", version=f"speedtrack-runner {runners.__version__}")
    arguments = parser.parse_args(argv)
    if not 0 < arguments.every <= 3600:
        parser.error("--every must be above 0 and at most 3600 seconds")
    return arguments


def main(argv: list[str] | None = None) -> int:
    """Runs the runner; returns its exit code."""
    arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        if arguments.command == "plan":
            return show_plan(placement.place())
        settings = read_settings(os.environ, needs_broker=not (arguments.poll or arguments.once))
        with locked(settings.home):
            return run(settings, arguments)
    except SettingsError as error:
        print(f"runner: {error}", file=sys.stderr)
        return EXIT_USAGE
    except (Unauthorized, Unreachable) as error:
        print(f"runner: {error}{remedy(error)}", file=sys.stderr)
        return EXIT_FAILED
    except RunnerError as error:
        print(f"runner: {error}", file=sys.stderr)
        return EXIT_USAGE


def remedy(error: RunnerError) -> str:
    if isinstance(error, Unauthorized):
        return ": run `manage.py machine add NAME` on the server and set SPEEDTRACK_TOKEN to what it prints"
    return ": check SPEEDTRACK_URL and that the server runs"


def show_plan(plan: Placement) -> int:
    """Prints the placement for people."""
    for name, cpus in (("server", plan.server), ("driver", plan.driver), ("housekeeping", plan.housekeeping)):
        print(f"{name:<13} CPU {placement.cpu_list(cpus)}")
    for reason in plan.reasons:
        print(f"- {reason}")
    return 0


def run(settings: Settings, arguments: argparse.Namespace) -> int:
    """Starts up, then works in the way that was asked for until told to stop."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    tools = assemble(settings, stopping)
    facts = tools.machine.environment({}).document()
    hello = say_hello(tools.client, tools.machine.boot_id(), facts, stopping)
    if hello is None:
        return 0
    log.info("this is machine %s of %s", hello.machine, settings.url)
    agent = Agent(tools, stopping, after_run=tools.builder.cache.prune)
    if arguments.once:
        agent.work()
        return 0
    if arguments.poll:
        return poll(agent, arguments.every, stopping)
    return listen(agent, settings, hello, stopping)


def assemble(settings: Settings, stopping: threading.Event) -> Tools:
    """The tools of this machine; ends strays of an earlier runner and moves this process off the measured cores."""
    cpus = placement.allowed_cpus()
    plan = placement.place(allowed=cpus)
    show_override(plan)
    processes = Processes(settings.home)
    strays = processes.end_strays()
    if strays:
        log.warning("ended %d processes that an earlier runner left behind", strays)
    launcher = Launcher(processes, settings.home, plan.server)
    launcher.clean()
    pin_self(plan.housekeeping)
    client = Client(settings.url, settings.token, Spool(settings.home / "spool"), stopping, instance=processes.mark)
    driver = Driver(settings.driver, processes, plan.driver)
    return Tools(
        client,
        Machine(plan, settings.driver, cpus),
        HostBuilder(settings.home, processes, Cache(settings.home), cpus),
        launcher,
        driver,
        External(driver, settings.tools),
    )


def show_override(plan: Placement) -> None:
    for reason in plan.reasons:
        log.info("placement: %s", reason)


def pin_self(cpus: frozenset[int]) -> None:
    """Moves every thread of this process to the housekeeping cores; later ones inherit that."""
    for task in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(task.name), cpus)


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """Holds the lock of a runner home. Raises SettingsError while another runner holds it."""
    with (home / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise SettingsError(
                f"another runner (process {holder}) uses {home}: stop it, or set "
                "SPEEDTRACK_RUNNER_HOME to another directory"
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def say_hello(client: Client, boot_id: str, facts: dict[str, Any], stopping: threading.Event) -> Hello | None:
    """Announces this machine; waits for a server that cannot be reached. None: told to stop meanwhile."""
    said_at = -SAY_AGAIN_AFTER_S
    while not stopping.is_set():
        try:
            return client.hello(runners.__version__, boot_id, facts)
        except Unreachable as error:
            if time.monotonic() - said_at >= SAY_AGAIN_AFTER_S:
                log.warning("%s; waiting for it (check SPEEDTRACK_URL and that the server runs)", error)
                said_at = time.monotonic()
            stopping.wait(RETRY_EVERY_S)
    return None


def work_or_wait(agent: Agent) -> None:
    """Works until there is none; a server that went away is waited for by asking again later."""
    try:
        agent.work()
    except Unreachable as error:
        log.warning("%s; asking again later", error)
    except (Permanent, OSError) as error:
        log.error("%s; asking again later", error)


def poll(agent: Agent, every_s: float, stopping: threading.Event) -> int:
    """Asks for work again and again until told to stop."""
    while not stopping.is_set():
        work_or_wait(agent)
        stopping.wait(every_s)
    return 0


def listen(agent: Agent, settings: Settings, hello: Hello, stopping: threading.Event) -> int:
    """Works on what waits already, then whenever the broker says so."""
    from runners.worker import serve  # Celery is loaded only where there is a broker

    work_or_wait(agent)
    if stopping.is_set():
        return 0
    return serve(lambda: work_or_wait(agent), settings.broker_url, hello.queue, hello.machine, stopping)


if __name__ == "__main__":
    sys.exit(main())
