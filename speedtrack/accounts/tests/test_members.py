"""Members change one after another, and a project is never left without anybody in charge."""

import threading

import pytest
from django.contrib.auth.models import User
from django.db import connection

from speedtrack.accounts import members
from speedtrack.accounts.members import MembershipRefused
from speedtrack.accounts.models import Role
from speedtrack.projects.models import Project


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(slug="kvd", name="kvd", url="https://example.org/kvd")


def roles(project: Project) -> dict[str, str]:
    return dict(project.memberships.values_list("user__username", "role"))


def test_the_last_owner_stays_one_unless_somebody_else_can_admit_members(project: Project) -> None:
    ada, bob = User.objects.create_user("ada"), User.objects.create_user("bob")
    assert members.give_role(project, ada, Role.OWNER) == (None, Role.OWNER)
    members.give_role(project, bob, Role.OWNER)
    User.objects.filter(pk=bob.pk).update(is_active=False)  # cannot log in, and admits nobody
    for attempt in (lambda: members.remove(project, ada), lambda: members.give_role(project, ada, Role.READER)):
        with pytest.raises(MembershipRefused, match="ada is the last owner of kvd: make somebody else an owner first"):
            attempt()
    assert roles(project) == {"ada": "owner", "bob": "owner"}
    User.objects.create_superuser("root")
    assert members.remove(project, ada) == Role.OWNER
    with pytest.raises(MembershipRefused, match="ada is no member of kvd"):
        members.remove(project, ada)


def test_a_role_is_raised_and_never_lowered_by_that(project: Project) -> None:
    ada = User.objects.create_user("ada")
    given = [members.raise_role(project, ada, role) for role in (Role.TRIAGER, Role.READER, Role.OWNER, Role.OWNER)]
    assert [after for _, after in given] == [Role.TRIAGER, Role.TRIAGER, Role.OWNER, Role.OWNER]
    assert roles(project) == {"ada": "owner"}


@pytest.mark.django_db(transaction=True)
def test_of_two_owners_who_leave_at_once_one_stays() -> None:
    project = Project.objects.create(slug="kvd", name="kvd", url="https://example.org/kvd")
    owners = [User.objects.create_user(name) for name in ("ada", "bob")]
    for owner in owners:
        members.give_role(project, owner, Role.OWNER)
    together = threading.Barrier(2)
    refused: list[str] = []

    def leave(owner: User) -> None:
        try:
            together.wait(60)
            members.remove(project, owner)
        except MembershipRefused as e:
            refused.append(str(e))
        finally:
            connection.close()

    threads = [threading.Thread(target=leave, args=(owner,)) for owner in owners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 1 and list(roles(project).values()) == ["owner"]


def test_visibility_says_whether_it_changed(project: Project) -> None:
    assert [members.show_to(project, everybody) for everybody in (False, False, True)] == [True, False, True]
