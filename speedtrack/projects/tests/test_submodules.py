"""Submodules in the sources that a runner builds: only from listed repositories, and said where they lack."""

import io
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from speedtrack.projects.errors import RepositoryError, RepositoryUnreachable
from speedtrack.projects.mirrors import fetching, submodules
from speedtrack.projects.mirrors.directories import has_mirror
from speedtrack.projects.models import Project
from speedtrack.projects.sync import sync
from speedtrack.tests.builders import Repository


@pytest.fixture
def inner(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "inner")
    made.commit(text="inner\n")
    return made


def add(repository: Repository, path: str, url: str, sha: str, text: str = "") -> str:
    """Commit a submodule, however its address looks. Return the commit."""
    with (repository.path / ".gitmodules").open("a") as file:
        file.write(text or f'[submodule "{path}"]\n\tpath = {path}\n\turl = {url}\n')
    repository.git("add", ".gitmodules")
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{sha},{path}")
    repository.git("commit", "--quiet", "-m", f"Add {path}")
    return repository.git("rev-parse", "HEAD")


def files_of(project: Project, sha: str) -> dict[str, bytes]:
    content = b"".join(submodules.archive(project, sha))
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return {m.name: tar.extractfile(m).read() for m in tar if m.isfile()}  # type: ignore[union-attr]


def test_a_submodule_that_is_not_listed_is_not_fetched_and_said(
    project: Project, repository: Repository, inner: Repository
) -> None:
    repository.commits(1)
    sha = add(repository, "deps/inner", str(inner.path), inner.git("rev-parse", "HEAD"))
    sync(project)
    assert "deps/inner/file.txt" not in files_of(project, sha)
    said = submodules.lacking(project, sha)
    assert f"lack the submodules deps/inner ({inner.path})" in said and "Submodules in the project's settings" in said
    assert submodules.lacking(project, repository.git("rev-parse", "HEAD~1")) == ""
    assert not has_mirror("kvd.modules")


@pytest.mark.parametrize("address", ["{}", "{}/", "{}.git", "../inner"])
def test_a_listed_submodule_is_in_the_sources(
    project: Project, repository: Repository, inner: Repository, address: str
) -> None:
    repository.commits(1)
    old = inner.git("rev-parse", "HEAD")
    inner.commit(text="newer\n")
    sha = add(repository, "deps/inner", address.format(inner.path), old)
    sync(project)
    project.submodule_urls = str(inner.path)
    found = files_of(project, sha)
    assert found["deps/inner/file.txt"] == b"inner\n"
    assert found["file.txt"] == b"1\n"
    assert submodules.lacking(project, sha) == ""
    assert b"".join(submodules.archive(project, sha)) == b"".join(submodules.archive(project, sha))
    with tarfile.open(fileobj=io.BytesIO(b"".join(submodules.archive(project, sha)))) as tar:
        assert {m.mtime for m in tar} == {int(repository.git("show", "-s", "--format=%ct", sha))}


def test_submodules_of_submodules_need_to_be_listed_too(
    project: Project, repository: Repository, inner: Repository, tmp_path: Path
) -> None:
    deep = Repository(tmp_path / "deep")
    deep.commit(text="deep\n")
    middle = add(inner, "deep", str(deep.path), deep.git("rev-parse", "HEAD"))
    repository.commits(1)
    sha = add(repository, "inner", str(inner.path), middle)
    sync(project)
    project.submodule_urls = str(inner.path)
    assert "inner/deep/file.txt" not in files_of(project, sha)
    assert "inner/deep" in submodules.lacking(project, sha)
    project.submodule_urls = f"{inner.path}\n{deep.path}"
    assert files_of(project, sha)["inner/deep/file.txt"] == b"deep\n"


def test_a_submodule_that_cannot_be_had_is_an_error_that_names_it(
    project: Project, repository: Repository, inner: Repository
) -> None:
    repository.commits(1)
    sha = add(repository, "inner", str(inner.path), "1" * 40)
    sync(project)
    project.submodule_urls = str(inner.path)
    with pytest.raises(RepositoryError, match=f"submodule {inner.path}: "):
        files_of(project, sha)
    inner.path.rename(inner.path.with_name("away"))
    with pytest.raises(RepositoryError, match="inner"):
        files_of(project, sha)


@pytest.mark.parametrize("url", ["ext::sh -c 'touch pwned'", "--upload-pack=touch pwned", "-u", "file:///etc", ""])
def test_a_hostile_address_is_matched_with_the_list_and_never_used(
    project: Project, repository: Repository, inner: Repository, url: str
) -> None:
    repository.commits(1)
    text = f'[submodule "x"]\n\tpath = inner\n\turl = {url}\n[include]\n\tpath = /etc/passwd\n'
    sha = add(repository, "inner", "", inner.git("rev-parse", "HEAD"), text)
    repository.git("config", "fsck.gitmodulesUrl", "ignore")
    sync(project)
    project.submodule_urls = str(inner.path)
    if project.left_out:
        return  # git refuses such a commit itself
    assert "inner/file.txt" not in files_of(project, sha)
    assert "inner" in submodules.lacking(project, sha)


def test_only_addresses_that_may_be_tracked_are_listed(inner: Repository) -> None:
    assert (
        submodules.valid_urls(f"\n{inner.path}\r\n https://github.com/a/b \n")
        == f"{inner.path}\nhttps://github.com/a/b"
    )
    for wrong in ("ext::sh", "https://10.0.0.1/a", "http://github.com/a"):
        with pytest.raises(RepositoryError):
            submodules.valid_urls(wrong)


def test_a_repository_that_does_not_answer_is_asked_again(
    project: Project, repository: Repository, tmp_path: Path
) -> None:
    repository.commits(1)
    gone = tmp_path / "gone"
    gone.mkdir()
    sha = add(repository, "inner", str(gone), "1" * 40)
    sync(project)
    project.submodule_urls = str(gone)
    with pytest.raises(RepositoryUnreachable):
        files_of(project, sha)


def test_a_commit_that_another_call_is_fetching_is_not_fetched_again(
    project: Project, repository: Repository, inner: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commits(1)
    sha = add(repository, "inner", str(inner.path), inner.git("rev-parse", "HEAD"))
    project.submodule_urls = str(inner.path)
    sync(project)
    fetches, fetch, at_work = [], fetching.run_fetch, threading.Barrier(2)

    def run_fetch(slug: str, *arguments: Any, **options: Any) -> None:
        fetches.append(slug)
        fetch(slug, *arguments, **options)

    def call(_: int) -> dict[str, bytes]:
        at_work.wait(60)
        return files_of(project, sha)

    monkeypatch.setattr(fetching, "run_fetch", run_fetch)
    with ThreadPoolExecutor(2) as pool:
        assert [files["inner/file.txt"] for files in pool.map(call, range(2))] == [b"inner\n"] * 2
    assert len(fetches) == 1
