"""What an unfinished paired run shows so far, against what is said of the same pairs once they are stored."""

from typing import Any

import pytest

from speedtrack.judging import pulls
from speedtrack.judging.duels import standings_of
from speedtrack.judging.verdicts import Ruling
from speedtrack.runs.documents import Renewal
from speedtrack.runs.models import Run
from speedtrack.runs.queue import queue
from speedtrack.runs.results import results
from speedtrack.tests import builders
from speedtrack.tests.duels import paired_run, report_pairs
from speedtrack.web.tests.world import CPU, world

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(settings: Any, tmp_path: Any) -> Run:
    """A claimed paired run of two commits, the newer of which is slower by 20%."""
    made = world(settings, tmp_path, commits=2)
    made.measure()
    return paired_run(made, pairs=12)


def reload(run: Run) -> Run:
    return Run.objects.get(pk=run.pk)


def test_the_interval_closes_in_and_the_verdict_waits_for_seven_pairs(run: Run) -> None:
    widths = []
    for count, words in ((2, "decided from 7 pairs on"), (6, "decided from 7 pairs on"), (10, "decided, slower")):
        report_pairs(run, count)
        (standing,) = standings_of(reload(run))
        assert (standing.benchmark, standing.metric.name, standing.pairs, standing.total) == ("get-p1", CPU, count, 12)
        assert standing.words == words and standing.ratio
        widths.append(standing.ratio[2] - standing.ratio[1])
    assert widths[0] > 0 and widths[2] < widths[1]
    assert standing.sentence.startswith("after 10 of 12 pairs +") and standing.sentence.endswith(
        "so far: decided, slower"
    )


def test_it_is_the_verdict_of_the_judge_on_the_same_pairs(run: Run) -> None:
    pairs = report_pairs(run, run.trials)
    (standing,) = standings_of(reload(run))
    for index, (side, commit) in enumerate(builders.sides_of(run)):
        builders.send_build(run, commit)
        values = [pair[index] for pair in pairs]
        results.accept_result(run.machine, run.pk, builders.result(run, "get-p1", commit, values, side=side))
    queue.complete(run.machine, run.pk, run.lease_token)
    ended = Run.objects.select_related("machine").get(pk=run.pk)
    (judgement,) = [row.judgement for row in pulls.judge_pulls([ended]) if row.judgement.metric.name == CPU]
    assert standing.ratio == (judgement.ratio, judgement.low, judgement.high)
    assert (standing.verdict, standing.pairs) == (judgement.verdict, judgement.pairs) == (Ruling.WORSE, 12)
    assert standings_of(ended) == [], "what has ended is no duel"


def test_pairs_with_a_void_side_do_not_count(run: Run) -> None:
    report_pairs(run, 9, flags=["steal"])
    assert standings_of(reload(run)) == []


@pytest.mark.parametrize(
    "pairs",
    [
        {"get-p1": [{"base": {"no_such_metric": 1.0}, "head": {}}]},
        {"get-p1": [{"base": {CPU: -1.0}, "head": {CPU: 1.0}}]},
        {"get-p1": [{"base": {CPU: 1.0}, "head": {CPU: 1.0}}] * 2001},
        [1, 2],
    ],
)
def test_pairs_that_cannot_be_shown_do_not_end_the_lease(run: Run, pairs: object) -> None:
    progress = {"done": 1, "total": 24, "now": "get-p1, trial 2", "pairs": pairs}
    renewal = Renewal.model_validate({"token": run.lease_token, "progress": progress})
    assert queue.renew(run.machine, run.pk, renewal) is False
    assert reload(run).progress["pairs"] == {} and standings_of(reload(run)) == []


def test_an_older_runner_reports_none(run: Run) -> None:
    progress = {"done": 1, "total": 24, "now": "get-p1, trial 2"}
    queue.renew(run.machine, run.pk, Renewal.model_validate({"token": run.lease_token, "progress": progress}))
    assert standings_of(reload(run)) == [] and reload(run).progress["done"] == 1
