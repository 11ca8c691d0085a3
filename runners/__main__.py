"""`python -m runners`: the runner of this machine."""

import argparse
import json
import logging
import os
import platform
import signal
import sys
import threading
import time
from dataclasses import asdict, replace
from typing import Any

import runners
from runners.build.cache import Cache
from runners.build.docker import DockerBuilder
from runners.build.host import HostBuilder
from runners.build.workshop import Workshop
from runners.errors import Permanent, RunnerError, SettingsError, Unauthorized
from runners.loads.external import External
from runners.loads.speedbench import Driver
from runners.machine import placement, topology, tune
from runners.machine.cores import NOT_COVERED, Cores, Holder, lock_directory, physical_cores
from runners.machine.environment import Machine
from runners.machine.locks import held
from runners.machine.placement import Placement, Planner
from runners.machine.topology import ROOT
from runners.measuring.perf import Profiler
from runners.measuring.quiet import Gate
from runners.measuring.tools import Tools
from runners.processes.children import Processes
from runners.reporting.client import Client, Hello, Unreachable
from runners.reporting.spool import Spool
from runners.sandbox import policy
from runners.servers.server import Launcher
from runners.work.agent import Agent
from runners.work.settings import Settings, locks, read_settings

log = logging.getLogger("runners")

EXIT_FAILED, EXIT_USAGE = 1, 2
RETRY_EVERY_S = 5.0
SAY_AGAIN_AFTER_S = 60.0
IN_USE = (
    "another runner (process %s) uses this SPEEDTRACK_RUNNER_HOME: stop it, or set SPEEDTRACK_RUNNER_HOME to another "
    "directory"
)
ROLES = ("server", "driver", "housekeeping")

HELP = """\
The runner of this machine: it asks the SpeedTrack server for work, builds the commit, measures it, and reports.

It needs a C compiler, make and tar, and the native driver speedbench. Runners of one host that may use the same cores
work in turn.
"""

ENVIRONMENT = """\
environment variables:
  SPEEDTRACK_URL          address of the server, for example https://speed.example.org
  SPEEDTRACK_TOKEN        token of this machine, printed by `manage.py machine add NAME` on the server
  SPEEDTRACK_TOKEN_FILE   a file that holds the token, instead of SPEEDTRACK_TOKEN
  BROKER_URL              broker that says when there is work (redis://...); not needed with --poll or --once
  SPEEDTRACK_RUNNER_HOME  where builds, caches and unsent results live (default ~/.cache/speedtrack-runner)
  SPEEDTRACK_CACHE_MB, SPEEDTRACK_CACHE_DAYS
                          what the store of built programs may keep (default 4096 MB, 90 days since the last use)
  DOCKER_HOST             the daemon of suites with `build.kind = "docker"` (default: its usual socket)
  SPEEDTRACK_DRIVER       path of speedbench (default: built in runners/driver, else found on PATH)
  SPEEDTRACK_REDIS_BENCHMARK, SPEEDTRACK_MEMTIER
                          paths of redis-benchmark (or valkey-benchmark) and memtier_benchmark, for benchmarks of suites
                          that use them (default: found on PATH)
  SPEEDTRACK_PATIENCE_S   how many seconds a trial is held back at most while the measured cores are busy (default 10)
  SPEEDTRACK_LOCK_DIR     directory of the locks that let one runner of this host at a time use a core (default: the
                          first of /run/lock, /var/lock, /tmp that everybody may write to); runners in containers
                          exclude each other, and those of their host, only if they are given the same directory
  SPEEDTRACK_ALLOW_SHARED_CORES=1
                          measure on a machine with too few cores; recorded with every result
  SPEEDTRACK_SANDBOX      auto (default): builds and servers run in a sandbox where the kernel allows it, and the first
                          line of the log says if not; required: do not start without; off: run them without
  SPEEDTRACK_SANDBOX_READABLE
                          more paths that they may read, separated by colons: a compiler in an unusual place
  SPEEDTRACK_TUNE=1       set the kernel's settings as `tune` wants them during each run, and put them back after it

examples:
  python -m runners                  wait for messages of the broker, work, until SIGTERM
  python -m runners --poll           the same without a broker: ask every 5 seconds
  python -m runners --once           work until there is none, then exit
  python -m runners plan             show which cores would be used, and why
  python -m runners tune             show the kernel's settings, those wanted, and why; change nothing

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
        choices=["run", "plan", "tune"],
        default="run",
        help="run (default): work; plan: print the placement with its reasons; tune: show the kernel's settings",
    )
    parser.add_argument("--poll", action="store_true", help="ask the server for work, without a broker")
    parser.add_argument("--every", type=float, default=5.0, metavar="SECONDS", help="pause of --poll (default 5)")
    parser.add_argument("--once", action="store_true", help="work until there is none, then exit")
    parser.add_argument("--cores", type=int, default=1, metavar="N", help="plan, tune: cores of the server (default 1)")
    parser.add_argument("--json", action="store_true", help="plan, tune: print a JSON document")
    hand = parser.add_mutually_exclusive_group()
    hand.add_argument("--apply", action="store_true", help="tune: set what is wanted, until --restore")
    hand.add_argument(
        "--restore", action="store_true", help="tune: put back what was set, by a runner that crashed too"
    )
    parser.add_argument("--version", action="version", version=f"speedtrack-runner {runners.__version__}")
    arguments = parser.parse_args(argv)
    if not 0 < arguments.every <= 3600:
        parser.error("--every must be above 0 and at most 3600 seconds")
    if arguments.cores < 1:
        parser.error("--cores must be at least 1")
    return arguments


def main(argv: list[str] | None = None) -> int:
    """Runs the runner; returns its exit code."""
    arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        if arguments.command != "run":
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader that has seen enough, as in `plan | head`
        if arguments.command == "plan":
            return show_plan(placement.place(arguments.cores), arguments.json)
        if arguments.command == "tune":
            return tune_by_hand(arguments)
        settings = read_settings(os.environ, needs_broker=not (arguments.poll or arguments.once))
        with held(settings.home / "lock", IN_USE), tune.tuned_runs(settings.tune) as tuning:
            return run(settings, arguments, tuning)
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


def show_plan(plan: Placement, as_json: bool) -> int:
    """Prints the placement: a table for people, a document for programs."""
    directory = str(lock_directory(locks(os.environ)))
    if as_json:
        print(json.dumps(plan.document() | {"locks": directory}))
        return 0
    cpus = plan.document()
    print(f"{'role':<13} {'CPUs':<12} why")
    for role, reason in plan.reasons:
        print(f"{role:<13} {cpus.get(role, '') if role in ROLES else '':<12} {reason}")
    print(f"{'locks':<13} {'':<12} in {directory}: one runner at a time uses a core; {NOT_COVERED}")
    return 0


def tune_by_hand(arguments: argparse.Namespace) -> int:
    """Shows the kernel's settings; before that sets them, or puts them back, if asked."""
    plan = Planner(topology.read(), allow_shared=True).plan(arguments.cores)
    refused: dict[str, str] = {}
    was: dict[str, str] = {}
    if arguments.apply or arguments.restore:
        with tune.host() as directory:
            journals = [tune.Journal(ROOT, directory, owner) for owner in (tune.RUN, tune.HAND)]
            for journal in journals:
                was |= {change.file: change.wanted for change in journal.read()}
                refused |= journal.undo()
            if arguments.apply:
                wanted = tune.changes(ROOT, plan)
                was = {change.file: change.before for change in wanted}
                refused |= journals[-1].apply(wanted)
    return show_tuning(list(tune.rows(ROOT, plan, refused, was)), arguments.json)


