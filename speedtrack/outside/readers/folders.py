"""Pack a folder of results on this machine as the archive that readers take. Used by the command, not by the server."""

import io
import tarfile
from pathlib import Path

from speedtrack.outside.readers import ReadError
from speedtrack.outside.readers.files import LARGEST_FILE, MOST_MEMBERS


def tar_of(folder: Path) -> bytes:
    """A tar archive of the folder's JSON files, without links. Raises ReadError if there are none, or too many."""
    archive, total = io.BytesIO(), 0
    if not (paths := json_files(folder)):
        raise ReadError("the folder has no JSON file", folder.name)
    with tarfile.open(fileobj=archive, mode="w") as packing:
        for number, path in enumerate(paths):
            total += path.stat().st_size
            if number >= MOST_MEMBERS or total > LARGEST_FILE:
                limit = f"{MOST_MEMBERS:,} files or {LARGEST_FILE / 1e6:.0f} MB"
                raise ReadError(f"the folder has more than {limit} of JSON", folder.name, "give a smaller part of it")
            packing.add(path, path.relative_to(folder).as_posix(), recursive=False)
    return archive.getvalue()


def json_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.json") if path.is_file() and not path.is_symlink())
