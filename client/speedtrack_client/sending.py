"""Send files of results: they are read here, and interpreted by the server."""

import base64
import io
import tarfile
from pathlib import Path
from typing import Any

from speedtrack_client.calls import Api
from speedtrack_client.failures import NothingStored, misused

LARGEST = 19 * 1024 * 1024  # bytes; the server accepts 26 MB, and base64 adds a third


def content_of(path: Path) -> bytes:
    """The bytes of a file, or of a tar archive of a folder's plain files. Raises Failure."""
    try:
        content = tar_of(path) if path.is_dir() else path.read_bytes()
    except OSError as e:
        raise misused(f"cannot read {path}: {e.strerror or e}") from None
    if not content.strip():
        raise misused(f"{path} is empty")
    if len(content) > LARGEST:
        raise misused(
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
    """The server's report on a file. Raises Failure."""
    content = base64.b64encode(content_of(path)).decode()
    name = path.resolve().name
    try:
        report: dict[str, Any] = api.post(f"projects/{project}/files", {"name": name, "content": content, **fields})
    except NothingStored as e:
        report = {"taken": 0, "unchanged": 0, "refused": e.refused, "refused_count": len(e.refused), "left_out": []}
    return {"file": str(path), **report}
