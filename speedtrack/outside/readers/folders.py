"""A folder of results on this machine, whose files are read one at a time. Used by the command, not by the server."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from speedtrack.outside.readers import ReadError
from speedtrack.outside.readers.files import File, Folder


class FilesOfFolder(Mapping[str, File]):
    """The JSON files of a folder by their paths within it, without links. Each is read anew when it is asked for.

    Raises ReadError for one that cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        paths = (path for path in folder.rglob("*.json") if path.is_file() and not path.is_symlink())
        self.paths = dict.fromkeys(sorted(path.relative_to(folder).as_posix() for path in paths))

    def __getitem__(self, path: str) -> File:
        if path not in self.paths:
            raise KeyError(path)
        try:
            return File((self.folder / path).read_bytes(), path)
        except OSError as e:
            raise ReadError(f"it cannot be read ({e.strerror})", path, "let the command read it") from e

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)

    def __contains__(self, path: object) -> bool:
        return path in self.paths


def folder_of(path: Path) -> Folder:
    return Folder(name=path.name, files=FilesOfFolder(path))
