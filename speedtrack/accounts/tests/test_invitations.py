"""Invitations admit as many as they say; guesses are counted, and block nobody's link."""

import threading
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from speedtrack.accounts import invitations
from speedtrack.accounts.invitations import MOST_WRONG, Closed, TooManyWrongCodes, Unknown
from speedtrack.accounts.models import Invitation, Role, WrongInvitation
from speedtrack.projects.models import Project


def make(uses: int = 1, role: Role = Role.TRIAGER) -> tuple[Invitation, str]:
    project, _ = Project.objects.get_or_create(slug="kvd", defaults={"name": "kvd", "url": "https://example.org/kvd"})
    return invitations.make(project, role, None, uses=uses)


def test_it_admits_as_many_as_it_says_and_those_with_the_role_do_not_count(db: None) -> None:
    invitation, code = make(uses=2)
    ada, bob, eve = (User.objects.create_user(name) for name in ("ada", "bob", "eve"))
    assert invitations.accept(invitation, ada) == (None, Role.TRIAGER)
    assert invitations.accept(invitation, ada) == (Role.TRIAGER, Role.TRIAGER)
    assert invitations.admits(code) and invitations.open_ones(invitation.project) == [invitation]
    assert invitations.accept(invitation, bob) == (None, Role.TRIAGER)
    with pytest.raises(Closed, match="has been used"):
        invitations.accept(invitation, eve)
    assert not invitations.admits(code) and invitations.open_ones(invitation.project) == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda row: invitations.revoke(row), "was taken back"),
        (lambda row: Invitation.objects.update(expires_at=timezone.now()), "has expired"),
    ],
)
def test_a_closed_one_says_why(db: None, change: object, reason: str) -> None:
    invitation, code = make()
    change(invitation)  # type: ignore[operator]
    with pytest.raises(Closed, match=f"{reason}: ask an owner"):
        invitations.find(code, "192.0.2.1")
    assert not invitations.admits(code) and invitations.open_ones(invitation.project) == []
    assert not WrongInvitation.objects.exists(), "the code was right"


def test_its_code_is_not_stored(db: None) -> None:
    invitation, code = make()
    assert code not in str(Invitation.objects.values().get()) and invitations.find(code, None) == invitation


def test_guesses_are_limited_and_a_right_code_is_always_taken(db: None) -> None:
    invitation, code = make()
    for number in range(10 * MOST_WRONG):
        with pytest.raises(Unknown):
            invitations.find("wrong", f"192.0.2.{number // MOST_WRONG}")
        if number == MOST_WRONG - 1:
            with pytest.raises(TooManyWrongCodes):
                invitations.find("wrong", "192.0.2.0")
    with pytest.raises(TooManyWrongCodes, match="wait 10 minutes"):
        invitations.find("wrong", "198.51.100.1")  # of all addresses together
    assert invitations.find(code, "192.0.2.0") == invitation
    WrongInvitation.objects.update(at=timezone.now() - timedelta(minutes=11))
    with pytest.raises(Unknown):
        invitations.find("wrong", "192.0.2.0")
    assert WrongInvitation.objects.count() == 1


@pytest.mark.parametrize(("days", "uses"), [(0, 1), (91, 1), (7, 0), (7, 1001)])
def test_one_without_an_end_is_not_made(db: None, days: int, uses: int) -> None:
    project = Project.objects.create(slug="kvd", name="kvd", url="https://example.org/kvd")
    with pytest.raises(ValueError, match=r"an invitation (is valid for|admits) 1 to"):
        invitations.make(project, Role.READER, None, days, uses)


@pytest.mark.django_db(transaction=True)
def test_of_two_who_accept_the_last_place_at_once_one_gets_it() -> None:
    invitation, _ = make()
    people = [User.objects.create_user(name) for name in ("ada", "bob")]
    together = threading.Barrier(2)
    refused: list[str] = []

    def accept(user: User) -> None:
        try:
            together.wait(60)
            invitations.accept(invitation, user)
        except Closed as e:
            refused.append(str(e))
        finally:
            connection.close()

    threads = [threading.Thread(target=accept, args=(user,)) for user in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 1 and invitation.project.memberships.count() == 1
