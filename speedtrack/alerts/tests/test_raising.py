"""Which change points become one alert, of whom somebody is told, and what stays settled."""

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from speedtrack.alerts.detection import detection
from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint, Mute
from speedtrack.alerts.settling import confirm
from speedtrack.alerts.triage import muting, raising, triage
from speedtrack.alerts.triage.muting import MuteRequest
from speedtrack.alerts.triage.triage import Decision
from speedtrack.notices import subscribing
from speedtrack.notices.models import Outbox, Subscriber, Subscription
from speedtrack.projects.models import Commit, Project
from speedtrack.runs.models import Environment, Machine, Run, Series
from speedtrack.runs.planning import pushes
from speedtrack.runs.requests import byhand
from speedtrack.tests import builders, worlds

from .conftest import World, make_slowed

Slowed = tuple[World, Alert]
MAIL = ["dev@example.org"]


@pytest.fixture
def ada(db: None) -> User:
    return User.objects.create_user("ada")


@worlds.shared
def mailed_slowdown(settings: Any, directory: Path) -> Slowed:
    """The world of ``slowed``, with somebody who is told."""
    return make_slowed(settings, directory, at=7, emails=MAIL)


def improved(world: World) -> Alert:
    """The alert of an improvement that was pushed, with somebody who is told."""
    world.factors = {world.shas[7]: 0.75}
    builders.track(world.repository, pushed=True, emails=MAIL)
    world.until_quiet()
    return Alert.objects.get()


def confirmed(alert: Alert, benchmark: str, ratio: float, metric: str = "server_cpu_ns_per_request") -> ChangePoint:
    """Another confirmed change of the alert's range."""
    series = Series.objects.get(project=alert.project, benchmark__name=benchmark, metric=metric)
    ChangePoint.objects.filter(series=series, alert=alert).delete()
    return ChangePoint.objects.create(
        series=series,
        branch=alert.branch,
        before=alert.before,
        commit=alert.commit,
        status="confirmed",
        ratio=ratio,
        low=ratio * 0.99,
        high=ratio * 1.01,
        score=3,
    )


def mailed() -> list[str]:
    """The kinds of events that were mailed, in order."""
    return [event.split()[0] for event in Outbox.objects.order_by("id").values_list("event", flat=True)]


def kinds(alert: Alert) -> list[str]:
    """The kinds of its events, without the one that its whole effect was measured."""
    return list(alert.events.exclude(kind="measured").order_by("id").values_list("kind", flat=True))


def test_what_moves_together_is_told_with_one_event(slowed: Slowed) -> None:
    _, alert = slowed
    assert alert.change_points.count() == 2
    assert kinds(alert) == ["raised"]


def test_what_is_confirmed_later_makes_the_alert_grow(slowed: Slowed) -> None:
    _, alert = slowed
    confirmed(alert, "set-p1", 1.1)
    raising.raise_alerts()
    assert kinds(alert) == ["raised", "grew"]
    assert "set-p1, Server CPU per request" in alert.events.latest("id").note


@pytest.mark.parametrize(
    "state",
    [{"paused": True}, {"outside": True}, {"last_seen_at": timezone.now() - timedelta(hours=1)}, {"windows": "closed"}],
    ids=["paused", "without a runner", "silent", "nightly"],
)
def test_a_change_is_told_with_that_of_another_machine_only_if_that_one_measures_now(
    slowed: Slowed, state: dict[str, Any]
) -> None:
    _, alert = slowed
    slower = confirmed(alert, "set-p1", 1.1)
    other = Machine.objects.create(name="m2", last_seen_at=timezone.now())
    measured_again = confirmed(alert, "get-p1", 1.2)
    series = measured_again.series
    series.pk, series.machine = None, other
    series.environment = Environment.objects.create(machine=other, digest="sha256:m2", facts={})
    series.save(force_insert=True)
    ChangePoint.objects.filter(pk=measured_again.pk).update(series=series, status="settling")
    raising.raise_alerts()
    slower.refresh_from_db()
    assert slower.alert is None, "one mail will tell both"
    if "windows" in state:
        hour = (timezone.now().hour + 12) % 23
        state = {"windows": [f"mon-sun {hour:02}:00-{hour + 1:02}:00"]}
    if "outside" in state:
        state |= {"last_seen_at": None}
    Machine.objects.filter(pk=other.pk).update(**state)
    raising.raise_alerts()
    slower.refresh_from_db()
    assert slower.alert == alert
    ChangePoint.objects.filter(pk=measured_again.pk).update(status="confirmed")
    raising.raise_alerts()
    assert kinds(alert) == ["raised", "grew", "grew"], "a later one joins it"


def test_a_change_whose_commits_left_the_branch_before_its_alert_is_over(slowed: Slowed) -> None:
    world, alert = slowed
    late = confirmed(alert, "set-p1", 1.1)
    world.repository.git("reset", "--quiet", "--hard", world.shas[3])
    world.repository.commits(3)
    pushes.sync_and_plan(alert.project)
    raising.raise_alerts()
    late.refresh_from_db()
    assert (late.status, late.alert) == ("unsettled", None) and late.note.endswith("are no longer on main")
    assert late.settled_at


