"""Real processes: started on their cores, ended with their groups, found again after a crash, never those of others."""

import json
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from runners.errors import Cancelled
from runners.machine.topology import allowed_cpus
from runners.processes.affinity import all_threads_on
from runners.processes.children import Child, ChildCommand, Processes
from runners.processes.control import Control
from runners.processes.strays import start_ticks
from runners.tests.conftest import alive, marked

ENVIRONMENT = {"PATH": os.defpath}


def shell(processes: Processes, home: Path, script: str, cpus: frozenset[int] | None = None) -> Child:
    with (home / "output").open("wb") as output:
        return processes.start(ChildCommand(["/bin/sh", "-c", script], ENVIRONMENT, home, cpus), output)


def await_output(home: Path, word: str) -> str:
    """The output, once the word is in it."""
    deadline = time.monotonic() + 120
    while word not in (text := (home / "output").read_text()):
        assert time.monotonic() < deadline, text
        time.sleep(0.01)
    return text


def test_a_child_runs_on_its_cpus_and_the_parent_keeps_its_own(processes: Processes, home: Path) -> None:
    before = allowed_cpus()
    cpus = frozenset([max(before)])
    child = shell(processes, home, "grep Cpus_allowed_list /proc/self/status", cpus)
    assert child.wait(Control(), 120) == 0
    child.end()
    assert await_output(home, "list").split() == ["Cpus_allowed_list:", str(max(before))]
    assert allowed_cpus() == before


def test_all_threads_are_moved_and_moved_back_while_others_start_and_end() -> None:
    before, cpus = allowed_cpus(), frozenset([min(allowed_cpus())])
    over, seen = threading.Event(), []

    def bustle() -> None:
        while not over.is_set():
            short = threading.Thread(target=lambda: None)
            short.start()
            short.join()

    worker = threading.Thread(target=bustle)
    worker.start()
    try:
        for _ in range(50):
            with all_threads_on(cpus):
                seen.append((allowed_cpus(), frozenset(os.sched_getaffinity(worker.native_id or 0))))
    finally:
        over.set()
        worker.join()
    assert set(seen) == {(cpus, cpus)} and allowed_cpus() == before


def test_a_child_that_cannot_be_recorded_is_ended(processes: Processes, home: Path) -> None:
    """As on a full disk: nobody would end it."""
    processes.directory = home / "missing"
    with pytest.raises(FileNotFoundError):
        shell(processes, home, "sleep 300")
    assert marked(home) == []


def test_ending_a_child_ends_its_group(processes: Processes, home: Path) -> None:
    child = shell(processes, home, "trap '' TERM; sleep 300 & setsid sleep 301 & echo up; wait")
    await_output(home, "up")
    child.end(grace_s=0.1)
    assert marked(home) == [] and list(processes.directory.iterdir()) == []


def test_a_wait_ends_at_its_timeout_and_at_an_abort(processes: Processes, home: Path) -> None:
    child = shell(processes, home, "sleep 300")
    control = Control()
    assert child.wait(control, 0.05) is None
    control.abort(Cancelled("asked to stop"))
    with pytest.raises(Cancelled):
        child.wait(control, 60)
    child.end()


def test_a_program_is_run_to_its_end_and_its_group_with_it(processes: Processes, home: Path) -> None:
    def run(script: str, timeout_s: float) -> int | None:
        with (home / "output").open("wb") as output:
            return processes.run(
                ChildCommand(["/bin/sh", "-c", script], ENVIRONMENT, home), Control(), timeout_s, output
            )

    assert run("sleep 300 & echo done; exit 3", 120) == 3
    assert (home / "output").read_text() == "done\n" and marked(home) == []
    assert run("sleep 300 & sleep 301", 0.1) is None
    assert marked(home) == [] and list(processes.directory.iterdir()) == []


def test_strays_of_a_crashed_runner_are_ended(processes: Processes, home: Path) -> None:
    child = shell(processes, home, "setsid sh -c 'echo up; sleep 300' & wait")
    await_output(home, "up")
    assert Processes(home).end_strays() >= 2
    child.process.wait(120)
    assert marked(home) == [] and list(processes.directory.iterdir()) == []


def test_a_stray_that_hides_its_environment_is_found_by_its_record(processes: Processes, home: Path) -> None:
    child = shell(processes, home, "echo up; exec env -i sleep 300")
    await_output(home, "up")
    while f"SPEEDTRACK_MARK={processes.mark}".encode() in Path(f"/proc/{child.pid}/environ").read_bytes():
        time.sleep(0.01)
    assert Processes(home).end_strays() == 1
    assert child.process.wait(120) == -9


def test_a_foreign_process_with_a_recorded_number_is_left_alone(processes: Processes, home: Path) -> None:
    foreign = subprocess.Popen(["sleep", "300"])
    try:
        ticks = start_ticks(foreign.pid)
        assert ticks is not None
        (processes.directory / "1.json").write_text(json.dumps({"pid": foreign.pid, "start_ticks": ticks - 1}))
        (processes.directory / "2.json").write_text("torn")
        assert Processes(home).end_strays() == 0
        assert alive(foreign.pid) and list(processes.directory.iterdir()) == []
    finally:
        foreign.kill()
        foreign.wait()


def test_two_homes_do_not_end_each_others_processes(processes: Processes, home: Path, tmp_path: Path) -> None:
    child = shell(processes, home, "sleep 300")
    other = tmp_path / "other"
    other.mkdir()
    assert Processes(other).end_strays() == 0 and alive(child.pid)
    child.end()
