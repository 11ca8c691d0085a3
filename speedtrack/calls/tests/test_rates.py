"""Allowances: a minute's requests at once, then as many as come back, for each caller and for all processes."""

import threading
from datetime import datetime, timedelta

import pytest
from django.db import connection, transaction
from django.db.models import F

from speedtrack.calls import rates, spent
from speedtrack.calls.models import Allowance

PER_MINUTE = 6  # one comes back each 10 seconds


def pass_time(seconds: float) -> None:
    """As if this time had passed since the requests that were taken."""
    Allowance.objects.update(whole_at=F("whole_at") - timedelta(seconds=seconds))


def taken(count: int, caller: str = "ada") -> list[bool]:
    return [rates.take(caller, PER_MINUTE).is_allowed for _ in range(count)]


def test_a_minute_is_allowed_at_once_and_comes_back_steadily(db: None) -> None:
    assert taken(PER_MINUTE + 2) == [True] * PER_MINUTE + [False] * 2
    assert taken(1, "bob") == [True], "each caller has an own one"
    pass_time(21)
    assert taken(3) == [True, True, False]
    pass_time(3600)
    assert taken(PER_MINUTE + 1) == [True] * PER_MINUTE + [False], "no more than a minute's are saved"


def test_a_refused_request_costs_nothing_and_is_told_when_to_come_back(db: None) -> None:
    taken(PER_MINUTE)
    for _ in range(20):
        standing = rates.take("ada", PER_MINUTE)
    assert (standing.is_allowed, standing.remaining) == (False, 0)
    assert 1 <= standing.wait_s <= 10 and 50 < standing.whole_s <= 60
    assert standing.headers["Retry-After"] == str(standing.wait_s)
    pass_time(standing.wait_s)
    again = rates.take("ada", PER_MINUTE)
    assert again.is_allowed and "Retry-After" not in again.headers


def test_what_remains_is_what_may_follow_at_once(db: None) -> None:
    first = rates.take("ada", PER_MINUTE)
    assert first.headers == {"RateLimit-Policy": '"default";q=6;w=60', "RateLimit": '"default";r=5;t=10'}
    assert taken(first.remaining + 1) == [True] * first.remaining + [False]


@pytest.mark.django_db(transaction=True)
def test_of_requests_at_once_none_is_forgotten() -> None:
    """However long they take: each that was allowed moves the time at which all may follow."""
    allowed: list[bool] = []
    together = threading.Barrier(4)

    def call() -> None:
        together.wait(60)
        try:
            allowed.extend(taken(5))
        finally:
            connection.close()

    threads = [threading.Thread(target=call) for _ in range(4)]
    begun = now()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(allowed) == 20 and sum(allowed) >= PER_MINUTE
    assert Allowance.objects.get().whole_at - begun >= timedelta(seconds=10) * sum(allowed)


@pytest.mark.django_db(transaction=True)
def test_of_two_first_requests_at_once_the_second_is_counted() -> None:
    """It waits for the first one's row, which its statement does not see."""
    answers: list[bool] = []

    def call() -> None:
        try:
            answers.append(rates.take("ada", 1).is_allowed)
        finally:
            connection.close()

    second = threading.Thread(target=call)
    with transaction.atomic():
        assert rates.take("ada", 1).is_allowed
        second.start()
        while not holds_up_another():
            assert second.is_alive()
    second.join()
    assert answers == [False]


def holds_up_another() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))")
        return cursor.fetchone() is not None


def now() -> datetime:
    """The time of the database."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        time: datetime = cursor.fetchone()[0]
    return time


def test_allowances_that_are_whole_are_deleted(db: None) -> None:
    rates.take("ada", PER_MINUTE)
    pass_time(30)
    rates.take("bob", PER_MINUTE)
    assert spent.delete_spent() == 1 and Allowance.objects.get().caller == "bob"
