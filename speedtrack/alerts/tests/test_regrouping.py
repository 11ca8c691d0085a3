"""What people know better: another commit, two causes in one alert, one cause in two."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.alerts.triage import raising, regrouping, triage
from speedtrack.alerts.triage.triage import Decision, Stale
from speedtrack.tests import worlds

from .conftest import World, make_slowed


@pytest.fixture
def ada(db: None) -> User:
    return User.objects.create_user("ada")


@worlds.shared
def early(settings: Any, directory: Path) -> tuple[World, Alert]:
    """A world with the alert that its fifth commit is slower by 30%, so that there is room after it."""
    return make_slowed(settings, directory, at=4)


@pytest.fixture
def world(early: tuple[World, Alert]) -> World:
    return early[0]


@pytest.fixture
def alert(early: tuple[World, Alert]) -> Alert:
    return early[1]


def second(world: World, alert: Alert, place: int = 9) -> Alert:
    """Another alert of the project."""
    series = alert.change_points.earliest("id").series
    ends = {"before": commit_of(alert, world.shas[place - 1]), "commit": commit_of(alert, world.shas[place])}
    ChangePoint.objects.create(
        series=series, branch=alert.branch, status="confirmed", ratio=1.1, low=1.09, high=1.11, score=2, **ends
    )
    raising.raise_alerts()
    return Alert.objects.latest("id")


def commit_of(alert: Alert, sha: str):  # type: ignore[no-untyped-def]
    return alert.project.commits.get(sha=sha)


def test_an_alert_is_moved_to_another_commit_and_back(world: World, alert: Alert, ada: User) -> None:
    measured = list(alert.change_points.order_by("id").values_list("before", "commit"))
    regrouping.move(alert, world.shas[6][:9], "the cache came with it", ada)
    alert.refresh_from_db()
    assert (alert.before.sha, alert.commit.sha, alert.placed) == (world.shas[5], world.shas[6], True)
    assert list(alert.change_points.order_by("id").values_list("before", "commit")) == measured
    event = alert.events.get(kind="moved")
    assert (event.who, event.note) == (
        ada,
        f"moved from {world.shas[4][:10]} to {world.shas[6][:10]}; the cache came with it",
    )
    regrouping.move(alert, world.shas[4], "", ada)
    alert.refresh_from_db()
    assert (alert.before.sha, alert.commit.sha) == (world.shas[3], world.shas[4])


def test_what_is_confirmed_later_finds_an_alert_that_was_moved_and_leaves_its_commit(
    world: World, alert: Alert, ada: User
) -> None:
    was = alert.before, alert.commit
    regrouping.move(alert, world.shas[8], "", ada)
    series = ChangePoint.objects.filter(alert=alert).earliest("id").series
    other = series.project.series.get(benchmark__name="set-p1", metric=series.metric)
    late = ChangePoint.objects.create(
        series=other,
        branch=alert.branch,
        before=was[0],
        commit=was[1],
        status="confirmed",
        ratio=1.1,
        low=1.09,
        high=1.11,
        score=2,
    )
    raising.raise_alerts()
    late.refresh_from_db()
    alert.refresh_from_db()
    assert (late.alert, alert.commit.sha) == (alert, world.shas[8])


@pytest.mark.parametrize(
    ("place", "says"), [(None, "no tracked branch"), (0, "is the first commit"), (4, "names .* already")]
)
def test_where_an_alert_cannot_be_moved(world: World, alert: Alert, ada: User, place: int | None, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        regrouping.move(alert, "f" * 40 if place is None else world.shas[place], "", ada)


def test_an_alert_is_not_moved_onto_another_open_one(world: World, alert: Alert, ada: User) -> None:
    second(world, alert)
    with pytest.raises(Stale, match="merge the two instead"):
        regrouping.move(alert, world.shas[9], "", ada)
    alert.refresh_from_db()
    assert alert.commit.sha == world.shas[4]


def test_some_changes_become_an_alert_of_their_own_and_are_merged_again(alert: Alert, ada: User) -> None:
    part = alert.change_points.get(series__metric="throughput_rps")
    other = regrouping.split(alert, [part.pk], "another lock", ada)
    part.refresh_from_db()
    assert (part.alert, other.part, other.status) == (other, 1, "confirmed")
    triage.decide(other, Decision("confirmed", "expected", None, "meant"), ada)
    assert Alert.objects.get(pk=alert.pk).status == "confirmed"
    regrouping.merge(other, alert, "", ada)
    part.refresh_from_db()
    other.refresh_from_db()
    assert (part.alert, other.merged_into) == (alert, alert)
    assert [e.kind for e in alert.events.order_by("id")] == ["raised", "measured", "split", "merged"]
    assert [e.kind for e in other.events.order_by("id")] == ["split", "decided", "merged"]


@pytest.mark.parametrize("which", ["none", "all", "of another"])
def test_what_cannot_be_split_off(world: World, alert: Alert, ada: User, which: str) -> None:
    named = {
        "none": [],
        "all": list(alert.change_points.values_list("pk", flat=True)),
        "of another": [second(world, alert).change_points.get().pk],
    }[which]
    with pytest.raises(ValueError, match="but not all"):
        regrouping.split(alert, named, "", ada)


def test_two_alerts_become_one_and_two_again(world: World, alert: Alert, ada: User) -> None:
    other = second(world, alert)
    mine = other.change_points.get()
    regrouping.merge(other, alert, "the same table", ada)
    assert list(Alert.objects.open()) == [alert]
    mine.refresh_from_db()
    assert mine.alert == alert
    back = regrouping.split(alert, [mine.pk], "", ada)
    mine.refresh_from_db()
    assert (back, back.merged_into, mine.alert) == (other, None, other)
    assert set(Alert.objects.open()) == {alert, other}


def test_a_merged_alert_is_decided_and_regrouped_by_nobody(world: World, alert: Alert, ada: User) -> None:
    other = second(world, alert)
    regrouping.merge(other, alert, "", ada)
    with pytest.raises(Stale, match=f"merged into alert {alert.pk}"):
        triage.decide(other, Decision("confirmed", "fixed", None), ada)
    with pytest.raises(Stale, match=f"merged into alert {alert.pk}"):
        regrouping.move(other, world.shas[2], "", ada)
    with pytest.raises(ValueError, match="another alert"):
        regrouping.merge(alert, alert, "", ada)


def test_the_database_knows_no_alert_that_is_merged_into_itself(alert: Alert) -> None:
    with pytest.raises(IntegrityError, match="no_alert_is_merged_into_itself"), transaction.atomic():
        Alert.objects.filter(pk=alert.pk).update(merged_into=alert.pk)


def test_only_a_fixed_alert_names_its_fix(alert: Alert) -> None:
    with pytest.raises(IntegrityError, match="only_a_fixed_alert_names_who_fixed_it"), transaction.atomic():
        Alert.objects.filter(pk=alert.pk).update(fixed_by=alert.commit)


@pytest.mark.parametrize("status", ["expected", "invalid"])
def test_who_calls_it_expected_or_invalid_says_why(alert: Alert, ada: User, status: str) -> None:
    with pytest.raises(ValueError, match=f"why it is {status}"):
        triage.decide(alert, Decision("confirmed", status, None, "  "), ada)


def test_an_alert_that_is_opened_again_names_no_fix(alert: Alert, ada: User) -> None:
    Alert.objects.filter(pk=alert.pk).update(status="fixed", fixed_by=alert.commit)
    triage.decide(alert, Decision("fixed", "confirmed", None), ada)
    alert.refresh_from_db()
    assert (alert.status, alert.fixed_by) == ("confirmed", None)
    assert alert.events.latest("id").kind == "reopened"
