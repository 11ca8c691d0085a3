"""The tools that a runner measures with."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from runners.build.builders import CachedBuilder
from runners.loads.external import ExternalLoads
from runners.loads.speedbench import Driver
from runners.machine.environment import MachineFacts
from runners.measuring.perf import Profiler
from runners.measuring.quiet import QuietGate
from runners.reporting.client import Client
from runners.reporting.heartbeat import HeartbeatProcess
from runners.servers.server import Launcher
from runners.tuning.tune import Tuning


@dataclass(frozen=True)
class Tools:
    """The tools of one machine, for all its runs."""

    client: Client
    heartbeat: HeartbeatProcess
    machine: MachineFacts
    builder: CachedBuilder
    launcher: Launcher
    driver: Driver
    external: ExternalLoads
    gate: QuietGate
    profiler: Profiler
    tuning: Tuning = lambda plan: nullcontext()
    #: Entered before each claim and left at the end of its run; False: the runner is to stop.
    hold: Callable[[threading.Event], AbstractContextManager[bool]] = lambda stopping: nullcontext(True)

    def placed(self, servers: int) -> "Tools":
        """These tools, placed for a server of so many cores. Raises Permanent if the machine has too few."""
        plan = self.machine.planner.plan(servers)
        driver = replace(self.driver, cpus=plan.driver, nodes=plan.nodes)
        return replace(
            self,
            machine=replace(self.machine, placement=plan),
            launcher=replace(self.launcher, cpus=plan.server, nodes=plan.nodes),
            driver=driver,
            external=replace(self.external, driver=driver),
            gate=replace(self.gate, placement=plan),
            profiler=replace(self.profiler, cpus=plan.housekeeping),
        )
