import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.mirrors import fetching, git
from speedtrack.projects.mirrors.directories import make_mirror
from speedtrack.projects.mirrors.remotes import Remote
from speedtrack.tests import builders
from speedtrack.tests.builders import Repository


@pytest.fixture(autouse=True)
def mirrors(tmp_path: Path, settings: Any) -> None:
    settings.MIRRORS = tmp_path / "mirrors"


def files_of(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {m.name: tar.extractfile(m).read() for m in tar if m.isfile()}  # type: ignore[union-attr]


def archived(repository: Repository, sha: str) -> dict[str, bytes]:
    fetching.fetch("kvd", Remote(str(repository.path)), ["main"])
    return files_of(b"".join(git.archive("kvd", sha)))


def test_the_archive_of_a_commit_has_its_files_and_no_others(repository: Repository) -> None:
    (repository.path / "src").mkdir()
    (repository.path / "src" / "main.c").write_bytes(b"int main;\r\n\xff")
    first = repository.commit(text="one\n")
    (repository.path / "src" / "more.c").write_text("later")
    repository.commit(text="two\n")
    assert archived(repository, first) == {"file.txt": b"one\n", "src/main.c": b"int main;\r\n\xff"}


def test_the_archive_keeps_modes_and_links(repository: Repository) -> None:
    (repository.path / "run").write_text("#!/bin/sh\n")
    (repository.path / "run").chmod(0o755)
    (repository.path / "link").symlink_to("run")
    sha = repository.commit()
    fetching.fetch("kvd", Remote(str(repository.path)), ["main"])
    with tarfile.open(fileobj=io.BytesIO(b"".join(git.archive("kvd", sha)))) as tar:
        assert tar.getmember("run").mode & 0o100
        assert tar.getmember("link").linkname == "run"


def test_a_file_of_many_blocks_arrives_whole(repository: Repository) -> None:
    content = bytes(range(256)) * 4096
    (repository.path / "large").write_bytes(content)
    assert archived(repository, repository.commit())["large"] == content


@pytest.mark.parametrize("sha", ["main", "HEAD", "--output=x", "0" * 39, "g" * 40, f"{'0' * 40}\n", "0" * 40])
def test_only_the_id_of_a_commit_of_the_mirror_is_archived(repository: Repository, sha: str) -> None:
    repository.commit()
    fetching.fetch("kvd", Remote(str(repository.path)), ["main"])
    with pytest.raises(RepositoryError):
        list(git.archive("kvd", sha))


def test_attributes_of_the_repository_hide_and_change_no_file(repository: Repository) -> None:
    (repository.path / ".gitattributes").write_text("hidden export-ignore\nversion export-subst\n")
    (repository.path / "hidden").write_text("needed by the build\n")
    (repository.path / "version").write_text("$Format:%H$\n")
    found = archived(repository, repository.commit())
    assert found["hidden"] == b"needed by the build\n"
    assert found["version"] == b"$Format:%H$\n"


def test_a_commit_that_is_not_in_the_mirror_is_refused_before_the_first_block(repository: Repository) -> None:
    repository.commit()
    fetching.fetch("kvd", Remote(str(repository.path)), ["main"])
    with pytest.raises(RepositoryError):
        git.archive("kvd", "1" * 40)


def test_an_archive_that_breaks_off_is_an_error_never_a_short_file(repository: Repository) -> None:
    (repository.path / "large").write_bytes(bytes(range(256)) * 4096)
    sha = repository.commit()
    objects = repository.path / ".git" / "objects"
    (make_mirror("kvd") / "objects" / "info" / "alternates").write_text(f"{objects}\n")
    blob = repository.git("rev-parse", f"{sha}:large")
    (objects / blob[:2] / blob[2:]).unlink()
    with pytest.raises(RepositoryError, match="git archive"):
        list(git.archive("kvd", sha))


def test_an_archive_that_nobody_reads_to_the_end_leaves_no_process(repository: Repository) -> None:
    (repository.path / "large").write_bytes(bytes(range(256)) * 40_000)
    sha = repository.commit()
    fetching.fetch("kvd", Remote(str(repository.path)), ["main"])
    blocks = iter(git.archive("kvd", sha))
    next(blocks)
    blocks.close()  # type: ignore[attr-defined]
    assert not builders.processes_with(sha)
