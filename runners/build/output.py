"""What a build prints, followed until it ends, passed on up to a limit; and what it left behind."""

import codecs
import os
import stat
from pathlib import Path

from runners.build import BuildFailed, CompilerCache, Write
from runners.errors import Permanent, Transient
from runners.processes.children import Child
from runners.processes.control import Control, boottime

LOG_LIMIT_BYTES = 20 * 2**20
STOP_LOOK_S = 0.5
READ_BYTES = 64 * 1024
COMPILERS = ("cc", "gcc", "c++", "g++", "clang", "clang++")


class Capped:
    """Passes decoded output on until LOG_LIMIT_BYTES, then says so once."""

    def __init__(self, write: Write, limit_bytes: int = LOG_LIMIT_BYTES) -> None:
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


class Patience:
    """How long a build may take; asked again and again while it is waited for."""

    def __init__(self, timeout_s: float, control: Control) -> None:
        self._timeout_s, self._control = timeout_s, control
        self._deadline = boottime() + timeout_s

    def check(self) -> None:
        """Raises BuildFailed at the timeout, Transient when the runner shuts down, the error of an abort."""
        if boottime() >= self._deadline:
            raise BuildFailed(f"the build was ended after its time limit of {self._timeout_s:g} s")
        if self._control.stopping.is_set():
            raise Transient("runner is shutting down")
        self._control.check()

    def wait(self, descriptors: list[int], seconds: float = STOP_LOOK_S) -> list[int]:
        """The descriptors that became readable within a moment, after a check."""
        self.check()
        return self._control.wait_readable(descriptors, min(seconds, self._deadline - boottime()))


def follow(child: Child, reading: int, patience: Patience, log: Capped) -> int:
    """Reads the output of a child until it has ended; returns the exit status. Raises as Patience says."""
    open_ends = [reading]
    while (status := child.exited()) is None:
        if reading in patience.wait([child.pidfd, *open_ends]) and take(reading, log) == b"":
            open_ends = []
    return status


def take(reading: int, log: Capped) -> bytes | None:
    """Moves what the pipe holds to the log and returns it; empty at its end, None if there is nothing yet."""
    try:
        output = os.read(reading, READ_BYTES)
    except BlockingIOError:
        return None
    log.feed(output)
    return output


def drain(reading: int, log: Capped) -> None:
    """Takes what is left in the pipe of a build all of whose processes have been ended."""
    while take(reading, log):
        pass


def find_artifacts(tree: Path, names: tuple[str, ...]) -> dict[str, Path]:
    """The built programs by file name. Raises BuildFailed for one that is not there, Permanent for a bad list."""
    if not names:
        raise Permanent("the build section lists no artifact")
    found = {Path(name).name: find_artifact(tree, name) for name in names}
    if len(found) != len(names):
        raise Permanent(f"two artifacts of the build section have the same file name: {', '.join(names)}")
    return found


def find_artifact(tree: Path, name: str) -> Path:
    """An executable regular file inside the tree, wherever links lead. Raises BuildFailed."""
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
    """What ccache wrote to its CCACHE_STATSLOG; None if no compiler was called through it."""
    try:
        words = statistics.read_text(errors="replace").split()
    except OSError:
        return None
    hits = sum(word in ("direct_cache_hit", "preprocessed_cache_hit") for word in words)
    misses = words.count("cache_miss")
    return CompilerCache(hits, misses) if hits + misses else None


def how(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit status {status}"
