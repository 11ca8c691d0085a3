"""What a runner measures with."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from runners.build.workshop import Workshop
from runners.loads.external import External
from runners.loads.speedbench import Driver
from runners.machine.environment import Machine
from runners.machine.tune import Tuning
from runners.measuring.perf import Profiler
from runners.measuring.quiet import Gate
from runners.reporting.client import Client
from runners.servers.server import Launcher


@dataclass(frozen=True)
class Tools:
    """Of one machine, for all its runs."""

    client: Client
    machine: Machine
    builder: Workshop
    launcher: Launcher
    driver: Driver
    external: External
    gate: Gate
    profiler: Profiler
    tuning: Tuning = lambda plan: nullcontext()
    #: Entered from before each claim to the end of its run; False: told to stop before the cores were free.
    hold: Callable[[threading.Event], AbstractContextManager[bool]] = lambda stopping: nullcontext(True)

    def placed(self, servers: int) -> "Tools":
        """These tools on the cores for a server of so many. Raises Permanent if the machine has too few."""
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
