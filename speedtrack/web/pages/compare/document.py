"""A comparison as JSON and CSV: all rows that fit the filters."""

from collections.abc import Iterator
from typing import Any

from speedtrack.judging.sides import ComparedRow
from speedtrack.judging.totals import Total
from speedtrack.web.pages.compare.page import ComparePage
from speedtrack.web.pages.compare.sides import ComparedSide

COLUMNS = ("benchmark", "metric", "base", "head", "ratio", "low", "high", "verdict", "pairs", "doubts", "flags")


def compare_document(page: ComparePage) -> dict[str, Any]:
    sides = page.sides
    return {
        "schema": "speedtrack.compare/1",
        "base": side_document(sides.base) if sides else None,
        "head": side_document(sides.head) if sides else None,
        "notes": sides.notes if sides else [],
        "differences": [
            {"what": difference.title, "facts": [list(fact) for fact in difference.facts]}
            for difference in page.differences
        ],
        "totals": [total_document(total) for total in page.totals],
        "rows": [row_document(row) for row in page.rows],
        "only_base": page.found.only_base,
        "only_head": page.found.only_head,
    }


def side_document(side: ComparedSide) -> dict[str, Any]:
    return {
        "project": side.project.slug,
        "name": side.name,
        "commit": side.commit.sha,
        "machine": side.machine.name if side.machine else None,
        "nearest_measured": [{"commit": near.commit.sha, "apart": near.apart} for near in side.nearest],
    }


def total_document(total: Total) -> dict[str, Any]:
    mean, interval = total.mean, total.interval
    return {
        "metric": total.metric.name,
        "mean_ratio": [mean.ratio, *(interval or (None, None))] if mean else None,
        "benchmarks": [total.benchmarks, total.of],
        "verdict": total.verdict,
        "verdicts": dict(total.counts),
        "doubtful": total.doubtful,
    }


def row_document(row: ComparedRow) -> dict[str, Any]:
    return {
        "benchmark": row.benchmark,
        "metric": row.metric.name,
        "unit": row.metric.unit,
        "base": row.base.value,
        "head": row.head.value,
        "ratio": row.ratio,
        "low": row.low,
        "high": row.high,
        "verdict": row.verdict,
        "pairs": row.pairs,
        "doubts": list(row.doubts),
        "flags": row.flags,
    }


def csv_rows(page: ComparePage) -> Iterator[list[Any]]:
    yield list(COLUMNS)
    for row in map(row_document, page.rows):
        yield [" ".join(row[name]) if isinstance(row[name], list) else row[name] for name in COLUMNS]
