"""Databases of other shapes: each part is filled as its extent says, the same from the same seed."""

from collections import Counter
from pathlib import Path

import pytest
from django.contrib.auth.models import User

from research.scale import __main__ as program
from research.scale import bench
from research.scale.costs.work import undone
from research.scale.growth import DOCUMENT
from research.scale.marks import read_part
from research.scale.shapes import worst
from research.scale.shapes.extents import FULL, FULL_ROWS, ShapeExtent, extents_of
from research.scale.shapes.parts import PARTS, SHAPES, write_shape
from research.scale.test_bench import page_cost
from speedtrack.accounts.models import Role
from speedtrack.projects import sync
from speedtrack.projects.models import Project
from speedtrack.runs.models import Measurement, Run, Samples, Series, Status

TINY = {
    "branches": ShapeExtent(commits=30, tags=4, benchmarks=2, branches=4),
    "grid": ShapeExtent(commits=30, tags=3, benchmarks=3, metrics=3, environments=3),
    "outside": ShapeExtent(commits=5, benchmarks=3, machines=2),
    "people": ShapeExtent(commits=30, benchmarks=1, machines=1, projects=4, people=3),
    "away": ShapeExtent(commits=30, machines=2),
}


@pytest.fixture
def kind(suites: None) -> None:
    write_shape(SHAPES["kind"], TINY, seed=1)


def points(slug: str) -> int:
    return Measurement.objects.filter(series__project__slug=slug, paired=False).count()


def test_a_matrix_of_series_in_one_environment_after_the_other(kind: None) -> None:
    series = Series.objects.filter(project__slug="grid")
    assert series.count() == 3 * 3 * 2 * 3
    assert points("grid") == 3 * 3 * 2 * 30
    measured = Counter(Measurement.objects.filter(series__in=series, paired=False).values_list("series", flat=True))
    assert set(measured.values()) == {10}, "a third of the history in each environment"


def test_a_real_repository_has_no_news(kind: None) -> None:
    tree = Project.objects.get(slug="tree")
    assert not sync.has_news(tree), "it was fetched"
    assert tree.branches.filter(tracked=True).count() == 4 and tree.tags.count() == 4
    assert points("tree") == 2 * 2 * (30 * 2 + 3 * 3), "main on both machines, three commits of each branch on one"
    assert not Run.objects.filter(project=tree, status=Status.QUEUED).exists()


def test_results_from_outside_are_imported_and_judged(kind: None) -> None:
    outside = Series.objects.filter(project__slug="outside")
    assert outside.count() == 3 * 2 * 2
    assert points("outside") == 12 * 5
    assert set(outside.values_list("machine__outside", "undetected_since")) == {(True, None)}


def test_small_projects_half_of_them_private_have_people_with_roles(kind: None) -> None:
    teams = Project.objects.filter(slug__startswith="team-")
    assert Counter(teams.values_list("is_public", flat=True)) == {True: 2, False: 2}
    roles = {role for team in teams for role in team.memberships.values_list("role", flat=True)}
    assert roles == {Role.OWNER, Role.MAINTAINER, Role.READER}
    assert PARTS["people"].person in set(User.objects.values_list("username", flat=True))


def test_runs_wait_for_machines_that_never_came(kind: None) -> None:
    waiting = Run.objects.filter(status=Status.QUEUED)
    assert set(waiting.values_list("project__slug", "machine__last_seen_at")) == {("away", None)}
    assert waiting.count() == 30 * 2


def test_the_same_seed_gives_the_same_values(suites: None) -> None:
    def values(seed: int) -> list[list[float | None]]:
        with undone():
            write_shape(("grid", "outside"), TINY, seed)
            return list(Samples.objects.order_by("pk").values_list("values", flat=True))

    first = values(seed=1)
    assert values(seed=1) == first
    assert values(seed=2) != first


def test_beyond_its_full_breadth_only_the_history_grows() -> None:
    assert extents_of(FULL_ROWS) == FULL
    twice, quarter = extents_of(2 * FULL_ROWS)["grid"], extents_of(FULL_ROWS // 4)["grid"]
    assert (twice.benchmarks, twice.commits, twice.tags) == (300, 1200, 400)
    assert (quarter.benchmarks, quarter.commits, quarter.metrics) == (150, 300, 6)


def test_a_row_takes_its_place_in_the_table(tmp_path: Path) -> None:
    document = tmp_path / "scale.md"
    document.write_text("<!-- shapes -->\n\n<!-- end of the shapes -->\n")
    for row in ("| `grid` | 1 |", "| `branches` | 2 |", "| `grid` | 3 |"):
        worst.write_row(document, row.split("`")[1], row)
    assert read_part(document, worst.PART).splitlines()[2:] == ["| `branches` | 2 |", "| `grid` | 3 |"]


def test_the_worst_page_is_the_one_that_takes_most_cpu() -> None:
    assert worst.worst([page_cost(3), page_cost(100), page_cost(7)]) == "`page-100`: **100**, 1, 1"
    assert bench.dearest([page_cost(3)]) == "/dearest"


def test_the_document_has_rows_of_shapes_in_their_order() -> None:
    assert tuple(SHAPES) == program.SHAPES
    rows = [line.split("`")[1] for line in read_part(DOCUMENT, worst.PART).splitlines()[2:]]
    assert rows == [name for name in SHAPES if name in rows]
