"""The facts of a machine by topic."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

UNKNOWN = "unknown"  # the value that a runner sends for a fact that it cannot read
#: Topics of facts, by the prefixes of their names; any other fact is about the kernel.
FACT_TOPICS = {
    "Processor": """system architecture cpu_ microcode hypervisor smt turbo governor frequency energy sleep cpuidle
        cores threads sockets l1 l2 l3 hardware_counters clocksource temperature""",
    "Memory": "memory_ thp hugepages swappiness overcommit numa free_ swap_",
    "Placement": "server_cpus driver_cpus placement isolated nohz housekeeping offline irqbalance interrupts",
    "Software": "os libc compiler build_ driver_ runner_",
    "Kernel": "",
}


@dataclass(frozen=True)
class FactGroups:
    """Facts by topic, and the names of those that the runner could not read."""

    groups: dict[str, dict[str, Any]]
    unknown: list[str]

    @classmethod
    def of(cls, facts: dict[str, Any]) -> "FactGroups":
        names = sorted(name for name, value in facts.items() if value != UNKNOWN)
        groups = {topic: {name: facts[name] for name in names if topic_of(name) == topic} for topic in FACT_TOPICS}
        return cls({topic: group for topic, group in groups.items() if group}, sorted(facts.keys() - set(names)))


@lru_cache(maxsize=1000)
def topic_of(fact: str) -> str:
    """The topic with the longest prefix of the fact's name, else the kernel."""
    prefixes = {
        prefix: topic
        for topic, beginnings in FACT_TOPICS.items()
        for prefix in beginnings.split()
        if fact.startswith(prefix)
    }
    return prefixes[max(prefixes, key=len)] if prefixes else "Kernel"
