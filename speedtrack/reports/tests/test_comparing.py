"""Documents of comparisons by columns are those of their rows."""

from random import Random

import pytest

from speedtrack.judging.judgedcolumns import judged_by
from speedtrack.judging.sides import ComparedRows
from speedtrack.judging.tests.test_columns import APART, BASE, COUNT, HEAD, NAMES, evidence_rows, side
from speedtrack.reports.comparing import compared_values

END = ("value", "low", "high")


@pytest.mark.parametrize("seed", (0, 1, 2))
def test_values_by_columns_are_those_of_each_row(seed: int) -> None:
    random = Random(seed)
    benchmarks = random.sample(range(len(NAMES.benchmarks)), COUNT)
    new = side(HEAD, [*range(COUNT)], benchmarks, random)
    old = side(BASE, [*range(APART), *range(500, 500 + COUNT - APART)], benchmarks, random)
    judgements = judged_by(evidence_rows(random, old, new, same_program=not seed), old, new)
    rows = ComparedRows(old, new, judgements).ranked
    values = compared_values(rows)
    assert len(values) == COUNT and any(row["flags"] for row in values)
    for value, row in zip(values, rows, strict=True):
        names = {"benchmark": row.benchmark, "metric": row.metric.name, "unit": row.metric.unit}
        sides = {
            name: {**{field: getattr(point, field) for field in END}, "series": point.series_id}
            for name, point in (("base", row.base), ("head", row.head))
        }
        numbers = {field: getattr(row, field) for field in ("ratio", "low", "high", "pairs", "verdict")}
        evidence = {"basis": row.judgement.basis, "better": row.metric.better.value}
        assert value | {"doubts": tuple(value["doubts"]), "flags": list(value["flags"])} == (
            names | sides | numbers | evidence | {"doubts": row.doubts, "flags": row.flags}
        )
