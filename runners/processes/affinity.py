"""The CPUs that threads and child processes run on."""

import contextlib
import os
from collections.abc import Iterator, Set
from pathlib import Path


@contextlib.contextmanager
def affinity(cpus: frozenset[int] | None) -> Iterator[None]:
    """Children started in the block inherit these CPUs (None: no change); the calling thread gets its old ones back."""
    if cpus is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def all_threads_on(cpus: frozenset[int]) -> Iterator[None]:
    """In the block, every thread of this process runs on these CPUs; afterwards, on its former ones."""
    before: dict[int, Set[int]] = {}
    try:
        # A thread that has not been moved yet may start another one: look again until there is none left to move.
        while unmoved := {thread: mask for thread, mask in _masks().items() if mask != cpus and thread not in before}:
            before |= unmoved
            for thread in unmoved:
                _move(thread, cpus)
        yield
    finally:
        for thread, mask in before.items():
            _move(thread, mask)


def move_process(cpus: frozenset[int]) -> None:
    """Moves every thread of this process to these CPUs."""
    for thread in _masks():
        _move(thread, cpus)


def _masks() -> dict[int, Set[int]]:
    """The affinity of each thread of this process."""
    masks: dict[int, Set[int]] = {}
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            masks[int(task.name)] = os.sched_getaffinity(int(task.name))
    return masks


def _move(thread: int, cpus: Set[int]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.sched_setaffinity(thread, cpus)
