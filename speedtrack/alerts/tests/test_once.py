"""One cause is told once, whatever dies in between, and however many work at once."""

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, connections

from speedtrack.alerts.detection import detection
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.alerts.settling import confirm
from speedtrack.alerts.triage import raising, regrouping
from speedtrack.alerts.triage.triage import Stale
from speedtrack.notices.models import Outbox
from speedtrack.notices.telling import tell_subscribers
from speedtrack.runs.models import Series
from speedtrack.tasks.notify import notify
from speedtrack.tasks.worker import detect
from speedtrack.tests import builders

from .conftest import World

pytestmark = pytest.mark.django_db(transaction=True)
MAIL = ["dev@example.org"]
TASKS = {"detect": detect, "notify": notify}

#: Where a worker dies: which task, and before or after which call of it; in the order in which they are come to.
POINTS = [
    ("detect", "after", "speedtrack.alerts.detection.detection", "raise_suspicion"),
    ("detect", "before", "speedtrack.alerts.settling.confirm", "step"),
    ("detect", "after", "speedtrack.alerts.settling.confirm", "settle_by"),
    ("detect", "after", "speedtrack.alerts.settling.confirm", "conclude"),
    ("detect", "after", "speedtrack.alerts.settling.narrowing", "end_settling"),
    ("detect", "before", "speedtrack.alerts.triage.raising", "raise_alert"),
    ("detect", "after", "speedtrack.alerts.triage.raising", "make_alert"),
    ("detect", "after", "speedtrack.alerts.triage.resolving", "resolve_alerts"),
    ("detect", "before", "speedtrack.alerts.settling.floors", "store_due"),
    ("notify", "before", "speedtrack.tasks.notify", "tell_subscribers"),
    ("notify", "after", "speedtrack.notices.models", "Outbox.objects.bulk_create"),
    ("notify", "before", "speedtrack.tasks.notify", "send_due"),
]


@pytest.fixture
def world(transactional_db: None, tmp_path: Path, settings: Any) -> World:
    builders.use_suite(settings, tmp_path / "suites")
    world = World(builders.Repository(tmp_path / "repository"), builders.machine())
    world.shas = world.repository.commits(12)
    world.factors = {world.shas[7]: 1.3}
    return world


def dies(task: str, when: str, module: str, name: str) -> bool:
    """Run a task in a process of its own that is killed at a call. False if it came to its end without that call."""
    connections.close_all()
    child = os.fork()
    if child == 0:
        kill_at(when, module, name)
        TASKS[task]()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def kill_at(when: str, module: str, name: str) -> None:
    where: Any = import_module(module)
    *path, last = name.split(".")
    for part in path:
        where = getattr(where, part)
    called = getattr(where, last)

    def fatal(*args: Any, **kwargs: Any) -> None:
        if when == "after":
            called(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(where, last, fatal)


def test_workers_that_die_between_any_two_steps_mail_once(world: World, mailoutbox: list[Any]) -> None:
    builders.track(world.repository, emails=MAIL)
    left = list(POINTS)
    for _ in range(80):
        if not left:
            break
        if dies(*left[0]):
            left.pop(0)
        else:
            builders.work(world.machine, world.speed)
    assert left == []
    for _ in range(3):
        builders.work(world.machine, world.speed)
        detect()
        notify()
    alert = Alert.objects.get()
    assert alert.commit.sha == world.shas[7]
    assert [event.kind for event in alert.events.order_by("id")] == ["raised", "measured"]
    assert Outbox.objects.count() == 1
    assert len(mailoutbox) == 1


def at_once(*work: Callable[[], Any]) -> list[Any]:
    """Do all this in threads of their own, each with its own connection, from one moment on."""
    start = Barrier(len(work))

    def run(one: Callable[[], Any]) -> Any:
        try:
            start.wait(timeout=120)
            return one()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(work)) as pool:
        return [future.result(timeout=300) for future in [pool.submit(run, one) for one in work]]


def test_four_workers_that_detect_and_settle_at_once_make_one_alert(world: World) -> None:
    builders.track(world.repository, emails=MAIL)

    def work() -> None:
        detection.detect()
        confirm.step()

    idle_rounds = 0
    while idle_rounds < 3:  # what one worker finds may be left by the others to the next round
        idle_rounds = 0 if builders.work(world.machine, world.speed) else idle_rounds + 1
        at_once(*[work] * 4)
        at_once(*[tell_subscribers] * 4)
    assert Alert.objects.get().commit.sha == world.shas[7]
    found = ChangePoint.objects.values_list("series", "commit")
    assert len(found) == len(set(found)) == 2
    assert Outbox.objects.count() == 1


def test_the_same_line_looked_at_by_two_at_once_gets_one_suspicion(world: World) -> None:
    builders.track(world.repository)
    builders.work(world.machine, world.speed)
    looked = at_once(*[detection.detect] * 4)
    assert sum(looked) == Series.objects.count()  # each series was looked at by one of them
    found = ChangePoint.objects.values_list("series", "commit")
    assert len(found) == len(set(found)) == 2


def test_changes_confirmed_at_the_same_moment_find_each_others_alert(world: World) -> None:
    builders.track(world.repository)
    world.until_quiet()
    points = list(ChangePoint.objects.filter(status="confirmed").select_related("series", "branch__project"))
    assert len(points) == 2
    for _ in range(5):
        Alert.objects.all().delete()
        fresh = list(ChangePoint.objects.select_related("series__benchmark", "branch__project", "before", "commit"))
        at_once(*[lambda cp=cp: raising.raise_alert(cp) for cp in fresh])
        assert Alert.objects.get().change_points.count() == 2


def test_of_two_who_merge_two_alerts_into_each_other_one_is_told(world: World) -> None:
    builders.track(world.repository)
    world.until_quiet()
    ada = User.objects.create_user("ada")
    alert = Alert.objects.get()
    other = regrouping.split(alert, [alert.change_points.earliest("id").pk], "", ada)

    def merge(gone: Alert, stays: Alert) -> str:
        try:
            regrouping.merge(gone, stays, "", ada)
        except Stale as e:
            return str(e)
        return ""

    answers = at_once(lambda: merge(alert, other), lambda: merge(other, alert))
    assert sorted(bool(answer) for answer in answers) == [False, True]
    assert Alert.objects.standing().get().change_points.count() == 2
