"""A pasted patch becomes a commit of the mirror, once; what cannot become one is refused with cause and remedy."""

import os
from pathlib import Path
from typing import Any

import pytest

from speedtrack.projects.errors import UnusablePatch
from speedtrack.projects.mirrors import fetching, git, patches
from speedtrack.projects.mirrors.directories import mirror_of
from speedtrack.projects.mirrors.gitprocess import run_git
from speedtrack.projects.mirrors.remotes import Remote
from speedtrack.tests.builders import Repository

FILES = {"server.c": "int a;\nint b;\nint c;\n", "wide.txt": "one\r\ntwo\r\nthree\r\n", "src/util.c": "void f();\n"}


@pytest.fixture
def tree(repository: Repository, settings: Any, tmp_path: Path) -> Repository:
    """A repository with three files and a link, mirrored as kvd; its working tree is at the mirrored commit."""
    settings.MIRRORS = tmp_path / "mirrors"
    for name, text in FILES.items():
        write(repository, name, text)
    (repository.path / "link").symlink_to("src")
    repository.git("add", "--all")
    repository.git("commit", "--quiet", "-m", "all files")
    fetching.fetch("kvd", Remote(str(repository.path)), ["main"])
    return repository


def write(repository: Repository, name: str, text: str) -> None:
    path = repository.path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode())


def diff_of(repository: Repository, *options: str, **changes: str) -> str:
    """The diff of files with other contents, also of new ones; the working tree is as before afterwards."""
    for name, text in changes.items():
        write(repository, name.replace("__", "/").replace("_c", ".c").replace("_txt", ".txt"), text)
    repository.git("add", "--intent-to-add", "--all")
    head = repository.path / "patch.out"
    repository.git("diff", *options, f"--output={head}")
    patch = head.read_bytes().decode()
    repository.git("reset", "--quiet", "--hard")
    repository.git("clean", "--quiet", "-fd")
    return patch


def head_of(tree: Repository) -> str:
    return git.resolve_revision("kvd", "main")


def tried(tree: Repository, text: str, author: str = "ada") -> str:
    return patches.commit_patch("kvd", head_of(tree), text, author)


def content(sha: str, name: str) -> str:
    return run_git("show", f"{sha}:{name}", directory=mirror_of("kvd"))


def test_a_patch_is_a_commit_once(tree: Repository) -> None:
    patch = diff_of(tree, server_c="int a;\nint x;\nint c;\n", src__util_c="void g();\n", new_c="long\n")
    sha = tried(tree, patch)
    (revision,) = git.revisions("kvd", [sha])
    assert revision.parents == [head_of(tree)] and (revision.author_name, revision.author_email) == ("ada", "")
    assert revision.subject == "Try a patch of new.c and 2 more files"
    assert content(sha, "server.c") == "int a;\nint x;\nint c;\n" and content(sha, "new.c") == "long\n"
    assert content(sha, "wide.txt") == FILES["wide.txt"]
    assert tried(tree, patch) == sha != tried(tree, patch, "bob")
    assert sha not in git.local_refs("kvd").values() and patches.kept("kvd") == set()
    patches.keep("kvd", sha)
    mirror = mirror_of("kvd")
    run_git("gc", "--quiet", "--prune=now", directory=mirror)
    assert patches.kept("kvd") == {sha} and b"new.c" in b"".join(git.archive("kvd", sha))
    fetching.fetch("kvd", Remote(str(tree.path)), ["main"])  # a look at the repository leaves it
    assert patches.kept("kvd") == {sha} and git.unreachable("kvd", [sha]) == {sha}
    assert patches.text_of("kvd", head_of(tree), sha).count("diff --git") == 3
    patches.forget("kvd", {sha})
    run_git("gc", "--quiet", "--prune=now", directory=mirror)
    assert git.commits_among("kvd", [sha]) == set()


