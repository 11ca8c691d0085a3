"""The locks of a host's cores: real processes, of several users, that want the same ones."""

import json
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runners.errors import Permanent
from runners.machine import core_locks
from runners.machine.core_locks import CoreLocks, Holder, holder_of, lock_directory, open_lock, physical_cores
from runners.machine.topology import Core, GroupLimits, Topology
from runners.processes import identity
from runners.processes.children import ChildCommand, Processes

ROOT = Path(__file__).parents[3]
LIMIT_S = 300.0
NOBODY = 65534
HOLD = """
import os, sys, threading
from pathlib import Path
from runners.machine.core_locks import CoreLocks, Holder
os.umask(0o077)
if sys.argv[3:]:
    os.setuid(int(sys.argv[3]))
names = tuple(int(word) for word in sys.argv[2].split(","))
holder = Holder(os.getpid(), "/home/of/it", "abc", "m7", "host")
with CoreLocks(Path(sys.argv[1]), names, holder).held(threading.Event()):
    print("held", flush=True)
    sys.stdin.read()
"""
Hold = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """As /run/lock: everybody may write."""
    tmp_path.chmod(0o755)
    made = tmp_path / "locks"
    made.mkdir()
    made.chmod(0o1777)
    return made


@pytest.fixture
def hold(place: Path) -> Iterator[Hold]:
    """Starts a process that holds these cores until its input ends."""
    started: list[subprocess.Popen[str]] = []

    def holding(names: str, wait: bool = True, user: int | None = None) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(place), names, *([] if user is None else [str(user)])],
            env={"PYTHONPATH": str(ROOT)},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        started.append(process)
        assert process.stdout is not None
        assert not wait or process.stdout.readline() == "held\n"
        return process

    yield holding
    for process in started:
        process.kill()
        process.wait()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        process.stdout.close()


def ours(place: Path, *names: int) -> CoreLocks:
    return CoreLocks(place, names, Holder(os.getpid(), "/here", "def", "m1", "host"))


def free(place: Path, *names: int) -> bool:
    """Whether these cores can be had within two looks."""
    stopping = threading.Event()
    timer = threading.Timer(2.5 * core_locks.TRY_EVERY_S, stopping.set)
    timer.start()
    with ours(place, *names).held(stopping) as held:
        timer.cancel()
        return held


def test_sets_that_overlap_exclude_each_other_and_others_do_not(place: Path, hold: Hold) -> None:
    hold("0,1,2")
    assert not free(place, 2, 3)
    assert not free(place, 0, 1, 2)
    assert free(place, 3, 4)


def test_a_killed_holder_releases_its_cores(place: Path, hold: Hold) -> None:
    holder = hold("0")
    assert not free(place, 0)
    holder.kill()
    holder.wait()
    assert free(place, 0)


def test_a_runner_that_waits_goes_before_one_that_comes_back(place: Path, hold: Hold) -> None:
    with ours(place, 0, 1).held(threading.Event()):
        waiting = hold("0,1", wait=False)
        deadline = time.monotonic() + LIMIT_S
        while "process " + str(waiting.pid) not in str(holder_of(place / "speedtrack-core-0.next")):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert not free(place, 0, 1)
    assert waiting.stdout is not None and waiting.stdout.readline() == "held\n"


def test_a_lock_file_names_its_holder_and_the_time(place: Path, hold: Hold) -> None:
    holder = hold("5")
    text = str(holder_of(place / "speedtrack-core-5"))
    assert f"machine m7 (process {holder.pid} on host, home /home/of/it, instance abc), since 20" in text


@pytest.mark.parametrize("content", ["", "no JSON", "[1]", json.dumps({"pid": 1}), "[" * 4096])
def test_a_lock_file_without_a_readable_holder_is_an_unknown_process(place: Path, content: str) -> None:
    (place / "speedtrack-core-0").write_text(content)
    assert str(holder_of(place / "speedtrack-core-0")) == "an unknown process"


def test_control_characters_of_another_user_are_not_logged(place: Path) -> None:
    holder = {"pid": 1, "home": "\x1b[2J\u202e\n", "instance": "", "machine": "m" * 1000, "host": "h", "since": ""}
    (place / "speedtrack-core-0").write_text(json.dumps(holder))
    found = str(holder_of(place / "speedtrack-core-0"))
    assert found.isprintable() and len(found) <= 500


