"""Who sees a project, and who may do what in it: three ways of asking, one answer."""

import pytest
from django.contrib.auth.models import AnonymousUser, User

from speedtrack.accounts import access
from speedtrack.accounts.access import ANYBODY, Access, Caller, Refused
from speedtrack.accounts.models import Membership, Role, Scope
from speedtrack.projects.models import Project

pytestmark = pytest.mark.django_db


def project(slug: str, is_public: bool) -> Project:
    return Project.objects.create(slug=slug, name=slug, url=f"https://example.org/{slug}", is_public=is_public)


@pytest.fixture
def projects() -> list[Project]:
    return [project("open", True), project("closed", False)]


@pytest.fixture
def people(projects: list[Project]) -> dict[str, User]:
    """A person of each role in both projects, a stranger, an operator, and two who may no longer log in."""
    users = {name: User.objects.create_user(name) for name in (*Role.values, "stranger", "former")}
    users["operator"] = User.objects.create_superuser("operator")
    users["former operator"] = User.objects.create_superuser("former-operator", is_active=False)
    User.objects.filter(username="former").update(is_active=False)
    for name in (*Role.values, "former"):
        for one in projects:
            Membership.objects.create(project=one, user=users[name], role=Role.OWNER if name == "former" else name)
    return {name: User.objects.get(pk=user.pk) for name, user in users.items()}


def test_lists_pages_and_single_questions_agree_on_everybody(projects: list[Project], people: dict[str, User]) -> None:
    for name, user in people.items():
        if name == "former":
            continue  # has no caller: a token or session of theirs is refused before
        caller = access.person(user)
        seen, page = set(access.visible(caller)), Access(caller)
        for one in projects:
            assert (one in seen) == page.sees(one.pk), (name, one)
            assert access.role_of(caller, one) == page.role(one.pk) == page.role_at(one.slug), (name, one)
            for role in Role:
                assert access.may(caller, role, one) == page.may(role, one.pk), (name, one, role)


def test_each_role_may_what_those_before_it_may(projects: list[Project], people: dict[str, User]) -> None:
    for rank, name in enumerate(Role.values):
        caller = access.person(people[name])
        assert [access.may(caller, role, projects[1]) for role in Role] == [n <= rank for n in range(len(Role))]
    for name in ("stranger", "former", "former operator"):
        assert access.role_of(Caller(people[name]), projects[1]) is None, name
    assert access.role_of(access.person(people["operator"]), projects[1]) == Role.OWNER
    assert access.person(AnonymousUser()) == ANYBODY and set(access.visible(ANYBODY)) == {projects[0]}


def test_the_access_to_all_projects_is_read_once(
    projects: list[Project], people: dict[str, User], django_assert_num_queries: object
) -> None:
    page = Access(access.person(people["reader"]))
    with django_assert_num_queries(1):  # type: ignore[operator]
        for one in projects:
            page.sees(one.pk), page.may(Role.OWNER, one.pk), page.role_at(one.slug)
        page.may_anywhere(Role.TRIAGER), page.hidden
    with django_assert_num_queries(0):  # type: ignore[operator]
        operator = Access(access.person(people["operator"]))
        assert all(operator.sees(one.pk) and operator.may(Role.OWNER, one.pk) for one in projects)


def test_a_token_for_one_project_reaches_no_other_and_makes_no_operator(
    projects: list[Project], people: dict[str, User]
) -> None:
    for name in ("owner", "operator"):
        caller = Caller(people[name], frozenset({Scope.READ}), projects[0].pk, token_id=1)
        assert list(access.visible(caller)) == [projects[0]]
        assert access.role_of(caller, projects[0]) == Role.OWNER and access.role_of(caller, projects[1]) is None
        with pytest.raises(Refused, match="needs an operator"):
            access.require_operator(caller)
        with pytest.raises(Refused, match="no scope `runs`"):
            access.require(caller, Role.READER, projects[0], Scope.RUNS)
        with pytest.raises(Refused, match="needs the role reader in closed"):
            access.require(caller, Role.READER, projects[1], Scope.READ)


def test_a_project_is_told_to_those_who_see_it_and_may_still_log_in(
    projects: list[Project], people: dict[str, User]
) -> None:
    everybody = [user.pk for user in people.values()]
    members = {people[name].pk for name in (*Role.values, "operator")}
    assert access.seers(projects[1], [*everybody, None]) == members
    assert access.seers(projects[0], [*everybody, None]) == members | {people["stranger"].pk}
