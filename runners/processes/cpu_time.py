"""CPU time of other processes."""

import resource
import time


def process_cpu_ns(pid: int) -> int:
    """CPU time of a process so far, all threads. Raises OSError if there is no such process."""
    return time.clock_gettime_ns((~pid << 3) | 2)  # how the kernel encodes CPUCLOCK_SCHED of a process


def ended_children_s() -> float:
    """CPU seconds of the children that have ended and were waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
