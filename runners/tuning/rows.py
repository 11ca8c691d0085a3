"""The table of `python -m runners tune`: the current settings, their targets, and what prevents a change."""

import os
import resource
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runners.machine.kernel_files import LATENCY, irqbalance, latency_us
from runners.machine.placement import Placement
from runners.tuning.journal import NO_RIGHT
from runners.tuning.kernel_settings import KERNEL_SETTINGS, KernelSetting
from runners.tuning.tune import LATENCY_US, LIMITS, raised_limit

ABSENT = "not offered by this machine"


@dataclass(frozen=True)
class SettingRow:
    """A setting, for people; if it has several files, the values with their counts."""

    setting: str
    before: str
    target: str
    now: str
    note: str
    reason: str


def setting_rows(
    root: Path, plan: Placement, failures: Mapping[str, str] | None = None, earlier: Mapping[str, str] | None = None
) -> Iterator[SettingRow]:
    """All settings with their current values, and their old ones if in `earlier`. `failures`: causes by file."""
    for setting in KERNEL_SETTINGS:
        now = setting.values(root)
        before = now | {file: value for file, value in (earlier or {}).items() if file in now}
        target = {file: setting.target(value, plan) for file, value in before.items()}
        wrong = [file for file in now if now[file] != target[file]]
        yield SettingRow(
            setting.name,
            _summary(before),
            _summary(target),
            _summary(now),
            _note(root, setting, now, wrong, failures or {}),
            setting.reason,
        )
    yield _latency_row(root)
    yield from _limit_rows()
    yield _irqbalance_row(root)


def _note(
    root: Path, setting: KernelSetting, now: Mapping[str, str], wrong: Sequence[str], failures: Mapping[str, str]
) -> str:
    if not now:
        return ABSENT
    if not wrong:
        return ""
    if setting.remedy:
        return setting.remedy
    causes = Counter(failures[file] for file in wrong if file in failures)
    if not causes and not all(os.access(root / file, os.W_OK) for file in wrong):
        causes[NO_RIGHT] = len(wrong)
    return "; ".join(
        f"{cause} ({count} of {len(now)} files)" if len(now) > 1 else cause for cause, count in causes.items()
    )


def _summary(values: Mapping[str, str]) -> str:
    counts = Counter(values.values())
    return ", ".join(value if len(counts) == 1 else f"{value} ({count})" for value, count in counts.most_common())


def _latency_row(root: Path) -> SettingRow:
    limit_us = latency_us(root)
    now = "" if limit_us is None else f"{limit_us} us"
    note = "set by a runner with SPEEDTRACK_TUNE=1 while it measures"
    if limit_us is None:
        note = NO_RIGHT if (root / LATENCY).exists() else ABSENT
    reason = "waking from deep sleep takes up to hundreds of us, and depends on how long a core was idle"
    return SettingRow("sleep_states", now, f"{LATENCY_US} us", now, note, reason)


def _limit_rows() -> Iterator[SettingRow]:
    reason = "servers inherit it; with less they serve fewer clients, or use other system calls"
    for name, (kind, target) in LIMITS.items():
        soft, hard = resource.getrlimit(kind)
        raised = raised_limit(soft, hard, target)
        note = "raised by a runner with SPEEDTRACK_TUNE=1 for itself and its servers" if raised != soft else ""
        if target is not None and 0 <= hard < target:
            note = f"the hard limit is {hard}: raise it (ulimit -Hn, LimitNOFILE=)"
        yield SettingRow(name.replace(" ", "_"), _limit(soft), _limit(raised), _limit(soft), note, reason)


def _limit(value: int) -> str:
    return "unlimited" if value == -1 else str(value)


def _irqbalance_row(root: Path) -> SettingRow:
    state = irqbalance(root)
    note = "run `systemctl stop irqbalance`" if state == "running" else ""
    return SettingRow("irqbalance", state, "not running", state, note, "it moves interrupts back to the measured cores")
