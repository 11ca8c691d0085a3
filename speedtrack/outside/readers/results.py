"""Gather the results of a reader in the native document's form, and the reasons for parts that are left out."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from itertools import islice
from typing import Literal

from speedtrack.outside.readers import Options, OutsideResult, ReadError, Word
from speedtrack.outside.readers.measures import (
    LONGEST_METRIC,
    LONGEST_UNIT,
    UNNAMED,
    Better,
    Measure,
    known_unit,
    scaled,
)
from speedtrack.outside.readers.nodes import Node
from speedtrack.stats.summary import summarize

MOST_SAMPLES = 1000  # of a result, as in the native document; if there are more, their median is stored
GIVEN = ("better",)  # options of readers
MOST_SHOWN = 3  # reasons in one message
HIGHER: Literal["higher"] = "higher"
LOWER: Literal["lower"] = "lower"
LARGEST_COUNT = 32_767  # as in the native document


@dataclass(frozen=True)
class LeftOut:
    """A part of a file that became no result.

    ``is_fault``: it should have become one, but cannot be used. Other parts were not measured, or lack a direction.
    """

    position: str
    cause: str
    is_fault: bool = False

    def __str__(self) -> str:
        return f"{self.position}: {self.cause}"


@dataclass(frozen=True)
class FileOrigin:
    """What a file states about all or some of its results: the commit, the machine and the time."""

    commit: str = ""
    machine: str = ""
    environment: Mapping[str, Word] = field(default_factory=dict)
    measured_at: datetime | None = None


@dataclass(frozen=True)
class FileSummary:
    """A result for which the file has no repeats."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None


@dataclass(frozen=True)
class FileBenchmark:
    """A benchmark with its name in the file."""

    name: str
    parameters: Mapping[str, Word] = field(default_factory=dict)


@dataclass
class FileResults:
    """The results gathered from one file so far. The caller's statements take precedence over the file."""

    options: Options
    results: list[OutsideResult] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.directions = stated_directions(filter(None, self.options.given.get("better", "").split(",")))

    def skip(self, position: str, cause: str) -> None:
        self.left_out.append(LeftOut(position, cause))

    def fault(self, position: str, cause: str) -> None:
        self.left_out.append(LeftOut(position or "file", cause, is_fault=True))

    @contextmanager
    def part(self) -> Iterator[None]:
        """Leave out only the part of the file that is read within, such as a row, if it cannot be read."""
        try:
            yield
        except ReadError as wrong:
            self.fault(wrong.place, ": ".join(filter(None, (wrong.cause, wrong.remedy))))

    def amount(self, node: Node | None) -> float | None:
        """The amount in a node, such as a time; None if there is no node, or if its value is left out."""
        if node is not None:
            with self.part():
                return node.amount()
        return None

    def amounts(self, nodes: Iterable[Node]) -> list[float]:
        """The amounts in nodes, without those that are left out."""
        return [amount for node in nodes if (amount := self.amount(node)) is not None]

    def words(self, members: Iterable[tuple[str, Node | None]]) -> dict[str, Word]:
        """The words in nodes by name, such as facts about the machine, without those that are left out."""
        facts: dict[str, Word] = {}
        for name, node in members:
            if node is not None:
                with self.part():
                    facts[name] = node.word()
        return facts

    def moment(self, node: Node | None, read: Callable[[Node], datetime]) -> datetime | None:
        """The date in a node; None if there is no node, or if its date is left out."""
        if node is not None:
            with self.part():
                return read(node)
        return None

    def direction(self, metric: str) -> Better | None:
        return self.directions.get(metric) or self.directions.get("")

    def add(
        self,
        benchmark: FileBenchmark,
        measure: Measure,
        numbers: "Iterable[float] | FileSummary",
        origin: FileOrigin,
        position: str,
    ) -> None:
        """Add one result. It is left out if its direction is unknown, and ignored if it has no value at all."""
        summary = numbers if isinstance(numbers, FileSummary) else condensed_samples(list(numbers))
        better = measure.better or self.direction(measure.metric)
        if not summary:
            return
        if len(measure.unit) > LONGEST_UNIT or len(measure.metric) > LONGEST_METRIC:
            self.skip(position, f"{measure.unit[:60]!r} is too long for a unit ({LONGEST_UNIT} characters)")
        elif better is None:
            self.skip(
                position,
                f"it is unknown which direction of {measure.metric[:60]!r} is better: state it (--option better=lower)",
            )
        else:
            self.results.append(self.result(benchmark, measure, better, summary, origin))

    def measure(self, name: str, unit: str) -> Measure:
        """The measure of a value whose unit is free text in the file. ``name``: of the metric, if the file has one.

        Directions stated by the caller are used only if the unit does not determine the direction.
        """
        if unit_measure := known_unit(unit):
            return replace(unit_measure, metric=name or unit_measure.metric)
        metric = name or unit or UNNAMED
        return Measure(metric, unit, self.direction(metric))

    def result(
        self,
        benchmark: FileBenchmark,
        measure: Measure,
        better: Better,
        numbers: "FileSummary | list[float]",
        origin: FileOrigin,
    ) -> OutsideResult:
        plain = OutsideResult(
            benchmark=benchmark.name,
            metric=measure.metric,
            unit=measure.unit,
            better=better,
            parameters=dict(benchmark.parameters),
            commit="" if self.options.commit else origin.commit,
            machine="" if self.options.machine else machine_name(origin.machine),
            environment={**origin.environment, **self.options.environment},
            measured_at=None if self.options.measured_at else origin.measured_at,
        )
        if isinstance(numbers, FileSummary):
            return with_summary(plain, numbers, measure.factor)
        return replace(plain, samples=tuple(scaled(sample, measure.factor) for sample in numbers))

    def finished(self) -> "FileResults":
        """This reading. Raises ReadError if it has no usable result."""
        if self.results:
            return self
        raise without_results(map(str, self.left_out))


