"""perf: where a process spends its CPU time, as folded stacks for a flame graph."""

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from runners.foreign import read_lines, read_start
from runners.measuring.stacks import DEEPEST, Stack, StackTable, folded_text, function_frame
from runners.processes.children import Child, ChildCommand, Processes
from runners.processes.control import Control, boottime
from runners.sandbox.policy import SandboxView

# Without hardware counters perf uses the CPU clock instead of cycles. DWARF: servers are rarely built with frame
# pointers, but every build has unwind tables. Without build ids: perf would read them from the programs of the build,
# outside of a sandbox.
RECORD = ["record", "--quiet", "--no-buildid", "--no-buildid-cache", "-e", "cycles", "--call-graph", "dwarf"]
SCRIPT = ["script", "--no-inline", "-F", "comm,event,ip,sym,dso"]
ATTACH_TIMEOUT_S, SAVE_TIMEOUT_S, SCRIPT_TIMEOUT_S = 30.0, 60.0, 300.0
SCRIPT_LIMIT_BYTES, MESSAGE_BYTES = 256 << 20, 1 << 16
KALLSYMS = "kallsyms"
POLL_S = 0.02
COMM_LENGTH = 15  # of a thread's name
NO_PERF = "perf is not a program on this machine: install it on the runner's PATH (linux-perf, linux-tools)"
NOT_ALLOWED = "set kernel.perf_event_paranoid to 1 or less, or give the runner the capability PERFMON"
# The build chooses the names between these parts: a pattern for a whole line would try each of their blanks.
_EVENT = re.compile(r"([\w./-]+)(?::\w*)?:")
_ADDRESS = re.compile(r"\s+[0-9a-f]+ ")
_UNKNOWN = "[unknown]"
# Functions that run before the program's own code. Only some samples reach them, so equal stacks would differ.
_START = re.compile(r"_start|__libc_start_\w+(@.*)?|start_thread|(__)?clone3?")


class ProfileUnavailable(Exception):
    """This machine cannot make a profile: the text is the cause and the remedy."""


@dataclass(frozen=True)
class Profile:
    """The functions of one server under load, by stack.

    `unavailable`: why there is no profile; empty if there is one. `kind`: samples by perf, or counted instructions. The
    latter have no frequency; their `samples` are the sum of the costs.
    """

    frequency_hz: int = 0
    event: str = ""
    samples: int = 0
    folded: str = ""
    unavailable: str = ""
    kind: Literal["samples", "instructions"] = "samples"

    @property
    def hardware(self) -> bool:
        """Returns whether the samples come from a counter of the processor."""
        return "cycles" in self.event


