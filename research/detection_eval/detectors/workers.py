"""Processes that play lines, each on a database of its own."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any

from research.detection_eval.detectors import database
from research.detection_eval.lines.datasets import DataSet
from research.detection_eval.scores import Record
from research.detection_eval.store import Store

Progress = Callable[[str], None]


@contextmanager
def pool(count: int) -> Iterator[ProcessPoolExecutor]:
    """This many processes with a database each."""
    context = multiprocessing.get_context("spawn")
    urls = context.Queue()
    with database.databases(count) as database_urls:
        for url in database_urls:
            urls.put(url)
        with ProcessPoolExecutor(count, mp_context=context, initializer=begin, initargs=(urls,)) as executor:
            try:
                yield executor
            finally:
                executor.shutdown(cancel_futures=True)  # whoever interrupts it does not wait for lines not begun


def begin(urls: Any) -> None:
    database.use(urls.get())


def play(executor: ProcessPoolExecutor, store: Store, sets: Sequence[DataSet], seed: int, progress: Progress) -> None:
    """Put the records of all lines into the store; those that it has already are not played again.

    The lines of all sets take turns, so that an interrupted run has got about as far with each.
    """
    turns = sorted(
        ((i + 1) / len(dataset.lines), k, i) for k, dataset in enumerate(sets) for i in range(len(dataset.lines))
    )
    missing = [(sets[k], i) for _, k, i in turns if not store.has(piece(sets[k], i))]
    jobs = {executor.submit(play_line, dataset.lines[i], seed, dataset.margin): (dataset, i) for dataset, i in missing}
    began_at, commits = time.monotonic(), 0
    for number, job in enumerate(as_completed(jobs), start=1):
        record = job.result()
        store.put(piece(*jobs[job]), record)
        commits += len(record.line.values)
        progress(f"{commits} commits, {number} of {len(jobs)} lines, {time.monotonic() - began_at:.0f} s")


def piece(dataset: DataSet, i: int) -> str:
    return f"line {dataset.name} {i}"


def records_of(store: Store, dataset: DataSet) -> list[Record]:
    """Those that were played, in the order of the lines."""
    records = (store.get(piece(dataset, i)) for i in range(len(dataset.lines)))
    return [record for record in records if record]


def play_line(line: Any, seed: int, margin: int) -> Record:
    """Called in a process of the pool."""
    from research.detection_eval.detectors import tracker

    try:
        return tracker.track(line, seed, margin)
    finally:
        tracker.clear()


def cores() -> int:
    return min(2, len(os.sched_getaffinity(0)))
