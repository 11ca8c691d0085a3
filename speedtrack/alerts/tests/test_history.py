import random
from datetime import timedelta

from django.db.models.functions import Now

from speedtrack.alerts.detection import detection
from speedtrack.alerts.detection.history import why_not_measurable
from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint
from speedtrack.alerts.settling import confirm
from speedtrack.notices.mail import alert_message
from speedtrack.notices.models import Outbox
from speedtrack.notices.telling import tell_subscribers
from speedtrack.projects.models import Project
from speedtrack.runs.documents import FailureReport
from speedtrack.runs.fleet import machines
from speedtrack.runs.models import Machine, MachineEvent, Run, Series
from speedtrack.runs.queue import queue
from speedtrack.tests import builders
from speedtrack.tests.histories import History

from .conftest import World

Status = ChangePoint.Status


def long_world(world: World) -> None:
    world.shas += world.repository.commits(38)
    world.factors = {world.shas[30]: 1.3}
    builders.track(world.repository, emails=["dev@example.org"])
    builders.work(world.machine, world.speed)


def machine_is_gone() -> None:
    Machine.objects.update(last_seen_at=Now() - timedelta(days=20))


def settle() -> None:
    for _ in range(3):
        detection.detect()
        confirm.step()
        tell_subscribers()


def test_a_machine_that_is_gone_leaves_a_verdict_of_the_history_that_nobody_is_mailed(world: World) -> None:
    long_world(world)
    machine_is_gone()
    settle()
    found = ChangePoint.objects.filter(series__benchmark__name="get-p1")
    assert {cp.status for cp in found} == {Status.HISTORY}
    assert {cp.series.metric for cp in found} == {"server_cpu_ns_per_request", "throughput_rps"}
    slower = found.get(series__metric="server_cpu_ns_per_request")
    assert slower.low < 1.3 < slower.high
    assert world.shas.index(slower.before.sha) < 30 <= world.shas.index(slower.commit.sha)
    assert "has sent nothing for 14 days" in slower.note
    assert not Run.objects.exclude(base=None).exists()
    assert not Alert.objects.exists()


def test_a_project_that_asks_for_it_is_mailed_of_the_history_once(world: World) -> None:
    long_world(world)
    Project.objects.update(mail_history_verdicts=True)
    machine_is_gone()
    settle()
    settle()
    alert = Alert.objects.get()
    assert alert.status == Alert.Status.SUSPECTED
    raised = alert.events.get(kind=AlertEvent.Kind.RAISED)
    assert raised.note.startswith("the history shows it; it could not be measured again")
    row = Outbox.objects.get()
    assert row.recipient == "dev@example.org"
    body = str(alert_message(row).body)
    assert "Not confirmed: the history shows it" in body and "How it was confirmed" not in body


def test_pairs_that_confirm_another_change_confirm_an_alert_that_the_history_raised(world: World) -> None:
    long_world(world)
    Project.objects.update(mail_history_verdicts=True)
    machine_is_gone()
    settle()
    alert = Alert.objects.get()
    seen = alert.change_points.earliest("id")
    other = Series.objects.get(benchmark__name="set-p1", metric=seen.series.metric)
    ChangePoint.objects.create(
        series=other,
        branch=alert.branch,
        before=alert.before,
        commit=alert.commit,
        status=Status.CONFIRMED,
        ratio=1.1,
        low=1.08,
        high=1.12,
        score=3,
    )
    confirm.step()
    alert.refresh_from_db()
    assert alert.status == Alert.Status.CONFIRMED
    grew = alert.events.get(kind=AlertEvent.Kind.GREW)
    assert (grew.before, grew.after) == (Alert.Status.SUSPECTED, Alert.Status.CONFIRMED)


def test_a_verdict_of_the_history_stays_where_it_is(world: World) -> None:
    long_world(world)
    machine_is_gone()
    settle()
    before = list(ChangePoint.objects.order_by("id").values("pk", "before", "commit", "status", "ratio"))
    Series.objects.update(undetected_since=Now() - timedelta(days=1))
    settle()
    assert list(ChangePoint.objects.order_by("id").values("pk", "before", "commit", "status", "ratio")) == before
    assert before


def test_the_whole_of_an_imported_history_is_judged_where_nothing_can_be_measured(db: None) -> None:
    history = History()
    rng = random.Random(5)
    levels = [5000.0 if i < 60 else 5500.0 for i in range(400)]
    commits = history.commits(len(levels))
    values = {c.pk: [[level * rng.gauss(1, 0.01)]] for c, level in zip(commits, levels, strict=True)}
    history.measure([history.series()], values)
    history.project.machines.clear()
    detection.detect()
    found = ChangePoint.objects.get(status=Status.HISTORY)
    places = {commit.pk: place for place, commit in enumerate(commits)}
    assert 55 < places[found.before_id] < 60 <= places[found.commit_id] < 65
    assert 1.08 < found.ratio < 1.12


def test_a_suspicion_whose_pairs_cannot_be_built_is_left_to_the_history(world: World) -> None:
    long_world(world)
    detection.detect()
    confirm.step()
    run = builders.claim(world.machine)
    assert run.base_id
    error = "build failed: the compiler is gone"
    queue.fail(world.machine, run.pk, FailureReport(token=run.lease_token, kind="permanent", error=error))
    confirm.step()
    found = ChangePoint.objects.filter(series__benchmark__name="get-p1")
    assert {cp.status for cp in found} == {Status.HISTORY}
    assert all("the compiler is gone" in cp.note for cp in found)


def test_why_a_series_cannot_be_measured_again_is_told(world: World) -> None:
    long_world(world)

    def why() -> str:
        return why_not_measurable(Series.objects.earliest("id"))

    assert why() == ""
    machines.pause(world.machine)
    Machine.objects.update(last_seen_at=Now() - timedelta(days=8))
    assert why() == "", "it was paused just now"
    Machine.objects.update(last_seen_at=Now())
    MachineEvent.objects.filter(kind="paused").update(at=Now() - timedelta(days=8))
    assert why() == "m1 has been paused for 7 days or more", "though its runner still calls"
    machines.resume(world.machine)
    assert why() == ""
    Machine.objects.update(paused=True, last_seen_at=Now() - timedelta(days=8))
    MachineEvent.objects.all().delete()
    assert why() == "m1 has been paused for 7 days or more", "without an event, since it called last"
    Machine.objects.update(paused=False)
    world.machine.projects.clear()
    assert "no longer measures" in why()
