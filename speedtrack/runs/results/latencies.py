"""The latencies that trials recorded: whole histograms, from the documents of their results."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from speedtrack.benchmarks.metrics import VOIDS_LATENCY
from speedtrack.runs.models import Result
from speedtrack.stats import histogram
from speedtrack.stats.histogram import Histogram


class Latencies(NamedTuple):
    """The histogram of each trial that recorded one, in ns: those of clean trials, or of all if none is clean."""

    trials: list[Histogram]
    flagged: bool = False

    @property
    def together(self) -> Histogram:
        return Histogram.merged(self.trials)


def of_results(results: Iterable[Result]) -> Latencies:
    """The latencies of one commit under one benchmark, from the results of all runs that measured it."""
    clean: list[Histogram] = []
    flagged: list[Histogram] = []
    for result in results:
        for document in result.unpacked(histograms=lambda recorded: recorded):
            for test, latencies in measured_tests(document):
                (flagged if VOIDS_LATENCY.intersection(test.get("flags", ())) else clean).append(latencies)
    return Latencies(clean or flagged, not clean and bool(flagged))


def measured_tests(document: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Histogram]]:
    """The last load of a trial's document with its latency histogram; nothing if that cannot be read."""
    driver = document.get("driver") or {}
    tests = driver.get("tests") or [] if driver.get("schema") == "speedbench.v1" else []
    for test in tests[-1:]:
        with suppress(ValueError, KeyError, TypeError):  # what another driver reports under this name is not shown
            latencies = histogram.decode(test["latency_hdr_v2"])
            if latencies.total:
                yield test, latencies
