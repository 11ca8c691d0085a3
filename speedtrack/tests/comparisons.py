"""Stored comparisons one by one, as tests look at them and change them."""

from collections.abc import Collection
from typing import Any, NamedTuple

from speedtrack.alerts.models import ComparisonBatch
from speedtrack.projects.models import Commit
from speedtrack.stats.comparing.compare import ComparisonAnswer

COLUMNS = {"distance": "distances", "old": "old", "ratio": "ratios", "low": "lows", "high": "highs"}
OF_INITIALS = {answer[0]: answer for answer in ComparisonAnswer}


class StoredComparison(NamedTuple):
    """A commit in one series against the one before it."""

    commit_id: int
    series_id: int
    distance: int
    old: float
    ratio: float
    low: float
    high: float
    answer: str


def stored_comparisons(series: Collection[int] | None = None, **filters: Any) -> list[StoredComparison]:
    """The newest comparison of each commit and series. ``filters``: of batches."""
    newest: dict[tuple[int, int], StoredComparison] = {}
    for batch in ComparisonBatch.objects.filter(**filters).order_by("pk"):
        columns = [getattr(batch, name) for name in COLUMNS.values()]
        for pk, *facts, initial in zip(batch.series, *columns, batch.answers, strict=True):
            if series is None or pk in series:
                newest[batch.commit_id, pk] = StoredComparison(batch.commit_id, pk, *facts, OF_INITIALS[initial])
    return list(newest.values())


def change_comparisons(commit: Commit | int, series: int | None = None, **changes: Any) -> int:
    """Change the comparisons of a commit, of all series or of one. Return how many there were."""
    count = 0
    for batch in ComparisonBatch.objects.filter(commit=commit):
        for place, pk in enumerate(batch.series):
            if series in (None, pk):
                count += 1
                for name, value in changes.items():
                    if name == "answer":
                        batch.answers = f"{batch.answers[:place]}{value[0]}{batch.answers[place + 1 :]}"
                    else:
                        getattr(batch, COLUMNS[name])[place] = value
        batch.save()
    return count
