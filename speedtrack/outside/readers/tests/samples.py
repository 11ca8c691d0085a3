"""The sample files by name, and what reads them."""

import tarfile
from io import BytesIO
from pathlib import Path

from speedtrack.outside.readers import Options, OutsideResult
from speedtrack.outside.readers.files import File
from speedtrack.outside.readers.registry import reader_named, reader_of
from speedtrack.outside.readers.results import FileResults

FILES = Path(__file__).parent / "files"
FORMATS = {
    "redis-benchmark.csv": "redis-benchmark",
    "redis-benchmark-tests.csv": "redis-benchmark",
    "valkey-benchmark.csv": "redis-benchmark",
    "memtier.json": "memtier",
    "memtier-runs.json": "memtier",
    "github-action-smaller.json": "github-action",
    "github-action-bigger.json": "github-action",
    "data.js": "github-action-history",
    "bencher.json": "bencher",
    "google-benchmark.json": "google-benchmark",
    "google-aggregates.json": "google-benchmark",
    "hyperfine.json": "hyperfine",
    "hyperfine-parameters.json": "hyperfine",
    "pyperf.json": "pyperf",
    "pyperf-command.json": "pyperf",
    "pytest-benchmark.json": "pytest-benchmark",
    "go.txt": "go",
    "criterion": "criterion",
    "cargo-criterion.json": "cargo-criterion",
    "jmh.json": "jmh",
    "jmh-sample.json": "jmh",
    "asv": "asv",
}


def content_of(name: str) -> bytes:
    path = FILES / name
    return tar_of(path) if path.is_dir() else path.read_bytes()


def reading_of(name: str, **options: object) -> FileResults:
    content = content_of(name)
    return reader_of(File(content, name)).reading(File(content, name), Options(**options))  # type: ignore[arg-type]


def read(content: bytes, format: str, **options: object) -> list[OutsideResult]:
    return reader_named(format).read(content, Options(**options))  # type: ignore[arg-type]


def tar_of(folder: Path) -> bytes:
    """A tar archive of a folder, as people upload it."""
    packing = BytesIO()
    with tarfile.open(fileobj=packing, mode="w") as tar:
        tar.add(folder, "")
    return packing.getvalue()


def archive(**members: bytes) -> bytes:
    """A tar archive of files by name, with a slash for each double underscore."""
    packing = BytesIO()
    with tarfile.open(fileobj=packing, mode="w") as tar:
        for name, content in members.items():
            header = tarfile.TarInfo(name.replace("__", "/") + ".json")
            header.size = len(content)
            tar.addfile(header, BytesIO(content))
    return packing.getvalue()
