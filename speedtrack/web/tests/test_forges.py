"""Addresses at the forges that host repositories."""

import pytest

from speedtrack.web.forges import forge_of


@pytest.mark.parametrize(
    ("url", "diff"),
    [
        ("https://github.com/redis/redis.git", "https://github.com/redis/redis/compare/a...b"),
        ("https://gitlab.example.org/group/sub/name", "https://gitlab.example.org/group/sub/name/-/compare/a...b"),
        ("https://codeberg.org/owner/name/", "https://codeberg.org/owner/name/compare/a...b"),
        ("https://git.gitea.example.org/o/n.git", "https://git.gitea.example.org/o/n/compare/a...b"),
        ("https://bitbucket.org/owner/name", "https://bitbucket.org/owner/name/branches/compare/b..a"),
        ("https://git.sr.ht/~owner/name", ""),
    ],
)
def test_each_forge_has_its_own_paths(url: str, diff: str) -> None:
    forge = forge_of(url)
    assert forge
    assert forge.diff("a", "b") == diff


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://github.com/o/n", "https://github.com/o/n/blob/abc/a.c#L3-L9"),
        ("https://gitlab.com/o/n", "https://gitlab.com/o/n/-/blob/abc/a.c#L3-9"),
        ("https://codeberg.org/o/n", "https://codeberg.org/o/n/src/commit/abc/a.c#L3-L9"),
        ("https://bitbucket.org/o/n", "https://bitbucket.org/o/n/src/abc/a.c#lines-3:9"),
        ("https://git.sr.ht/~o/n", "https://git.sr.ht/~o/n/tree/abc/item/a.c#L3-9"),
    ],
)
def test_each_forge_marks_lines_in_its_own_way(url: str, address: str) -> None:
    forge = forge_of(url)
    assert forge
    assert forge.lines("abc", "a.c", 3, 9) == address


def test_paths_of_files_are_quoted() -> None:
    forge = forge_of("https://github.com/o/n")
    assert forge
    assert forge.file("abc", 'src/a "b"#?.c') == "https://github.com/o/n/blob/abc/src/a%20%22b%22%23%3F.c"


@pytest.mark.parametrize("url", ["/srv/git/name.git", "https://example.org/x.git", "javascript:alert(1)", "https://"])
def test_other_addresses_have_no_forge(url: str) -> None:
    assert forge_of(url) is None
