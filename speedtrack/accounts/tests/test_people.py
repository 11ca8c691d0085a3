"""Accounts: which addresses are a person's, and who must not be the one that leaves."""

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.models import User

from speedtrack.accounts import people
from speedtrack.accounts.models import Membership, Role
from speedtrack.accounts.people import AccountUnchanged
from speedtrack.projects.models import Project

pytestmark = pytest.mark.django_db


def test_an_address_that_was_not_proven_may_be_somebody_elses() -> None:
    ada = people.add("ada", "Ada@Example.org")
    EmailAddress.objects.create(user=ada, email="bob@example.org", verified=False)
    EmailAddress.objects.create(user=ada, email="second@example.org", verified=True)
    assert people.addresses_of(ada) == {"ada@example.org", "second@example.org"}


@pytest.mark.parametrize(
    ("name", "email", "reason"),
    [
        ("ADA", "", "there is an account 'ADA'"),
        ("a b", "", "a b: "),
        ("x" * 151, "", "longer than 150"),
        ("eve", "ADA@example.org", "another account has the address"),
        ("eve", "no address", "eve no address: "),
    ],
)
def test_an_account_that_could_be_taken_for_another_is_not_made(name: str, email: str, reason: str) -> None:
    people.add("ada", "ada@example.org")
    with pytest.raises(AccountUnchanged, match=reason):
        people.add(name, email)
    assert User.objects.count() == 1


def test_the_only_operator_stays_one() -> None:
    ada = User.objects.create_superuser("ada")
    User.objects.create_superuser("former", is_active=False)
    for attempt in (people.deactivate, people.remove, lambda user: people.set_operator(user, False)):
        with pytest.raises(AccountUnchanged, match="ada is the only operator"):
            attempt(ada)
    with pytest.raises(AccountUnchanged, match="former is deactivated"):
        people.set_operator(User.objects.get(username="former"), True)
    people.set_operator(User.objects.create_user("bob"), True)
    people.set_operator(ada, False)
    assert list(User.objects.filter(is_superuser=True, is_active=True).values_list("username", flat=True)) == ["bob"]


def test_who_alone_owns_a_private_project_hands_it_over_first() -> None:
    ada, bob = User.objects.create_user("ada"), User.objects.create_user("bob")
    project = Project.objects.create(slug="kvd", name="kvd", url="https://example.org/kvd", is_public=False)
    for user, role in ((ada, Role.OWNER), (bob, Role.MAINTAINER)):
        Membership.objects.create(project=project, user=user, role=role)
    with pytest.raises(AccountUnchanged, match="nobody else owns the private project kvd"):
        people.remove(ada)
    assert project.memberships.count() == 2 and User.objects.get(pk=ada.pk).is_active
    Membership.objects.filter(user=bob).update(role=Role.OWNER)
    name = people.remove(ada)
    assert name == f"former user {ada.pk}" and list(project.memberships.values_list("user__username")) == [("bob",)]
    with pytest.raises(AccountUnchanged, match="gone for ever"):
        people.activate(User.objects.get(pk=ada.pk))
