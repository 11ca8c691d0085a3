"""The way to the commit of an alert, and what its page says to do."""

from typing import Any

import pytest

from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint, Verdict
from speedtrack.alerts.pairs.counts import FunctionCost, FunctionTable
from speedtrack.projects.models import Commit
from speedtrack.runs.models import Run, Series
from speedtrack.web.pages.alerting import advice
from speedtrack.web.pages.alerting.advice import certainty, what_to_do
from speedtrack.web.pages.alerting.narrowing import MOST, PathRow, narrowing_of

PATH = [PathRow(pk, 100 + pk, f"{pk:040x}", f"Change {pk}", "Ada") for pk in range(8)]


def alert(**fields: Any) -> Alert:
    made = Alert(**{"status": "confirmed", **fields})
    made.ends, made.width, made.drift = [103, 105], 2, ""
    return made


def verdict(base: int, commit: int, answer: str) -> Verdict:
    return Verdict(base_id=base, commit_id=commit, answer=answer, pairs=6, p=0.01)


def test_each_commit_of_the_path_shows_what_its_pairs_said() -> None:
    steps = [verdict(0, 7, "different"), verdict(0, 3, "old"), verdict(0, 4, "unknown"), verdict(0, 5, "new")]
    runs = [Run(commit_id=6, status="failed"), Run(commit_id=3, status="succeeded")]
    found = narrowing_of(alert(), PATH, steps, runs, worse=True)
    assert found
    looks = [one.look for one in found.commits]
    assert looks == ["old", "unmeasured", "unmeasured", "old", "unknown", "new", "failed", "new"]
    assert [one.possible for one in found.commits] == [False] * 4 + [True, True] + [False] * 2
    assert found.commits[4].title.endswith("its pairs do not decide; it may be the cause: Change 4")
    assert [look for look, *_ in found.legend] == ["old", "new", "unknown", "failed", "unmeasured"]
    better = narrowing_of(alert(), PATH, steps, runs, worse=False)
    assert better and better.commits[7].mark == "✓"


def test_without_commits_in_between_there_is_no_path_and_a_long_one_is_cut() -> None:
    assert narrowing_of(alert(), PATH[:2], [], [], worse=True) is None
    long = [PathRow(pk, pk, "", "", "") for pk in range(MOST + 1)]
    found = narrowing_of(alert(), long, [], [], worse=True)
    assert found and (len(found.commits), found.left_out) == (MOST, 1)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"status": "fixed"}, "Nothing: a later commit restored the speed."),
        ({"status": "expected"}, "Nothing: SpeedTrack closed it as expected: why"),
        ({"status": "invalid"}, "Nothing: it was closed as invalid."),
        ({"improvement": True}, "Nothing has to be done: it got better."),
        ({"reverted_by": Commit(sha="a" * 40)}, "A commit says that it reverts the cause"),
        ({}, "Find out which of the 2 commits it was, and say so."),
    ],
)
def test_an_alert_says_what_to_do(fields: dict[str, Any], says: str) -> None:
    events = [AlertEvent(after="expected", note="why")]
    assert what_to_do(alert(**fields), [], [], events)[0].startswith(says)


@pytest.mark.parametrize(
    ("alone", "says"), [(False, "Wait: it is not confirmed yet."), (True, "Measure both sides where these results")]
)
def test_a_suspicion_is_waited_for_unless_nothing_can_be_measured_again(
    monkeypatch: pytest.MonkeyPatch, alone: bool, says: str
) -> None:
    monkeypatch.setattr(advice, "by_history_alone", lambda _: alone)  # these alerts are in no database
    assert what_to_do(alert(status="suspected"), [], [], [])[0].startswith(says)


def test_the_function_that_costs_most_more_is_named_and_a_missing_fix_too() -> None:
    costs = [FunctionCost("freed", 50.0, 0.0), FunctionCost("count_keys", 1.0, 31.5)]
    table = FunctionTable(ChangePoint(), "main", 51.0, 31.5, costs)
    assert "Begin with the function count_keys: +30.5 instructions per request." in what_to_do(alert(), [table], [], [])
    assert what_to_do(alert(status="fixed"), [], ["7.2"], []) == ["Bring the fix to 7.2."]


def test_it_says_how_sure_it_is() -> None:
    assert certainty([], None, 0) == []
    assert certainty([ChangePoint(status="history")], None, 0) == ["No pairs of both sides have confirmed it."]
    points = [ChangePoint(status="confirmed", series=Series(machine_id=pk)) for pk in (1, 2)]
    found = certainty([*points, ChangePoint(status="unsettled")], verdict(0, 7, "different"), 5)
    assert found == [
        "6 pairs, measured again and interleaved, differ (p = 0.01).",
        "2 of 3 series confirmed on 2 machines.",
        "The range was narrowed by measuring 3 commits in between.",
    ]
