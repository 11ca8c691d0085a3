"""The one reader of lines: its summaries, columns and trials tell of the same points."""

import math

import pytest

from speedtrack.alerts.lines import linecolumns, lines
from speedtrack.alerts.lines.trials import Around, LineRange, TrialPoint, trial_lines
from speedtrack.alerts.models import Alert
from speedtrack.alerts.triage.suite_effect import steps_by_benchmark
from speedtrack.runs.models import Measurement, Samples, Series
from speedtrack.tests.histories import History

NOTHING = Around()


@pytest.fixture
def history(db: None) -> History:
    return History()


@pytest.fixture
def series(history: History) -> Series:
    """Commits 0 to 9, of which 3 was not measured, 5 twice, and 7 only with a flag."""
    series, commits = history.series(), history.commits(10)
    values = {c.pk: [[100.0 + i, 101.0 + i, 102.0 + i]] for i, c in enumerate(commits) if i not in (3, 7)}
    history.measure([series], values)
    history.measure([series], {commits[5].pk: [[205.0, 206.0, 207.0]]})
    history.measure([series], {commits[7].pk: [[900.0, 901.0, 902.0]]}, flags=["steal"])
    return series


def trials_between(
    history: History, series: Series, first: int, last: int, around: Around = NOTHING
) -> list[TrialPoint]:
    (found,) = trial_lines([LineRange(series.pk, history.branch.pk, first, last)], around)
    return list(found)


def test_a_point_is_one_commit_with_the_samples_of_all_its_runs(history: History, series: Series) -> None:
    found = {p.position: p for p in lines.points([series.pk], history.branch, 2)}
    assert sorted(found) == [2, 4, 5, 6, 7, 8, 9]
    assert (found[4].value, found[4].low, found[4].high, found[4].n, found[4].flags) == (105, 104, 106, 3, [])
    assert (found[5].value, found[5].low, found[5].high, found[5].n) == (156, 105, 207, 6)
    assert found[7].flags == ["steal"]


def test_many_series_of_one_commit_are_read_by_commit(
    history: History, series: Series, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [history.series(name) for name in ("other", "third")]
    history.measure(others, {history.branch.positions.get(number=5).commit_id: [[7.0, 8.0, 9.0]] * 2})
    pks = [series.pk, others[0].pk]
    by_series = [lines.points(pks, history.branch, number, number) for number in (3, 5, 7)]
    assert [len(points) for points in by_series] == [0, 2, 1]
    monkeypatch.setattr(lines, "MANY", 1)
    assert [lines.points(pks, history.branch, number, number) for number in (3, 5, 7)] == by_series


def test_columns_are_the_same_points(history: History, series: Series) -> None:
    other = history.series("other")
    history.measure([other], {history.branch.positions.get(number=6).commit_id: [[7.0, 8.0, 9.0]]})
    pks = [series.pk, other.pk]
    for first, last in ((0, 9), (6, 9)):  # with and without a commit that was measured twice
        points = lines.points(pks, history.branch, first, last)
        columns = linecolumns.columns(pks, history.branch, first, last)
        assert {column.series_id for column in columns} == set(pks)
        for column in columns:
            mine = [p for p in points if p.series_id == column.series_id]
            assert column.at.tolist() == [p.position - first for p in mine]
            for name in ("value", "low", "high", "n"):
                assert getattr(column, name).tolist() == [getattr(p, name) for p in mine]
            assert column.flags == {p.position - first: p.flags for p in mine if p.flags}
    assert linecolumns.columns(pks, history.branch, 100, 200) == []


def test_trials_are_those_of_clean_points(history: History, series: Series) -> None:
    found = trials_between(history, series, 4, 6)
    assert [(p.position, p.trials, p.value) for p in found] == [
        (4, (104, 105, 106), 105),
        (5, (105, 106, 107, 205, 206, 207), 156),
        (6, (106, 107, 108), 107),
    ]
    around = trials_between(history, series, 5, 5, Around(before=2, after=2))
    assert [p.position for p in around] == [2, 4, 5, 6, 8]


def test_the_trials_of_several_lines_are_read_together(history: History, series: Series) -> None:
    other, commits = history.series("other"), list(history.branch.positions.order_by("number"))
    history.measure([other], {commits[i].commit_id: [[7.0, 8.0, 9.0]] for i in (1, 6)})
    asked = [LineRange(one.pk, history.branch.pk, first, last) for one, first, last in ((other, 0, 5), (series, 4, 6))]
    assert list(map(list, trial_lines([*asked, LineRange(other.pk, history.branch.pk, 2, 5)]))) == [
        trials_between(history, other, 0, 5),
        trials_between(history, series, 4, 6),
        [],
    ]
    assert [p.position for p in trials_between(history, other, 0, 5)] == [1]


def test_flagged_trials_of_a_clean_run_are_left_out(history: History, series: Series) -> None:
    Samples.objects.filter(measurement__commit=history.branch.positions.get(number=4).commit_id).update(flagged=[1])
    (point,) = trials_between(history, series, 4, 4)
    assert point.trials == (104, 106)


def test_a_measurement_whose_samples_are_deleted_counts_by_its_value(history: History, series: Series) -> None:
    at = {number: history.branch.positions.get(number=number).commit_id for number in (4, 5)}
    before = lines.points([series.pk], history.branch, 4, 5)
    Samples.objects.filter(measurement__commit=at[4]).delete()
    Samples.objects.filter(measurement__commit=at[5], values__0=205.0).delete()
    assert [p.trials for p in trials_between(history, series, 4, 5)] == [(105,), (105, 106, 107, 206)]
    one, pooled = lines.points([series.pk], history.branch, 4, 5)
    assert one == before[0]
    assert (pooled.value, pooled.low, pooled.high, pooled.n) == (106.5, 105, 206, 6)
    Samples.objects.all().delete()
    assert lines.points([series.pk], history.branch, 5, 5)[0].value == 156
    assert lines.samples_by_attempt(before) == {}


def test_what_was_not_accepted_or_is_one_side_of_a_pair_is_no_point(history: History, series: Series) -> None:
    here = {place.number: place.commit_id for place in history.branch.positions.all()}
    Measurement.objects.filter(commit=here[0]).update(accepted=False)
    Measurement.objects.filter(commit=here[1]).update(paired=True)
    assert [p.position for p in lines.points([series.pk], history.branch, 0, 2)] == [2]
    assert [p.position for p in trials_between(history, series, 0, 2)] == [2]
    assert [column.at.tolist() for column in linecolumns.columns([series.pk], history.branch, 0, 2)] == [[2]]


def test_a_step_of_the_suite_pools_the_runs_of_a_commit(history: History, series: Series) -> None:
    """Of the series 5 was measured twice and 7 only with a flag; of the other one every commit once."""
    other = history.series("other")
    commit_at = {place.number: place.commit for place in history.branch.positions.select_related("commit")}
    history.measure([other], {commit.pk: [[100.0 if at < 8 else 110.0]] for at, commit in commit_at.items()})
    alert = Alert(project=history.project, branch=history.branch, before=commit_at[7], commit=commit_at[8])
    steps = steps_by_benchmark(alert, series.machine_id)
    assert set(steps) == {series.benchmark_id, other.benchmark_id}
    assert steps[series.benchmark_id] == pytest.approx(math.log(109 * 110) / 2 - math.log(107))
    assert steps[other.benchmark_id] == pytest.approx(math.log(1.1))
