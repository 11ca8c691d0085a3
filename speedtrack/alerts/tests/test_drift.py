import random

from speedtrack.alerts import confirm, detection
from speedtrack.alerts.models import Alert, AlertEvent, BestLevel, ChangePoint
from speedtrack.notices.mail import message
from speedtrack.notices.models import Outbox
from speedtrack.notices.telling import tell_subscribers
from speedtrack.projects.models import Tag
from speedtrack.runs.models import Reason, Run
from speedtrack.tests import builders

from .conftest import World

Kind = ChangePoint.Kind
Status = ChangePoint.Status


def drifting(world: World, commits: int, per_commit: float = 0.003) -> None:
    """A world of so many commits, each a little slower than the last from the eleventh on; the tenth is a release."""
    world.shas += world.repository.commits(commits - len(world.shas))
    world.noise, world.rng = 0.006, random.Random(3)
    world.factors = dict.fromkeys(world.shas[10:], 1 + per_commit)
    tracked = builders.track(world.repository, emails=["dev@example.org"])
    Tag.objects.create(project=tracked.project, name="7.4.0", sha=world.shas[9])


def push_by_push(world: World) -> None:
    """The commits are measured oldest first, each looked at and settled before the next."""
    for number, run in enumerate(Run.objects.order_by("rank")):
        Run.objects.filter(pk=run.pk).update(priority=100, rank=-number)
    for _ in range(400):
        if not builders.work(world.machine, world.speed, until=1):
            return
        detection.detect()
        confirm.step()
        tell_subscribers()
    raise AssertionError("the work never ends")


def test_a_drift_is_one_alert_since_its_reference_before_it_sums_to_a_tenth(world: World) -> None:
    drifting(world, 42)
    push_by_push(world)
    world.until_quiet()
    drifts = ChangePoint.objects.filter(kind=Kind.DRIFT, status=Status.CONFIRMED)
    found = drifts.filter(series__metric="server_cpu_ns_per_request").earliest("id")
    assert world.shas.index(found.before.sha) <= 10
    assert 1.003 ** (world.shas.index(found.commit.sha) - 9) < 1.10
    assert found.low <= 1.003 ** (world.shas.index(found.commit.sha) - world.shas.index(found.before.sha)) * 1.005
    alert = Alert.objects.get(change_points=found)
    assert Alert.objects.filter(change_points__kind=Kind.DRIFT).distinct().count() == 1
    raised = alert.events.get(kind=AlertEvent.Kind.RAISED)
    assert f"since {found.reference} (" in raised.note
    assert raised.note.endswith("commits ago), without one step")
    mail = message(Outbox.objects.get(alert=alert))
    assert f"little by little since {found.reference}, without one step" in mail.body
    assert "could not be told" not in mail.body
    assert not Run.objects.filter(reason=Reason.BISECT, change_points=found).exists()


def test_a_confirmed_step_is_no_drift(world: World) -> None:
    world.shas += world.repository.commits(28)
    world.noise = 0.004
    world.factors = {world.shas[20]: 1.1}
    tracked = builders.track(world.repository)
    Tag.objects.create(project=tracked.project, name="7.4.0", sha=world.shas[10])
    push_by_push(world)
    world.until_quiet()
    assert Alert.objects.get().commit.sha == world.shas[20]
    assert not ChangePoint.objects.filter(kind=Kind.DRIFT, status=Status.CONFIRMED).exists()


def test_a_steady_line_has_a_best_level_and_no_drift(world: World) -> None:
    drifting(world, 30, per_commit=0.0)
    push_by_push(world)
    assert not ChangePoint.objects.filter(kind=Kind.DRIFT).exists()
    assert BestLevel.objects.count() == 4  # the watched series of both benchmarks
