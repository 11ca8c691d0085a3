"""A comparison of two commits as its page and the API show it."""

from dataclasses import dataclass, field

from speedtrack.judging.points import CommitOnMachine
from speedtrack.judging.sides import Between, compare_sides
from speedtrack.judging.summaries import Summary, summary_of_sides
from speedtrack.projects.models import Project
from speedtrack.reports.readings.differences import Difference, differences
from speedtrack.reports.readings.sides import BothSides


@dataclass(frozen=True)
class ComparisonReading:
    """``sides``: None if the project has no measured history. ``differences``: besides the commits."""

    project: Project
    sides: BothSides | None = None
    between: Between = field(default_factory=Between)
    differences: list[Difference] = field(default_factory=list)

    @property
    def summary(self) -> Summary:
        return summary_of_sides(self.between.rows)


def read(sides: BothSides) -> ComparisonReading:
    """Compare both sides. Of a side that was not measured there are no rows, and the other one's are ``only_``."""
    between = between_sides(sides)
    apart = differences(sides, between.rows) if sides.are_measured else []
    return ComparisonReading(sides.head.project, sides, between, apart)


def between_sides(sides: BothSides) -> Between:
    base, head = sides.base.machine or sides.head.machine, sides.head.machine or sides.base.machine
    if base is None or head is None:
        return Between()
    return compare_sides(CommitOnMachine(sides.base.commit.pk, base.pk), CommitOnMachine(sides.head.commit.pk, head.pk))
