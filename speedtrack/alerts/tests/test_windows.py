"""Detection over long and odd histories: what it reads is bounded, and bad input has an answer without a flood."""

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from speedtrack.alerts.detection import detection
from speedtrack.alerts.lines import known, trials, windows
from speedtrack.alerts.lines.spreads import spreads_of
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.alerts.triage import reasons, replay
from speedtrack.projects.models import ChainCommit, Commit, Segment, Tag
from speedtrack.runs.models import Attempt, Measurement, Samples, Series
from speedtrack.stats.changes.changepoint import Point, suspect_shifts
from speedtrack.tests import builders
from speedtrack.tests.histories import History

Status = ChangePoint.Status


@pytest.fixture
def history(db: None) -> History:
    return History()


def noisy(levels: Sequence[float], seed: int = 1, between: float = 0.01) -> list[list[float]]:
    """Five trials per level; each run has a level of its own."""
    rng = random.Random(seed)
    own = [level * math.exp(between * rng.gauss(0, 1)) for level in levels]
    return [[level * math.exp(0.005 * rng.gauss(0, 1)) for _ in range(5)] for level in own]


def measure(history: History, series: Series, commits: Sequence[Commit], values: Sequence[Sequence[float]]) -> None:
    history.measure([series], {commit.pk: [trials] for commit, trials in zip(commits, values, strict=True)})


def told(history: History, commits: Sequence[Commit], values: Sequence[Sequence[float]]) -> Series:
    series = history.series()
    measure(history, series, commits, values)
    detection.detect()
    assert Series.objects.get(pk=series.pk).error == ""
    return series


def suspected() -> list[tuple[str, bool]]:
    found = ChangePoint.objects.filter(status=Status.SUSPECTED, kind=ChangePoint.Kind.STEP).order_by("commit_id")
    return [(cp.commit.subject, cp.ratio > 1) for cp in found.select_related("commit")]


def read(node: dict[str, Any]) -> float:
    """The rows that a plan touched, as EXPLAIN ANALYZE counts them: those it passed on and those it dropped."""
    dropped = sum(count for name, count in node.items() if name.startswith("Rows Removed"))
    own: float = (node["Actual Rows"] + dropped) * node["Actual Loops"]
    return own + sum(read(child) for child in node.get("Plans", []))


def on_two_levels(step: float, at: int, seed: int = 1) -> list[list[float]]:
    """Single trials of a line that sits on the upper of two levels now and then, with one step of its level."""
    rng = random.Random(seed)
    drawn = [0.005 * rng.gauss(0, 1) + 0.08 * (rng.random() < 0.3) for _ in range(140)]
    return [[100 * math.exp(deviation + step * (i >= at))] for i, deviation in enumerate(drawn)]


class TestHistory:
    """What the history of a line as a whole shows, though no shift of its newest points stands out."""

    def near_the_step(self) -> list[ChangePoint]:
        found = ChangePoint.objects.filter(kind=ChangePoint.Kind.STEP, commit__positions__number__range=(85, 95))
        return list(found.order_by("id").distinct())

    def test_it_is_suspected_once_and_says_why(self, history: History) -> None:
        values = on_two_levels(0.05, at=90, seed=4)
        places = [shift.index for shift in suspect_shifts([Point(tuple(one)) for one in values])]
        assert not any(85 <= place <= 95 for place in places)
        commits = history.commits(len(values))
        series = told(history, commits[:100], values[:100])
        assert self.near_the_step() == []
        for first in range(100, 140, 4):
            measure(history, series, commits[first : first + 4], values[first : first + 4])
            detection.detect()
        (found,) = self.near_the_step()
        assert (found.status, found.ratio > 1) == (Status.SUSPECTED, True)
        assert (found.before.subject, found.commit.subject) == ("Change 89", "Change 90")
        why = reasons.why(series, history.branch, 90)
        assert why is not None
        assert why.suspicious
        assert "does not exceed" in why.judgement
        assert "the history of the line as a whole shows" in why.judgement
        replayed = [e for e in replay.replay(history.project) if 85 <= e.place.number <= 95 and e.suspected]
        assert [entry.place.number for entry in replayed] == [90]

    def test_what_the_pairs_refuted_is_not_suspected_again(self, history: History) -> None:
        values = on_two_levels(0.05, at=90)
        commits = history.commits(len(values))
        series = told(history, commits[:120], values[:120])
        ChangePoint.objects.filter(pk__in=[cp.pk for cp in self.near_the_step()]).update(
            status=Status.REFUTED, before=commits[86], commit=commits[93]
        )
        assert len(self.near_the_step()) == 1
        for first in range(120, 140, 4):
            measure(history, series, commits[first : first + 4], values[first : first + 4])
            detection.detect()
        assert len(self.near_the_step()) == 1


