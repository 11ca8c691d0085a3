"""What each policy deletes, and what is kept whatever its age."""

from collections.abc import Callable

import pytest
from django.core.management import CommandError
from django.db.models.functions import Now
from django.utils import timezone

from speedtrack.alerts.models import Alert, BestLevel, ChangePoint, NoiseFloor, Verdict
from speedtrack.notices.models import Outbox
from speedtrack.projects.models import Branch, ChainCommit, Delivery, Refusal, Tag
from speedtrack.retention import kept, pruning
from speedtrack.retention.models import Pruning
from speedtrack.retention.policies import POLICIES
from speedtrack.retention.tests.ages import contents, kept_for_ever, let_pass, measure_fully, prune, raw_of
from speedtrack.runs.models import (
    CanaryCheck,
    Machine,
    MachineEvent,
    Measurement,
    Reason,
    Run,
    RunEvent,
    Series,
)
from speedtrack.runs.planning import planning
from speedtrack.runs.queue import jobs
from speedtrack.runs.scheduling import canary
from speedtrack.runs.scheduling.canary import FrozenCommit
from speedtrack.runs.tests.canaries import LEVEL, measure_canary
from speedtrack.tests import builders
from speedtrack.web.tests.world import World


def measured_run(kvd: World) -> Run:
    """One more measured run, with log, documents, samples and events."""
    kvd.push(1)
    return measure_fully(builders.claim(kvd.machines[0]))


def test_every_policy_has_its_setting_and_every_setting_its_policy(settings) -> None:
    assert settings.KEEP_DAYS.keys() == POLICIES.keys()
    assert all(policy.setting == f"KEEP_{name.upper()}_DAYS" for name, policy in POLICIES.items())


def test_the_documents_have_the_policies_as_they_are(settings) -> None:
    text = (settings.BASE_DIR / "docs" / "operating.md").read_text()
    for one in POLICIES.values():
        assert f"| `{one.name}` | {one.what} | `{one.setting}` | {one.days} |" in text


@pytest.mark.parametrize(
    ("days", "left"),
    [
        (29, {"documents": 2, "samples": 2, "trials": 10, "logs": 1}),
        (91, {"documents": 0, "samples": 2, "trials": 10, "logs": 0}),
        (731, {"documents": 0, "samples": 0, "trials": 0, "logs": 0}),
    ],
)
def test_what_is_older_than_its_policy_goes(kvd: World, days: int, left: dict[str, int]) -> None:
    run = measured_run(kvd)
    before = kept_for_ever()
    let_pass(days)
    prune()
    found = contents([run.pk])
    assert {name: found[name] for name in left} == left
    assert kept_for_ever() == before


def test_what_is_young_stays_and_is_deleted_once_it_is_old(kvd: World) -> None:
    old = measured_run(kvd)
    let_pass(60)
    young = measured_run(kvd)
    let_pass(40)
    prune("--only", "logs,documents")
    assert (contents([old.pk])["logs"], contents([young.pk])["logs"]) == (0, 1)
    let_pass(60)
    prune("--only", "logs,documents")
    assert contents([young.pk])["logs"] == contents()["documents"] == 0


def test_nothing_goes_that_is_kept_for_ever(kvd: World, settings) -> None:
    settings.KEEP_DAYS = dict.fromkeys(POLICIES, 0)
    measured_run(kvd)
    before = contents()
    let_pass(10_000)
    prune()
    assert contents() == before


def hold_by_release(run: Run) -> None:
    Tag.objects.create(project=run.project, name="v1", sha=run.commit.sha)


def hold_by_change_point(run: Run) -> None:
    change_point(run, before=run.commit, commit=other_commit(run))


def hold_by_verdict(run: Run) -> None:
    ends = {"before": other_commit(run), "commit": other_commit(run)}
    Verdict.objects.create(
        change_point=change_point(run, **ends),
        base=run.commit,
        commit=other_commit(run),
        answer="same",
        ratio=1,
        low=1,
        high=1,
        pairs=5,
    )


def hold_by_pairs(run: Run) -> None:
    change_point(run, before=other_commit(run), commit=other_commit(run)).runs.add(run)


def hold_by_alert(run: Run) -> None:
    other = other_commit(run)
    branch = Branch.objects.get()
    alert = Alert.objects.create(
        project=run.project, branch=branch, before=other, commit=other, status="fixed", fixed_by=run.commit
    )
    alert.change_points.add(change_point(run, before=other, commit=other))


