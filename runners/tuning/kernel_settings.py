"""The kernel's settings that matter for measuring: their target values with the reasons.

All paths are below a root directory, so that tests can tune recorded machines.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from runners.machine.kernel_files import CPUS, cpu_list, parse_cpu_list, selected_word, text
from runners.machine.placement import Placement

TargetValue = Callable[[str, Placement], str]  # from the present value


def exactly(value: str) -> TargetValue:
    return lambda before, plan: value


def any_of(*values: str) -> TargetValue:
    """A target that accepts each of these values, and sets the first one otherwise."""
    return lambda before, plan: before if before in values else values[0]


def at_least(number: int) -> TargetValue:
    return lambda before, plan: before if before.isdigit() and int(before) >= number else str(number)


def off_measured_cores(before: str, plan: Placement) -> str:
    """The CPUs of `before` without the measured ones; if none is left, those of housekeeping."""
    measured_cpus = (plan.server | plan.driver) - plan.housekeeping
    return cpu_list(parse_cpu_list(before) - measured_cpus or plan.housekeeping)


@dataclass(frozen=True)
class KernelSetting:
    """A setting in the files that match `files`. One with a `remedy` is only shown, never changed."""

    name: str
    files: str
    target: TargetValue
    reason: str
    remedy: str = ""
    normal: Callable[[str], str] = selected_word

    def values(self, root: Path) -> dict[str, str]:
        """The value of each file, by its path below the root."""
        values = {str(file.relative_to(root)): text(file) for file in sorted(root.glob(self.files))}
        return {file: self.normal(value) for file, value in values.items() if value}


KERNEL_SETTINGS = (
    KernelSetting(
        "governor",
        f"{CPUS}/cpu[0-9]*/cpufreq/scaling_governor",
        exactly("performance"),
        "how the clock of a core follows its load: with any other, speed depends on the load of the moments before",
    ),
    KernelSetting(
        "no_turbo",
        f"{CPUS}/intel_pstate/no_turbo",
        exactly("1"),
        "clocks above the rated one (Intel) depend on heat and on the load of the other cores",
    ),
    KernelSetting(
        "boost",
        f"{CPUS}/cpufreq/boost",
        exactly("0"),
        "clocks above the rated one (AMD and others) depend on heat and on the load of the other cores",
    ),
    KernelSetting(
        "thp",
        "sys/kernel/mm/transparent_hugepage/enabled",
        any_of("madvise", "never"),
        "huge pages that no program asked for depend on the earlier use of memory, and make forks slow",
    ),
    KernelSetting(
        "swappiness",
        "proc/sys/vm/swappiness",
        any_of("1", "0"),
        "a page of the server that was swapped out adds a disk access to a latency",
    ),
    KernelSetting(
        "numa_balancing",
        "proc/sys/kernel/numa_balancing",
        exactly("0"),
        "it unmaps pages to find out which node uses them, and memory is bound to nodes anyway",
    ),
    KernelSetting(
        "overcommit_memory",
        "proc/sys/vm/overcommit_memory",
        exactly("1"),
        "a server that forks must not fail because its memory is counted twice",
    ),
    KernelSetting(
        "somaxconn",
        "proc/sys/net/core/somaxconn",
        at_least(4096),
        "the queue of new connections: if it is too short, clients try again after seconds",
    ),
    KernelSetting(
        "perf_sample_rate",
        "proc/sys/kernel/perf_event_max_sample_rate",
        exactly("1000"),
        "the limit of profilers' interrupts; enough for the 997 per second of a profile",
    ),
    KernelSetting(
        "interrupts",
        "proc/irq/[0-9]*/smp_affinity_list",
        off_measured_cores,
        "an interrupt on a measured core takes time from what is measured",
        normal=lambda value: cpu_list(parse_cpu_list(value)),
    ),
    KernelSetting(
        "aslr",
        "proc/sys/kernel/randomize_va_space",
        exactly("2"),
        "without it every process has the same memory layout: one biased sample, however often it is measured",
        remedy="run `sysctl kernel.randomize_va_space=2`",
    ),
)


@dataclass(frozen=True)
class SettingChange:
    """A file to change: its path below the root, its old value and its target value."""

    setting: str
    file: str
    before: str
    target: str


def needed_changes(
    root: Path, plan: Placement, settings: Sequence[KernelSetting] = KERNEL_SETTINGS
) -> list[SettingChange]:
    """The files that differ from their targets and may be changed."""
    return [
        SettingChange(setting.name, file, value, target)
        for setting in settings
        if not setting.remedy
        for file, value in setting.values(root).items()
        if (target := setting.target(value, plan)) != value
    ]