class TestWindow:
    def test_what_is_read_does_not_grow_with_the_history(self, history: History) -> None:
        commits = history.commits(1200)
        series = told(history, commits, noisy([5000.0] * 1200))
        since = history.measure([series], {commits[600].pk: [[5000.0] * 5]})
        (line,) = windows.windows_since([(series, since)])
        assert [p.position for p in line.points] == list(range(600 - windows.BEFORE, 601 + windows.AHEAD))
        assert len(line.points[line.new[0]].trials) == 10
        with CaptureQueriesContext(connection) as queries:
            detection.detect_in([(series, since)])
        assert len(queries) < 15

    def test_a_pass_takes_as_many_queries_for_many_series_as_for_few(self, history: History) -> None:
        """Old lines with a known change, and young ones; a commit of two branches, and one of one."""
        commits = history.commits(101)
        history.fork("release", commits[:100])
        values = [noisy([5000.0] * 80 + [5600.0] * 21)] * 24
        asked = []
        for count in (3, 24):
            young = [history.series(f"young {count} {i}") for i in range(count)]
            series = [history.series(f"{count} {i}") for i in range(count)]
            old = {c.pk: [of_line[k] for of_line in values[:count]] for k, c in enumerate(commits[:99])}
            history.measure(series, old)
            history.measure(young, {c.pk: old[c.pk] for c in commits[90:98]})
            detection.detect()
            found = ChangePoint.objects.filter(series__in=series)
            assert found.values("series").distinct().count() == count
            found.update(status=Status.CONFIRMED)
            for commit, at in ((commits[99], 99), (commits[100], 100)):
                history.measure(series, {commit.pk: [of_line[at] for of_line in values[:count]]})
                history.measure(young, {commit.pk: [of_line[at] for of_line in values[:count]]})
                with CaptureQueriesContext(connection) as queries:
                    assert detection.detect() == 2 * count
                asked.append(len(queries))
            assert not Series.objects.exclude(error="").exists()
            assert 2 * count < detection.TOGETHER
        assert asked[:2] == asked[2:], asked

    def test_news_are_looked_up_even_where_the_tables_seem_empty(self, history: History) -> None:
        """Statistics taken while a table was empty, but had pages: each join of such tables seems to be of one row."""
        commits = history.commits(600)
        series = history.series()
        before = transaction.savepoint()
        measure(history, series, commits, noisy([5000.0] * 600))
        transaction.savepoint_rollback(before)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE runs_run, runs_attempt, runs_measurement, projects_position")
        measure(history, series, commits, noisy([5000.0] * 600))
        with connection.cursor() as cursor:
            since = Attempt.objects.earliest("ended_at").ended_at
            cursor.execute(
                f"EXPLAIN (ANALYZE, FORMAT JSON) {windows.NEW_POINTS}", {"series": [series.pk], "since": [since]}
            )
            ((plan,),) = cursor.fetchone()
        assert plan["Plan"]["Actual Rows"] == 600
        assert read(plan["Plan"]) < 20 * 600

    def test_the_references_of_a_young_line_are_not_searched_back_to_the_root(self, history: History) -> None:
        commits = history.commits(3000)
        Tag.objects.create(project=history.project, name="1.0", sha=commits[1000].sha)
        series = history.series()
        since = history.measure([series], {c.pk: [[5000.0 + i] * 5] for i, c in enumerate(commits[-20:])})
        with CaptureQueriesContext(connection) as queries:
            detection.detect_in([(series, since)])
        searched = [one["sql"] for one in queries if "WITH range AS" in one["sql"] or "few.commits" in one["sql"]]
        assert len(searched) > 2
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
            for query in searched:
                cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}")
                assert read(cursor.fetchone()[0][0]["Plan"]) < 4 * windows.BEFORE * trials.FIRST_PIECE

    def test_news_far_apart_are_read_by_themselves(self, history: History) -> None:
        commits = history.commits(1500)
        series = told(history, commits, noisy([5000.0] * 1500))
        since = history.measure([series], {commits[i].pk: [[5000.0] * 5] for i in (100, 110, 1300)})
        lines = windows.windows_since([(series, since)])
        assert [[line.points[i].position for i in line.new] for line in lines] == [[100, 110], [1300]]

    def test_branches_with_one_history_are_one_line_on_the_default_branch(self, history: History) -> None:
        commits = history.commits(60)
        series = history.series()
        measure(history, series, commits[:59], noisy([5000.0] * 59))
        for i in range(5):
            history.fork(f"a{i}", commits[: 56 + i])  # some end before others
        own = history.fork("own", commits)
        measure(history, series, history.commits(1, own), noisy([5000.0]))
        since = history.measure([series], {commits[50].pk: [[5000.0] * 5]})
        assert [line.branch.name for line in windows.windows_since([(series, since)])] == ["main", "own"]

    def test_a_step_is_found_whatever_order_its_commits_are_measured_in(self, history: History) -> None:
        commits = history.commits(40)
        values = noisy([5000.0] * 25 + [6000.0] * 15)
        order = list(range(40))
        random.Random(3).shuffle(order)
        series = history.series()
        for i in order:
            measure(history, series, [commits[i]], [values[i]])
            detection.detect()
        assert ("Change 25", True) in suspected()
        assert len(suspected()) <= 2


