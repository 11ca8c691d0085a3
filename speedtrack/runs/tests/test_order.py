"""The order of a machine's runs, observed by successive claims; the duration of runs is set in the database."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now

from speedtrack.runs.models import Machine, Reason, Run, Status
from speedtrack.runs.planning.questions import Question, plan_pairs
from speedtrack.runs.queue import queue
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.runs.scheduling import order
from speedtrack.runs.scheduling.order import PRIORITY
from speedtrack.tests import builders
from speedtrack.tests.plans import rows_read


@pytest.fixture
def busy(tracked: Tracked, machine: Machine) -> Machine:
    """A machine for which many runs of the history wait; three heads were measured long ago."""
    queue_some(Reason.BACKFILL, PRIORITY["rest"], 20)
    Run.objects.filter(priority=PRIORITY["head"]).delete()
    return machine


def queue_some(reason: Reason, priority: int, count: int, **changes: Any) -> list[Run]:
    """Queue copies of an existing run."""
    one = Run.objects.order_by("id")[0]
    paired = {"base_id": one.commit_id} if reason in (Reason.CONFIRM, Reason.BISECT) else {}
    first = Run.objects.order_by("-round")[0].round + 1
    return [
        Run.objects.create(
            project=one.project,
            commit=one.commit,
            machine=one.machine,
            suite=one.suite,
            benchmark_set=one.benchmark_set,
            reason=reason,
            priority=priority,
            round=first + number,
            trials=5,
            **paired,
            **changes,
        )
        for number in range(count)
    ]


def suspicions(count: int) -> list[Run]:
    return queue_some(Reason.CONFIRM, PRIORITY["confirm"], count)


def head(**waited: float) -> Run:
    [run] = queue_some(Reason.PUSH, PRIORITY["head"], 1)
    Run.objects.filter(pk=run.pk).update(created=Now() - timedelta(**waited))
    return run


def measure_next(machine: Machine, **length: float) -> Run:
    """Claim a run and end it after this time; everything before becomes older by it."""
    ago = timedelta(**length)
    run = builders.claim(machine)
    Run.objects.exclude(pk=run.pk).update(
        created=F("created") - ago, started_at=F("started_at") - ago, ended_at=F("ended_at") - ago
    )
    Run.objects.filter(pk=run.pk).update(
        status=Status.SUCCEEDED, lease_until=None, started_at=Now() - ago, ended_at=Now()
    )
    return run


def reasons(machine: Machine, count: int, lengths: dict[str, float]) -> list[str]:
    """The reasons of so many successive runs; ``lengths``: minutes that a run of each reason takes."""
    found = []
    for _ in range(count):
        reason = order.next_run(machine)
        assert reason is not None
        found.append(measure_next(machine, minutes=lengths[reason.reason]).reason)
    return found


@pytest.mark.django_db
def test_suspicions_and_the_history_take_turns(busy: Machine) -> None:
    suspicions(20)
    assert reasons(busy, 8, {"confirm": 2, "backfill": 2}) == ["confirm", "backfill"] * 4


@pytest.mark.django_db
def test_the_time_is_shared_and_not_the_number_of_runs(busy: Machine) -> None:
    suspicions(20)
    found = reasons(busy, 20, {"confirm": 4, "backfill": 1})
    assert Counter(found) == {"confirm": 4, "backfill": 16}
    assert found[:6] == ["confirm", "backfill", "backfill", "backfill", "backfill", "confirm"]


@pytest.mark.django_db
def test_the_part_of_the_suspicions_is_a_setting(busy: Machine, settings: Any) -> None:
    suspicions(20)
    settings.SETTLING_PERCENT = 75
    assert Counter(reasons(busy, 16, {"confirm": 1, "backfill": 1})) == {"confirm": 12, "backfill": 4}


@pytest.mark.django_db
def test_who_waits_alone_takes_all(busy: Machine) -> None:
    assert reasons(busy, 3, {"backfill": 5}) == ["backfill"] * 3
    Run.objects.filter(status=Status.QUEUED).delete()
    suspicions(3)
    assert reasons(busy, 3, {"confirm": 5}) == ["confirm"] * 3


@pytest.mark.django_db
def test_hours_of_history_do_not_give_a_suspicion_hours(busy: Machine) -> None:
    """Only the last quarter of an hour counts, so at most that much is compensated at once."""
    reasons(busy, 10, {"backfill": 10})
    suspicions(20)
    found = reasons(busy, 10, {"confirm": 2, "backfill": 2})
    assert found.index("backfill") <= 15 / 2


@pytest.mark.django_db
def test_the_same_rows_give_the_same_run(busy: Machine) -> None:
    suspicions(2)
    first = order.next_run(busy)
    assert first and {order.next_run(busy) for _ in range(5)} == {first}


@pytest.mark.django_db
def test_a_head_goes_before_the_rest_of_the_history(busy: Machine) -> None:
    run = head(seconds=1)
    assert builders.claim(busy) == run


@pytest.mark.django_db
def test_a_head_waits_no_longer_than_it_is_said(busy: Machine, settings: Any) -> None:
    """Otherwise the suspicions, which have had no time yet, would go on for seven minutes."""
    settings.HEAD_WAIT_S = 240
    measure_next(busy, minutes=14)
    suspicions(20)
    run = head(seconds=0)
    found = [measure_next(busy, minutes=2) for _ in range(3)]
    assert [one.reason for one in found[:2]] == ["confirm", "confirm"]
    assert found[2] == run


@pytest.mark.django_db
def test_heads_that_waited_too_long_go_first_the_oldest_before_the_others(busy: Machine) -> None:
    suspicions(5)
    queue_some(Reason.MANUAL, PRIORITY["manual"], 2)
    old, older = head(seconds=400), head(seconds=500)
    fresh = head(seconds=200)
    found = [measure_next(busy, seconds=1) for _ in range(4)]
    assert found[:2] == [older, old] and [one.reason for one in found[2:]] == ["manual", "manual"]
    assert fresh not in found


@pytest.mark.django_db
def test_what_a_person_has_asked_for_goes_before_suspicions_and_history(busy: Machine) -> None:
    suspicions(5)
    head(seconds=1)
    queue_some(Reason.MANUAL, PRIORITY["manual"], 3)
    assert reasons(busy, 3, {"manual": 1}) == ["manual"] * 3


@pytest.mark.django_db
def test_a_suspicion_that_may_not_begin_yet_keeps_nothing_waiting(busy: Machine) -> None:
    for run in suspicions(3):
        Run.objects.filter(pk=run.pk).update(not_before=Now() + timedelta(hours=1))
    assert builders.claim(busy).reason == "backfill"


@pytest.mark.django_db
def test_the_next_run_is_found_without_reading_all_that_wait(busy: Machine) -> None:
    """With 20,000 waiting runs, an index finds the first one of each kind."""
    with connection.cursor() as cursor:
        names = [f.column for f in Run._meta.local_fields if f.column not in ("id", "round")]
        listed = ", ".join(f'"{name}"' for name in names)
        cursor.execute(
            f"INSERT INTO runs_run ({listed}, round) SELECT {listed}, g FROM generate_series(1000, 20999) g,"
            " (SELECT * FROM runs_run ORDER BY id LIMIT 1) one"
        )
    suspicions(3)
    assert rows_read(lambda: order.next_run(busy)) < 100


@pytest.mark.django_db
def test_planned_runs_are_claimed_by_these_rules(tracked: Tracked, machine: Machine) -> None:
    """Priorities as the verbs set them: a head, its history, and a pair."""
    first = Run.objects.get(rank=0)
    head = Run.objects.get(rank=1).commit_id
    plan_pairs(Question(first.commit_id, head, machine, first.suite, first.benchmark_set, Reason.CONFIRM))
    claimed = [run.reason for run in builders.work(machine, lambda *_: 5000.0)]
    assert sorted(claimed) == ["backfill", "backfill", "backfill", "confirm"]
    assert claimed[0] == "confirm" and queue.claim(machine) is None


@pytest.mark.django_db
def test_kinds_with_shares_of_their_own_get_them(busy: Machine) -> None:
    Machine.objects.update(shares={"settling": 20, "pulls": 20, "backfill": 20, "aa": 0})
    busy.refresh_from_db()
    queue_some(Reason.BACKFILL, PRIORITY["backfill"], 20)
    queue_some(Reason.PULL, PRIORITY["pull"], 20, base_id=Run.objects.latest("pk").commit_id)
    queue_some(Reason.AA, PRIORITY["aa"], 3, base_id=Run.objects.latest("pk").commit_id)
    suspicions(20)
    names = {value: name for name, value in PRIORITY.items()}
    found = Counter(names[measure_next(busy, minutes=1).priority] for _ in range(10))
    assert found == {"bisect": 2, "pull": 2, "backfill": 2, "rest": 4}, "and none of what goes when nothing else waits"


@pytest.mark.django_db
def test_a_run_of_a_priority_that_no_kind_has_is_taken_at_last(busy: Machine) -> None:
    [odd] = queue_some(Reason.BACKFILL, 77, 1)
    waiting = Run.objects.filter(status=Status.QUEUED).count()
    found = [measure_next(busy, seconds=1) for _ in range(waiting)]
    assert found[-1] == odd and order.next_run(busy) is None


@pytest.mark.django_db
def test_what_a_machine_had_lately_is_told_by_kind(busy: Machine) -> None:
    suspicions(1)
    for _ in range(3):
        measure_next(busy, minutes=2)
    found = order.spent_lately(busy, timedelta(days=1))
    assert (round(found["settling"]), round(found["pushes"]), found["pulls"]) == (120, 240, 0)
