"""Run a build program to its end, pass on its output up to a limit, and find its artifacts."""

import codecs
import os
import stat
from pathlib import Path

from runners.build import BuildFailed, CompilerCache, WriteLog
from runners.errors import Permanent, Stopped
from runners.foreign import read_lines
from runners.processes.children import Child, ChildCommand, Processes, exit_text
from runners.processes.control import Control, boottime

LOG_LIMIT_BYTES = 20 * 2**20
CHECK_EVERY_S = 0.5  # whether the runner is to stop
READ_BYTES = 64 * 1024
COMPILERS = ("cc", "gcc", "c++", "g++", "clang", "clang++")
STATISTICS = "ccache.statistics"  # the file that CCACHE_STATSLOG names
STATISTICS_LIMIT_BYTES = 64 * 2**20  # a line of ten words for each file that was compiled


class CappedLog:
    """Passes decoded output on up to LOG_LIMIT_BYTES, then one line that it was cut."""

    def __init__(self, write: WriteLog, limit_bytes: int = LOG_LIMIT_BYTES) -> None:
        self._write, self._left, self._limit = write, limit_bytes, limit_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, output: bytes) -> None:
        if self._left < 0:
            return
        self._pass_on(self._decoder.decode(output[: self._left]))
        self._left -= len(output)
        if self._left < 0:
            self._write(f"\n[the log is cut here: the build printed more than {self._limit >> 20} MB]\n")

    def close(self) -> None:
        self._pass_on(self._decoder.decode(b"", True))

    def _pass_on(self, text: str) -> None:
        if text:
            self._write(text.replace("\0", "\N{REPLACEMENT CHARACTER}"))  # PostgreSQL stores no NUL


class BuildDeadline:
    """The time limit of a build, checked by everything that waits for the build."""

    def __init__(self, timeout_s: float, control: Control) -> None:
        self._timeout_s, self._control = timeout_s, control
        self._deadline = boottime() + timeout_s

    def check(self) -> None:
        """Raises BuildFailed at the time limit, Stopped if the runner is to stop, or the error of an abort."""
        if boottime() >= self._deadline:
            raise BuildFailed(f"the build was ended after its time limit of {self._timeout_s:g} s")
        if self._control.stopping.is_set():
            raise Stopped("runner is shutting down")
        self._control.check()

    def wait(self, descriptors: list[int], seconds: float = CHECK_EVERY_S) -> list[int]:
        """Checks, then waits; returns the descriptors that became readable within `seconds`."""
        self.check()
        return self._control.wait_readable(descriptors, min(seconds, self._deadline - boottime()))


def run_logged(processes: Processes, command: ChildCommand, deadline: BuildDeadline, write: WriteLog) -> int:
    """Runs a program to its end while its output goes to the log, without what exceeds LOG_LIMIT_BYTES.

    Returns its exit status; raises as BuildDeadline, and OSError if it cannot be started. Leaves no process behind.
    """
    log = CappedLog(write)
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    try:
        with os.fdopen(writing, "wb") as output:
            child = processes.start(command, output)
        try:
            return _follow(child, reading, deadline, log)
        finally:
            child.end()
            while _move_output(reading, log):
                pass
            log.close()
    finally:
        os.close(reading)


def _follow(child: Child, reading: int, deadline: BuildDeadline, log: CappedLog) -> int:
    """Reads the output of a child until it has ended; returns the exit status."""
    open_pipes = [reading]
    while (status := child.exited()) is None:
        if reading in deadline.wait([child.pidfd, *open_pipes]) and _move_output(reading, log) == b"":
            open_pipes = []
    return status


def _move_output(reading: int, log: CappedLog) -> bytes | None:
    """Moves the content of the pipe to the log and returns it; empty at its end, None if there is nothing yet."""
    try:
        output = os.read(reading, READ_BYTES)
    except BlockingIOError:
        return None
    log.feed(output)
    return output


def check_success(command: str, status: int) -> None:
    """Raises BuildFailed if the build's command ended with an error."""
    if status != 0:
        raise BuildFailed(f"`{command}` ended with {exit_text(status)}: see the log")


def find_artifacts(tree: Path, names: tuple[str, ...]) -> dict[str, Path]:
    """The built programs by file name.

    Raises BuildFailed for a missing one, Permanent for a list that is empty or names two alike.
    """
    if not names:
        raise Permanent("the build section lists no artifact")
    programs = {Path(name).name: find_artifact(tree, name) for name in names}
    if len(programs) != len(names):
        raise Permanent(f"two artifacts of the build section have the same file name: {', '.join(names)}")
    return programs


def find_artifact(tree: Path, name: str) -> Path:
    """An executable regular file of the tree; links are followed within it. Raises BuildFailed."""
    if tree.is_symlink():
        raise BuildFailed("the build replaced its source tree by a link")
    root = tree.resolve()
    try:
        path = (root / name).resolve(strict=True)
        state = path.stat()
    except (OSError, RuntimeError) as error:
        raise BuildFailed(f"the build left no artifact {name}") from error
    if not path.is_relative_to(root):
        raise BuildFailed(f"the artifact {name} lies outside the source tree")
    if not stat.S_ISREG(state.st_mode):
        raise BuildFailed(f"the artifact {name} is not a regular file")
    if not state.st_mode & 0o100:
        raise BuildFailed(f"the artifact {name} is not executable")
    return path


def compiler_cache(statistics: Path) -> CompilerCache | None:
    """The counts in ccache's CCACHE_STATSLOG; None if nothing was compiled. Raises UnusableFile."""
    hits = misses = 0
    try:
        for line in read_lines(statistics, STATISTICS_LIMIT_BYTES):
            hits += line.strip() in ("direct_cache_hit", "preprocessed_cache_hit")
            misses += line.strip() == "cache_miss"
    except FileNotFoundError:
        return None
    return CompilerCache(hits, misses) if hits + misses else None
