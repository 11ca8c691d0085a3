"""What is kept of a commit and the one measured before it, and when it is compared anew."""

from collections.abc import Sequence

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from speedtrack.alerts.detection import detection
from speedtrack.alerts.lines import comparisons
from speedtrack.alerts.lines.effects import EffectsOfProjects
from speedtrack.alerts.models import ComparisonBatch
from speedtrack.projects.models import Commit
from speedtrack.runs.models import Samples, Series
from speedtrack.tests.comparisons import stored_comparisons
from speedtrack.tests.histories import History

USUAL = [100.0, 101.0, 102.0, 103.0, 104.0]
SLOW = [value * 1.2 for value in USUAL]
Kept = dict[int, tuple[int, float, str]]


@pytest.fixture
def history(db: None) -> History:
    return History()


def measure(history: History, series: Series, values: dict[Commit, list[float]]) -> None:
    history.measure([series], {commit.pk: [trials] for commit, trials in values.items()})
    detection.detect()


def kept(series: Series, commits: Sequence[Commit]) -> Kept:
    """By place: how far back the commit is that it was compared with, the ratio, and the answer."""
    places = {commit.pk: place for place, commit in enumerate(commits)}
    rows = stored_comparisons([series.pk])
    return {places[row.commit_id]: (row.distance, round(row.ratio, 3), row.answer) for row in rows}


def test_each_measured_commit_is_compared_with_the_last_one_before_it(history: History) -> None:
    commits, series = history.commits(6), history.series()
    measure(history, series, {commits[0]: USUAL, commits[1]: USUAL, commits[4]: SLOW})
    assert kept(series, commits) == {1: (1, 1.0, "unknown"), 4: (3, 1.2, "different")}
    (row,) = stored_comparisons(commit=commits[4])
    assert row.old == 102.0
    assert row.low < row.ratio < row.high


def test_a_commit_that_is_measured_between_two_changes_what_the_later_one_is_compared_with(history: History) -> None:
    commits, series = history.commits(6), history.series()
    measure(history, series, {commits[0]: USUAL, commits[4]: SLOW})
    assert kept(series, commits) == {4: (4, 1.2, "different")}
    measure(history, series, {commits[2]: SLOW})
    assert kept(series, commits) == {2: (2, 1.2, "different"), 4: (2, 1.0, "unknown")}


def test_a_commit_that_is_measured_again_is_compared_by_all_its_samples(history: History) -> None:
    commits, series = history.commits(3), history.series()
    measure(history, series, dict.fromkeys(commits, USUAL))
    measure(history, series, {commits[1]: [value * 1.4 for value in USUAL]})
    assert [kept(series, commits)[place][1] > 1.1 for place in (1, 2)] == [True, False]
    assert kept(series, commits)[2][1] < 0.95


def test_a_commit_is_compared_once_however_many_branches_have_it(history: History) -> None:
    commits, series = history.commits(4), history.series()
    fork = history.fork("1.0", commits[:2])
    (own,) = history.commits(1, fork)
    measure(history, series, {commits[1]: USUAL, commits[2]: SLOW, commits[3]: SLOW, own: USUAL})
    places = [*commits, own]
    assert kept(series, places) == {
        2: (1, 1.2, "different"),
        3: (1, 1.0, "unknown"),
        4: (1, 1.0, "unknown"),
    }


def test_what_lies_far_back_is_compared_with_nothing(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparisons, "REACH", 3)
    commits, series = history.commits(6), history.series()
    measure(history, series, {commits[0]: USUAL, commits[5]: USUAL})
    assert kept(series, commits) == {}


def test_without_its_samples_a_side_decides_nothing(history: History) -> None:
    commits, series = history.commits(2), history.series()
    measure(history, series, {commits[0]: USUAL})
    Samples.objects.all().delete()
    measure(history, series, {commits[1]: SLOW})
    assert kept(series, commits) == {1: (1, 1.2, "unknown")}
    (row,) = stored_comparisons()
    assert (row.low, row.high) == (pytest.approx(120 / 104), pytest.approx(124.8 / 100))


def test_exact_metrics_are_compared_by_their_values(history: History) -> None:
    commits, series = history.commits(2), history.series(metric="binary_bytes")
    measure(history, series, {commits[0]: [1000.0], commits[1]: [1100.0]})
    assert kept(series, commits) == {1: (1, 1.1, "different")}


def test_single_counts_are_told_apart_from_their_smallest_effect_on(history: History) -> None:
    commits, series = history.commits(4), history.series(metric="counted_instructions_per_request")
    values = [3498.4, 3499.7, 3510.2, 3621.6]
    measure(history, series, {commit: [value] for commit, value in zip(commits, values, strict=True)})
    assert kept(series, commits) == {1: (1, 1.0, "same"), 2: (1, 1.003, "different"), 3: (1, 1.032, "different")}
    (row,) = stored_comparisons(commit=commits[3])
    assert (row.low, row.high) == (pytest.approx(row.ratio / 1.002), pytest.approx(row.ratio * 1.002))


def test_a_batch_goes_once_all_of_it_is_compared_anew(history: History) -> None:
    commits, several = history.commits(2), [history.series(f"b{place}") for place in range(3)]
    history.measure(several, {commit.pk: [USUAL] * 3 for commit in commits})
    detection.detect()
    (batch,) = ComparisonBatch.objects.all()
    assert (batch.commit_id, sorted(batch.series)) == (commits[1].pk, [one.pk for one in several])
    measure(history, several[0], {commits[1]: SLOW})
    assert kept(several[0], commits)[1][1] > 1 == kept(several[1], commits)[1][1]
    assert sorted(len(row.series) for row in ComparisonBatch.objects.all()) == [1, 3]
    history.measure(several, {commits[1].pk: [SLOW] * 3})
    detection.detect()
    (batch,) = ComparisonBatch.objects.all()
    assert len(batch.series) == 3 and min(batch.ratios) > 1


def test_the_number_of_queries_does_not_grow(history: History) -> None:
    def asked(count: int) -> int:
        commits = history.commits(20)
        several = [history.series(f"{count}-{place}") for place in range(count)]
        since = history.measure(several, {commit.pk: [USUAL] * count for commit in commits})
        with CaptureQueriesContext(connection) as context:
            comparisons.compare_new([(one, since) for one in several], EffectsOfProjects())
        assert len(stored_comparisons([one.pk for one in several])) == 19 * count
        return len(context)

    assert asked(1) == asked(8)