def show_tuning(rows: list[tune.Row], as_json: bool) -> int:
    if as_json:
        print(json.dumps([asdict(row) for row in rows]))
        return 0
    print(f"{'setting':<18} {'before':<16} {'now':<16} {'wanted':<16} remedy")
    for row in rows:
        print(
            f"{row.knob:<18} {row.before or '-':<16} {row.now or '-':<16} {row.wanted or '-':<16} {row.note}".rstrip()
        )
    print("\nwhy")
    for row in rows:
        print(f"{row.knob:<18} {row.why}")
    return 0


def run(settings: Settings, arguments: argparse.Namespace, tuning: tune.Tuning) -> int:
    """Starts up, then works in the way that was asked for until told to stop."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    tools = replace(assemble(settings, stopping), tuning=tuning)
    directory = lock_directory(settings.locks)
    facts = tools.machine.environment({}).document()
    hello = say_hello(tools.client, tools.machine.boot_id(), facts, stopping)
    if hello is None:
        return 0
    log.info("this is machine %s of %s", hello.machine, settings.url)
    us = Holder(os.getpid(), str(settings.home), tools.client.instance, hello.machine, platform.node())
    cores = Cores(directory, physical_cores(tools.machine.planner.machine), us)
    cores.check()
    agent = Agent(replace(tools, hold=cores.held), stopping, after_run=tools.builder.cache.prune)
    if arguments.once:
        agent.work()
        return 0
    if arguments.poll:
        return poll(agent, arguments.every, stopping)
    return listen(agent, settings, hello, stopping)


def assemble(settings: Settings, stopping: threading.Event) -> Tools:
    """The tools of this machine; ends strays of an earlier runner."""
    sandbox = policy.of_machine(os.environ, settings.home)
    log.log(logging.INFO if sandbox.works else logging.WARNING, "%s", sandbox)
    planner = placement.planner()
    plan = planner.plan()
    for role, reason in plan.reasons:
        log.info("placement: %s: %s", role, reason)
    processes, cpus = Processes(settings.home, sandbox), planner.machine.cpus
    docker = DockerBuilder(settings.home, processes, cpus)
    strays = processes.end_strays() + docker.end_strays()
    if strays:
        log.warning("ended %d processes and containers that an earlier runner left behind", strays)
    launcher = Launcher(processes, settings.home, plan.server, plan.nodes)
    launcher.clean()
    client = Client(settings.url, settings.token, Spool(settings.home / "spool"), stopping, instance=processes.mark)
    driver = Driver(settings.driver, processes, plan.driver, plan.nodes)
    host = HostBuilder(settings.home, processes, cpus)
    workshop = Workshop(Cache(settings.home, settings.cache), {"host": host, "docker": docker})
    return Tools(
        client,
        Machine(planner, plan, settings.driver, sandbox=sandbox.fact),
        workshop,
        launcher,
        driver,
        External(driver, settings.tools),
        Gate(plan, patience_s=settings.patience_s),
        Profiler(processes, plan.housekeeping),
    )


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
    from runners.work.worker import serve  # Celery is loaded only where there is a broker

    work_or_wait(agent)
    if stopping.is_set():
        return 0
    return serve(lambda: work_or_wait(agent), settings.broker_url, hello.queue, hello.machine, stopping)


if __name__ == "__main__":
    sys.exit(main())
