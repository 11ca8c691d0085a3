"""How much of everything a part of a database has: in full, by the number of measurements, and small for tests."""

from dataclasses import dataclass, replace

FULL_ROWS = 3_000_000  # measurements of all parts in full, about
BREADTH = ("benchmarks", "branches", "projects")  # grow with the number of measurements until they are full


@dataclass(frozen=True)
class ShapeExtent:
    """Of a project, or of each of its ``projects``. ``commits`` and ``tags`` are its history: they grow with time."""

    commits: int
    tags: int = 0
    benchmarks: int = 4
    metrics: int = 2
    machines: int = 2
    environments: int = 1
    branches: int = 1
    projects: int = 1
    people: int = 0

    def longer(self, times: float) -> "ShapeExtent":
        """The same after another length of time."""
        return replace(self, commits=max(20, round(self.commits * times)), tags=round(self.tags * times))

    def narrower(self, share: float) -> "ShapeExtent":
        """A share of everything that is large at once."""
        return replace(self, **{name: max(1, round(getattr(self, name) * share)) for name in BREADTH})


FULL = {
    "branches": ShapeExtent(commits=20_000, tags=200, benchmarks=8, branches=120),
    "grid": ShapeExtent(commits=600, tags=200, benchmarks=300, metrics=6, environments=3),
    "outside": ShapeExtent(commits=24, benchmarks=500, machines=3),
    "people": ShapeExtent(commits=60, projects=40, people=10),
    "away": ShapeExtent(commits=15_000, machines=4),
    "wide": ShapeExtent(commits=30, tags=8, benchmarks=5_000),
}
#: Wide enough that every page has what it shows, and longer than what pages show of a history at once.
SMALL = {
    "branches": ShapeExtent(commits=250, tags=8, benchmarks=2, machines=1, branches=6),
    "grid": ShapeExtent(commits=250, tags=8, benchmarks=4, environments=3),
    "outside": ShapeExtent(commits=250, benchmarks=3, machines=1),
    "people": ShapeExtent(commits=250, benchmarks=1, machines=1, projects=4, people=3),
    "away": ShapeExtent(commits=250),
}


def extents_of(rows: int) -> dict[str, ShapeExtent]:
    """Those of a database of about so many measurements. Beyond the full breadth only the histories are longer."""
    share = rows / FULL_ROWS
    breadth = min(1.0, share**0.5)
    return {name: extent.narrower(breadth).longer(share / breadth) for name, extent in FULL.items()}