class TestSettled:
    def test_what_was_settled_is_not_suspected_again_by_new_points(self, history: History) -> None:
        commits = history.commits(90)
        values = noisy([5000.0] * 60 + [5500.0] * 30)
        told(history, commits[:64], values[:64])
        assert suspected() == [("Change 60", True)]
        for status in (Status.CONFIRMED, Status.REFUTED, Status.UNSETTLED, Status.SETTLING):
            ChangePoint.objects.update(status=status)
            Series.objects.update(undetected_since="2026-01-01T00:00Z")
            detection.detect()
            assert suspected() == [], status
        told(history, commits[64:], values[64:])
        assert suspected() == []

    def test_what_a_person_calls_invalid_cuts_nothing(self, history: History) -> None:
        commits = history.commits(70)
        series = told(history, commits, noisy([5000.0] * 60 + [5500.0] * 10))
        cp = ChangePoint.objects.get()
        alert = Alert.objects.create(
            project=history.project, branch=history.branch, before=cp.before, commit=cp.commit, status="invalid"
        )
        ChangePoint.objects.update(status=Status.CONFIRMED, alert=alert)
        (line,) = windows.windows_since([(series, Series.objects.get().undetected_since or "2026-01-01T00:00Z")])  # type: ignore[arg-type]
        (change,) = known.known_lines([line])[0].changes
        answers = {}
        for status in ("invalid", "expected", "fixed", "confirmed"):
            assert change.change_point.alert is not None
            change.change_point.alert.status = status
            settled = change.settled()
            assert settled is not None
            answers[status] = settled.confirmed
        assert answers == {"invalid": False, "expected": True, "fixed": True, "confirmed": True}


class TestRewritten:
    def change(self, history: History, status: str) -> list[Commit]:
        """A confirmed or refuted change of a branch whose last ten commits are then rewritten."""
        commits = history.commits(70)
        values = noisy([5000.0] * 60 + [5500.0] * 10)
        told(history, commits, values)
        assert suspected() == [("Change 60", True)]
        ChangePoint.objects.update(status=status)
        ChainCommit.objects.filter(number__gte=55).delete()
        Segment.objects.update(last=54)
        new = history.commits(15)
        for old, commit in zip(commits[55:], new, strict=True):
            Commit.objects.filter(pk=commit.pk).update(subject=old.subject, authored_at=old.authored_at)
        told(history, new, noisy([5000.0] * 5 + [5500.0] * 10, seed=2))
        return new

    def test_a_confirmed_change_is_not_suspected_again_under_another_sha(self, history: History) -> None:
        self.change(history, Status.CONFIRMED)
        assert suspected() == []

    def test_a_refuted_one_may_have_been_amended(self, history: History) -> None:
        new = self.change(history, Status.REFUTED)
        assert ChangePoint.objects.get(status=Status.SUSPECTED).commit_id == new[5].pk

    def test_a_cherry_pick_beside_its_living_original_is_a_change_of_its_own(self, history: History) -> None:
        commits = history.commits(70)
        told(history, commits, noisy([5000.0] * 60 + [5500.0] * 10))
        ChangePoint.objects.update(status=Status.CONFIRMED)
        release = history.fork("release", commits[:50])
        picked = history.commits(20, release)
        original = commits[60]
        Commit.objects.filter(pk=picked[10].pk).update(subject=original.subject, authored_at=original.authored_at)
        told(history, picked, noisy([5000.0] * 10 + [5500.0] * 10, seed=4))
        assert ChangePoint.objects.get(status=Status.SUSPECTED).commit_id == picked[10].pk


