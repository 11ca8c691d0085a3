"""Directories that code of others has filled are removed, or moved aside, whatever they hold."""

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.removal import FS_IOC_SETFLAGS, empty_directory, remove, remove_left

IMMUTABLE, APPEND_ONLY = 0x10, 0x20
NOBODY = 65534
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"


def nest(directory: Path, depth: int, name: str) -> None:
    """Makes directories inside of each other, of which the deepest has a file."""
    directory.mkdir(exist_ok=True)
    descriptor = os.open(directory, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=descriptor)
        deeper = os.open(name, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = deeper
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)


@pytest.mark.parametrize(("depth", "name"), [(1_500, "d"), (5_000, "d" * 255), (20_000, "d" * 200)])
def test_no_directory_is_too_deep(tmp_path: Path, depth: int, name: str) -> None:
    nest(tmp_path / "tree", depth, name)
    assert remove(tmp_path / "tree") == "" and not list(tmp_path.iterdir())


def test_a_wide_tree_with_every_kind_of_file_is_removed(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for name in ("a/b/c", "a/d", "e", "\udcff"):
        (tree / name).mkdir(parents=True)
        os.mkfifo(tree / name / "pipe")
        (tree / name / "link").symlink_to("/nowhere")
    for number in range(3_000):
        (tree / "e" / str(number)).mkdir()
    assert empty_directory(tree) == tree and list(tree.iterdir()) == [] and list(tmp_path.iterdir()) == [tree]


def test_no_link_is_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o750)
    (outside / "file").write_text("kept")
    (tmp_path / "tree" / "inner").mkdir(parents=True)
    (tmp_path / "tree" / "link").symlink_to(outside)
    (tmp_path / "tree" / "inner" / "link").symlink_to(outside)
    assert remove(tmp_path / "tree") == "" and (outside / "file").read_text() == "kept"
    (tmp_path / "tree").symlink_to(outside)
    assert remove(tmp_path / "tree") == "" and (outside / "file").read_text() == "kept"
    assert outside.stat().st_mode & 0o777 == 0o750 and not (tmp_path / "tree").is_symlink()


def test_what_is_absent_is_removed(tmp_path: Path) -> None:
    assert remove(tmp_path / "tree") == "" and remove(tmp_path / "no" / "tree") == ""


ORDINARY = """
import os, sys
from pathlib import Path
from runners.removal import empty_directory, remove, remove_left
home = Path(sys.argv[1])
tree = home / "tree"
(tree / "a" / "b").mkdir(parents=True)
(tree / "a" / "b" / "file").touch()
for path, mode in ((tree / "a" / "b", 0), (tree / "a", 0o500), (tree, 0)):
    path.chmod(mode)
empty_directory(tree)
print(os.geteuid(), sorted(os.listdir(home)), os.listdir(tree))
tree.rmdir()
(home / "of-root").rename(tree)
(tree / "own").mkdir()
print(remove(tree) == remove_left(home), remove_left(home).replace(str(home), ""), os.listdir(home))
"""


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that other users may enter: those of pytest are root's."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


@pytest.mark.ordinary_user
def test_an_ordinary_user_removes_what_he_can_and_moves_the_rest_aside(open_directory: Path) -> None:
    (open_directory / "runners").mkdir()
    for name in ("__init__.py", "removal.py"):
        shutil.copy(Path(__file__).parents[1] / name, open_directory / "runners" / name)
    home = open_directory / "home"
    (home / "of-root" / "inner").mkdir(parents=True)
    (home / "of-root" / "inner" / "file").touch()
    for path in (home, home / "of-root"):
        shutil.chown(path, NOBODY, NOBODY)
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    argv = [*user, PYTHON, "-c", ORDINARY, str(home)]
    done = subprocess.run(argv, cwd=open_directory, env={"PATH": os.defpath}, capture_output=True, text=True)
    first, second = done.stdout.splitlines()
    assert first == f"{NOBODY} ['of-root', 'tree'] []", done.stderr
    (aside,) = os.listdir(home)
    assert second == f"True /{aside} cannot be removed (Directory not empty): remove it by hand ['{aside}']"
    assert len(os.listdir(home / aside)) == 1 and remove_left(home) == "" and os.listdir(home) == []


def protect(path: Path, flags: int) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, FS_IOC_SETFLAGS, struct.pack("i", flags))
    except OSError as error:
        pytest.skip(f"the file system of {path} has no such attribute ({error})")
    finally:
        os.close(descriptor)


@pytest.mark.root
@pytest.mark.parametrize("flags", [IMMUTABLE, APPEND_ONLY])
def test_protected_files_and_directories_are_removed(tmp_path: Path, flags: int) -> None:
    tree = tmp_path / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "file").touch()
    for path in (tree / "a" / "file", tree / "a" / "b", tree / "a", tree):
        protect(path, flags)
    assert remove(tree) == "" and list(tmp_path.iterdir()) == []


MOUNTED = """
set -e
mkdir -p tree/a/below tree/b outside top
echo kept > outside/file
mount --bind outside tree/a/below
mount -t tmpfs none tree/b
touch tree/b/file
touch tree/file
mount --bind outside/file tree/file
mount --bind outside top
"$@"
cat outside/file
ls
"""


@pytest.mark.mount
def test_what_is_mounted_in_a_directory_is_not_entered(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from runners.removal import remove; "
    code += "print(list(map(remove, map(Path.absolute, map(Path, ('tree', 'top'))))))"
    argv = ["unshare", "--mount", "sh", "-c", MOUNTED, "sh", sys.executable, "-c", code]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout == "['', '']\nkept\noutside\n", done.stderr


def test_a_directory_to_which_a_process_still_writes_is_out_of_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is moved aside at once, and removed when the process has ended."""
    monkeypatch.setattr("runners.removal.LIMIT_S", 0.5)
    tree, ended = tmp_path / "tree", threading.Event()
    tree.mkdir()
    descriptor = os.open(tree, os.O_RDONLY)

    def write() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            with contextlib.suppress(OSError):
                os.mkdir(str(number), dir_fd=descriptor)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert empty_directory(tree) == tree
        assert list(tree.iterdir()) == []
    finally:
        ended.set()
        thread.join()
        os.close(descriptor)
    monkeypatch.undo()
    assert remove_left(tmp_path) == "" and list(tmp_path.iterdir()) == [tree]