def test_an_improvement_beside_a_slowdown_belongs_to_the_same_alert(slowed: Slowed) -> None:
    _, alert = slowed
    better = confirmed(alert, "set-p1", 0.9)
    raising.raise_alerts()
    better.refresh_from_db()
    alert.refresh_from_db()
    assert (better.alert, alert.improvement) == (alert, False)


def test_the_first_slowdown_beside_an_improvement_is_told(world: World) -> None:
    alert = improved(world)
    assert alert.improvement and not Outbox.objects.exists()
    confirmed(alert, "set-p1", 1.1)
    world.until_quiet()
    alert.refresh_from_db()
    assert (alert.improvement, kinds(alert)) == (False, ["raised", "raised"])
    assert Outbox.objects.count() == 1


def test_a_slowdown_that_joins_an_improvement_is_no_second_mail_to_who_was_told(world: World) -> None:
    subscriber = Subscriber.objects.create(email="both@example.org", own_commits=False)
    Subscription.objects.create(subscriber=subscriber, direction=Subscription.Direction.BOTH)
    alert = improved(world)
    assert recipients() == {"both@example.org": 1}
    confirmed(alert, "set-p1", 0.9)
    world.until_quiet()
    confirmed(alert, "set-p1", 0.9, "throughput_rps")
    world.until_quiet()
    assert kinds(alert) == ["raised", "grew", "raised"]
    assert recipients() == {"both@example.org": 1, MAIL[0]: 1}


def recipients() -> Counter[str]:
    return Counter(Outbox.objects.values_list("recipient", flat=True))


def test_the_other_way_of_the_same_series_is_another_alert(slowed: Slowed) -> None:
    """A slowdown and its fix may both lie in one range of commits that could not be narrowed."""
    world, alert = slowed
    Alert.objects.filter(pk=alert.pk).update(before=commit(world, 2), commit=commit(world, 9))
    ChangePoint.objects.filter(alert=alert).update(before=commit(world, 2), commit=commit(world, 9))
    mine = alert.change_points.get(series__metric="server_cpu_ns_per_request")
    back = ChangePoint.objects.create(
        series=mine.series,
        branch=mine.branch,
        before=commit(world, 8),
        commit=commit(world, 10),
        status="confirmed",
        ratio=0.8,
        low=0.79,
        high=0.81,
        score=3,
    )
    raising.raise_alerts()
    back.refresh_from_db()
    assert back.alert and back.alert != alert and back.alert.improvement


def commit(world: World, place: int) -> Commit:
    return Commit.objects.get(sha=world.shas[place])


@pytest.mark.parametrize("status", ["expected", "invalid", "fixed"])
def test_more_data_opens_nothing_that_a_person_settled(mailed_slowdown: Slowed, ada: User, status: str) -> None:
    world, alert = mailed_slowdown
    triage.decide(alert, Decision("confirmed", status, None, "known"), ada)
    late = confirmed(alert, "set-p1", 1.1)
    world.until_quiet()
    late.refresh_from_db()
    alert.refresh_from_db()
    assert (late.alert, alert.status) == (alert, status)
    event = alert.events.latest("id")
    assert (event.kind, f"the alert stays {status}" in event.note) == ("noted", True)
    assert Alert.objects.count() == 1 and mailed() == ["raised", "decided"]


def test_a_new_look_at_a_settled_line_changes_nothing(mailed_slowdown: Slowed, ada: User) -> None:
    world, alert = mailed_slowdown
    triage.decide(alert, Decision("confirmed", "invalid", None, "the machine was warm"), ada)
    Series.objects.update(undetected_since="2026-01-01T00:00Z")
    world.until_quiet()
    assert Alert.objects.get().status == "invalid"
    assert mailed() == ["raised", "decided"]


def test_a_history_that_was_there_before_is_the_past(world: World) -> None:
    world.factors = {world.shas[7]: 1.3}
    builders.track(world.repository)
    subscribing.subscribe(Project.objects.get(), MAIL)
    world.until_quiet()
    assert Alert.objects.get().events.get(kind="raised").past
    assert not Outbox.objects.exists()


def test_what_is_measured_by_hand_afterwards_is_the_past(world: World) -> None:
    world.factors = {world.shas[5]: 1.3, world.shas[8]: 1 / 1.3}
    tracked = builders.track(world.repository, last=1)
    subscribing.subscribe(tracked.project, MAIL)
    world.shas += world.repository.commits(2)
    pushes.sync_and_plan(tracked.project)
    world.until_quiet()
    assert not Alert.objects.exists()
    byhand.queue_by_hand(byhand.choose(tracked.project.slug, f"{world.shas[1]}..{world.shas[10]}", [], None))
    world.until_quiet()
    slow = Alert.objects.get(improvement=False)
    assert slow.commit.sha == world.shas[5]
    assert all(event.past for event in AlertEvent.objects.filter(kind="raised"))
    assert not Outbox.objects.exists()


