"""The random layouts of a run: linked in batches between trials, each measured in one trial.

Where a trial fails, the server of each of its layouts is started once more: those that do not answer are left out.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from runners.build import Artifact, BuildFailed
from runners.build.layouts import linking
from runners.documents import Benchmark, Job
from runners.errors import BenchmarkFailed
from runners.foreign import UnusableFile
from runners.measuring.tools import Tools
from runners.processes.control import Control
from runners.removal import empty_directory
from runners.servers import capacity
from runners.servers.server import ServerSpec

BATCH = 8  # layouts of a side that are linked at a time; if so many in a row do not start, none does
LARGEST_SEED = 2**31 - 1
LINKED = "linked by "  # link.sh prints it


@dataclass(frozen=True)
class Layout:
    """The programs of a side, linked in the order that belongs to a seed."""

    seed: int
    programs: Mapping[str, Path]


@dataclass
class LayoutPool:
    """Layouts that are ready, by side. `kept`: what they are linked from, by side; `refusal`: why there are none."""

    job: Job
    tools: Tools
    control: Control
    rng: Random
    kept: Mapping[str, Artifact]
    refusal: str = ""
    linker: str = ""
    ready: dict[str, list[Layout]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)  # by side: layouts in a row that did not start

    def draw(self) -> dict[str, Layout]:
        """A layout of each side that was not drawn before; empty if there are none. Raises what ends the run."""
        try:
            for side in self.kept if not self.refusal else ():
                if not self.ready.get(side):
                    self.ready[side] = self._batch(side)
        except (BuildFailed, UnusableFile) as error:
            self.refusal = str(error)
        return {} if self.refusal else {side: layouts.pop() for side, layouts in self.ready.items()}

    def document(self) -> dict[str, object]:
        """The pool as docs/result-format.md describes it."""
        return {"linker": self.linker, "left_out": len(self.left_out), "refusal": self.refusal}

    def leave_out_broken(self, layouts: Mapping[str, Layout], benchmark: Benchmark) -> list[str]:
        """After a trial that failed: why those of its layouts that do not start are left out; empty if all do."""
        broken = []
        for side, layout in layouts.items():
            try:
                self._start(layout, benchmark)
                self.failed[side] = 0
            except BenchmarkFailed as error:
                broken.append(f"layout {layout.seed} of {side}: {error}")
                self.failed[side] += 1
                if self.failed[side] == BATCH:
                    self.refusal = f"no layout starts: {broken[-1]}"
        self.left_out += broken
        return broken

    def _batch(self, side: str) -> list[Layout]:
        """Links the next layouts of a side. Raises BuildFailed with the last message, UnusableFile."""
        seeds = [self.rng.randint(1, LARGEST_SEED) for _ in range(BATCH)]
        messages: list[str] = []
        room = empty_directory(self.tools.launcher.home / "layouts" / side)
        recipe, attempt = linking(self.job.build, seeds), f"{self.job.run}/{self.job.token}"
        try:
            files = self.tools.builder.link(self.kept[side], recipe, room, attempt, messages.append, self.control)
        except BuildFailed as error:
            lines = "".join(messages).strip().splitlines()[-1:]
            raise BuildFailed(f"the layouts of {side} cannot be linked: {': '.join([str(error), *lines])}") from error
        lines = "".join(messages).splitlines()
        self.linker = next((line.removeprefix(LINKED) for line in lines if line.startswith(LINKED)), self.linker)
        names = [Path(artifact).name for artifact in self.job.build.artifacts]
        return [Layout(seed, {name: files[f"{name}.{seed}"] for name in names}) for seed in seeds]

    def _start(self, layout: Layout, benchmark: Benchmark) -> None:
        """Starts a layout's server until it answers. Raises BenchmarkFailed if it does not, or what ends the run."""
        recipe = capacity.recipe_for(self.job.server, benchmark)
        spec = ServerSpec(recipe, benchmark.transport, layout.programs)
        with (
            capacity.open_files(capacity.files_needed(benchmark)),
            self.tools.launcher.running(spec, Random(layout.seed), self.control),
        ):
            pass