def hold_by_floor(run: Run) -> None:
    NoiseFloor.objects.create(series=Series.objects.first(), run=run, pairs=0)


def hold_by_rate(run: Run) -> None:
    series = Series.objects.get(benchmark__name="get-p1", metric="server_cpu_ns_per_request")
    Measurement.objects.exclude(attempt__run=run).filter(series__metric=jobs.REFERENCE_METRIC).update(accepted=False)
    Series.objects.filter(pk=series.pk).update(metric=jobs.REFERENCE_METRIC + "_")
    measurement = Measurement.objects.get(attempt__run=run, series=series)
    jobs.ReferenceRate.objects.create(machine=run.machine, benchmark=series.benchmark, rps=1.0, measurement=measurement)


def hold_by_best_level(run: Run) -> None:
    BestLevel.objects.create(
        series=Series.objects.first(), branch=Branch.objects.get(), commit=run.commit, level=5000.0
    )


def hold_by_linked_release(run: Run) -> None:
    other = Run.objects.exclude(pk=run.pk).filter(commit=other_commit(run)).first()
    assert other
    Run.objects.filter(pk=other.pk).update(linked=run)
    hold_by_release(other)


def other_commit(run: Run):
    return Run.objects.exclude(commit=run.commit).order_by("pk").first().commit


def change_point(run: Run, **ends) -> ChangePoint:
    series = Series.objects.first()
    return ChangePoint.objects.create(
        series=series, branch=Branch.objects.get(), status="refuted", ratio=1, low=1, high=1, score=1, **ends
    )


@pytest.mark.parametrize("hold", [hold_by_release, hold_by_pairs, hold_by_floor, hold_by_rate, hold_by_linked_release])
def test_what_something_rests_on_is_kept(kvd: World, hold: Callable[[Run], None]) -> None:
    free, held = measured_run(kvd), measured_run(kvd)
    before = contents([held.pk])
    hold(held)
    let_pass(10_000)
    prune()
    assert contents([held.pk]) == before
    assert not any(contents([free.pk]).values())


@pytest.mark.parametrize("hold", [hold_by_change_point, hold_by_verdict, hold_by_alert, hold_by_best_level])
def test_of_a_run_that_a_change_names_only_its_benchmark_is_kept(kvd: World, hold: Callable[[Run], None]) -> None:
    held = measured_run(kvd)
    series = Series.objects.first()
    assert series
    named = series.benchmark.name
    (other,) = {"get-p1", "set-p1"} - {named}
    before, all_of_it = raw_of([held.pk], named), contents([held.pk])
    assert all(before.values()) and all(raw_of([held.pk], other).values())
    hold(held)
    let_pass(10_000)
    prune()
    left = contents([held.pk])
    assert raw_of([held.pk], named) == before
    assert not any(raw_of([held.pk], other).values())
    assert (left["logs"], left["run events"]) == (all_of_it["logs"], all_of_it["run events"])


def test_another_machine_keeps_nothing_for_a_change(kvd: World) -> None:
    held = measured_run(kvd)
    hold_by_change_point(held)
    other = Machine.objects.create(name="other", facts={})
    Series.objects.filter(change_points__isnull=False).update(machine=other)
    let_pass(10_000)
    prune("--only", "samples")
    assert contents([held.pk])["samples"] == 0


def test_the_evidence_of_an_alert_is_kept(slow: tuple[World, Alert]) -> None:
    _, alert = slow
    points = ChangePoint.objects.filter(alert=alert)
    pairs = list(Run.objects.filter(change_points__in=points).values_list("pk", flat=True))
    ends = Run.objects.filter(commit__in=[alert.before, alert.commit], canary=None).exclude(pk__in=pairs)
    ends = list(ends.values_list("pk", flat=True))
    named = set(points.values_list("series__benchmark__name", flat=True))
    every = set(Run.objects.values_list("pk", flat=True))
    others = every - kept.held_runs(every)
    before = [contents(pairs), *(raw_of(ends, name) for name in named)]
    assert pairs and ends and others
    let_pass(10_000)
    prune()
    assert [contents(pairs), *(raw_of(ends, name) for name in named)] == before
    assert not any(contents(list(others)).values())