def test_a_machine_that_is_late_tells_news(world: World) -> None:
    """All commits of a push wait for a month, and are then measured newest first."""
    world.factors = {world.shas[7]: 1.3}
    builders.track(world.repository, emails=MAIL)
    Run.objects.update(created=timezone.now() - timedelta(days=30))
    while builders.work(world.machine, world.speed, until=1):
        detection.detect()
    world.until_quiet()
    alert = Alert.objects.get()
    assert (alert.commit.sha, alert.events.earliest("id").past) == (world.shas[7], False)
    assert Outbox.objects.count() == 1


@pytest.mark.parametrize(
    "quiet",
    [
        {"benchmark": "get-p1"},
        {"machine": True},
        {"benchmark": "get-p1", "machine": True},
    ],
)
def test_what_is_muted_is_settled_and_shown_and_told_to_nobody(world: World, ada: User, quiet: dict[str, Any]) -> None:
    world.factors = {world.shas[7]: 1.3}
    tracked = builders.track(world.repository, emails=MAIL)
    machine = world.machine if quiet.get("machine") else None
    muting.mute(tracked.project, MuteRequest(quiet.get("benchmark", ""), "", machine, "new disk", 3), ada)
    world.until_quiet()
    alert = Alert.objects.get()
    assert (alert.muted, alert.status, alert.change_points.count()) == (True, "confirmed", 2)
    assert "is muted: new disk" in alert.events.get().note
    assert not Outbox.objects.exists()
    Mute.objects.update(created="2026-01-01T00:00Z", until="2026-01-02T00:00Z")
    world.until_quiet()
    assert not Outbox.objects.exists()  # its end brings no mail of the past


def test_a_mute_of_one_series_leaves_the_others_loud(world: World, ada: User) -> None:
    world.factors = {world.shas[7]: 1.3}
    tracked = builders.track(world.repository, emails=MAIL)
    muting.mute(tracked.project, MuteRequest("get-p1", "throughput_rps", world.machine, "noisy", 3), ada)
    world.until_quiet()
    assert not Alert.objects.get().muted
    assert Outbox.objects.count() == 1


def test_the_first_change_that_is_not_muted_makes_a_silent_alert_loud(world: World, ada: User) -> None:
    world.factors = {world.shas[7]: 1.3}
    tracked = builders.track(world.repository, emails=MAIL)
    muting.mute(tracked.project, MuteRequest("get-p1", "", None, "noisy", 3), ada)
    world.until_quiet()
    alert = Alert.objects.get()
    confirmed(alert, "set-p1", 1.1)
    world.until_quiet()
    alert.refresh_from_db()
    assert (alert.muted, kinds(alert)) == (False, ["raised", "raised"])
    assert Outbox.objects.count() == 1


def test_a_mute_that_was_ended_mutes_nothing(world: World, ada: User) -> None:
    tracked = builders.track(world.repository)
    mute = muting.mute(tracked.project, MuteRequest("get-p1", "", None, "noisy", 3), ada)
    builders.work(world.machine, world.speed)
    series = Series.objects.filter(benchmark__name="get-p1").first()
    assert series and muting.mute_of(series) == mute
    assert muting.end_mute(mute, ada) and not muting.end_mute(mute, ada)
    assert muting.mute_of(series) is None


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"reason": " "}, "say why"),
        ({"days": 0}, "how many days"),
        ({"benchmark": ""}, "which benchmark or machine"),
    ],
)
def test_what_cannot_be_muted(world: World, ada: User, changes: dict[str, Any], says: str) -> None:
    project = builders.track(world.repository).project
    with pytest.raises(ValueError, match=says):
        muting.mute(
            project,
            MuteRequest(**{"benchmark": "get-p1", "metric": "", "machine": None, "reason": "x", "days": 1, **changes}),
            ada,
        )


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"benchmark": ""}, "a_mute_names_a_benchmark_or_a_machine"),
        ({"reason": ""}, "a_mute_has_a_reason"),
        ({"until": "2020-01-01T00:00Z"}, "a_mute_ends_after_it_began"),
    ],
)
def test_the_database_refuses_such_mutes(world: World, changes: dict[str, Any], name: str) -> None:
    project = builders.track(world.repository).project
    good = {"benchmark": "get-p1", "reason": "x", "until": timezone.now() + timedelta(days=1)}
    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        Mute.objects.create(project=project, **{**good, **changes})


def test_settling_twice_raises_once(mailed_slowdown: Slowed) -> None:
    _, alert = mailed_slowdown
    for _ in range(3):
        confirm.step()
    assert list(Alert.objects.all()) == [alert]
    assert kinds(alert) == ["raised"]
