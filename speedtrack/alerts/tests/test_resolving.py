"""An alert is fixed when the series shows it; what a message says is only noted."""

import pytest

from speedtrack.alerts import resolving, triage
from speedtrack.alerts.models import Alert
from speedtrack.alerts.triage import Decision
from speedtrack.projects import git
from speedtrack.runs import pushes
from speedtrack.tests import builders

from .conftest import World


def slowed(world: World) -> Alert:
    world.factors = {world.shas[7]: 1.3}
    builders.track(world.repository, pushed=True)
    world.until_quiet()
    return Alert.objects.get()


def push(world: World, message: str, factor: float | None = None, more: int = 0) -> str:
    """Push a commit, which may change the speed, and some after it."""
    sha = world.repository.commit(message)
    world.shas.append(sha)
    if factor:
        world.factors[sha] = factor
    world.shas += world.repository.commits(more)
    pushes.sync_and_plan(Alert.objects.all()[0].project)
    world.until_quiet()
    return sha


def test_a_later_change_back_fixes_the_alert(world: World) -> None:
    alert = slowed(world)
    sha = push(world, "Make it fast again", 1 / 1.3, more=9)
    alert.refresh_from_db()
    assert (alert.status, alert.fixed_by.sha if alert.fixed_by else "") == ("fixed", sha)
    event = alert.events.get(kind="fixed")
    assert (event.before, event.after, event.who) == ("confirmed", "fixed", None)
    assert f"{sha[:10]} brought the old level back" in event.note and "fixed on main" in event.note


def test_half_the_way_back_is_no_fix(world: World) -> None:
    alert = slowed(world)
    push(world, "Make it a little faster", 1 / 1.12, more=9)
    alert.refresh_from_db()
    assert alert.status == "confirmed"
    assert Alert.objects.filter(improvement=True).exists()


def test_a_revert_is_noted_and_fixes_only_what_the_series_shows(world: World) -> None:
    alert = slowed(world)
    sha = push(
        world, f'Revert "Change number 8"\n\nThis reverts commit {world.shas[7]}.', more=5
    )  # but nothing changed
    alert.refresh_from_db()
    assert (alert.status, alert.reverted_by.sha if alert.reverted_by else "") == ("confirmed", sha)
    noted = alert.events.get(kind="noted")
    assert noted.note == f"a revert, {sha[:10]}, is on main; waiting for its measurement"


def test_a_revert_whose_measurements_show_the_old_level_is_a_fix(world: World) -> None:
    alert = slowed(world)
    sha = push(world, f"Go back\n\nThis reverts commit {world.shas[7][:9]}.", 1 / 1.3, more=4)
    alert.refresh_from_db()
    assert (alert.status, alert.fixed_by.sha if alert.fixed_by else "") == ("fixed", sha)


def test_a_fix_names_the_branches_that_lack_it(world: World) -> None:
    world.repository.git("branch", "release")
    world.factors = {world.shas[7]: 1.3}
    builders.track(world.repository, pushed=True)
    builders.track(world.repository, branch="release")
    world.until_quiet()
    push(world, "Make it fast again", 1 / 1.3, more=9)
    alert = Alert.objects.get(improvement=False)
    assert alert.branches_fixed() == (["main"], ["release"])
    assert "fixed on main, not on release" in alert.events.get(kind="fixed").note


def test_what_a_person_settled_stays(world: World, django_user_model: type) -> None:
    alert = slowed(world)
    ada = django_user_model.objects.create(username="ada")  # type: ignore[attr-defined]
    triage.decide(alert, Decision("confirmed", "expected", None, "meant"), ada)
    push(world, "Make it fast again", 1 / 1.3, more=9)
    alert.refresh_from_db()
    assert (alert.status, resolving.resolve_alerts()) == ("expected", 0)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("This reverts commit 0123456789abcdef0123456789abcdef01234567.", ["0123456789abcdef0123456789abcdef01234567"]),
        ("Because of load.\n\nthis reverts commit 0123456, and more", ["0123456"]),
        ("This reverts commit 012345.", []),
        ("This reverts the commit of Monday", []),
        (
            "A\nThis reverts commit aaaaaaa.\nThis reverts commit bbbbbbb.\nThis reverts commit aaaaaaa.",
            ["aaaaaaa", "bbbbbbb"],
        ),
    ],
)
def test_what_a_message_says_that_it_reverts(body: str, found: list[str]) -> None:
    words = ["a" * 40, "", "Ada", "a@b", "1", "1", "Revert it", body]
    assert git.parse_revision(words).reverts == found
