"""Tokens of machines: their form, their end, two at once, and what is stored of their use."""

import subprocess
import sys
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from speedtrack.ground.secrets.tokentexts import TOKEN
from speedtrack.processes.devstack import BASE_DIR
from speedtrack.runs.fleet import machines, registering, tokens
from speedtrack.runs.fleet.tokens import WrongToken
from speedtrack.runs.models import Machine, MachineToken, UnknownMachineToken
from speedtrack.runs.models.tokens import OVERLAP
from speedtrack.runs.requests import tracking
from speedtrack.tests import builders

pytestmark = pytest.mark.django_db


def row(text: str) -> MachineToken:
    return MachineToken.objects.get(key=MachineToken.parse(text).key)


def test_runner_and_server_make_tokens_of_the_same_form() -> None:
    program = "from runners.reporting.token import new_token; print(new_token()); print(new_token())"
    made = subprocess.run([sys.executable, "-c", program], cwd=BASE_DIR, check=True, capture_output=True, text=True)
    texts = [*made.stdout.split(), MachineToken.new_text().text, MachineToken.new_text().text]
    assert len(set(texts)) == 4
    for text in texts:
        assert TOKEN.fullmatch(text) and MachineToken.parse(text).text == text


@pytest.mark.django_db(transaction=True)
def test_a_call_notices_that_its_connection_has_ended_and_takes_a_new_one(machine: Machine) -> None:
    text = tokens.give(machine)
    other = connection.copy()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (ended,) = cursor.fetchone()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 60000)", [ended])
        assert cursor.fetchone() == (True,)
    other.close()
    assert MachineToken.of(text).machine == machine


def test_a_mistyped_token_is_told_from_an_unknown_one(machine: Machine) -> None:
    text = tokens.give(machine)
    swapped = text[:20] + ("x" if text[20] != "x" else "y") + text[21:]
    with pytest.raises(UnknownMachineToken, match="no machine token, or a part of one: copy it again"):
        MachineToken.of(swapped)
    with pytest.raises(UnknownMachineToken, match="unknown machine token"):
        MachineToken.of(MachineToken.new_text().text)


def test_a_token_expires_and_is_to_be_replaced_before(machine: Machine) -> None:
    text = tokens.give(machine, days=30)
    assert not MachineToken.of(text).rotation_due
    MachineToken.objects.filter(pk=row(text).pk).update(rotate_at=Now())
    assert MachineToken.of(text).rotation_due
    MachineToken.objects.filter(pk=row(text).pk).update(expires_at=Now())
    with pytest.raises(UnknownMachineToken, match=r"has expired: give it a new one"):
        MachineToken.of(text)


@pytest.mark.parametrize("days", [0, -1, 3651, 10**12])
def test_a_token_of_an_odd_life_is_refused(machine: Machine, days: int) -> None:
    with pytest.raises(WrongToken, match="1 to 3650 days"):
        tokens.give(machine, days)


def test_a_rotated_token_and_its_successor_are_valid_until_the_new_one_is_used(machine: Machine) -> None:
    first = tokens.give(machine, days=90)
    successor = MachineToken.new_text()
    machines.rotate(machine)
    assert MachineToken.of(first).rotation_due
    for _ in range(2):  # a runner that did not hear the answer asks again
        tokens.rotate(MachineToken.of(first), successor)
    new = MachineToken.of(successor.text)
    assert MachineToken.of(first).machine == new.machine == machine and new.days == 90
    assert machine.events.filter(kind="rotated").count() == 1
    assert not MachineToken.of(first).rotation_due
    MachineToken.objects.update(rotate_at=F("rotate_at") - timedelta(minutes=2))
    assert MachineToken.of(first).rotation_due, "its runner did not hear the answer: it is asked again"
    new.note_call("192.0.2.1")
    left = row(first).expires_at - timezone.now()  # type: ignore[operator]
    assert timedelta(0) < left <= OVERLAP
    assert (row(successor.text).last_used_from, row(first).last_used_from) == ("192.0.2.1", None)


def test_a_runner_cannot_take_the_token_of_another_machine(machine: Machine) -> None:
    theirs = registering.add_machine("m2")
    with pytest.raises(WrongToken, match="another token has this key"):
        tokens.rotate(MachineToken.of(tokens.give(machine)), MachineToken.parse(theirs))
    assert MachineToken.of(theirs).machine.name == "m2"


def test_revoked_tokens_are_refused_and_the_run_is_queued_again(tracked: tracking.Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    text = tokens.give(machine)
    assert machines.revoke(machine) == 2
    with pytest.raises(UnknownMachineToken, match="of machine m1 was revoked"):
        MachineToken.of(text)
    run.refresh_from_db()
    assert (run.status, run.attempt) == ("queued", 0)
    with pytest.raises(machines.MachineConflict, match="no valid token"):
        machines.rotate(machine)
