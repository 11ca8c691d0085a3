"""What the rows of a page of a grid share: commits, releases, lines, and the judgements of their cells."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from speedtrack.alerts.lines.linecolumns import LineColumns, newest_line
from speedtrack.judging.evidence import TwoSides
from speedtrack.judging.repeated import SidesOfProject, digest, judge_again
from speedtrack.judging.verdicts import Judgement
from speedtrack.web.drawing.charts.gaps import Gap, gaps_of
from speedtrack.web.pages.project.columns import GridColumn, Mark
from speedtrack.web.pages.project.pagerows import ShownSeries
from speedtrack.web.pages.releasepoints import MeasuredRelease
from speedtrack.web.scope import PageScope

SHOWN = 30  # columns of the grid: releases, then commits
RELEASES = 5  # of them at most


@dataclass(frozen=True)
class RowSides:
    """What a row compares.

    ``of_commits``: by series and position, a clean or flagged point with the clean point before it. ``chain``: by
    shown release and series, its point with that of the release before. ``since``: the newest clean point with the
    release.
    """

    of_commits: dict[tuple[int, int], TwoSides]
    chain: dict[tuple[int, int], TwoSides]
    since: TwoSides | None

    @property
    def of_releases(self) -> list[TwoSides]:
        return [*self.chain.values(), *([self.since] if self.since else [])]


@dataclass(frozen=True)
class GridState:
    """What the rows of a page share.

    ``path``: the commits of the grid and before it, oldest first. ``series``: by id; ``lines``: by benchmark, one per
    environment and definition. ``releases``: the measured ones, the newest first. ``smallest``: the smallest effect of
    the metric. ``has_cells``: else rows have no more than their newest value and its change since the release.
    """

    scope: PageScope
    path: Sequence[GridColumn]
    series: Mapping[int, ShownSeries]
    lines: Mapping[str, list[LineColumns]]
    releases: Sequence[MeasuredRelease]
    smallest: float
    has_cells: bool

    @cached_property
    def commits(self) -> Sequence[GridColumn]:
        """The commits of the grid, the end of the path: what its columns leave beside those of releases."""
        return self.path[len(self.shown_releases) - SHOWN :]

    @property
    def shown_releases(self) -> Sequence[MeasuredRelease]:
        """Those that have a column."""
        return self.releases[:RELEASES]

    @cached_property
    def release(self) -> MeasuredRelease | None:
        """The newest release that the newest line of a row measured, of whichever page."""
        return next((release for release in self.releases if release.is_newest), None)

    @cached_property
    def gaps(self) -> dict[int, Gap]:
        machine = self.scope.machine
        return gaps_of(machine, [column.pk for column in self.commits]) if machine and self.commits else {}

    @cached_property
    def marks(self) -> dict[str, dict[int, Mark]]:
        return marks_by_benchmark(self.commits)

    @cached_property
    def sides(self) -> dict[str, RowSides]:
        return {name: sides_of_row(self, own) for name, own in self.lines.items()}

    @cached_property
    def judgements(self) -> dict[TwoSides, Judgement]:
        """Of the sides of all rows."""
        of_releases = [side for row in self.sides.values() for side in row.of_releases]
        of_commits = [side for row in self.sides.values() for side in row.of_commits.values()]
        return judge_again(SidesOfProject(self.scope.project.pk, self.points, of_releases, of_commits))

    @property
    def points(self) -> bytes:
        """Bytes that differ when any point of the rows does."""
        columns = [column.tobytes() for own in self.lines.values() for line in own for column in (line.value, line.n)]
        flags = [(line.series_id, line.flags) for own in self.lines.values() for line in own if line.flags]
        return digest(*columns, repr(flags).encode(), *(release.points for release in self.releases))

    @property
    def breaks(self) -> frozenset[int]:
        """The commits at which the machine's environment differs from that at the measured commit before."""
        newest = np.zeros(len(self.path), dtype=int)  # of each commit, the newest environment; 0: nothing was measured
        for line in (line for own in self.lines.values() for line in own):
            newest[line.at] = np.maximum(newest[line.at], self.series[line.series_id].environment_id)
        positions = newest.nonzero()[0].tolist()
        return frozenset(self.path[at].pk for last, at in pairwise(positions) if newest[at] != newest[last])


def marks_by_benchmark(commits: Iterable[GridColumn]) -> dict[str, dict[int, Mark]]:
    """The change points of the shown commits: benchmark name -> commit id -> mark."""
    marks: dict[str, dict[int, Mark]] = defaultdict(dict)
    for column in commits:
        for benchmark, mark in column.marks:
            marks[benchmark][column.pk] = mark
    return marks


def sides_of_row(state: GridState, lines: Sequence[LineColumns]) -> RowSides:
    since = since_of(newest_line(lines), state.path, state.release)
    if not state.has_cells:
        return RowSides({}, {}, since)
    of_commits = {(line.series_id, at): side for line in lines for at, side in neighbours_on(line, state.path)}
    chain, releases = {}, state.releases
    for series in (line.series_id for line in lines):
        indexes = [at for at, candidate in enumerate(releases) if series in candidate.values]
        for at, before in pairwise(indexes):  # the newest release comes first
            if at < RELEASES:
                chain[at, series] = TwoSides(series, releases[before].commit_id, releases[at].commit_id)
    return RowSides(of_commits, chain, since)


def since_of(newest: LineColumns, path: Sequence[GridColumn], release: MeasuredRelease | None) -> TwoSides | None:
    """The newest clean point of a row's newest line with the release, if that has one of this line."""
    clean = next((at for at in reversed(newest.at.tolist()) if at not in newest.flags), None)
    if release is None or clean is None or newest.series_id not in release.values:
        return None
    return TwoSides(newest.series_id, release.commit_id, path[clean].pk)


def neighbours_on(line: LineColumns, path: Sequence[GridColumn]) -> Iterator[tuple[int, TwoSides]]:
    """The points among the commits of the grid, each with the clean point before it."""
    positions: list[int] = line.at.tolist()
    first_shown = bisect_left(positions, len(path) - SHOWN)
    before = next((at for at in reversed(positions[:first_shown]) if at not in line.flags), None)
    for at in positions[first_shown:]:
        if before is not None:
            yield at, TwoSides(line.series_id, path[before].pk, path[at].pk)
        if at not in line.flags:
            before = at
