"""Tuning on trees of other machines, with crashes between; and on this one, restored at once."""

import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runners.errors import SettingsError
from runners.machine.kernel_files import ROOT, latency_us, text
from runners.machine.placement import Placement
from runners.tests.trees import write
from runners.tuning import journal as journals
from runners.tuning import rows as setting_rows
from runners.tuning import tune
from runners.tuning.kernel_settings import KERNEL_SETTINGS, SettingChange, needed_changes

PLAN = Placement(frozenset([1]), frozenset([2]), frozenset([0, 3]), None, ())
BEFORE = {
    **{f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor": "powersave" for cpu in range(4)},
    "sys/devices/system/cpu/intel_pstate/no_turbo": "0",
    "sys/devices/system/cpu/cpufreq/boost": "1",
    "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never",
    "proc/sys/vm/swappiness": "60",
    "proc/sys/kernel/numa_balancing": "1",
    "proc/sys/vm/overcommit_memory": "0",
    "proc/sys/net/core/somaxconn": "128",
    "proc/sys/kernel/perf_event_max_sample_rate": "100000",
    "proc/irq/24/smp_affinity_list": "0-3",
    "proc/irq/25/smp_affinity_list": "1",
    "proc/irq/26/smp_affinity_list": "0,3",
}
AFTER = {
    **{f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor": "performance" for cpu in range(4)},
    "sys/devices/system/cpu/intel_pstate/no_turbo": "1",
    "sys/devices/system/cpu/cpufreq/boost": "0",
    "sys/kernel/mm/transparent_hugepage/enabled": "madvise",
    "proc/sys/vm/swappiness": "1",
    "proc/sys/kernel/numa_balancing": "0",
    "proc/sys/vm/overcommit_memory": "1",
    "proc/sys/net/core/somaxconn": "4096",
    "proc/sys/kernel/perf_event_max_sample_rate": "1000",
    "proc/irq/24/smp_affinity_list": "0,3",
    "proc/irq/25/smp_affinity_list": "0,3",
    "proc/irq/26/smp_affinity_list": "0,3",
}
ASLR, BOOT_ID = "proc/sys/kernel/randomize_va_space", "proc/sys/kernel/random/boot_id"
ELSEWHERE = {ASLR: "2", BOOT_ID: "a-boot", "proc/1/comm": "systemd", "proc/77/comm": "irqbalance"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "run/lock").mkdir(parents=True)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/cpu_dma_latency").write_bytes((2_000_000_000).to_bytes(4, "little"))
    write(tmp_path, BEFORE | ELSEWHERE)
    return tmp_path


def values(root: Path) -> dict[str, str]:
    """As a kernel would show them: the huge pages' word alone, interrupts without ranges."""
    settings = {file: setting for setting in KERNEL_SETTINGS for file in setting.values(root)}
    return {file: settings[file].normal(text(root / file)) for file in BEFORE}


UNTOUCHED = {
    **BEFORE,
    "sys/kernel/mm/transparent_hugepage/enabled": "always",
    "proc/irq/24/smp_affinity_list": "0,1,2,3",
}


def rows(root: Path) -> dict[str, setting_rows.SettingRow]:
    return {row.setting: row for row in setting_rows.setting_rows(root, PLAN)}


@contextmanager
def journal(root: Path, owner: str = journals.RUN) -> Iterator[journals.Journal]:
    with journals.journal_directory(root) as directory:
        yield journals.Journal(root, directory, owner)


def test_a_run_is_tuned_and_everything_is_as_before_afterwards(root: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with tune.tuning_for_runs(True, root) as tuning, tuning(PLAN):
        assert values(root) == AFTER and latency_us(root) == tune.LATENCY_US
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= limits[0]
    assert values(root) == UNTOUCHED and text(root / ASLR) == "2"
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == limits
    assert [file.name for file in (root / "run/lock/speedtrack-tune").iterdir()] == ["lock"]


def test_showing_the_settings_changes_nothing(root: Path) -> None:
    found = rows(root)
    assert values(root) == UNTOUCHED and not (root / "run/lock/speedtrack-tune").exists()
    assert (found["governor"].now, found["governor"].target) == ("powersave", "performance")
    assert found["interrupts"].now == "0,1,2,3 (1), 1 (1), 0,3 (1)" and found["interrupts"].target == "0,3"
    assert found["irqbalance"].note == "run `systemctl stop irqbalance`" and found["aslr"].note == ""
    assert all(row.reason for row in found.values())


def test_address_space_randomisation_is_only_shown(root: Path) -> None:
    write(root, {ASLR: "0"})
    with tune.tuning_for_runs(True, root) as tuning, tuning(PLAN):
        assert text(root / ASLR) == "0"
    assert rows(root)["aslr"].note == "run `sysctl kernel.randomize_va_space=2`"


def test_a_good_value_is_not_changed(root: Path) -> None:
    good = {"proc/sys/vm/swappiness": "0", "proc/sys/net/core/somaxconn": "65535"}
    write(root, good | {"sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]"})
    named = {change.setting for change in needed_changes(root, PLAN)}
    assert not named & {"swappiness", "somaxconn", "thp", "aslr"}


CRASHER = """
import os, signal, sys
from pathlib import Path
from runners.tuning import tune
from runners.tests.tuning.test_tune import PLAN
root, moment = Path(sys.argv[1]), int(sys.argv[2])
write_text = Path.write_text
def dies(self, value):
    global moment
    if moment == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    moment -= 1
    return write_text(self, value)
Path.write_text = dies
with tune.tuning_for_runs(True, root) as tuning, tuning(PLAN):
    pass
"""


@pytest.mark.parametrize("moment", [0, 1, 7, len(AFTER) - 1, len(AFTER) + 3])
@pytest.mark.parametrize("asked", [True, False], ids=["the next run tunes", "the next run does not"])
def test_settings_of_a_killed_runner_are_restored_at_the_next_start(root: Path, moment: int, asked: bool) -> None:
    """It is killed before its first write, in the middle, before the last, and while it restores."""
    killed = subprocess.run([sys.executable, "-c", CRASHER, str(root), str(moment)], cwd=Path(__file__).parents[3])
    assert killed.returncode == -signal.SIGKILL
    assert (root / "run/lock/speedtrack-tune/run.json").exists()
    assert (values(root) == UNTOUCHED) == (moment == 0)
    with tune.tuning_for_runs(asked, root):
        assert values(root) == UNTOUCHED
    assert not (root / "run/lock/speedtrack-tune/run.json").exists()


def test_a_setting_that_others_changed_meanwhile_is_not_restored(root: Path) -> None:
    with journal(root) as ours:
        assert ours.apply(needed_changes(root, PLAN)) == {}
        write(root, {"proc/sys/vm/swappiness": "10"})
        assert ours.undo() == {}
    assert values(root) == UNTOUCHED | {"proc/sys/vm/swappiness": "10"}


def test_after_a_restart_of_the_machine_nothing_is_undone(root: Path) -> None:
    with journal(root) as ours:
        ours.apply(needed_changes(root, PLAN))
        write(root, {BOOT_ID: "another-boot"})
        assert ours.undo() == {} and not ours.file.exists()
    assert values(root) == AFTER


def test_an_unreadable_journal_is_logged_and_dropped(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    with journal(root) as ours:
        ours.file.write_text('{"boot_id": "a-b')
        assert ours.undo() == {} and not ours.file.exists()
    assert "cannot be read" in caplog.text


def test_a_run_on_a_machine_tuned_by_hand_leaves_it_tuned(root: Path) -> None:
    with journal(root, journals.HAND) as hand:
        hand.apply(needed_changes(root, PLAN))
    with tune.tuning_for_runs(True, root) as tuning, tuning(PLAN):
        assert values(root) == AFTER
    assert values(root) == AFTER
    with journal(root, journals.HAND) as hand:
        hand.undo()
    assert values(root) == UNTOUCHED


def test_only_one_runner_tunes_a_machine(root: Path) -> None:
    with tune.tuning_for_runs(True, root):
        with (
            pytest.raises(SettingsError, match=f"process {os.getpid()}.* tunes this machine"),
            tune.tuning_for_runs(True, root),
        ):
            pass
        with tune.tuning_for_runs(False, root) as tuning, tuning(PLAN):
            assert values(root) == UNTOUCHED


def test_a_directory_of_another_user_is_refused(root: Path) -> None:
    (root / "run/lock/speedtrack-tune").symlink_to(root)
    with pytest.raises(SettingsError, match="belongs to another user"), journals.journal_directory(root):
        pass


def test_a_machine_that_offers_nothing_is_not_fatal(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    with tune.tuning_for_runs(True, tmp_path) as tuning, tuning(PLAN):
        pass
    found = rows(tmp_path)
    assert {found[setting.name].note for setting in KERNEL_SETTINGS} == {setting_rows.ABSENT}
    assert found["sleep_states"].note == setting_rows.ABSENT and found["irqbalance"].now == "unknown"


def test_a_directory_for_the_journal_is_needed(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no place for the journal"), journals.journal_directory(tmp_path):
        pass


def test_a_file_that_refuses_is_reported_and_the_others_are_set(root: Path) -> None:
    """An interrupt that cannot be moved refuses the write; here a directory in the file's place does."""
    interrupt = root / "proc/irq/24/smp_affinity_list"
    with journal(root) as ours:
        changes = needed_changes(root, PLAN)
        interrupt.unlink()
        interrupt.mkdir()
        refused = ours.apply(changes)
        assert refused == {"proc/irq/24/smp_affinity_list": "Is a directory"}
        assert text(root / "proc/irq/25/smp_affinity_list") == "0,3"
        assert ours.undo() == {} and text(root / "proc/irq/25/smp_affinity_list") == "1"


def test_a_change_that_cannot_be_undone_stays_in_the_journal(root: Path) -> None:
    swappiness = root / "proc/sys/vm/swappiness"
    with journal(root) as ours:
        ours.apply(needed_changes(root, PLAN))
        swappiness.unlink()
        swappiness.symlink_to("/proc/version")  # can be read, refuses every write
        stale = [SettingChange("swappiness", "proc/sys/vm/swappiness", "60", text(swappiness))]
        assert list(journals.Journal(root, ours.directory, "other").apply(stale)) == ["proc/sys/vm/swappiness"]
        other = journals.Journal(root, ours.directory, "other")
        assert list(other.undo()) == ["proc/sys/vm/swappiness"] and other.read() == stale


SAFE = [setting for setting in KERNEL_SETTINGS if setting.name in ("swappiness", "somaxconn")]


def test_this_machine_is_tuned_and_restored_or_the_missing_right_is_named(tmp_path: Path) -> None:
    ours = journals.Journal(ROOT, tmp_path, journals.RUN)
    with (ROOT / "proc/sys/vm/swappiness").open() as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # another run of the tests on this machine waits here
        before = [(setting.name, file, value) for setting in SAFE for file, value in setting.values(ROOT).items()]
        changes = [SettingChange(name, file, value, str(int(value) + 1)) for name, file, value in before]
        assert len(changes) == len(SAFE)
        try:
            refused = ours.apply(changes)
            assert set(refused) in (set(), {change.file for change in changes})
            assert set(refused.values()) <= {journals.NO_RIGHT, "Read-only file system"}
            expected = [change.before if change.file in refused else change.target for change in changes]
            assert [text(ROOT / change.file) for change in changes] == expected
        finally:
            assert ours.undo() == {}
        assert [text(ROOT / file) for _, file, _ in before] == [value for _, _, value in before]


def test_the_table_of_this_machine_is_printed_without_settings() -> None:
    command = [sys.executable, "-m", "runners", "tune"]
    environment = {"PATH": os.environ["PATH"]}
    output = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=Path(__file__).parents[3])
    assert output.returncode == 0 and output.stdout.startswith("setting ")
    for setting in KERNEL_SETTINGS:
        assert f"\n{setting.name} " in output.stdout and setting.reason in output.stdout
    document = subprocess.run([*command, "--json"], env=environment, capture_output=True, cwd=Path(__file__).parents[3])
    assert {row["setting"] for row in json.loads(document.stdout)} >= {setting.name for setting in KERNEL_SETTINGS}
