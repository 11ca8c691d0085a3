"""The start of the runner: its tools, its announcement to the server, and its ways of waiting for work."""

import logging
import os
import platform
import signal
import threading
import time
from dataclasses import replace
from typing import Any

from runners.build.builders import CachedBuilder
from runners.build.docker import DockerBuilder
from runners.build.host import HostBuilder
from runners.build.store import ArtifactStore
from runners.errors import Permanent, WrongVersion
from runners.loads.external import ExternalLoads
from runners.loads.recordings import Recordings
from runners.loads.speedbench import Driver
from runners.machine import placement
from runners.machine.core_locks import CoreLocks, Holder, lock_directory, physical_cores
from runners.machine.environment import MachineFacts
from runners.measuring.perf import Profiler
from runners.measuring.quiet import QuietGate
from runners.measuring.tools import Tools
from runners.processes.children import Processes
from runners.processes.signals import on_signals
from runners.reporting.client import Client
from runners.reporting.connection import HelloReply, Unreachable
from runners.reporting.heartbeat import HeartbeatProcess
from runners.reporting.spool import Spool
from runners.reporting.token import rotate
from runners.sandbox import policy
from runners.servers.server import Launcher
from runners.tuning.tune import Tuning
from runners.work.agent import Agent
from runners.work.settings import Settings
from runners.work.space import Space

log = logging.getLogger("runners")

RETRY_EVERY_S = 5.0
LOG_AGAIN_S = 60.0


def run(settings: Settings, tuning: Tuning, once: bool, poll_every_s: float | None) -> int:
    """Starts up, then works until it is stopped; returns the exit code.

    `once`: until there is no work; `poll_every_s`: asks at this interval; None: waits for messages of the broker.
    """
    stopping = threading.Event()
    on_signals(stopping.set, signal.SIGTERM, signal.SIGINT)
    tools = replace(assemble(settings, stopping), tuning=tuning)
    directory = lock_directory(settings.locks)
    facts = tools.machine.environment({}).document()
    hello = say_hello(tools.client, tools.machine.boot_id(), facts, stopping, once)
    if hello is None:
        return 0
    log.info("this is machine %s of %s", hello.machine, settings.url)
    holder = Holder(os.getpid(), str(settings.home), tools.client.instance, hello.machine, platform.node())
    locks = CoreLocks(directory, physical_cores(tools.machine.planner.machine), holder, tools.heartbeat.wait_for)
    locks.check()
    space = Space(settings.home, settings.least_free_bytes)
    agent = Agent(replace(tools, hold=locks.held), stopping, after_run=tools.builder.store.prune, space=space)
    drain_on_signal(agent)
    tools.heartbeat.heard.rotate = lambda: replace_token(tools, settings)
    try:
        return work(agent, settings, hello, once, poll_every_s)
    finally:
        tools.heartbeat.close(why_ended(agent, once))


def why_ended(agent: Agent, once: bool) -> str:
    """Why the runner has ended, as the end of "its runner ..."."""
    if agent.draining.is_set():
        return "was drained, such as for an update"
    if agent.stopping.is_set():
        return "was stopped"
    return "worked once, and found no more work" if once else "has ended; its log says why"


def work(agent: Agent, settings: Settings, hello: HelloReply, once: bool, poll_every_s: float | None) -> int:
    """Works in one of the ways of `run`; returns the exit code."""
    stopping = agent.stopping
    if once:
        agent.work()
        return 0
    if poll_every_s is not None:
        return poll(agent, poll_every_s, stopping)
    return listen(agent, settings, hello, stopping)


def drain_on_signal(agent: Agent) -> None:
    """Makes the runner end on SIGUSR2, but after its run if it has one, so that an update does not lose the run."""

    def drain() -> None:
        agent.draining.set()
        if not agent.at_work:
            os.kill(os.getpid(), signal.SIGTERM)
        agent.tools.heartbeat.drain()

    on_signals(drain, signal.SIGUSR2)


def replace_token(tools: Tools, settings: Settings) -> None:
    if rotate(tools.client, settings.token_file):
        tools.heartbeat.use_token()


def assemble(settings: Settings, stopping: threading.Event) -> Tools:
    """The tools of this machine. Ends what an earlier runner of this home left behind."""
    sandbox = policy.sandbox_of_machine(os.environ, settings.home)
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
    if leftovers := launcher.clean():
        log.warning("files of earlier runs take space: %s", leftovers)
    client = Client(settings.url, settings.token, Spool(settings.home / "spool"), stopping, instance=processes.mark)
    recordings = Recordings(settings.recordings or settings.home / "recordings")
    driver = Driver(settings.driver, processes, plan.driver, plan.nodes, recordings)
    host = HostBuilder(settings.home, processes, cpus)
    builder = CachedBuilder(ArtifactStore(settings.home, settings.store), {"host": host, "docker": docker})
    return Tools(
        client,
        HeartbeatProcess(client, plan.housekeeping),
        MachineFacts(planner, plan, settings.driver, sandbox=sandbox.fact),
        builder,
        launcher,
        driver,
        ExternalLoads(driver, settings.tools),
        QuietGate(plan, patience_s=settings.patience_s),
        Profiler(processes, plan.housekeeping),
    )


def say_hello(
    client: Client, boot_id: str, facts: dict[str, Any], stopping: threading.Event, once: bool
) -> HelloReply | None:
    """Announces this machine; waits for a server that cannot be reached. Returns None if the runner is stopped.

    It also waits for a server of another version, unless it works `once`: then it raises WrongVersion.
    """
    logged_at = -LOG_AGAIN_S
    while not stopping.is_set():
        try:
            return client.hello(boot_id, facts)
        except Unreachable as error:
            level, cause = logging.WARNING, f"{error}; waiting for it (check SPEEDTRACK_URL and that the server runs)"
        except WrongVersion as error:
            if once:
                raise
            level, cause = logging.ERROR, f"{error}; asking again"
        if time.monotonic() - logged_at >= LOG_AGAIN_S:
            log.log(level, "%s", cause)
            logged_at = time.monotonic()
        if not stopping.is_set():
            stopping.wait(RETRY_EVERY_S)
    return None


def work_or_wait(agent: Agent) -> None:
    """Works until there is no work; if the server cannot be reached, the next call asks again."""
    try:
        agent.work()
    except (Unreachable, WrongVersion) as error:
        log.warning("%s; asking again later", error)
    except (Permanent, OSError) as error:
        log.error("%s; asking again later", error)


def poll(agent: Agent, every_s: float, stopping: threading.Event) -> int:
    """Asks for work at an interval until the runner is stopped."""
    while not stopping.is_set():
        work_or_wait(agent)
        stopping.wait(every_s)
    return 0


def listen(agent: Agent, settings: Settings, hello: HelloReply, stopping: threading.Event) -> int:
    """Works on the waiting runs, then at each message of the broker."""
    from runners.work.worker import NudgeSource, serve  # Celery is imported only if there is a broker

    assert settings.broker  # `read_settings` needed one
    work_or_wait(agent)
    if stopping.is_set():
        return 0
    source = NudgeSource(settings.broker, hello.queue, agent.tools.heartbeat.wait_for)
    return serve(lambda: work_or_wait(agent), source, hello.machine, stopping)
