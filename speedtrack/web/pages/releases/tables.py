"""The tables of releases: each is compared with the one before it and with the first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from speedtrack.benchmarks.metrics import Metric
from speedtrack.judging.points import SidePoint, points_to_compare
from speedtrack.judging.sides import ComparedRow, compared_rows, total_of_rows
from speedtrack.judging.totals import Total
from speedtrack.web.pages.releases.points import Points
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


def tables_of(names: Sequence[str], stretch: Stretch, points: Mapping[int, Points]) -> list[BenchmarkTable]:
    """The shown releases under each benchmark; each is compared with two others, all at once."""
    with_points = [release for release in stretch.releases if release.commit.pk in points]
    pairs = {
        (name, release.tag): references_of(own, place)
        for name in names
        if (own := [release for release in with_points if name in points[release.commit.pk]])
        for place, release in enumerate(own)
    }
    shown = {release.tag: points[release.commit.pk] for release in stretch.shown if release.commit.pk in points}
    matched = {
        (name, tag, reference.tag): points_to_compare(points[reference.commit.pk][name], shown[tag][name])
        for (name, tag), both in pairs.items()
        if both and tag in shown
        for reference in both
    }
    rows = dict(zip(matched, compared_rows([*matched.values()]), strict=True))
    return [
        BenchmarkTable(
            name,
            [
                cell_of(name, release, shown.get(release.tag, {}).get(name), pairs.get((name, release.tag)), rows)
                for release in stretch.shown
            ],
        )
        for name in names
    ]


def references_of(measured: Sequence[Release], place: int) -> tuple[Release, Release] | None:
    """The release before the one at this place, and the first; None for the first."""
    return (measured[place - 1], measured[0]) if place else None


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
