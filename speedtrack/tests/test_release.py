"""`deploy/release`: it makes nothing of a tag that is no release."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings

from speedtrack import __version__
from speedtrack.tests.builders import Repository

VERSIONS = ("speedtrack/__init__.py", "runners/__init__.py", "client/speedtrack_client/__init__.py")
TAG = f"v{__version__}"


@pytest.fixture
def checkout(tmp_path: Path) -> Repository:
    """A repository whose only commit has the files of a release that the script checks, and its tag."""
    repository = Repository(tmp_path / "checkout")
    for name in ("deploy/release", *VERSIONS):
        (repository.path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(settings.BASE_DIR) / name, repository.path / name)
    (repository.path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {__version__}\n\n- A change.\n")
    repository.commit()
    repository.git("tag", "--annotate", "--message", "a release", TAG)
    return repository


def tag_another_version(checkout: Repository) -> None:
    (checkout.path / VERSIONS[1]).write_text('__version__ = "0.9.0"\n')
    tag_again(checkout)


def tag_without_notes(checkout: Repository) -> None:
    (checkout.path / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n- A change.\n")
    tag_again(checkout)


def tag_again(checkout: Repository) -> None:
    checkout.commit()
    checkout.git("tag", "--force", TAG)


def change_a_file(checkout: Repository) -> None:
    (checkout.path / "file.txt").write_text("changed\n")


@pytest.mark.parametrize(
    ("tag", "prepare", "reason"),
    [
        ("", lambda checkout: None, "name the tag"),
        ("v9.9.9", lambda checkout: None, "there is no tag v9.9.9"),
        (TAG, Repository.commit, f"git checkout {TAG}"),
        (TAG, change_a_file, "commit or restore them"),
        (TAG, tag_another_version, f"runners/__init__.py names another version than {TAG}"),
        (TAG, tag_without_notes, f'no notes below "## {__version__}"'),
    ],
)
def test_a_tag_that_is_no_release_is_refused(
    checkout: Repository, tag: str, prepare: Callable[[Repository], object], reason: str
) -> None:
    prepare(checkout)
    done = subprocess.run(["deploy/release", tag], cwd=checkout.path, capture_output=True, text=True)
    assert done.returncode == 1 and reason in done.stderr
    assert not (checkout.path / "dist").exists()


def test_a_release_gets_as_far_as_its_files(checkout: Repository) -> None:
    """Its checks pass: what is missing here is the Makefile that makes the files."""
    done = subprocess.run(["deploy/release", TAG], cwd=checkout.path, capture_output=True, text=True)
    assert done.returncode == 2 and "No rule to make target" in done.stderr