def test_what_was_kept_goes_when_it_is_looked_at_again(kvd: World) -> None:
    run = measured_run(kvd)
    hold_by_release(run)
    let_pass(10_000)
    prune()
    Tag.objects.all().delete()
    prune()
    assert contents([run.pk])["logs"] == 1, "what was looked at is passed"
    prune("--again")
    assert contents([run.pk])["logs"] == 0


def test_a_second_pruning_looks_only_at_what_has_become_old(kvd: World) -> None:
    measured_run(kvd)
    let_pass(10_000)
    policy = POLICIES["logs"]
    until = pruning.begin_of_keeping(policy)
    assert len(list(pruning.days_to_look_at(policy, until, again=False))) == 1
    prune()
    assert list(pruning.days_to_look_at(policy, until, again=False)) == []
    assert len(list(pruning.days_to_look_at(policy, until, again=True))) == 1
    assert Pruning.objects.filter(through=None).count() == 0


def test_webhook_calls_that_wait_are_kept(kvd: World) -> None:
    for status in ("received", "processed", "ignored"):
        call = {"provider": "github", "event": "push", "headers": {}, "packed_body": b"", "body_digest": status}
        Delivery.objects.create(project=kvd.project, delivery_id=status, status=status, **call)
    Refusal.objects.create(project=kvd.project, hour=timezone.now(), reason="wrong")
    let_pass(29)
    prune()
    assert (Delivery.objects.count(), Refusal.objects.count()) == (3, 1)
    let_pass(2)
    prune()
    assert Delivery.objects.get().status == "received"
    assert not Refusal.objects.exists()


def test_a_run_of_a_commit_that_returns_after_years_is_queued_again(kvd: World) -> None:
    (sha,) = kvd.push(1)
    run = Run.objects.get(commit__sha=sha)
    place = ChainCommit.objects.get(commit__sha=sha)
    ChainCommit.objects.filter(commit=place.commit).delete()
    assert planning.cancel_unreachable(kvd.project, "main", [sha]) == 1
    let_pass(10_000)
    prune()
    assert RunEvent.objects.filter(run=run).count() == 1
    place.save(force_insert=True)
    assert planning.requeue_returned(kvd.project) == 1


def test_events_of_machines_are_kept_until_they_are_told_and_sent(kvd: World) -> None:
    machine = kvd.machines[0]
    kinds = MachineEvent.Kind
    told, untold, unsent, newest = (
        MachineEvent.objects.create(machine=machine, kind=kinds.LIFTED, why="w", untold=is_untold)
        for is_untold in (False, True, False, False)
    )
    Outbox.objects.create(recipient="a@example.org", machine_event=told, event="e", sent_at=Now())
    Outbox.objects.create(recipient="a@example.org", machine_event=unsent, event="e")
    let_pass(366)
    prune()
    assert set(MachineEvent.objects.values_list("pk", flat=True)) == {untold.pk, unsent.pk, newest.pk}


@pytest.fixture
def watched(kvd: World, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with a canary that was measured six times, and keeps two checks from each end of its history."""
    monkeypatch.setattr(kept, "CHECKS", 2)
    machine = kvd.machines[0]
    run = Run.objects.first()
    assert run
    canary.replace_canary(machine, FrozenCommit(run.project, run.commit, run.suite, run.benchmark_set))
    kvd.push(1)  # what waits: a canary is measured around work
    for _ in range(6):
        measure_canary(machine, LEVEL)
        let_pass(1)
    canary.attend_all()
    return machine


def test_a_canary_keeps_what_its_next_run_is_compared_with(watched: Machine) -> None:
    checks = list(CanaryCheck.objects.order_by("pk").values_list("run", flat=True))
    assert len(checks) == 6
    measured = Measurement.objects.filter(attempt__run__canary__isnull=False).count()
    let_pass(91)
    before = kept_for_ever()
    prune()
    left = Run.objects.filter(reason=Reason.CANARY, ended_at__isnull=False)
    assert list(left.order_by("pk").values_list("pk", flat=True)) == [*checks[:2], *checks[-2:]]
    assert list(CanaryCheck.objects.order_by("pk").values_list("run", flat=True)) == [*checks[:2], *checks[-2:]]
    assert Measurement.objects.filter(attempt__run__canary__isnull=False).count() == measured * 4 // 6
    assert kept_for_ever() == before
    assert contents()["documents"] == 0


def test_an_unknown_policy_is_named_with_those_there_are(db: None) -> None:
    with pytest.raises(CommandError, match="there is no policy 'log': there are documents, samples, logs"):
        prune("--only", "log")
