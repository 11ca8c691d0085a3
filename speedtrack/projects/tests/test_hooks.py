"""Secrets of webhooks: two while one is replaced, encrypted, and ended by hand or by time."""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from speedtrack.ground.secrets.sealed import Secret, reseal
from speedtrack.projects import hooks, intake
from speedtrack.projects.forges.signing import BadSignature
from speedtrack.projects.models import Delivery, Project
from speedtrack.projects.tests.calls import CALLS, SECRET


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(
        slug="kvd", name="kvd", url="/kvd", default_branch="main", suite="tiny", hook_secret=Secret.of(SECRET)
    )


def accepts(secret: str, forge: str = "github") -> bool:
    call = CALLS[forge]
    try:
        intake.receive(Project.objects.get(), call.signed(secret), call.body)
    except BadSignature:
        return False
    return True


@pytest.mark.parametrize("forge", CALLS)
def test_both_secrets_count_while_one_is_replaced(project: Project, forge: str) -> None:
    new = hooks.rotate(project)
    assert new != SECRET
    assert accepts(SECRET, forge) and accepts(new, forge)
    assert sorted(Delivery.objects.values_list("with_former", flat=True)) in ([True], [False])
    assert hooks.end_former(project)
    assert accepts(new, forge) and not accepts(SECRET, forge)
    assert not hooks.end_former(project)


def test_a_call_with_the_former_secret_is_marked(project: Project) -> None:
    new = hooks.rotate(project)
    accepts(SECRET)
    assert Delivery.objects.get().with_former
    Delivery.objects.all().delete()
    accepts(new)
    assert not Delivery.objects.get().with_former


def test_the_former_secret_ends_by_itself(project: Project) -> None:
    hooks.rotate(project, days=3)
    left = Project.objects.get().former_hook_secret_until - timezone.now()
    assert timedelta(days=2, hours=23) < left <= timedelta(days=3)
    assert accepts(SECRET)
    Project.objects.update(former_hook_secret_until=timezone.now() - timedelta(seconds=1))
    assert not accepts(SECRET)


def test_a_leaked_secret_is_refused_at_once(project: Project) -> None:
    new = hooks.rotate(project, days=0)
    assert accepts(new) and not accepts(SECRET)


def test_only_the_last_former_secret_counts(project: Project) -> None:
    first = hooks.rotate(project)
    second = hooks.rotate(project)
    assert accepts(first) and accepts(second) and not accepts(SECRET)


def test_a_secret_that_the_forge_has_made_is_taken(project: Project) -> None:
    given = CALLS["gitlab"].signed() and "whsec_" + SECRET[6:].swapcase()
    assert hooks.rotate(project, forge_secret=given) == given
    assert accepts(given) and accepts(SECRET)


@pytest.mark.parametrize("given", ["short", "x" * 201, "a b" * 10, "é" * 20, "whsec_no base64 ***!", "a\nb" * 10])
def test_an_unfit_secret_is_refused_and_the_old_one_stays(project: Project, given: str) -> None:
    with pytest.raises(hooks.UnfitSecret):
        hooks.rotate(project, forge_secret=given)
    assert accepts(SECRET)


@pytest.mark.parametrize("days", [-1, 91])
def test_the_former_secret_stays_for_no_odd_time(project: Project, days: int) -> None:
    with pytest.raises(hooks.UnfitSecret, match="0 to 90 days"):
        hooks.rotate(project, days=days)


def test_secrets_are_encrypted_at_rest_and_can_be_resealed(project: Project) -> None:
    new = hooks.rotate(project)
    with connection.cursor() as cursor:
        cursor.execute("SELECT projects_project::text FROM projects_project")
        (row,) = cursor.fetchone()
    assert SECRET not in row and new not in row and SECRET[6:] not in row
    assert reseal() == 2
    assert accepts(SECRET) and accepts(new)


def test_a_new_secret_is_a_key_as_gitlab_wants_it(project: Project) -> None:
    new = hooks.rotate(project)
    assert new.startswith("whsec_") and len(new) == 50 and hooks.fit_secret(new) == new
