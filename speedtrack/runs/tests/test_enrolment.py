"""Enrolment codes: once, for ten minutes, and not to be guessed."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from speedtrack.runs.errors import NoSuchThing
from speedtrack.runs.fleet import enrolment, machines, registering, tokens
from speedtrack.runs.fleet.enrolment import CodeRefused, TooManyCodes
from speedtrack.runs.models import EnrolmentCode, Machine, MachineToken, UnknownMachineToken, WrongCode

HERE = "192.0.2.1"


def test_a_code_is_exchanged_for_the_token_that_the_runner_made(db: None) -> None:
    code = enrolment.make_code("m1", pool="large", days=7)
    assert code.replace("-", "") not in str(EnrolmentCode.objects.values().get())
    token = MachineToken.new_text()
    for _ in range(2):  # the answer to the first call was lost
        assert enrolment.enrol(code.lower().replace("-", " "), token, HERE).name == "m1"
    made = MachineToken.of(token.text)
    assert (made.machine.pool, made.days) == ("large", 7)
    assert list(made.machine.events.values_list("kind", flat=True)) == ["enrolled"]


def test_a_code_is_valid_once_and_not_for_long(db: None) -> None:
    code = enrolment.make_code("m1")
    enrolment.enrol(code, MachineToken.new_text(), HERE)
    with pytest.raises(CodeRefused, match=r"was used at \d\d:\d\d UTC, for machine m1"):
        enrolment.enrol(code, MachineToken.new_text(), HERE)
    code = enrolment.make_code("m2")
    EnrolmentCode.objects.filter(name="m2").update(expires_at=Now())
    with pytest.raises(CodeRefused, match="has expired, 10 minutes after it was made"):
        enrolment.enrol(code, MachineToken.new_text(), HERE)
    assert not Machine.objects.filter(name="m2").exists()


def test_a_web_server_with_a_wrong_clock_judges_codes_by_the_databases(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = enrolment.make_code("m1")
    late = timezone.now() + timedelta(hours=2)
    monkeypatch.setattr(timezone, "now", lambda: late)
    enrolment.enrol(code, MachineToken.new_text(), HERE)
    assert EnrolmentCode.objects.filter(used_at__lt=Now() + timedelta(minutes=1)).exists()


def test_a_machine_that_is_enrolled_anew_has_one_token(db: None) -> None:
    old = registering.add_machine("m1")
    enrolment.enrol(enrolment.make_code("m1"), MachineToken.new_text(), HERE)
    with pytest.raises(UnknownMachineToken, match="was revoked"):
        MachineToken.of(old)
    machines.retire(Machine.objects.get())
    with pytest.raises(NoSuchThing, match="is retired"):
        enrolment.make_code("m1")


def test_guesses_are_throttled_by_address_and_in_all(db: None) -> None:
    code = enrolment.make_code("m1")
    for _ in range(10):
        with pytest.raises(CodeRefused, match="unknown enrolment code"):
            enrolment.enrol("AAAAA-BBBBB-CCCCC-DDDDD", MachineToken.new_text(), HERE)
    with pytest.raises(TooManyCodes, match="wait 10 minutes"):
        enrolment.enrol(code, MachineToken.new_text(), HERE)
    assert enrolment.enrol(code, MachineToken.new_text(), "192.0.2.2").name == "m1"
    WrongCode.objects.update(at=Now() - timedelta(minutes=11))
    enrolment.enrol(enrolment.make_code("m1"), MachineToken.new_text(), HERE)
    assert not WrongCode.objects.exists()
    WrongCode.objects.bulk_create(WrongCode(address=f"198.51.100.{place}") for place in range(100))
    with pytest.raises(TooManyCodes):
        enrolment.enrol(enrolment.make_code("m3"), MachineToken.new_text(), "192.0.2.9")


@pytest.mark.parametrize("name", ["", "a b", "ä", "a/b", "x" * 51, "<b>"])
def test_an_odd_name_gets_no_code(db: None, name: str) -> None:
    with pytest.raises(NoSuchThing, match="not a valid name of a machine"):
        enrolment.make_code(name)
    with pytest.raises(NoSuchThing, match="not a valid name of a pool"):
        enrolment.make_code("m1", pool=name or " ")


def test_a_token_that_exists_is_not_taken_for_a_new_machine(db: None) -> None:
    theirs = MachineToken.parse(registering.add_machine("m1"))
    with pytest.raises(CodeRefused, match="another machine has this token"):
        enrolment.enrol(enrolment.make_code("m2"), theirs, HERE)
    assert tokens.MachineToken.of(theirs.text).machine.name == "m1"


@pytest.mark.django_db(transaction=True)
def test_two_machines_with_one_code_at_once_are_one_machine() -> None:
    code = enrolment.make_code("m1")
    together = threading.Barrier(4)

    def enrol(_: int) -> str:
        together.wait()
        try:
            return enrolment.enrol(code, MachineToken.new_text(), HERE).name
        except CodeRefused:
            return "refused"
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        answers = sorted(pool.map(enrol, itertools.repeat(0, 4)))
    assert answers == ["m1", "refused", "refused", "refused"]
    assert MachineToken.objects.count() == 1
