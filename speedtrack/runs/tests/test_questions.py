"""Pairs of two commits: each time they are asked for, they are queued as a further round."""

from dataclasses import replace

import pytest

from speedtrack.benchmarks.metrics import HEADLINE
from speedtrack.runs.models import Reason, Run
from speedtrack.runs.planning.questions import Question, plan_pairs
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.runs.scheduling.order import PRIORITY

pytestmark = pytest.mark.django_db


@pytest.fixture
def question(tracked: Tracked) -> Question:
    old, new = Run.objects.order_by("rank")[:2]
    return Question(old.commit_id, new.commit_id, old.machine, old.suite, old.benchmark_set, Reason.CONFIRM, pairs=7)


def test_a_question_is_queued_as_it_says(question: Question) -> None:
    run = plan_pairs(question)
    assert (run.base_id, run.commit_id, run.machine) == (question.base_id, question.head_id, question.machine)
    assert (run.suite, run.benchmark_set, run.reason) == (question.suite, question.benchmarks, Reason.CONFIRM)
    assert (run.trials, run.priority, run.round) == (7, PRIORITY["confirm"], 0)
    assert run.metrics[0] == HEADLINE and run.paired
    urgent = plan_pairs(replace(question, priority=PRIORITY["manual"], metrics=()))
    assert (urgent.priority, urgent.metrics) == (PRIORITY["manual"], [])


def test_a_question_that_is_asked_again_gets_a_further_round(question: Question) -> None:
    rounds = [plan_pairs(question) for _ in range(3)]
    assert [run.round for run in rounds] == [0, 1, 2] and list(question.runs) == rounds


def test_another_reason_or_direction_is_another_question(question: Question) -> None:
    run = plan_pairs(question)
    for other in (
        replace(question, why=Reason.BISECT),
        replace(question, base_id=question.head_id, head_id=question.base_id),
    ):
        assert not other.runs.exists()
        assert plan_pairs(other).round == 0
    assert list(question.runs) == [run]