def without_results(omissions: Iterable[str]) -> ReadError:
    """The refusal of a file in which nothing is usable, with the first reasons."""
    causes = "; ".join(islice(omissions, MOST_SHOWN))
    return ReadError(f"it has no usable result{': ' if causes else ''}{causes}", "file")


def check_given(options: Options) -> None:
    """Refuse unknown options. Raises ReadError."""
    if unknown := [name for name in options.given if name not in GIVEN]:
        raise ReadError(f"there is no option {unknown[0][:60]!r}", remedy=f"known is {', '.join(GIVEN)}")


def stated_directions(texts: Iterable[str]) -> dict[str, Better]:
    """Directions, from the form in which people type them.

    ``higher`` applies to all metrics of unknown direction, ``hits=higher`` to one.
    """
    stated: dict[str, Better] = {}
    for text in (text.strip() for text in texts):
        metric, _, direction = text.rpartition("=")
        if direction not in ("higher", "lower"):
            raise ReadError(f"{text!r} is no direction", "better", "write higher, lower, or METRIC=higher")
        stated[metric] = HIGHER if direction == "higher" else LOWER
    return stated


def condensed_samples(samples: list[float]) -> FileSummary | list[float]:
    """The repeats, or their median with its interval if there are too many for one result."""
    if len(samples) <= MOST_SAMPLES:
        return samples
    estimate = summarize(samples)
    return FileSummary(estimate.value, estimate.low, estimate.high, estimate.n)


def end_of(node: Node | None) -> float | None:
    """The end of an interval; None if it is unknown. Some tools write infinity then, or no number."""
    try:
        return node.number() if node else None
    except ReadError:
        return None


def with_summary(result: OutsideResult, summary: FileSummary, factor: Decimal) -> OutsideResult:
    """The result with a summary; the interval only if it is valid: around the value, and without negative ends."""
    n = min(summary.n, LARGEST_COUNT) if summary.n else None
    summary_result = replace(result, value=scaled(summary.value, factor), n=n)
    low, high = summary.low, summary.high
    if low is None or high is None or not 0 <= low <= summary.value <= high:
        return summary_result
    return replace(summary_result, low=scaled(low, factor), high=scaled(high, factor))


def machine_name(host: str) -> str:
    """The name of a host in the characters that machine names may have; empty if none remain."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", host).strip("-")[:50].strip("-")
