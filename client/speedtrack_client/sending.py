"""Send files of results: they are read here, and interpreted by the server."""

import base64
import io
import tarfile
from pathlib import Path
from typing import Any

from speedtrack_client.calls import Api
from speedtrack_client.failures import InvalidFields, NothingStored, UnfitFile, misused

LARGEST = 19 * 1024 * 1024  # bytes; the server accepts 26 MB, and base64 adds a third


def content_of(path: Path) -> bytes:
    """The bytes of a file, or of a tar archive of a folder's plain files. Raises Failure or UnfitFile."""
    try:
        content = tar_of(path) if path.is_dir() else path.read_bytes()
    except OSError as e:
        raise misused(f"cannot read {path}: {e.strerror or e}") from None
    if not content.strip():
        raise UnfitFile(f"{path} is empty")
    if len(content) > LARGEST:
        raise UnfitFile(
            f"{path} has {len(content) / 1e6:.0f} MB, at most {LARGEST / 1e6:.0f} MB are sent: send it in parts"
        )
    return content


def tar_of(folder: Path) -> bytes:
    """A tar archive of a folder. It has no dates or owners, so equal files give equal bytes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                member = tarfile.TarInfo(str(path.relative_to(folder)))
                member.size = path.stat().st_size
                with path.open("rb") as content:
                    archive.addfile(member, content)
    return buffer.getvalue()


def send(api: Api, project: str, path: Path, fields: dict[str, Any]) -> dict[str, Any]:
    """The server's report on a file; if the file cannot be used, ``error`` says why. Raises Failure."""
    report = {"taken": 0, "unchanged": 0, "refused": [], "refused_count": 0, "left_out": []}
    try:
        content, name = base64.b64encode(content_of(path)).decode(), path.resolve().name
        report = api.post(f"projects/{project}/files", {"name": name, "content": content, **fields})
    except NothingStored as e:
        report |= {"refused": e.reasons, "refused_count": e.count}
    except UnfitFile as e:
        report["error"] = str(e)
    except InvalidFields as e:
        if e.pointers != ["/content"]:
            raise  # it concerns all files
        report["error"] = str(e)
    return {"file": str(path), **report}
