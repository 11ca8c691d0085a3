"""The journal of changed kernel settings: on disk before the first change, so that all are restored after a crash.

There are two journals: a runner keeps `run` during one run, and `tune --apply` keeps `hand` until `tune --restore`.
"""

import contextlib
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from runners.errors import SettingsError
from runners.files import write_durably
from runners.machine.file_lock import lock_file
from runners.machine.kernel_files import ROOT, text
from runners.tuning.kernel_settings import KERNEL_SETTINGS, SettingChange

log = logging.getLogger(__name__)

RUN, HAND = "run", "hand"
DIRECTORIES = ("run/lock", "var/lock", "tmp")  # of the host, not of a runner home: the settings belong to the host
NO_RIGHT = "this user may not change it: run as root"


@dataclass(frozen=True)
class Journal:
    """The changes of one owner on this host."""

    root: Path
    directory: Path
    owner: str

    @property
    def file(self) -> Path:
        return self.directory / f"{self.owner}.json"

    def read(self) -> list[SettingChange]:
        """The changes to undo; none after a restart of the machine, which resets all settings."""
        try:
            content = json.loads(self.file.read_text())
            if content["boot_id"] == self._boot_id():
                return [SettingChange(**change) for change in content["changes"]]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.error("the journal %s cannot be read (%s): nothing of it is undone", self.file, error)
        self.file.unlink(missing_ok=True)
        return []

    def apply(self, changes: Sequence[SettingChange]) -> dict[str, str]:
        """Writes the journal, then makes the changes; returns the causes of failures by file."""
        try:
            self._write(changes)
        except OSError as error:
            return {change.file: f"no journal can be written: {error.strerror}" for change in changes}
        return self._set({change.file: change.target for change in changes})

    def undo(self) -> dict[str, str]:
        """Restores settings that nobody changed since; returns the causes of failures, which stay in the journal."""
        ours = [change for change in self.read() if self._value(change) == change.target]
        failures = self._set({change.file: change.before for change in reversed(ours)})
        self._write([change for change in ours if change.file in failures])
        return failures

    def _value(self, change: SettingChange) -> str:
        normal = next((setting.normal for setting in KERNEL_SETTINGS if setting.name == change.setting), str)
        return normal(text(self.root / change.file))

    def _set(self, values: Mapping[str, str]) -> dict[str, str]:
        failures = {}
        for file, value in values.items():
            try:
                (self.root / file).write_text(value)
            except OSError as error:
                failures[file] = (
                    NO_RIGHT if isinstance(error, PermissionError) and os.geteuid() else str(error.strerror)
                )
        return failures

    def _write(self, changes: Sequence[SettingChange]) -> None:
        if changes:
            content = {"boot_id": self._boot_id(), "changes": [asdict(change) for change in changes]}
            write_durably(self.file, json.dumps(content).encode())
        else:
            self.file.unlink(missing_ok=True)

    def _boot_id(self) -> str:
        return text(self.root / "proc/sys/kernel/random/boot_id")


@contextlib.contextmanager
def journal_directory(root: Path = ROOT) -> Iterator[Path]:
    """The directory of this host's journals, for one process at a time. Raises SettingsError."""
    directory = _state_directory(root)
    with lock_file(
        directory / "lock", "another runner (process %s) tunes this machine: only one may, stop one of them"
    ):
        yield directory


def _state_directory(root: Path) -> Path:
    parent = next((root / name for name in DIRECTORIES if os.access(root / name, os.W_OK | os.X_OK)), None)
    if parent is None:
        raise SettingsError(f"none of /{', /'.join(DIRECTORIES)} can be written to: no place for the journal of tuning")
    directory = parent / "speedtrack-tune"
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    if directory.is_symlink() or not directory.is_dir() or directory.lstat().st_uid != os.geteuid():
        raise SettingsError(f"{directory} belongs to another user: tune as that user, or remove it")
    return directory
