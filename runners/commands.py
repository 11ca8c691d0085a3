"""The commands `plan` and `tune`: both show the placement or the kernel's settings; `tune` can change the latter."""

import json
from dataclasses import asdict
from pathlib import Path

from runners.machine import topology
from runners.machine.core_locks import NOT_COVERED, lock_directory
from runners.machine.kernel_files import ROOT
from runners.machine.placement import Planner, place
from runners.tuning.journal import HAND, RUN, Journal, journal_directory
from runners.tuning.kernel_settings import needed_changes
from runners.tuning.rows import SettingRow, setting_rows

ROLES = ("server", "driver", "housekeeping")


def show_plan(servers: int, locks: Path | None, as_json: bool) -> None:
    """Prints the placement for a server of so many cores: a table for people, a document for programs."""
    plan, directory = place(servers), lock_directory(locks)
    cpus = plan.document()
    if as_json:
        print(json.dumps(cpus | {"locks": str(directory)}))
        return
    print(f"{'role':<13} {'CPUs':<12} why")
    for role, reason in plan.reasons:
        print(f"{role:<13} {cpus.get(role, '') if role in ROLES else '':<12} {reason}")
    print(f"{'locks':<13} {'':<12} in {directory}: one runner at a time uses a core; {NOT_COVERED}")


def tune_by_hand(servers: int, apply: bool, restore: bool) -> list[SettingRow]:
    """The kernel's settings, after setting or restoring them on request. Raises SettingsError."""
    plan = Planner(topology.read_topology(), allow_shared=True).plan(servers)
    failures: dict[str, str] = {}
    earlier: dict[str, str] = {}
    if apply or restore:
        with journal_directory() as directory:
            journals = [Journal(ROOT, directory, owner) for owner in (RUN, HAND)]
            for journal in journals:
                earlier |= {change.file: change.target for change in journal.read()}
                failures |= journal.undo()
            if apply:
                changes = needed_changes(ROOT, plan)
                earlier = {change.file: change.before for change in changes}
                failures |= journals[-1].apply(changes)
    return list(setting_rows(ROOT, plan, failures, earlier))


def show_tuning(rows: list[SettingRow], as_json: bool) -> None:
    if as_json:
        print(json.dumps([asdict(row) for row in rows]))
        return
    print(f"{'setting':<18} {'before':<16} {'now':<16} {'target':<16} remedy")
    for row in rows:
        values = (f"{value or '-':<16}" for value in (row.before, row.now, row.target))
        print(f"{row.setting:<18} {' '.join(values)} {row.note}".rstrip())
    print("\nwhy")
    for row in rows:
        print(f"{row.setting:<18} {row.reason}")
