"""Where a machine's line is interrupted: by a new environment, or a new definition of the benchmark."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from speedtrack.runs.models import Environment, Series
from speedtrack.runs.results import environments
from speedtrack.runs.results.environments import ChangedFact


class Break(NamedTuple):
    """From this position on, the points of a line belong to another environment or definition than before.

    ``line``: its number among the lines that are shown.
    """

    line: int
    position: int
    changed: list[ChangedFact]

    @property
    def what(self) -> str:
        return environments.changes_in_words(self.changed)


def find_breaks(entries: Iterable[tuple[int, Series, Iterable[int]]]) -> list[Break]:
    """The positions, in commit order, at which a line's points change from one series to another.

    ``entries``: of each series the number of its line, and the positions of its points. A commit that both series
    measured counts for the earlier one.
    """
    by_line: dict[int, list[tuple[Series, Iterable[int]]]] = defaultdict(list)
    for line, series, numbers in entries:
        by_line[line].append((series, numbers))
    several = {line: pairs for line, pairs in by_line.items() if len(pairs) > 1}
    load_facts(series for pairs in several.values() for series, _ in pairs)
    breaks = [b for line, pairs in several.items() for b in breaks_of_line(line, series_by_place(pairs))]
    return sorted(breaks, key=lambda b: (b.position, b.line))


def load_facts(batch: Iterable[Series]) -> None:
    """Load the facts of these series' environments, which the view has left out."""
    series_list = list(batch)
    environments = Environment.objects.in_bulk({s.environment_id for s in series_list})
    for series in series_list:
        series.environment = environments[series.environment_id]


def series_by_place(lines: Iterable[tuple[Series, Iterable[int]]]) -> dict[int, list[Series]]:
    by_place: dict[int, list[Series]] = defaultdict(list)
    for series, numbers in lines:
        for number in numbers:
            by_place[number].append(series)
    return by_place


def breaks_of_line(line: int, points: dict[int, list[Series]]) -> Iterator[Break]:
    before: Series | None = None
    for number in sorted(points):
        here = points[number]
        if before is not None and before not in here:
            yield Break(line, number, differing_facts(before, here[-1]))
        before = before if before in here else here[-1]


def differing_facts(old: Series, new: Series) -> list[ChangedFact]:
    """What differs between two series of one machine."""
    facts = environments.changed_facts(old.environment, new.environment)
    if old.benchmark_id != new.benchmark_id:
        digests = (environments.shorten(series.benchmark.digest) for series in (old, new))
        facts.insert(0, ChangedFact("definition", *digests))
    return facts
