"""The server that is loaded, and the outcome of one load."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runners.errors import BenchmarkFailed
from runners.foreign import last_lines
from runners.processes.cpu_time import process_cpu_ns
from runners.servers.address import Address

NO_CPU = (
    "the process that server.command started used no CPU: it must be the server itself, without a wrapper (use exec) "
    "and not as a daemon"
)
LONGEST_LINE = 500


@dataclass(frozen=True)
class Target:
    """The server: its address, its process, and the directory for the files of the load generator."""

    protocol: str
    address: Address
    pid: int
    directory: Path

    @property
    def options(self) -> list[str]:
        """The address as options of redis-benchmark and speedbench."""
        if self.address.transport == "unix":
            return ["-s", str(self.address.socket_path)]
        return ["-h", "127.0.0.1", "-p", str(self.address.port)]

    @property
    def place(self) -> str:
        """The address as one word."""
        return str(self.address.socket_path) if self.address.transport == "unix" else f"127.0.0.1:{self.address.port}"

    def cpu_ns(self) -> int:
        """CPU time of the server so far, in ns. Raises BenchmarkFailed if its process is gone."""
        try:
            return process_cpu_ns(self.pid)
        except OSError as error:
            raise BenchmarkFailed("the server ended during the trial") from error


@dataclass(frozen=True)
class LoadOutcome:
    """One accepted load: metrics by name (units in docs/result-format.md), flags, the whole document, the window.

    The window is in seconds of the monotonic clock; for a tool that does not report it, it is unbounded. `pairing`: how
    the slices of two servers alternated (docs/result-format.md).
    """

    metrics: dict[str, float]
    flags: list[str]
    document: dict[str, Any]
    window: tuple[float, float] = (float("-inf"), float("inf"))
    pairing: dict[str, Any] = field(default_factory=dict)


def last_line(file: Path) -> str:
    """The last line that a program printed to this file; empty if it printed nothing."""
    return "".join(last_lines(file, 1))[:LONGEST_LINE]
