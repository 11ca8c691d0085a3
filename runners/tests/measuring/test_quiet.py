"""The quiet gate on this machine: busy processes on the measured cores, and readings with known results."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runners.errors import LeaseLost
from runners.machine import topology
from runners.machine.placement import Placement, Planner
from runners.measuring import indicators, quiet
from runners.measuring.kernel_counters import CounterReader, KernelCounters, Roots
from runners.processes.affinity import affinity
from runners.processes.control import Control

APART = Placement(frozenset({1}), frozenset({2}), frozenset({0}), None, ())
SHARED = Placement(frozenset({1}), frozenset({0}), frozenset({0}), "shared", ())
STILL = KernelCounters(
    at_s=100.0,
    asleep_s=0.0,
    runner_s=1.0,
    server_s=5.0,
    driver_s=2.0,
    steal_s={0: 1.0, 1: 1.0, 2: 1.0},
    busy_s={0: 50.0, 1: 50.0, 2: 50.0},
    busy_resolution_s=0.0,
    delay_s={7: 0.5},
    pressure_s={"memory_full": 0.0},
    major_faults=3,
    swapped_pages=0,
    throttled=0,
    frequency_mhz=3000.0,
)
LATER = replace(STILL, at_s=100.25)


SPINNING = "while True: pass"
# Two threads that run without the interpreter's lock.
HASHING = "import hashlib; hashlib.pbkdf2_hmac('sha256', b'', b'', 10**8)"
TWO_HASHING = f"import threading; threading.Thread(target=lambda: exec({HASHING!r})).start(); {HASHING}"


@contextlib.contextmanager
def running(code: str, cpus: frozenset[int]) -> Iterator[int]:
    """A Python process with this code on these CPUs; its pid."""
    with affinity(cpus):
        process = subprocess.Popen([sys.executable, "-c", code])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def burner(cpus: frozenset[int]) -> contextlib.AbstractContextManager[int]:
    """A process that never rests, on these CPUs."""
    return running(SPINNING, cpus)


@pytest.fixture
def plan() -> Placement:
    return Planner(topology.read_topology(), allow_shared=True).plan()


def flags(*readings: KernelCounters, where: Placement = APART) -> dict[str, float]:
    return indicators.check_limits(indicators.indicator_values(list(readings), where), where).flags


def test_a_busy_process_on_the_servers_core_is_found_during_a_trial(plan: Placement) -> None:
    idle = running("import time; time.sleep(60)", plan.server)
    with burner(plan.server), idle as pid, quiet.QuietGate(plan).watch([pid]) as watch:
        time.sleep(0.5)
    # Other work on this machine can only add to the CPU time that is not the server's own.
    assert watch.findings.flags["foreign"] > 0.5


def test_a_server_that_waits_for_a_busy_process_is_delayed(plan: Placement) -> None:
    with burner(plan.server), running(SPINNING, plan.server) as pid, quiet.QuietGate(plan).watch([pid]) as watch:
        time.sleep(0.5)
    assert watch.findings.flags["delayed"] > 0.1


def test_threads_of_a_server_that_wait_for_each_other_are_no_disturbance(plan: Placement) -> None:
    reader = CounterReader(plan.server, plan.server, Roots(Path("/proc"), Path("/sys")))
    with running(TWO_HASHING, frozenset({min(plan.server)})) as pid:
        while (before_s := sum(reader.read([pid]).delay_s.values())) < 0.1:  # both have begun
            time.sleep(0.02)
        with quiet.QuietGate(plan).watch([pid]) as watch:
            time.sleep(0.5)
        waited_s = sum(reader.read([pid]).delay_s.values()) - before_s
    # Of the time in which one waited for the other, no more counts than other work on this machine ran.
    assert waited_s > 0.2
    assert watch.findings.flags.get("delayed", 0.0) <= float(watch.findings.values["foreign_server"])


def test_a_trial_waits_while_the_core_is_busy_and_the_next_wait_is_shorter(plan: Placement) -> None:
    gate = quiet.QuietGate(plan, patience_s=0.5)
    with burner(plan.server):
        first, second = gate.await_quiet(Control()), gate.await_quiet(Control())
    assert first.gave_up and second.gave_up
    assert "the server's core was busy" in first.reason
    assert first.seconds >= 0.5 and second.seconds >= 0.25


def test_a_shortened_wait_applies_to_the_next_run(plan: Placement) -> None:
    gate = quiet.QuietGate(plan, patience_s=1.2)
    with burner(plan.server):
        assert gate.await_quiet(Control()).gave_up
    assert replace(gate, placement=plan).history.patience_left_s == 0.6


def test_after_a_quiet_load_the_next_begins_at_once(plan: Placement, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = quiet.QuietGate(plan, patience_s=0)
    with burner(plan.server), running("import time; time.sleep(60)", plan.server) as pid:
        with gate.watch([pid]):
            time.sleep(0.3)
        assert gate.await_quiet(Control()).seconds >= 0.2, "the load was disturbed, so the cores are watched"
        for limit in ("BUSY_LIMIT", "SHARED_BUSY_LIMIT"):  # whatever else runs on this machine
            monkeypatch.setattr(quiet, limit, 99.0)
        with gate.watch([pid]):
            time.sleep(0.3)
        assert gate.await_quiet(Control()) == quiet.QuietWait(0.0, gave_up=False)
        monkeypatch.setattr(quiet, "FRESH_S", 0.0)
        assert gate.await_quiet(Control()).seconds >= 0.2, "the load is too long ago"


def test_an_abort_ends_the_waiting(plan: Placement) -> None:
    control = Control()
    control.abort(LeaseLost("gone"))
    with pytest.raises(LeaseLost):
        quiet.QuietGate(plan).await_quiet(control)


def test_an_undisturbed_load_has_no_flag() -> None:
    assert flags(STILL, LATER) == {}


@pytest.mark.parametrize(
    ("flag", "value", "changes"),
    [
        ("steal", 0.12, {"steal_s": {0: 1.0, 1: 1.04, 2: 1.0}}),  # less one tick of 10 ms
        ("foreign", 0.2, {"busy_s": {0: 50.0, 1: 50.25, 2: 50.0}, "server_s": 5.2}),
        ("foreign", 0.4, {"busy_s": {0: 50.0, 1: 50.0, 2: 50.2}, "driver_s": 2.1}),
        ("paging", 20, {"major_faults": 23}),
        ("paging", 4096, {"swapped_pages": 4096}),
        ("paging", 0.2, {"pressure_s": {"memory_full": 0.05}}),
        ("frequency", 2, {"throttled": 2}),
        ("suspended", 60.0, {"asleep_s": 60.0}),
    ],
)
def test_a_value_above_its_limit_raises_its_flag(flag: str, value: float, changes: dict[str, object]) -> None:
    assert flags(STILL, replace(LATER, **changes)) == {flag: pytest.approx(value)}  # type: ignore[arg-type]


WAITED = {7: 0.505, 8: 0.005}  # thread 8 was started meanwhile


@pytest.mark.parametrize(
    ("others", "raised"),
    [
        ({0: 50.0, 1: 50.0, 2: 50.0}, {}),
        ({0: 50.0, 1: 50.0075, 2: 50.0}, {"delayed": 0.03, "foreign": 0.03}),
        ({0: 50.0, 1: 50.05, 2: 50.0}, {"delayed": 0.04, "foreign": 0.2}),
        ({}, {"delayed": 0.04}),
    ],
)
def test_a_server_is_delayed_for_as_long_as_others_ran(others: dict[int, float], raised: dict[str, float]) -> None:
    before, after = (STILL, LATER) if others else (replace(STILL, busy_s={}), replace(LATER, busy_s={}))
    found = flags(before, replace(after, delay_s=WAITED, busy_s=others))
    assert found == {flag: pytest.approx(value) for flag, value in raised.items()}


def test_a_gap_in_the_readings_is_a_suspended_machine() -> None:
    assert flags(STILL, LATER, replace(LATER, at_s=160.5)) == {"suspended": 60.0}


def test_the_runners_own_work_on_a_shared_core_is_not_foreign_and_other_work_there_raises_no_flag() -> None:
    after = replace(LATER, busy_s={0: 50.25, 1: 50.0, 2: 50.0}, runner_s=1.05, driver_s=2.1)
    found = indicators.check_limits(indicators.indicator_values([STILL, after], SHARED), SHARED)
    assert found.flags == {} and found.values["foreign_driver"] == pytest.approx(0.4)


def test_an_idle_server_has_no_negative_foreign_work() -> None:
    assert indicators.indicator_values([STILL, replace(LATER, server_s=5.5)], APART)["foreign_server"] == 0.0


def test_only_readings_of_the_window_count() -> None:
    burst = replace(LATER, busy_s={0: 50.0, 1: 50.2, 2: 50.0})
    after = [replace(burst, at_s=101.0 + 0.25 * number) for number in range(4)]
    watch = quiet.Watch(APART, [STILL, *after])
    assert watch.findings.flags["foreign"] > 0.1
    watch.window = (101.1, 101.6)
    assert watch.findings.flags == {}


def test_slowness_is_relative_to_the_usual_time_not_to_the_best() -> None:
    rested_once = [70, *[100] * 7]
    assert quiet.slowness(rested_once) == 0
    assert quiet.slowness([*rested_once, 125]) == 0.25
    assert quiet.slowness([100] * 7) == quiet.UNKNOWN


@pytest.mark.parametrize(("before", "after", "slow"), [(125, 100, False), (100, 125, False), (125, 130, True)])
def test_a_core_is_slow_if_it_is_slow_before_and_after(
    before: int, after: int, slow: bool, plan: Placement, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = iter([100, 100] * 10 + [before, after])
    monkeypatch.setattr(quiet, "spin_ns", lambda cpu: next(ends))
    gate = quiet.QuietGate(replace(plan, server=frozenset({min(plan.server)})))
    for _ in range(11):
        with gate.watch([os.getpid()]) as watch:
            pass
    assert (watch.slowness == 0.25) == slow


def test_a_slow_clock_raises_a_flag() -> None:
    watch = quiet.Watch(APART, [STILL, LATER], slowness=0.2)
    assert watch.findings.flags == {"frequency": 0.2}


def test_a_machine_without_counters_has_unknown_values_and_raises_nothing(tmp_path: Path) -> None:
    reader = CounterReader(APART.server | APART.driver, APART.server, Roots(tmp_path, tmp_path))
    found = indicators.check_limits(indicators.indicator_values([reader.read(), reader.read()], APART), APART)
    assert found.flags == {} and list(found.values) == list(indicators.INDICATORS)
    for name in ("steal", "delay", "foreign_server", "swapped_pages", "memory_full", "io_some"):
        assert found.values[name] == "unknown"


def test_the_finest_source_of_busy_time_is_used(tmp_path: Path) -> None:
    reader = CounterReader(frozenset({1}), frozenset({1}), Roots(tmp_path, tmp_path))
    (tmp_path / "stat").write_text("cpu 9 9 9\ncpu1 100 20 30 400 5 6 7 8 0 0\n")
    assert reader.read().busy_s == {1: 1.5} and reader.read().busy_resolution_s == 0.01
    (tmp_path / "fs/cgroup/cpuacct").mkdir(parents=True)
    (tmp_path / "fs/cgroup/cpuacct/cpuacct.usage_percpu").write_text("1000000000 2000000000 \n")
    assert reader.read().busy_s == {1: 2.0} and reader.read().busy_resolution_s == 0.0
    (tmp_path / "schedstat").write_text("version 15\ncpu0 0 0 0 0 0 0 1 2 3\ncpu1 0 0 0 0 0 0 3000000000 7 8\n")
    assert reader.read().busy_s == {1: 3.0}


def test_pressure_is_read_of_the_machine_and_of_the_servers_group(tmp_path: Path) -> None:
    line = "some avg10=1.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=250000\n"
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure/memory").write_text(line.format(500000))
    (tmp_path / "4711").mkdir()
    (tmp_path / "4711/cgroup").write_text("3:cpuset:/\n0::/runner/trial\n")
    (tmp_path / "fs/cgroup/runner/trial").mkdir(parents=True)
    (tmp_path / "fs/cgroup/runner/trial/memory.pressure").write_text(line.format(750000))
    pressure_s = CounterReader(frozenset(), frozenset(), Roots(tmp_path, tmp_path)).read([4711]).pressure_s
    assert pressure_s == {
        "memory_some": 0.5,
        "memory_full": 0.25,
        "cgroup_memory_some": 0.75,
        "cgroup_memory_full": 0.25,
    }
