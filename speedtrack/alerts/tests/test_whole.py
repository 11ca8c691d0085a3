"""The whole effect: once a commit is named, every benchmark of the suite is measured for it, and what moved joins."""

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client

from speedtrack.alerts.detection import detection
from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint
from speedtrack.alerts.models.alerts import PATIENCE
from speedtrack.alerts.settling import confirm, whole
from speedtrack.alerts.triage import triage
from speedtrack.judging.whole import whole_effect_of
from speedtrack.notices import mail
from speedtrack.notices.models import Outbox
from speedtrack.notices.telling import tell_subscribers
from speedtrack.processes import dispatch
from speedtrack.reports import alerts as reports
from speedtrack.runs.fleet import machines
from speedtrack.runs.models import MachineEvent, Reason, Run, Status
from speedtrack.runs.queue import queue
from speedtrack.runs.requests import changing
from speedtrack.tests import builders, worlds

from .conftest import World

NAMES = ("get-p1", "set-p1", "incr-p1", "ping-p1")
WIDE = builders.SUITE + "".join(
    f'[[benchmark]]\nname = "{name}"\nwhy = "one of several"\nworkload = {{ test = "{name[:-3]}", clients = 50 }}\n'
    for name in NAMES[2:]
)
CPU = "server_cpu_ns_per_request"


@dataclass
class Wide(World):
    """A world of four benchmarks, each slower by its factor from the eighth commit on.

    Only get-p1 shows it in its line: the others jump so much from run to run that nobody suspects a change.
    """

    sizes: dict[str, float] = field(default_factory=dict)

    def speed(self, sha: str, benchmark: str, trial: int) -> float:
        level = 5000 * (self.sizes.get(benchmark, 1.0) if sha in self.shas[7:] else 1.0)
        paired = Run.objects.active().exclude(base=None).exists()
        return level * self.rng.gauss(1, self.noise if paired or benchmark == "get-p1" else 0.25)

    def until_named(self) -> None:
        """Measure, detect and settle until the whole effect of a commit is asked for."""
        for _ in range(40):
            builders.work(self.machine, self.speed, until=1 if ChangePoint.objects.exists() else 1000)
            detection.detect()
            confirm.step()
            if effect_runs():
                return
        raise AssertionError("no commit was named")


@worlds.shared
def large(settings: Any, directory: Path) -> Wide:
    """A commit is named that made get-p1 slower by 30%, and others by less; its whole effect is asked for."""
    builders.use_suite(settings, directory / "suites", WIDE)
    sizes = {"get-p1": 1.3, "set-p1": 1.08, "incr-p1": 0.9}
    world = Wide(builders.Repository(directory / "repository"), builders.machine(), sizes=sizes)
    world.shas = world.repository.commits(12)
    builders.track(world.repository, emails=["dev@example.org"])
    world.until_named()
    return world


@pytest.fixture
def small(large: Wide, monkeypatch: pytest.MonkeyPatch) -> Wide:
    """The same world, asked where a change of 30% is a small one."""
    Run.objects.filter(reason=Reason.EFFECT).delete()
    monkeypatch.setattr(whole, "LARGE", 0.5)
    assert whole.ask() == 1
    return large


def effect_runs() -> list[Run]:
    return list(Run.objects.filter(reason=Reason.EFFECT).order_by("pk"))


def mails() -> list[Any]:
    return [mail.message_of(row) for row in Outbox.objects.exclude(alert=None).order_by("pk")]


def test_a_large_change_is_told_at_once_and_completed_in_the_thread(large: Wide, client: Client) -> None:
    tell_subscribers()
    (first,) = mails()
    assert "set-p1" not in first.body and "Over the suite" not in first.body
    assert "in pairs of this commit and the one before it: being measured" in " ".join(first.body.split())
    large.until_quiet()
    (run,) = effect_runs()
    alert = Alert.objects.get()
    assert (run.base, run.commit, run.trials) == (alert.before, alert.commit, whole.FIRST)
    assert set(run.benchmark_set.names) >= set(NAMES[1:])
    changes = {cp.benchmark_name: cp for cp in alert.change_points.filter(series__metric=CPU)}
    assert set(changes) == {"get-p1", "set-p1", "incr-p1"}
    assert changes["set-p1"].ratio == pytest.approx(1.08, abs=0.02)
    first, second = mails()
    assert second.subject == f"Re: {mail.subject_of(alert)}"
    assert second.extra_headers["In-Reply-To"] == first.extra_headers["Message-ID"]
    assert "every benchmark of the suite was measured for it: slower +" in " ".join(second.body.split())
    effect = whole_effect_of(alert)
    assert effect and effect.total and effect.total.mean
    assert effect.total.mean.ratio == pytest.approx((1.3 * 1.08 * 0.9) ** 0.25, abs=0.01)
    assert effect.counts == ["2 slower", "1 faster", "1 the same"]
    assert effect.words in " ".join(second.body.split())
    assert effect.words in client.get(f"/alerts/{alert.pk}/").content.decode()
    document = client.get(f"/alerts/{alert.pk}.json").json()
    assert document["whole_effect"]["benchmarks"] == 4
    assert document["whole_effect"]["words"] == effect.words
    assert {change["benchmark"] for change in document["changes"]} == set(changes)


