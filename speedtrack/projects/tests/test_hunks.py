"""A commit's change is split into the hunks that git shows, and any of them can be taken back without the others."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from speedtrack.projects.errors import GitFailed, RepositoryError, UnusablePatch
from speedtrack.projects.mirrors import fetching, git, hunks
from speedtrack.projects.mirrors.directories import mirror_of
from speedtrack.projects.mirrors.gitprocess import run_git, run_git_raw
from speedtrack.projects.mirrors.hunks import Hunk, Kind
from speedtrack.projects.mirrors.remotes import Remote
from speedtrack.tests.builders import Repository

LINES = [f"int value{number};" for number in range(60)]
FUNCTIONS = [
    f"void f{number}(void)\n{{\n    a();\n    b();\n    c();\n    d();\n    e();\n    g();\n}}" for number in range(5)
]


@pytest.fixture(autouse=True)
def mirrors(settings: Any, tmp_path: Path) -> None:
    settings.MIRRORS = tmp_path / "mirrors"


def commit_of(repository: Repository, **files: bytes | None) -> str:
    """A commit that writes these files (``__`` is a folder, ``_c`` a suffix); None deletes one."""
    for name, content in files.items():
        path = repository.path / name.replace("__", "/").replace("_c", ".c")
        path.parent.mkdir(exist_ok=True, parents=True)
        path.unlink() if content is None else path.write_bytes(content)
    return committed(repository)


def committed(repository: Repository) -> str:
    repository.count += 1
    repository.git("add", "--all")
    repository.git("commit", "--quiet", "--allow-empty", "-m", "change")
    return repository.git("rev-parse", "HEAD")


def mirrored(repository: Repository, *ends: str) -> tuple[str, ...]:
    fetching.fetch("kvd", Remote(str(repository.path)), ["main"])
    return ends


def source(changes: dict[int, str] | None = None) -> bytes:
    """60 lines, of which some read otherwise."""
    lines = [(changes or {}).get(number, line) for number, line in enumerate(LINES)]
    return "".join(f"{line}\n" for line in lines).encode()


def split(before: str, commit: str) -> list[Hunk]:
    return hunks.hunks_between("kvd", before, commit)


def without(commit: str, *pieces: Hunk) -> str:
    return hunks.commit_without("kvd", commit, pieces)


def content(commit: str, path: str) -> bytes:
    return run_git_raw("show", f"{commit}:{path}", directory=mirror_of("kvd"))


def tree_of(commit: str) -> str:
    return run_git("rev-parse", f"{commit}^{{tree}}", directory=mirror_of("kvd")).strip()


def test_hunks_are_named_by_file_place_and_function(repository: Repository) -> None:
    before = commit_of(repository, src__a_c="\n".join(FUNCTIONS).encode(), b_c=b"one\n")
    changed = [text.replace("g();", "h();") if n in (1, 3) else text for n, text in enumerate(FUNCTIONS)]
    commit = commit_of(repository, src__a_c="\n".join(changed).encode(), b_c=b"two\n")
    mirrored(repository)
    only, first, second = split(before, commit)
    assert [piece.name for piece in (only, first, second)] == [
        "the only hunk of b.c",
        "the first hunk of src/a.c",
        "the second hunk of src/a.c",
    ]
    assert (only.line, only.lines, only.before_line, only.text) == (1, 1, 1, "-one\n+two\n")
    assert (first.line, first.lines, first.header, first.count) == (14, 7, "void f1(void)", 2)
    assert second.text.splitlines()[3:5] == ["-    g();", "+    h();"]


def test_any_of_five_hunks_is_taken_back_and_the_others_stay(repository: Repository) -> None:
    before, commit = commit_of(repository, a_c=source()), ""
    commit = commit_of(repository, a_c=source({at: f"char c{at};\nchar d{at};" for at in (2, 14, 27, 39, 55)}))
    mirrored(repository)
    pieces = split(before, commit)
    assert [piece.number for piece in pieces] == [1, 2, 3, 4, 5]
    for some in ([0], [4], [1, 3], [3, 1], [0, 2, 4], [0, 1, 2, 3]):
        sha = without(commit, *(pieces[index] for index in some))
        taken = split(sha, commit)
        assert [piece.text for piece in taken] == [pieces[index].text for index in sorted(some)]
        (revision,) = git.revisions("kvd", [sha])
        assert revision.parents == [commit] and revision.author_name == "SpeedTrack"
        assert revision.committed_at == next(git.revisions("kvd", [commit])).committed_at
        assert sha == without(commit, *(pieces[index] for index in some))
    assert tree_of(without(commit, *pieces)) == tree_of(before)


def test_such_a_commit_is_on_no_branch_and_stays_while_it_is_kept(repository: Repository) -> None:
    before, commit = commit_of(repository, a_c=b"one\n"), commit_of(repository, a_c=b"two\n")
    mirrored(repository)
    sha = without(commit, *split(before, commit))
    hunks.keep("kvd", sha)
    run_git("gc", "--quiet", "--prune=now", directory=mirror_of("kvd"))
    assert hunks.kept("kvd") == {sha} == git.unreachable("kvd", [sha])
    fetching.fetch("kvd", Remote(str(repository.path)), ["main"])  # a look at the repository leaves it
    assert content(sha, "a.c") == b"one\n"
    hunks.forget("kvd", {sha})
    run_git("gc", "--quiet", "--prune=now", directory=mirror_of("kvd"))
    assert git.commits_among("kvd", [sha]) == set() and hunks.kept("kvd") == set()


def make_odd(repository: Repository) -> None:
    """Changes of a commit that are no hunks, and two files with odd names."""
    path = repository.path
    (path / "added.c").write_text("new\n")
    (path / "empty").touch()
    (path / "deleted.c").unlink()
    (path / "renamed.c").rename(path / "moved.c")
    (path / "image").write_bytes(b"\0\2")
    (path / "script").chmod(0o755)
    (path / "link").unlink()
    (path / "link").symlink_to("b")
    (path / "was").unlink()
    (path / "was").symlink_to("b")
    (path / "dir").unlink()
    (path / "dir").mkdir()
    (path / "dir/file").write_text("in a folder\n")
    (path / 'q"\t.c').write_text("two\n")
    (path / "ümläut.c").write_text("two\n")


def before_odd(repository: Repository) -> None:
    path = repository.path
    for name in ("deleted.c", "renamed.c", "script", "was", "dir", 'q"\t.c', "ümläut.c"):
        (path / name).write_text(f"{name} as it was\n")
    (path / "image").write_bytes(b"\0\1")
    (path / "link").symlink_to("a")


def test_what_is_no_hunk_is_one_piece(repository: Repository) -> None:
    before_odd(repository)
    old = repository.git("rev-parse", "HEAD") if repository.count else ""
    before = committed(repository)
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{old or before},module")
    repository.git("commit", "--quiet", "-m", "a submodule")
    before = repository.git("rev-parse", "HEAD")
    make_odd(repository)
    repository.git("add", "--all", ":!module")
    repository.git("update-index", "--cacheinfo", f"160000,{before},module")
    repository.git("commit", "--quiet", "-m", "odd things")
    commit = repository.git("rev-parse", "HEAD")
    mirrored(repository)
    pieces = {piece.path: piece for piece in split(before, commit)}
    assert {path: piece.kind for path, piece in pieces.items()} == {
        "added.c": Kind.ADDED,
        "empty": Kind.ADDED,
        "deleted.c": Kind.DELETED,
        "renamed.c": Kind.DELETED,
        "moved.c": Kind.ADDED,
        "image": Kind.BINARY,
        "script": Kind.MODE,
        "link": Kind.LINK,
        "was": Kind.LINK,
        "dir": Kind.DELETED,
        "dir/file": Kind.ADDED,
        'q"\t.c': Kind.HUNK,
        "ümläut.c": Kind.HUNK,
        "module": Kind.SUBMODULE,
    }
    assert pieces["added.c"].text == "+new\n" and pieces["image"].text == ""
    assert pieces["script"].name == "the mode of script" and pieces["image"].name == "the binary file image"
    for path, piece in pieces.items():
        if not path.startswith("dir"):
            assert [taken.path for taken in split(without(commit, piece), commit)] == [path]
    assert tree_of(without(commit, *pieces.values())) == tree_of(before)


def test_a_file_that_became_a_folder_comes_back_only_without_the_folder(repository: Repository) -> None:
    before_odd(repository)
    before = committed(repository)
    make_odd(repository)
    commit = committed(repository)
    mirrored(repository)
    pieces = {piece.path: piece for piece in split(before, commit)}
    both = without(commit, pieces["dir"], pieces["dir/file"])
    assert content(both, "dir") == b"dir as it was\n"


def test_a_new_mode_beside_hunks_is_left(repository: Repository) -> None:
    before = commit_of(repository, a_c=source())
    (repository.path / "a.c").chmod(0o755)
    commit = commit_of(repository, a_c=source({3: "x", 40: "y"}))
    mirrored(repository)
    pieces = split(before, commit)
    assert [piece.kind for piece in pieces] == [Kind.HUNK, Kind.HUNK]
    sha = without(commit, *pieces)
    assert content(sha, "a.c") == source()
    assert run_git("ls-tree", sha, "a.c", directory=mirror_of("kvd")).startswith("100755")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.decode().encode("latin-1") + "größer\n".encode("latin-1"),
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: text.rstrip(b"\n"),
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: text.replace(b"value", "wert\u2028\x0b".encode()),
        lambda text: b"a\n" * 5000 + text.replace(b"value", b"\0"),
    ],
    ids=["latin-1", "CRLF", "no newline at the end", "a mark of UTF-8", "odd line breaks", "zero bytes far behind"],
)
def test_bytes_come_back_as_they_were(repository: Repository, change: Callable[[bytes], bytes]) -> None:
    old, new = change(source()), change(source({5: "other", 30: "more", 59: "last"}))
    before = commit_of(repository, a_c=old)
    commit = commit_of(repository, a_c=new)
    mirrored(repository)
    pieces = split(before, commit)
    assert content(without(commit, *pieces), "a.c") == old
    assert len(split(without(commit, pieces[0]), commit)) == 1
    assert "\0" not in "".join(piece.text + piece.header for piece in pieces)


def test_of_a_merge_the_change_against_its_first_parent_is_split(repository: Repository) -> None:
    commit_of(repository, a_c=source(), b_c=source())
    repository.git("checkout", "--quiet", "-b", "side")
    commit_of(repository, a_c=source({5: "x"}))
    commit_of(repository, b_c=source({50: "y"}))
    repository.git("checkout", "--quiet", "main")
    first_parent = commit_of(repository, c_c=b"beside\n")
    repository.git("merge", "--quiet", "--no-ff", "-m", "merge", "side")
    commit = repository.git("rev-parse", "HEAD")
    mirrored(repository)
    pieces = split(first_parent, commit)
    assert [piece.path for piece in pieces] == ["a.c", "b.c"]
    sha = without(commit, pieces[1])
    assert content(sha, "b.c") == source() and content(sha, "a.c") == source({5: "x"})


def test_4000_hunks_are_split_and_half_of_them_taken_back(repository: Repository) -> None:
    old = [f"line {number}" for number in range(10 * 100)]
    new = [f"{line} changed" if number % 10 == 5 else line for number, line in enumerate(old)]
    for lines in (old, new):
        for number in range(40):
            (repository.path / f"f{number:02}.c").write_text("\n".join(lines))
        committed(repository)
    before, commit = repository.git("rev-parse", "HEAD~", "HEAD").split()
    mirrored(repository)
    pieces = split(before, commit)
    assert len(pieces) == 4000
    assert len(split(without(commit, *pieces[::2]), commit)) == 2000


def test_what_cannot_be_split_is_refused(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    before, commit = commit_of(repository, a_c=source()), commit_of(repository, a_c=source({3: "x", 30: "y"}))
    with pytest.raises(RepositoryError, match="is not on this server"):
        split(before, commit)
    mirrored(repository)
    with pytest.raises(GitFailed, match="bad object"):
        split("f" * 40, commit)
    first, second = split(before, commit)
    with pytest.raises(GitFailed, match="does not apply"):
        without(before, first)
    assert split(commit, commit) == []
    monkeypatch.setattr(hunks, "MOST_LINES", 3)
    with pytest.raises(UnusablePatch, match="changes 4 lines: a change of more than 3 is not split"):
        split(before, commit)
    assert second.number == 2