def test_ends_of_lines(tree: Repository) -> None:
    """A browser's form sends CRLF throughout; a file may have CRLF of its own."""
    patch = diff_of(tree, server_c="int a;\nint x;\nint c;\n")
    assert content(tried(tree, patch.replace("\n", "\r\n")), "server.c") == "int a;\nint x;\nint c;\n"
    both = diff_of(tree, wide_txt="one\r\n2\r\nthree\r\n", server_c="int b;\n")
    sha = tried(tree, both)
    assert (content(sha, "wide.txt"), content(sha, "server.c")) == ("one\r\n2\r\nthree\r\n", "int b;\n")
    wide = diff_of(tree, wide_txt="one\r\n2\r\nthree\r\n").replace("\r\n", "\n").replace("\n", "\r\n")
    assert content(tried(tree, wide), "wide.txt") == "one\r\n2\r\nthree\r\n"
    assert content(tried(tree, f"\ufeff{patch.rstrip()}"), "server.c") == "int a;\nint x;\nint c;\n"


def test_mails_of_several_patches_become_one_commit(tree: Repository) -> None:
    for number, text in enumerate(("int a;\nint x;\nint c;\n", "int a;\nint x;\nint y;\n")):
        write(tree, "server.c", text)
        tree.git("commit", "--quiet", "--all", "-m", f"Step {number}")
    mails = tree.git("format-patch", "--stdout", "HEAD~2")
    assert mails.count("\nSubject: [PATCH ") == 2
    assert content(tried(tree, mails), "server.c") == "int a;\nint x;\nint y;\n"


def test_what_is_refused(tree: Repository) -> None:
    good = diff_of(tree, server_c="int a;\nint x;\nint c;\n")
    for text, fault in {
        " \n": "the patch is empty",
        "please make it faster": "not a diff",
        f"{good}{'#' * patches.MOST_BYTES}": "longer than 500 kB",
        good.encode("utf-16").decode("latin-1"): "UTF-16",
        good.replace("int b;", "int q;"): "the hunk of server.c at line 1",
        good.replace("server.c", "nosuch.c"): "has no nosuch.c",
        diff_of(tree, new_c="1\n").replace("new.c", "server.c"): "has server.c already",
        f"diff --git a/server.c b/x.c\ncopy from server.c\ncopy to x.c\n{good}": "copies server.c",
        "".join(good.splitlines(keepends=True)[:-2]): "is damaged",
        diff_of(tree, new_c="1\n").replace("new.c", "../new.c"): "../new.c, which is outside",
        diff_of(tree, new_c="1\n").replace("new.c", ".git/hooks/new"): ".git/hooks/new",
        diff_of(tree, new_c="1\n").replace("new.c", "link/new.c"): "behind a symbolic link",
        diff_of(tree, new_c="1\n").replace("100644", "120000"): "a symbolic link, new.c",
        diff_of(tree, **{".gitmodules": '[submodule "x"]\n'}): "a submodule, .gitmodules",
        f"{good}diff --git a/x.png b/x.png\nindex 12..34 100644\nBinary files a/x.png and b/x.png differ\n": "x.png",
        "diff --git a/x b/x\nnew file mode 100644\nGIT binary patch\nliteral 1\nIcmZ\n\n": "binary",
    }.items():
        with pytest.raises(UnusablePatch, match=fault.replace(".", r"\.")) as caught:
            tried(tree, text)
        assert str(mirror_of("kvd")) not in str(caught.value)
    (tree.path / "link").unlink()
    (tree.path / "link").symlink_to("/etc")
    with pytest.raises(UnusablePatch, match="a symbolic link, link"):
        tried(tree, diff_of(tree))
    assert sorted(os.listdir(tree.path)) == [".git", "link", "server.c", "src", "wide.txt"]


def test_a_submodule_is_refused(tree: Repository) -> None:
    tree.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    patch = tree.git("diff", "--cached")
    with pytest.raises(UnusablePatch, match="a submodule, module"):
        tried(tree, f"{patch}\n")


def test_nothing_to_measure(tree: Repository) -> None:
    patch = diff_of(tree, server_c="int a;\nint x;\nint c;\n")
    back = patch.replace("-int b;\n+int x;", "-int x;\n+int b;")
    with pytest.raises(UnusablePatch, match="the patch changes nothing"):
        tried(tree, patch + back)
