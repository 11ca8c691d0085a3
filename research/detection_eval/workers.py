"""Processes that play lines, each on a database of its own."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any

from research.detection_eval import database
from research.detection_eval.datasets import DataSet
from research.detection_eval.scores import Record

Progress = Callable[[str], None]


@contextmanager
def pool(count: int) -> Iterator[ProcessPoolExecutor]:
    """So many processes that hold a database each."""
    context = multiprocessing.get_context("spawn")
    urls = context.Queue()
    with database.databases(count) as made:
        for url in made:
            urls.put(url)
        with ProcessPoolExecutor(count, mp_context=context, initializer=begin, initargs=(urls,)) as executor:
            try:
                yield executor
            finally:
                executor.shutdown(cancel_futures=True)  # whoever interrupts it does not wait for lines not begun


def begin(urls: Any) -> None:
    database.use(urls.get())


def play(
    executor: ProcessPoolExecutor, sets: Iterable[DataSet], seed: int, progress: Progress
) -> dict[str, list[Record]]:
    """The records of all lines, by data set."""
    sets = list(sets)
    jobs = {
        executor.submit(play_line, line, seed, one.margin): (one.name, i)
        for one in sets
        for i, line in enumerate(one.lines)
    }
    found: dict[str, dict[int, Record]] = {one.name: {} for one in sets}
    begun, commits = time.monotonic(), 0
    for done in as_completed(jobs):
        name, i = jobs[done]
        found[name][i] = record = done.result()
        commits += len(record.line.values)
        progress(
            f"{commits} commits, {sum(map(len, found.values()))} of {len(jobs)} lines, {time.monotonic() - begun:.0f} s"
        )
    return {name: [records[i] for i in sorted(records)] for name, records in found.items()}


def play_line(line: Any, seed: int, margin: int) -> Record:
    """Called in a process of the pool."""
    from research.detection_eval import tracker

    try:
        return tracker.track(line, seed, margin)
    finally:
        tracker.clear()


def cores() -> int:
    return min(2, len(os.sched_getaffinity(0)))
