"""perf: where a process spends its CPU time, as folded stacks for a flame graph.

The folded form is that of Brendan Gregg's FlameGraph: one line per stack, frames from the root on, joined by `;`, then
a blank and the number of samples. Kernel functions end in `_[k]`.
"""

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from runners.processes.children import Child, Processes
from runners.processes.control import Control, boottime

# Without hardware counters perf itself takes the clock of the CPU in the place of cycles. DWARF: servers are rarely
# built with frame pointers, and every build has the tables of its exceptions.
RECORD = ["record", "--quiet", "-e", "cycles", "--call-graph", "dwarf"]
SCRIPT = ["script", "--no-inline", "-F", "comm,event,ip,sym,dso"]
ATTACH_TIMEOUT_S, SAVE_TIMEOUT_S, SCRIPT_TIMEOUT_S = 10.0, 60.0, 300.0
LOOK_S = 0.02
COMM_LENGTH = 15  # of a thread's name
MOST_STACKS, DEEPEST, LONGEST_NAME = 4_000, 120, 200
RARE = "(rare stacks)"
NO_PERF = "perf is not a program on this machine: install it on the runner's PATH (linux-perf, linux-tools)"
NOT_ALLOWED = "set kernel.perf_event_paranoid to 1 or less, or give the runner the capability PERFMON"
_HEAD = re.compile(r"^(?P<comm>\S.*?)\s+(?P<event>[\w./-]+)(?::\w*)?:\s*$")
_FRAME = re.compile(r"^\s+[0-9a-f]+ (?P<name>.+) \((?P<object>.*)\)$")
_CLONE = re.compile(r"(?:\.(?:isra|constprop|part|cold|lto_priv)(?:\.\d+)?)+$")  # differs from build to build
_UNKNOWN = "[unknown]"
# What runs before a program's own code: some recordings reach it and some do not, and then no two stacks are the same.
_START = re.compile(r"_start|__libc_start_\w+(@.*)?|start_thread|(__)?clone3?")

Stack = tuple[str, ...]


class Unavailable(Exception):
    """This machine gives no profile: the cause, and what to do."""


@dataclass(frozen=True)
class Profile:
    """Samples of one server under load. `unavailable` is empty, or says why there are none."""

    frequency_hz: int
    event: str = ""
    samples: int = 0
    folded: str = ""
    unavailable: str = ""


@dataclass(frozen=True)
class Process:
    """What is sampled. `names`: see `fold`. In the directory perf keeps its files."""

    pid: int
    names: Mapping[str, str]
    directory: Path


@dataclass(frozen=True)
class Profiler:
    """perf on the CPUs that are not measured."""

    processes: Processes
    cpus: frozenset[int]

    def profile(self, process: Process, frequency_hz: int, load: Callable[[], None], control: Control) -> Profile:
        """Samples a process, all its threads, while `load` runs.

        Raises what `load` raises and the error of an abort; perf's own troubles are told in the profile.
        """
        try:
            folded, event = self._folded(process, frequency_hz, load, control)
        except Unavailable as error:
            return Profile(frequency_hz, unavailable=str(error))
        return Profile(frequency_hz, event, sum(folded.values()), written(folded))

    def _folded(
        self, process: Process, frequency_hz: int, load: Callable[[], None], control: Control
    ) -> tuple[Counter[Stack], str]:
        perf = shutil.which("perf")
        if perf is None:
            raise Unavailable(NO_PERF)
        room, data = process.directory, process.directory / "perf.data"
        recording = self._start([perf, *RECORD, "-F", str(frequency_hz), "-p", str(process.pid), "-o", str(data)], room)
        try:
            attached(recording, data, room, control)
            load()
        finally:
            recording.end(SAVE_TIMEOUT_S)
        reading = self._start([perf, *SCRIPT, "-i", str(data)], room)
        try:
            status = reading.wait(control, SCRIPT_TIMEOUT_S)
        finally:
            reading.end()
        with (room / "perf.out").open(errors="replace") as lines:
            folded, event = fold(lines, process.names)
        if status != 0 or not folded:
            raise Unavailable(f"perf has no samples of the server: {said(room)}")
        return folded, event

    def _start(self, argv: list[str], directory: Path) -> Child:
        environment = {"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "HOME": str(directory)}
        with (directory / "perf.out").open("wb") as output, (directory / "perf.err").open("wb") as errors:
            return self.processes.start(argv, environment, directory, output, errors, self.cpus)


def attached(recording: Child, data: Path, directory: Path, control: Control) -> None:
    """Returns when perf samples: it writes the head of its file after that. Raises Unavailable with its words."""
    deadline = boottime() + ATTACH_TIMEOUT_S
    while not (data.exists() and data.stat().st_size):
        if recording.wait(control, LOOK_S) is not None or boottime() > deadline:
            raise Unavailable(f"perf cannot sample the server ({said(directory)}): {NOT_ALLOWED}")


def said(directory: Path) -> str:
    """The first lines of perf's complaint on one line."""
    lines = (directory / "perf.err").read_text(errors="replace").splitlines()
    return " ".join(line.strip() for line in lines if line.strip())[:300] or "it said nothing"


def fold(lines: Iterable[str], names: Mapping[str, str]) -> tuple[Counter[Stack], str]:
    """Stacks, root first, with their samples, of the output of `perf script`; and the event that was sampled.

    `names`: what files are called in the place of their own names, which are digests in the artifact store.
    """
    threads = {file[:COMM_LENGTH]: name for file, name in names.items()}
    found = [(threads.get(comm, comm), event, frames) for comm, event, frames in samples(lines, names)]
    stacks = Counter(shortened((comm, *reversed(frames))) for comm, _, frames in found)
    return stacks, found[0][1] if found else ""


def samples(lines: Iterable[str], names: Mapping[str, str]) -> Iterator[tuple[str, str, list[str]]]:
    """Thread name, event and frames (leaf first) of each sample."""
    comm, event = "", ""
    frames: list[str] = []
    for line in lines:
        if frame := _FRAME.match(line):
            frames.append(named(frame["name"], frame["object"], names))
        elif head := _HEAD.match(line):
            comm, event, frames = head["comm"], head["event"], []
        elif comm and not line.strip():
            yield comm, event, frames
            comm = ""
    if comm:
        yield comm, event, frames


def named(name: str, where: str, names: Mapping[str, str]) -> str:
    """How a frame is called: its function, in want of one its program or library."""
    if name == _UNKNOWN:
        file = Path(where.strip("[]")).name or "unknown"
        return f"[{names.get(file, file)}]"
    kernel = where.startswith("[") and where not in ("[vdso]", "[vsyscall]")
    return _CLONE.sub("", name).replace(";", ":")[:LONGEST_NAME] + ("_[k]" if kernel else "")


def shortened(stack: Stack) -> Stack:
    """Without the frames that stand for the end of the unwinding and for what started the code; of bounded depth."""
    return tuple(frame for frame in stack if frame != _UNKNOWN and not _START.fullmatch(frame))[:DEEPEST]


def written(stacks: Counter[Stack]) -> str:
    """The folded text, largest first; what is beyond MOST_STACKS is one line."""
    ordered = sorted(stacks.items(), key=lambda item: (-item[1], item[0]))
    rest = sum(count for _, count in ordered[MOST_STACKS:])
    lines = [f"{';'.join(stack)} {count}\n" for stack, count in ordered[:MOST_STACKS]]
    return "".join(lines) + (f"{RARE} {rest}\n" if rest else "")
