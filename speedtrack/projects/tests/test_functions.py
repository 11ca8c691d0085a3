"""The functions of changed lines, by git's own whole functions, in real repositories."""

from pathlib import Path
from typing import Any

import pytest

from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.mirrors.functions import functions_between
from speedtrack.projects.mirrors.hunks import hunks_between
from speedtrack.tests.builders import Repository

FILE = """\
#include <stdio.h>
#define LIMIT 10

static int parse(const char *text,
                 int length)
{
    int sum = 0;
    for (int i = 0; i < length; i++)
        sum += text[i];
out:
    return sum;
}

/* What follows belongs to no function. */
#define MORE 20
int table[] = {
    1,
    2,
};

int declared(int);

void
reply (int value)
{
    printf("%d", value);
    printf(" ");
}
"""


def names_by_hunk(
    settings: Any, directory: Path, files: dict[str, tuple[str | None, str | None]]
) -> dict[str, set[str]]:
    """By name of the hunk: the functions that a commit changes. ``files``: by name, the text before and after."""
    repository = Repository(directory / "repository")
    shas = []
    for side in (0, 1):
        for name, texts in files.items():
            text = texts[side]
            if text is None:
                (repository.path / name).unlink(missing_ok=True)
            else:
                (repository.path / name).write_text(text)
        shas.append(repository.commit(text="the same"))
    settings.MIRRORS = directory / "mirrors"
    repository.git("clone", "--quiet", "--bare", str(repository.path), str(directory / "mirrors" / "it.git"))
    hunks = hunks_between("it", *shas)
    functions = functions_between("it", *shas, hunks)
    return {hunk.name: set(functions[hunk.path].of(hunk)) for hunk in hunks}


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("sum += text[i];", "sum += 2 * text[i];", {"parse"}),
        ("out:\n    return sum;", "out:\n    return sum + 1;", {"parse"}),
        ("                 int length)", "                 long length)", {"parse"}),
        ("#define MORE 20", "#define MORE 30", set()),
        ("    2,\n", "    2,\n    3,\n", set()),
        ("int declared(int);", "int declared(long);", set()),
        ('printf("%d", value);', 'printf("%i", value);', {"reply"}),
        ("int table[] = {", "int added(void)\n{\n    return 1;\n}\n\nint table[] = {", {"added"}),
        ("#define LIMIT 10", "#define LIMIT 11", set()),
    ],
)
def test_a_hunk_of_c_has_the_functions_whose_lines_it_changes(
    old: str, new: str, names: set[str], settings: Any, tmp_path: Path
) -> None:
    assert FILE.count(old) == 1
    found = names_by_hunk(settings, tmp_path, {"a file.c": (FILE, FILE.replace(old, new))})
    assert found == {"the only hunk of a file.c": names}


def test_methods_of_rust_begin_at_fn(settings: Any, tmp_path: Path) -> None:
    text = (
        "impl Map {\n    pub fn get(&self) -> u8 {\n        1\n    }\n\n    fn set<T>(&self) {\n        x;\n    }\n}\n"
    )
    assert names_by_hunk(settings, tmp_path, {"map.rs": (text, text.replace("        1", "        2"))}) == {
        "the only hunk of map.rs": {"get"}
    }


def test_odd_files_have_no_functions_and_break_nothing(settings: Any, tmp_path: Path) -> None:
    files: dict[str, tuple[str | None, str | None]] = {
        "new.c": (None, "int made(void)\n{\n}\n"),
        "old.c": ("int gone(void)\n{\n}\n", None),
        'quoted "\t\\.c': ("int odd(void)\n{\n    1;\n}\n", "int odd(void)\n{\n    2;\n}\n"),
        "binary": ("\0a", "\0b"),
        "text": ("@@ -1 +1 @@ int no(void)\ndiff --git a/x b/x\n", "@@ -1 +1 @@ int no(void)\ndiff --git a/y b/y\n"),
    }
    assert names_by_hunk(settings, tmp_path, files) == {
        "the new file new.c": {"made"},
        "the deleted file old.c": {"gone"},
        'the only hunk of quoted "\t\\.c': {"odd"},
        "the binary file binary": set(),
        "the only hunk of text": set(),
    }


def test_a_commit_that_the_mirror_lacks_is_an_error(settings: Any, tmp_path: Path) -> None:
    names_by_hunk(settings, tmp_path, {})
    with pytest.raises(RepositoryError):
        functions_between("it", "0" * 40, "1" * 40, [])