@dataclass(frozen=True)
class ProfiledProcess:
    """The process that is sampled. `names`: see `fold`. `directory`: for perf's files. `programs`: of the build."""

    pid: int
    names: Mapping[str, str]
    directory: Path
    programs: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Profiler:
    """Runs perf on the CPUs that are not measured."""

    processes: Processes
    cpus: frozenset[int]

    def profile(
        self, process: ProfiledProcess, frequency_hz: int, load: Callable[[], None], control: Control
    ) -> Profile:
        """Samples all threads of a process while `load` runs.

        Raises what `load` raises, and the error of an abort; a failure of perf is reported in the profile.
        """
        try:
            folded, event = self._folded(process, frequency_hz, load, control)
        except ProfileUnavailable as error:
            return Profile(frequency_hz, unavailable=str(error))
        return Profile(frequency_hz, event, sum(folded.values()), folded_text(folded))

    def _folded(
        self, process: ProfiledProcess, frequency_hz: int, load: Callable[[], None], control: Control
    ) -> tuple[Counter[Stack], str]:
        perf = shutil.which("perf")
        if perf is None:
            raise ProfileUnavailable(NO_PERF)
        room, data = process.directory, process.directory / "perf.data"
        record = [perf, *RECORD, "-F", str(frequency_hz), "-p", str(process.pid), "-o", str(data)]
        with (room / "perf.out").open("wb") as output, (room / "perf.err").open("wb") as errors:
            recording = self.processes.start(self._command(record, room), output, errors)
        try:
            await_samples(recording, data, room, control)
            load()
        finally:
            recording.end(SAVE_TIMEOUT_S)
        kernel = copied_kernel_symbols(room)
        script = self._command([perf, *SCRIPT, *kernel, "-i", str(data)], room)
        # perf reads the symbols and unwind tables of the build's programs, which may be crafted to take it over.
        visible = tuple(file for file in (Path(perf), data, room / KALLSYMS) if file.exists())
        # perf gets a /tmp of its own, because the server is still running and can write to the one in `tmp`.
        view = SandboxView(room / "perf.tmp", (), (*visible, *process.programs))
        script = replace(script, view=view, directory=Path("/"))
        with (room / "perf.out").open("wb") as output, (room / "perf.err").open("wb") as errors:
            status = self.processes.run(script, control, SCRIPT_TIMEOUT_S, output, errors)
        try:
            folded, event = fold(read_lines(room / "perf.out", SCRIPT_LIMIT_BYTES), process.names)
        except OSError as error:
            raise ProfileUnavailable(f"the samples of the server cannot be read: {error}") from error
        if status != 0 or not folded:
            raise ProfileUnavailable(f"perf has no samples of the server: {perf_message(room)}")
        return folded, event

    def _command(self, argv: list[str], directory: Path) -> ChildCommand:
        return ChildCommand(
            argv, {"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "HOME": str(directory)}, directory, self.cpus
        )


def await_samples(recording: Child, data: Path, directory: Path, control: Control) -> None:
    """Returns when perf has written its first samples. Raises ProfileUnavailable with perf's message."""
    deadline = boottime() + ATTACH_TIMEOUT_S
    while not (data.exists() and data.stat().st_size):
        if recording.wait(control, POLL_S) is not None or boottime() > deadline:
            raise ProfileUnavailable(f"perf cannot sample the server ({perf_message(directory)}): {NOT_ALLOWED}")


def perf_message(directory: Path) -> str:
    """The first lines of perf's error output, on one line."""
    lines = read_start(directory / "perf.err", MESSAGE_BYTES).decode(errors="replace").splitlines()
    return " ".join(line.strip() for line in lines if line.strip())[:300] or "it printed no message"


def copied_kernel_symbols(room: Path) -> list[str]:
    """The option of `perf script` with a copy of the kernel's symbols: a sandbox may not see their addresses."""
    try:
        shutil.copyfile("/proc/kallsyms", room / KALLSYMS)
    except OSError:
        return []
    return ["--kallsyms", str(room / KALLSYMS)]


def fold(lines: Iterable[str], names: Mapping[str, str]) -> tuple[Counter[Stack], str]:
    """The stacks in the output of `perf script`, root first, with their samples; and the sampled event.

    `names`: names for files whose own names are digests in the artifact store. Raises UnusableFile for more stacks than
    the samples of a server have.
    """
    threads = {file[:COMM_LENGTH]: name for file, name in names.items()}
    stacks, first_event, table = Counter[Stack](), "", StackTable()
    for comm, event, frames in parse_samples(lines, names):
        stacks[table.stack(trimmed((threads.get(comm, comm), *reversed(frames))))] += 1
        first_event = first_event or event
    return stacks, first_event


def parse_samples(lines: Iterable[str], names: Mapping[str, str]) -> Iterator[tuple[str, str, list[str]]]:
    """Thread name, event and frames (leaf first) of each sample."""
    comm, event = "", ""
    frames: list[str] = []
    for line in lines:
        if frame := frame_parts(line):
            frames.append(frame_name(*frame, names))
        elif head := head_parts(line):
            comm, event, frames = *head, []
        elif comm and not line.strip():
            yield comm, event, frames
            comm = ""
    if comm:
        yield comm, event, frames


def frame_parts(line: str) -> tuple[str, str] | None:
    """Parses a line `ADDRESS FUNCTION (FILE)` into function and file; None if the line is no frame."""
    address, (begin, separator, file) = _ADDRESS.match(line), line.rstrip().rpartition(" (")
    if not (address and separator and file.endswith(")") and len(begin) > address.end()):
        return None
    return begin[address.end() :], file.removesuffix(")")


def head_parts(line: str) -> tuple[str, str] | None:
    """Parses a line `THREAD EVENT:` into thread and event; None if the line begins no sample."""
    fields = line.rsplit(maxsplit=1)
    event = _EVENT.fullmatch(fields[-1]) if len(fields) == 2 and not line[0].isspace() else None
    return (fields[0], event[1]) if event else None


def frame_name(name: str, where: str, names: Mapping[str, str]) -> str:
    """The name of a frame: its function, or its program or library if the function is unknown."""
    if name == _UNKNOWN:
        file = Path(where.strip("[]")).name or "unknown"
        return f"[{names.get(file, file)}]"
    kernel = where.startswith("[") and where not in ("[vdso]", "[vsyscall]")
    return function_frame(name) + ("_[k]" if kernel else "")


def trimmed(stack: Stack) -> Stack:
    """The stack without unknown frames and those of the start of the program, cut to DEEPEST frames."""
    return tuple(frame for frame in stack if frame != _UNKNOWN and not _START.fullmatch(frame))[:DEEPEST]