class TestBadInput:
    def test_one_point(self, history: History) -> None:
        told(history, history.commits(1), [[5000.0]])
        assert suspected() == []

    @pytest.mark.parametrize("value", [0.0, -3.0, 5000.0])
    def test_a_constant_series(self, history: History, value: float) -> None:
        told(history, history.commits(80), [[value] * 5] * 80)
        assert suspected() == []

    def test_a_metric_that_was_always_zero(self, history: History) -> None:
        told(history, history.commits(80), [[0.0] * 5] * 75 + [[4.0] * 5] * 5)
        assert suspected() == [("Change 75", True)]
        assert ChangePoint.objects.get().ratio == 2.0

    @pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
    def test_samples_that_are_no_numbers_are_left_out(self, history: History, odd: float) -> None:
        commits = history.commits(80)
        series = history.series()
        measure(history, series, commits, noisy([5000.0] * 70 + [6000.0] * 10))
        samples = Samples.objects.get(measurement__commit=commits[30])
        samples.values[2] = odd
        samples.save()
        Samples.objects.filter(measurement__commit=commits[40]).update(values=[odd] * 5)
        detection.detect()
        assert Series.objects.get().error == ""
        assert suspected() == [("Change 70", True)]

    def test_a_commit_measured_often_is_one_point(self, history: History) -> None:
        commits = history.commits(40)
        values = noisy([5000.0] * 40)
        series = told(history, commits, values)
        for i in range(6):
            measure(history, series, [commits[-1]], noisy([5000.0], seed=i))
        detection.detect()
        (line,) = windows.windows_since([(series, Series.objects.get().undetected_since or "2026-01-01T00:00Z")])  # type: ignore[arg-type]
        assert (len(line.points), len(line.points[-1].trials)) == (40, 35)
        assert suspected() == []

    def test_values_that_change_their_unit_are_one_suspicion(self, history: History) -> None:
        commits = history.commits(120)
        told(history, commits[:80], noisy([5000.0] * 60 + [5.0] * 20))
        assert suspected() == [("Change 60", False)]
        ChangePoint.objects.update(status=Status.REFUTED)
        told(history, commits[80:], noisy([5.0] * 30 + [5.7] * 10, seed=6))
        assert suspected() == [("Change 110", True)]

    def test_a_renamed_benchmark_begins_a_line_of_its_own(self, history: History) -> None:
        commits = history.commits(60)
        told(history, commits[:40], noisy([5000.0] * 40))
        measure(history, history.series("renamed"), commits[40:], noisy([9000.0] * 20, seed=7))
        detection.detect()
        assert len(suspected()) <= 1

    def test_many_series_of_a_new_machine_raise_no_flood(self, history: History) -> None:
        commits = history.commits(30)
        old = [history.series(f"b{i}") for i in range(60)]
        lines = [noisy([5000.0] * 30, seed=i, between=0.017) for i in range(120)]
        history.measure(old, {c.pk: [lines[s][k] for s in range(60)] for k, c in enumerate(commits)})
        Series.objects.update(undetected_since=None)
        machine = builders.machine("new")
        new = [history.series(f"b{i}", machine=machine) for i in range(60)]
        for k, commit in enumerate(commits[:12]):
            history.measure(new, {commit.pk: [[1.4 * v for v in lines[60 + s][k]] for s in range(60)]})
            detection.detect()
        assert ChangePoint.objects.count() <= 0.05 * 60 * 12

    @pytest.mark.parametrize("length", [5_000])
    def test_thousands_of_points(self, history: History, length: int) -> None:
        commits = history.commits(length)
        rng = random.Random(8)
        series = history.series()
        levels = [5000 * math.exp(0.01 * rng.gauss(0, 1)) for _ in range(length)]
        measure(history, series, commits, [[level] for level in levels])
        Series.objects.update(undetected_since=None)
        measure(history, series, commits[-3:], [[6000.0] * 5] * 3)
        Measurement.objects.filter(commit__in=commits[-3:], n=1).update(accepted=False)
        detection.detect()
        assert suspected() == [(commits[-3].subject, True)]


class TestSpread:
    def test_it_comes_from_the_nearest_series_that_tells(self, history: History) -> None:
        commits = history.commits(40)
        young = history.series("young", environment="sha256:new")
        assert spreads_of([(young, [], 0.01)])[0] == 0.01
        kin = {
            0.03: history.series("other"),
            0.02: history.series("young", machine=builders.machine("m2")),
            0.005: history.series("young"),
        }
        for spread, series in kin.items():
            measure(history, series, commits, noisy([5000.0] * 40, between=spread, seed=9))
            assert 0.6 * spread < spreads_of([(young, [], 0.01)])[0] < 1.6 * spread
