"""The tables of releases: each is compared with the one before it and with the first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from speedtrack.benchmarks.metrics import Metric
from speedtrack.judging.evidence import TwoSides
from speedtrack.judging.judge import MatchedPoints
from speedtrack.judging.points import SidePoint, points_to_compare
from speedtrack.judging.repeated import NewestValues, SidesOfProject, digest, versions_of
from speedtrack.judging.sides import ComparedRow, compared_rows, total_of_rows
from speedtrack.judging.totals import Total
from speedtrack.projects.models import Project
from speedtrack.web.pages.releases.points import MeasuredSeries, Points, ReleaseColumns
from speedtrack.web.pages.releases.versions import Release, Stretch


@dataclass(frozen=True)
class ReleaseCell:
    """A release under one benchmark, compared with the one before it, and with the first; those have been measured.

    ``before``, ``first``: their tags.
    """

    release: Release
    point: SidePoint | None = None
    before: str = ""
    since_before: ComparedRow | None = None
    first: str = ""
    since_first: ComparedRow | None = None


@dataclass(frozen=True)
class BenchmarkTable:
    """The shown releases under one benchmark, oldest first."""

    name: str
    cells: list[ReleaseCell]

    @property
    def newest_first(self) -> list[ReleaseCell]:
        return self.cells[::-1]

    @property
    def newest(self) -> ReleaseCell | None:
        """The newest measured release."""
        return next((cell for cell in reversed(self.cells) if cell.point), None)


@dataclass(frozen=True)
class ReleaseTotal:
    """A release under all counted benchmarks."""

    release: Release
    before: str
    since_before: Total
    since_first: Total


TOTALS: NewestValues[list[ReleaseTotal]] = NewestValues(2000, len)


@dataclass(frozen=True)
class ReleasesToCompare:
    """The shown releases under benchmarks, each with the points that it is compared with.

    ``series``: those of all compared benchmarks, by id; ``columns``: their points of the shown releases and of those
    before them.
    """

    names: Sequence[str]
    stretch: Stretch
    series: Mapping[int, MeasuredSeries]
    columns: ReleaseColumns

    @cached_property
    def points(self) -> dict[int, Points]:
        """By commit id: the points of these benchmarks."""
        names = set(self.names)
        return self.columns.by_release({pk: own for pk, own in self.series.items() if own.benchmark in names})

    @cached_property
    def shown(self) -> dict[str, Points]:
        """The points of each shown release that was measured."""
        measured_releases = [release for release in self.stretch.shown if release.commit.pk in self.points]
        return {release.tag: self.points[release.commit.pk] for release in measured_releases}

    @cached_property
    def references(self) -> dict[tuple[str, str], tuple[Release, Release] | None]:
        """By benchmark and release: the one before it and the first."""
        with_points = [release for release in self.stretch.releases if release.commit.pk in self.points]
        return {
            (name, release.tag): references_of(own, index)
            for name in self.names
            if (own := [release for release in with_points if name in self.points[release.commit.pk]])
            for index, release in enumerate(own)
        }

    @cached_property
    def matched(self) -> dict[tuple[str, str, str], MatchedPoints]:
        """By benchmark, release and reference: the points to compare."""
        return {
            (name, tag, reference.tag): points_to_compare(self.points[reference.commit.pk][name], self.shown[tag][name])
            for (name, tag), both in self.references.items()
            if both and tag in self.shown
            for reference in both
        }

    def sides_of(self, project: Project, counted_names: Sequence[str]) -> SidesOfProject:
        """What totals of these releases over some of the benchmarks rest on."""
        shown_releases = [(release.tag, release.failure) for release in self.stretch.shown]
        names = repr((counted_names, shown_releases, self.stretch.commits)).encode()
        sides = [TwoSides(0, commit, commit) for commit in np.unique(self.columns.commit).tolist()]
        return SidesOfProject(project.pk, digest(names, self.columns.fingerprint), sides)


def tables_of(comparison: ReleasesToCompare) -> list[BenchmarkTable]:
    """The shown releases under each benchmark; each is compared with two others, all at once."""
    rows = dict(zip(comparison.matched, compared_rows([*comparison.matched.values()]), strict=True))
    return [
        BenchmarkTable(
            name,
            [
                cell_of(
                    name,
                    release,
                    comparison.shown.get(release.tag, {}).get(name),
                    comparison.references.get((name, release.tag)),
                    rows,
                )
                for release in comparison.stretch.shown
            ],
        )
        for name in comparison.names
    ]


def tables_and_totals(
    project: Project,
    metric: Metric,
    chosen_names: Sequence[str],
    counted_names: Sequence[str],
    comparison: ReleasesToCompare,
) -> tuple[list[BenchmarkTable], list[ReleaseTotal]]:
    """The tables of the chosen benchmarks, and the totals of those that are counted; all are compared.

    The totals are made once until what they rest on changes: then only the chosen benchmarks are compared.
    """
    subject = comparison.sides_of(project, counted_names)
    (version,) = versions_of([subject])
    key = subject.key(version)
    totals = TOTALS.get(key)
    if totals is None:
        tables = {table.name: table for table in tables_of(comparison)}
        totals = totals_of(metric, [tables[name] for name in counted_names])
        TOTALS.put(key, totals)
        return [tables[name] for name in chosen_names], totals
    return tables_of(replace(comparison, names=chosen_names)), totals


def references_of(releases: Sequence[Release], index: int) -> tuple[Release, Release] | None:
    """The release before the one at this place, and the first; None for the first."""
    return (releases[index - 1], releases[0]) if index else None


def cell_of(
    name: str,
    release: Release,
    points: Mapping[int, SidePoint] | None,
    references: tuple[Release, Release] | None,
    rows: Mapping[tuple[str, str, str], ComparedRow],
) -> ReleaseCell:
    if not points:
        return ReleaseCell(release)
    newest = points[max(points)]
    if references is None:
        return ReleaseCell(release, newest)
    before, first = (reference.tag for reference in references)
    return ReleaseCell(release, newest, before, rows[name, release.tag, before], first, rows[name, release.tag, first])


def totals_of(metric: Metric, tables: Sequence[BenchmarkTable]) -> list[ReleaseTotal]:
    """The totals of each release, the newest first."""
    rows = zip(*(table.cells for table in tables), strict=True)
    return [total_of_cells(metric, list(cells)) for cells in rows][::-1]


def total_of_cells(metric: Metric, cells: Sequence[ReleaseCell]) -> ReleaseTotal:
    """The total of a release. Benchmarks that have no value of both sides count among those that there are."""
    before = [cell.since_before for cell in cells if cell.since_before]
    first = [cell.since_first for cell in cells if cell.since_first]
    return ReleaseTotal(
        release=cells[0].release,
        before=next((cell.before for cell in cells if cell.before), ""),
        since_before=total_of_rows(metric, before, len(cells) - len(before)),
        since_first=total_of_rows(metric, first, len(cells) - len(first)),
    )