@pytest.mark.root
def test_users_exclude_each_other_whoever_created_the_file(place: Path, hold: Hold) -> None:
    other = hold("0", user=NOBODY)
    assert not free(place, 0)
    other.kill()
    other.wait()
    assert free(place, 0, 1)
    with ours(place, 1).held(threading.Event()):
        assert stat.S_IMODE((place / "speedtrack-core-1").stat().st_mode) == 0o666
        waiting = hold("1", wait=False, user=NOBODY)
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(1)


def test_a_link_in_the_place_of_a_lock_is_not_followed(place: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name, plant in (("speedtrack-core-0", os.symlink), ("speedtrack-core-1", os.link)):
        plant(victim, place / name)
        with pytest.raises(Permanent, match=r"remove it, or set SPEEDTRACK_LOCK_DIR"):
            open_lock(place / name)
    (place / "speedtrack-core-2").symlink_to(tmp_path / "nothing")
    os.mkfifo(place / "speedtrack-core-3")
    for name in (2, 3):
        with pytest.raises(Permanent), ours(place, name).held(threading.Event()):
            pass
    assert victim.read_text() == "precious" and not (tmp_path / "nothing").exists()


def test_a_removed_lock_is_created_again(place: Path) -> None:
    descriptor = open_lock(place / "speedtrack-core-0")
    (place / "speedtrack-core-0").unlink()
    assert not core_locks.same_file(place / "speedtrack-core-0", descriptor)
    os.close(descriptor)
    assert free(place, 0)


def test_all_users_find_the_same_directory(tmp_path: Path) -> None:
    for name, mode in (("run/lock", 0o755), ("tmp", 0o1777)):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name).chmod(mode)
    assert lock_directory(None, tmp_path) == tmp_path / "tmp", "root may write to /run/lock, others may not"
    (tmp_path / "run/lock").chmod(0o1777)
    assert lock_directory(None, tmp_path) == tmp_path / "run/lock"
    assert lock_directory(tmp_path / "tmp") == tmp_path / "tmp"
    with pytest.raises(Permanent, match="SPEEDTRACK_LOCK_DIR /nowhere is no directory"):
        lock_directory(Path("/nowhere"))
    with pytest.raises(Permanent, match="writable for every user"):
        lock_directory(None, tmp_path / "run")


def test_a_core_has_one_name_whichever_of_its_threads_a_runner_may_use() -> None:
    def machine(*found: Core) -> Topology:
        none = frozenset[int]()
        return Topology(found, frozenset([0]), 1, none, none, none, GroupLimits(), True)

    one = machine(Core((0, 4)), Core((1, 5)))
    other = machine(Core((5,), foreign=(1,)), Core((2, 6)))
    assert physical_cores(one) == (0, 1) and physical_cores(other) == (1, 2)


def test_a_mark_survives_a_restart_and_a_copied_home_gets_another(tmp_path: Path) -> None:
    for name, text in (("m1", "a" * 32), ("clone", "b" * 32)):
        (tmp_path / name / "etc").mkdir(parents=True)
        (tmp_path / name / "etc/machine-id").write_text(text + "\n")
    home, copy = tmp_path / "home", tmp_path / "copy"
    home.mkdir(), copy.mkdir()
    mark, made = identity.mark(home, tmp_path / "m1")
    assert made and identity.mark(home, tmp_path / "m1") == (mark, False)
    (copy / "mark").write_text(mark)
    assert identity.mark(copy, tmp_path / "m1")[0] != mark, "another home of the same machine"
    cloned, made = identity.mark(home, tmp_path / "clone")
    assert made and cloned != mark, "the same home on a cloned machine"


def test_a_machine_without_an_id_is_identified_by_its_name(tmp_path: Path) -> None:
    assert identity.machine_id(tmp_path) == os.uname().nodename
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/machine-id").write_text("uninitialized\n")
    assert identity.machine_id(tmp_path) == os.uname().nodename


def test_a_copied_home_leaves_the_processes_of_its_original_alone(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    original = Processes(tmp_path / "home")
    child = original.start(ChildCommand(["sleep", "60"], {"PATH": os.environ["PATH"]}, tmp_path), subprocess.DEVNULL)
    try:
        subprocess.run(["cp", "-r", str(tmp_path / "home"), str(tmp_path / "copy")], check=True)
        copy = Processes(tmp_path / "copy")
        assert copy.mark != original.mark and copy.end_strays() == 0
        assert child.exited() is None
        assert Processes(tmp_path / "home").end_strays() == 1
    finally:
        child.end()