def test_nothing_else_moved_is_told_nobody_twice(large: Wide) -> None:
    large.sizes = {"get-p1": 1.3}
    tell_subscribers()
    large.until_quiet()
    assert len(mails()) == 1
    note = AlertEvent.objects.get(kind="measured").note
    assert note == "every benchmark of the suite was measured for it: nothing else moved"


def test_what_few_pairs_leave_open_is_measured_again_and_told_once(small: Wide) -> None:
    """A change alone among four benchmarks is never told after seven pairs; the others stood still, and rest."""
    small.sizes = {"set-p1": 1.04}
    ChangePoint.objects.exclude(series__benchmark__name="get-p1").delete()
    small.until_quiet()
    first, second, *_ = effect_runs()
    assert (second.trials, second.round, second.metrics) == (whole.MORE, first.round + 1, first.metrics)
    assert "set-p1" in second.benchmark_set.names and len(second.benchmark_set.names) < len(NAMES)
    assert AlertEvent.objects.filter(kind="measured").count() == 1
    (only,) = mails()
    assert "set-p1" in only.body


@pytest.mark.parametrize("ended", ["retired", "paused", "untracked"])
def test_what_few_pairs_leave_open_is_told_where_no_more_can_be_measured(small: Wide, ended: str) -> None:
    small.sizes = {"get-p1": 1.3, "set-p1": 1.04}
    builders.work(small.machine, small.speed)
    if ended == "untracked":
        changing.untrack(Alert.objects.get().project)
    else:
        {"retired": machines.retire, "paused": machines.pause}[ended](small.machine)
        MachineEvent.objects.filter(kind="paused").update(at=Now() - timedelta(days=8))
    confirm.step()
    assert len(effect_runs()) == 1
    tell_subscribers()
    assert len(mails()) == 1


def test_a_commit_has_no_effect_measured_on_a_machine_that_measures_nothing(small: Wide) -> None:
    Run.objects.filter(reason=Reason.EFFECT).delete()
    machines.pause(small.machine)
    assert whole.ask() == 1, "it may be measured tomorrow"
    Run.objects.filter(reason=Reason.EFFECT).delete()
    MachineEvent.objects.filter(kind="paused").update(at=Now() - timedelta(days=8))
    assert whole.ask() == 0


def test_a_small_change_waits_for_its_whole_effect_and_is_told_once(small: Wide) -> None:
    tell_subscribers()
    assert Alert.objects.get().status == "confirmed" and not mails()
    assert "notify" not in dispatch.duties_with_work()
    small.until_quiet()
    (only,) = mails()
    effect = whole_effect_of(Alert.objects.get())
    assert effect and effect.total and effect.total.mean
    assert effect.total.mean.ratio == pytest.approx((1.3 * 1.08 * 0.9) ** 0.25, abs=0.01)
    assert "set-p1" in only.body and effect.words in " ".join(only.body.split())


def test_a_small_change_is_told_with_what_is_known_if_the_machine_is_gone(small: Wide) -> None:
    AlertEvent.objects.update(at=Now() - PATIENCE)
    assert "notify" in dispatch.duties_with_work()
    tell_subscribers()
    assert len(mails()) == 1


def test_an_effect_that_fails_lets_the_alert_be_told(small: Wide) -> None:
    (run,) = effect_runs()
    queue.cancel(run, "the disk is full")
    assert "detect" in dispatch.duties_with_work()
    confirm.step()
    tell_subscribers()
    assert len(mails()) == 1
    assert AlertEvent.objects.get(kind="measured").note.startswith("its whole effect was not measured")
    confirm.step()
    assert effect_runs() == [run] and AlertEvent.objects.filter(kind="measured").count() == 1


def test_an_alert_that_was_closed_meanwhile_is_not_measured(large: Wide, admin_user: Any) -> None:
    alert = Alert.objects.get()
    triage.decide(alert, triage.Decision("confirmed", "expected", None, "meant"), admin_user)
    confirm.step()
    assert [run.status for run in effect_runs()] == [Status.CANCELLED]


def test_a_range_names_no_commit_and_is_not_measured(large: Wide) -> None:
    Run.objects.filter(reason=Reason.EFFECT).delete()
    alert = Alert.objects.get()
    older = alert.branch.positions.get(number=alert.ends[0] - 1).commit
    Alert.objects.update(before=older)
    assert whole.ask() == 0
    Alert.objects.update(before=alert.before)
    assert [whole.ask(), whole.ask()] == [1, 0]


def test_the_document_of_a_list_says_what_instructions_did(large: Wide) -> None:
    (document,) = reports.AlertDocument.list_of(reports.known_alerts())
    assert document.instructions.startswith("not countable, because neither the suite nor the processor counts them")
    assert not document.is_time_only
    assert ChangePoint.objects.filter(alert=document.id).exists()
