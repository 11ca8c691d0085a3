"""Idempotency-Keys: equal requests are done once, and what was done and its answer are kept together."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from speedtrack.accounts import tokens
from speedtrack.accounts.models import Scope
from speedtrack.calls import keys, spent
from speedtrack.calls.keys import BadKey, KeyBusy, RequestWork, UsedKey
from speedtrack.calls.models import KeptAnswer


def token(name: str = "ada") -> int:
    made, _ = tokens.issue(User.objects.create_user(name), "ci", [Scope.RUNS], days=1)
    return made.pk


class Counted:
    """Work that makes an account at each call, and answers how often it was done."""

    def __init__(self) -> None:
        self.count = 0

    def do(self) -> tuple[int, Any]:
        self.count += 1
        User.objects.create_user(f"made-{self.count}")
        return 201, {"count": self.count}

    @property
    def work(self) -> RequestWork:
        return RequestWork(self.do, lambda: ["right"], lambda rights: None)


def made() -> int:
    return User.objects.filter(username__startswith="made-").count()


def test_an_equal_request_gets_the_kept_answer(db: None) -> None:
    pk, counted = token(), Counted()
    assert keys.answer_once(pk, "k", b"r", counted.work) == ((201, {"count": 1}), False)
    assert keys.answer_once(pk, "k", b"r", counted.work) == ((201, {"count": 1}), True)
    assert counted.count == made() == 1


def test_another_request_needs_another_key_and_each_token_has_keys_of_its_own(db: None) -> None:
    pk, counted = token(), Counted()
    keys.answer_once(pk, "k", b"r", counted.work)
    with pytest.raises(UsedKey, match="make a new key"):
        keys.answer_once(pk, "k", b"other", counted.work)
    assert keys.answer_once(pk, "other", b"other", counted.work)[1] is False
    assert keys.answer_once(token("bob"), "k", b"other", counted.work)[1] is False
    assert counted.count == 3


def test_what_fails_is_undone_and_its_key_is_free(db: None) -> None:
    pk, counted = token(), Counted()

    def fail() -> tuple[int, Any]:
        counted.do()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        keys.answer_once(pk, "k", b"r", RequestWork(fail, list, list))
    assert made() == 0 and not KeptAnswer.objects.exists()
    assert keys.answer_once(pk, "k", b"another", counted.work) == ((201, {"count": 2}), False)


def test_a_kept_answer_is_for_those_who_may_do_it_still(db: None) -> None:
    pk, counted = token(), Counted()
    keys.answer_once(pk, "k", b"r", counted.work)

    def refuse(rights: list[Any]) -> None:
        raise PermissionError(rights)

    with pytest.raises(PermissionError, match="right"):
        keys.answer_once(pk, "k", b"r", RequestWork(counted.do, list, refuse))
    KeptAnswer.objects.update(rights=None)
    with pytest.raises(UsedKey, match="older version of the server"):
        keys.answer_once(pk, "k", b"r", counted.work)
    assert counted.count == 1


def test_an_answer_is_kept_for_a_day_whether_or_not_it_was_deleted(db: None) -> None:
    pk, counted = token(), Counted()
    for is_deleted in (False, True):
        keys.answer_once(pk, "k", b"r", counted.work)
        KeptAnswer.objects.update(created=timezone.now() - keys.KEPT + timedelta(minutes=1))
        assert spent.delete_spent() == 0 and keys.answer_once(pk, "k", b"r", counted.work)[1]
        KeptAnswer.objects.update(created=timezone.now() - keys.KEPT)
        assert not is_deleted or spent.delete_spent() == 1
    assert keys.answer_once(pk, "k", b"other", counted.work) == ((201, {"count": 3}), False)


@pytest.mark.parametrize(("text", "key"), [("k", "k"), ('"k"', "k"), ('"', '"'), ("k" * 255, "k" * 255), ('"a', '"a')])
def test_a_key_may_have_the_quotes_of_the_draft(text: str, key: str) -> None:
    assert keys.check(text) == key


@pytest.mark.parametrize("text", ["", "a b", "k" * 256, "k\n", "ä", "\x7f", '" "'])
def test_what_is_no_key_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(BadKey, match="1 to 255 visible ASCII characters"):
        keys.check(text)


@pytest.mark.django_db(transaction=True)
def test_two_equal_requests_at_once() -> None:
    """The second is told that the first is under way; after it, it gets its answer."""
    pk = token()
    begun, goes_on = threading.Event(), threading.Event()
    answers: list[Any] = []

    def slow_work() -> tuple[int, Any]:
        begun.set()
        goes_on.wait(30)
        return 201, {"a": 1}

    def first() -> None:
        try:
            answers.append(keys.answer_once(pk, "k", b"r", RequestWork(slow_work, list, list)))
        finally:
            connection.close()

    thread = threading.Thread(target=first)
    thread.start()
    begun.wait(30)
    with pytest.raises(KeyBusy):
        keys.answer_once(pk, "k", b"r", RequestWork(slow_work, list, list))
    goes_on.set()
    thread.join()
    assert answers == [((201, {"a": 1}), False)]
    assert keys.answer_once(pk, "k", b"r", RequestWork(slow_work, list, list)) == ((201, {"a": 1}), True)
