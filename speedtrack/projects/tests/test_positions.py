"""Queries about the positions of a branch: they return what plain ones would, and read little more."""

from functools import partial
from typing import Any

import pytest
from django.db import connection

from speedtrack.projects import positions
from speedtrack.projects.models import Branch
from speedtrack.tests.histories import History
from speedtrack.tests.plans import rows_read

LENGTH = 300
RANGES = [(0, LENGTH - 1), (37, 100), (5, 5), (LENGTH - 20, LENGTH - 1), (10, 9)]


@pytest.fixture
def branch(db: None) -> Branch:
    history = History("kvd")
    history.commits(LENGTH)
    return history.branch


def numbers_of(query: str, branch: Branch) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(query, {"branch": branch.pk})
        return [row[0] for row in cursor.fetchall()]


def test_the_head_and_the_newest(branch: Branch) -> None:
    newest = list(range(LENGTH - 1, LENGTH - 11, -1))
    assert positions.head_of(branch) == LENGTH - 1
    assert numbers_of(positions.newest("%(branch)s", "10"), branch) == newest
    of_branch = positions.newest_of(Branch.objects.filter(pk=branch.pk), 10)
    assert list(of_branch.values_list("number", flat=True)) == newest
    empty = Branch.objects.create(project=branch.project, name="empty")
    assert positions.head_of(empty) == -1 and numbers_of(positions.newest("%(branch)s", "10"), empty) == []


@pytest.mark.parametrize(("begin", "end"), RANGES)
@pytest.mark.parametrize("step", [1, 7, 64, 1000])
def test_the_nearest_position_with_a_condition(branch: Branch, begin: int, end: int, step: int) -> None:
    matching = [number for number in range(begin, end + 1) if number % step == step // 2]
    ends: tuple[Any, ...] = (f"p.number %% {step} = {step // 2}", "%(branch)s", str(begin), str(end))
    assert numbers_of(positions.last(*ends), branch) == matching[-1:]
    assert numbers_of(positions.first(*ends), branch) == matching[:1]


@pytest.mark.parametrize(("begin", "end"), RANGES)
@pytest.mark.parametrize("order", ["ASC", "DESC"])
def test_a_stretch_in_order(branch: Branch, begin: int, end: int, order: str) -> None:
    table = positions.in_blocks("%(branch)s", str(begin), str(end), order)
    query = f"SELECT number FROM {table} p ORDER BY block {order}, number {order} LIMIT 40"
    expected = sorted(range(begin, end + 1), reverse=order == "DESC")
    assert numbers_of(query, branch) == expected[:40]


def test_what_is_near_is_read_alone(branch: Branch) -> None:
    last = positions.last("p.number <= 290", "%(branch)s", "0", str(LENGTH - 1))
    assert rows_read(partial(numbers_of, last, branch)) < 50
    assert rows_read(partial(numbers_of, positions.newest("%(branch)s", "10"), branch)) < 50
