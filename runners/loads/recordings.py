"""Recorded traffic that a workload sends again: files in a folder of this machine, known by their digests."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.errors import OutOfReach

SLOWEST_READ_BYTES_PER_S = 50_000_000.0


@dataclass(frozen=True)
class Recordings:
    """The folder of the recordings of one machine."""

    folder: Path

    def check(self, workload: Mapping[str, Any]) -> None:
        """Raises OutOfReach unless this machine has the recording of a workload, if it has any."""
        replay = workload.get("replay")
        if replay is None:
            return
        name, file = replay["file"], self.folder / replay["file"]
        try:
            file.resolve(strict=True).relative_to(self.folder.resolve(strict=True))
            with file.open("rb") as content:
                digest = "sha256:" + hashlib.file_digest(content, "sha256").hexdigest()
        except ValueError as error:
            raise OutOfReach(f"the recording {name} leads out of {self.folder}: put the file itself there") from error
        except OSError as error:
            raise OutOfReach(
                f"the recording {name} cannot be read on this machine ({error.strerror}): put it into {self.folder}, "
                "or set SPEEDTRACK_RECORDINGS to the folder that has it"
            ) from error
        if digest != replay["digest"]:
            raise OutOfReach(
                f"the recording {name} of this machine is another one, with the digest {digest}: put the suite's "
                f"into {self.folder}, or correct replay.digest, which begins a new line"
            )

    def reading_s(self, workload: Mapping[str, Any]) -> float:
        """The seconds in which the driver has read the recording of a workload once, at most; 0.0 if it has none."""
        replay = workload.get("replay")
        return (self.folder / replay["file"]).stat().st_size / SLOWEST_READ_BYTES_PER_S if replay else 0.0


def recording_options(workload: Mapping[str, Any], folder: str) -> list[str]:
    """The options of the driver by which it finds the recording of a workload, if it has any, in this folder."""
    return ["--recordings", folder] if "replay" in workload else []
