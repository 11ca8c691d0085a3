"""Read the kernel's files and the notations in them."""

import re
import struct
from collections.abc import Iterable
from pathlib import Path

ROOT = Path("/")
CPUS = "sys/devices/system/cpu"
LATENCY = "dev/cpu_dma_latency"


def text(file: Path) -> str:
    """The content without surrounding white space; empty if the file cannot be read."""
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""


def cpu_list(cpus: Iterable[int]) -> str:
    """A list such as `0,2,3`: the notation of taskset and of the driver's --cpus."""
    return ",".join(str(cpu) for cpu in sorted(cpus))


def parse_cpu_list(text: str) -> frozenset[int]:
    """The CPUs in the kernel's list notation, `0-3,8`. The kernel writes `(null)` for an empty list."""
    cpus: set[int] = set()
    for span in re.findall(r"[\d-]+", text):
        first, _, last = span.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def selected_word(choice: str) -> str:
    """The word in brackets of `always [madvise] never`; a text without brackets unchanged."""
    return choice.split("[")[1].split("]")[0] if "[" in choice else choice


def latency_us(root: Path) -> int | None:
    """The present limit on wake-up latency, in microseconds; None if it cannot be read."""
    try:
        return int(struct.unpack("i", (root / LATENCY).read_bytes()[:4])[0])
    except (OSError, struct.error):
        return None


def irqbalance(root: Path) -> str:
    """Whether the daemon that distributes interrupts runs; unknown if processes are hidden."""
    names = [text(file) for file in root.glob("proc/[0-9]*/comm")]
    return ("running" if "irqbalance" in names else "not running") if names else "unknown"
