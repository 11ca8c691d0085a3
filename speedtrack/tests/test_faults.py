"""The whole way with real processes: a signed webhook, a real repository, compiler, server, driver and broker.

Each fault ends with the same truth (``real_system.check_truth``): every run has ended once, no sample is lost or
doubled, and ``fsck`` finds nothing.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction

from runners.tests.broker_servers import Valkey
from speedtrack.projects.models import Commit, Delivery
from speedtrack.runs.models import Attempt, Canary, CanaryCheck, Measurement, Reason, Result, Run, Trial
from speedtrack.runs.planning.questions import Question, plan_pairs
from speedtrack.runs.scheduling import canary
from speedtrack.tests import builders
from speedtrack.tests.real_system import (
    KEYS,
    SUITE,
    System,
    all_done,
    check_truth,
    keys_in,
    left_over,
    one_machine,
    strays,
)

pytestmark = pytest.mark.django_db(transaction=True)

MANY_KEYS = 400_000


@pytest.fixture
def system(live_server: Any, tmp_path: Path, settings: Any, broker: Valkey) -> Iterator[System]:
    with one_machine(tmp_path, live_server.url, settings, broker, commits=1, last=0) as system:
        system.start_runner()
        yield system
    assert strays(tmp_path) == []


def mid_trial() -> bool:
    return any(run.progress and 1 <= run.progress["done"] < run.trials for run in Run.objects.active())


def test_a_push_is_built_measured_and_stored(system: System) -> None:
    system.push(3)
    system.until(all_done)
    assert Run.objects.count() == 2
    assert Delivery.objects.get().status == "processed"
    check_truth()
    driver = next(Result.objects.earliest("id").unpacked())["driver"]
    assert driver["tests"][0]["hits"] == driver["tests"][0]["requests"] > 0


def test_a_canary_is_measured_after_the_first_head_and_no_other_server_in_its_name(
    system: System, settings: Any
) -> None:
    settings.CANARY_AUTO = True
    system.push(2)
    canaries = Run.objects.filter(reason="canary")
    system.until(lambda: canaries.filter(status="succeeded").exists())
    frozen = Canary.objects.get()
    (digest,) = frozen.artifacts.values()
    assert (system.home / "runner" / "pins").read_text() == digest
    assert Measurement.objects.filter(attempt__run__in=canaries).exists()
    assert not Measurement.objects.filter(attempt__run__in=canaries, accepted=True).exists()
    assert Run.objects.get(reason="push").status == "succeeded"

    Canary.objects.update(artifacts={"kvd": "sha256:" + "0" * 64})
    system.until(lambda: CanaryCheck.objects.exists())
    canary.queue_run(frozen, frozen.created)
    system.until(lambda: canaries.filter(status="failed").exists())
    assert f"gave another one: kvd is {digest}, frozen was sha256:000" in canaries.get(status="failed").error
    system.until(lambda: CanaryCheck.objects.filter(answer="unknown").exists())
    assert not Run.objects.unfinished().exists()


def building(system: System) -> bool:
    return any("cc" in line for line in strays(system.home))


def prefilling(system: System) -> bool:
    return 0 < keys_in(system.runner_home / "trial-0" / "socket" / "s") < MANY_KEYS


def loading(system: System) -> bool:
    return keys_in(system.runner_home / "trial-0" / "socket" / "s") == KEYS and driving(system)


def in_a_block(system: System) -> bool:
    sockets = [system.runner_home / f"trial-{slot}" / "socket" / "s" for slot in (0, 1)]
    return all(keys_in(path) == KEYS for path in sockets) and driving(system)


def driving(system: System) -> bool:
    return any(option in line for line in strays(system.home) for option in ("--server-pid", "--base-pid"))


def check_done_after_the_kill(run: Run) -> None:
    """The attempt of the killed runner has ended, and a later one did all the work.

    It is the next one, but for a machine so busy that the server had no turn in a window.
    """
    outcomes = list(run.attempts.order_by("number").values_list("outcome", flat=True))
    assert len(outcomes) > 1 and outcomes == ["queued"] * (len(outcomes) - 1) + ["succeeded"]


@pytest.mark.parametrize("stage", [building, prefilling, loading])
def test_a_runner_killed_at_its_work_does_it_again_and_leaves_nothing(
    system: System, settings: Any, stage: Callable[[System], bool]
) -> None:
    if stage is prefilling:
        many = SUITE.replace(f"count = {KEYS}", f"count = {MANY_KEYS}")
        builders.use_suite(settings, system.home / "suites", many)
    system.push(2)
    system.catch(stage)
    system.until(all_done)
    check_done_after_the_kill(Run.objects.get())
    check_truth()
    system.until(lambda: not left_over(system.home))


def test_a_runner_killed_between_two_servers_of_a_block_leaves_neither(system: System) -> None:
    system.push(2)
    system.until(lambda: Run.objects.exists())
    measured = Run.objects.select_related("commit", "project", "suite").get()
    base = Commit.objects.exclude(pk=measured.commit_id).get()
    ends, by = (base.pk, measured.commit_id), (measured.suite, measured.benchmark_set)
    paired = plan_pairs(Question(*ends, measured.machine, *by, Reason.CONFIRM, pairs=3, metrics=()))
    system.catch(in_a_block)
    system.until(all_done)
    check_done_after_the_kill(paired)
    check_truth()
    system.until(lambda: not left_over(system.home))
    results = Result.objects.filter(attempt__run=paired)
    assert {one["pairing"]["slot"] for result in results for one in result.unpacked()} == {0, 1}


def test_a_runner_killed_while_it_sends_doubles_nothing(system: System) -> None:
    """The server is held up in the middle of storing the result: its sender dies before it hears of that."""
    system.push(2)
    system.until(lambda: Run.objects.active().exists())
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE runs_trial")
        system.catch(lambda system: any((system.runner_home / "spool").glob("*.json")))
    system.until(all_done)
    check_done_after_the_kill(Run.objects.get())
    check_truth()
    system.until(lambda: not left_over(system.home))
    for attempt in Attempt.objects.all():
        numbers = list(Trial.objects.filter(result__attempt=attempt).values_list("number", flat=True))
        assert len(numbers) == len(set(numbers))


def test_a_trial_in_which_the_machine_slept_is_measured_again(system: System, settings: Any) -> None:
    """The window is long and the sleep begins in its midst, as one before it or after it does no harm."""
    builders.use_suite(settings, system.home / "slow", SUITE.replace("duration_s = 0.3", "duration_s = 4"))
    system.push(2)
    system.at(loading)
    time.sleep(2)
    with system.asleep():
        time.sleep(3)
    system.until(all_done)
    check_truth()
    (stopping,) = Result.objects.values_list("stopping", flat=True).distinct()
    assert stopping["thrown_out"] >= 1
    flags = [set(found) for found in Trial.objects.values_list("flags", flat=True)]
    is_disturbed = any(found - {"suspended"} for found in flags)  # only a clean repeat replaces a trial
    assert is_disturbed or not any("suspended" in found for found in flags)


def test_a_machine_that_sleeps_beyond_its_lease_does_the_run_again(system: System, settings: Any) -> None:
    settings.LEASE_S = 4
    system.push(2)
    system.at(loading)
    with system.asleep():
        system.until(lambda: Run.objects.get().status == "queued")
    settings.LEASE_S = 30  # of a lease of 4 s a busy machine may miss every renewal
    system.until(all_done)
    check_done_after_the_kill(Run.objects.get())
    check_truth()
    system.until(lambda: not left_over(system.home))


def test_a_broker_flushed_and_restarted_loses_nothing(system: System) -> None:
    system.push(4)
    system.until(mid_trial)
    builders.redis_client(system.broker_url).flushall()
    system.restart_broker()
    system.until(all_done)
    assert Run.objects.count() == 3
    check_truth()
