"""Suites that are edited: on which lines mistakes are, what a version changes, and which version is in force."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from speedtrack.benchmarks import suiteedits
from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.benchmarks.models import SuiteEdit
from speedtrack.benchmarks.suiteedits import Fate, NotSaved
from speedtrack.benchmarks.suitefiles import load_suite, parse_suite, suite_names, text_of
from speedtrack.tests.builders import SUITE, use_suite


def lines_of(text: str) -> list[int | None]:
    with pytest.raises(DefinitionError) as refused:
        parse_suite(text, "tiny.toml")
    return [one.line for one in refused.value.mistakes]


def line(word: str, text: str = SUITE) -> int:
    """The number of the only line with this word."""
    (number,) = [i for i, one in enumerate(text.split("\n"), 1) if word in one]
    return number


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ('protocol = "resp"', 'protocol = "http"', "http"),
        ('command = "make"', 'comand = "make"', "[build]"),  # the key that is missing, and the one too many
        ('why = "the plain write path"\n', "", 'name = "set-p1"'),
        (
            "clients = 50, pipeline = 1, keys = { count = 1000 }, values = { bytes = 32 } }",
            "clients = 0 }",
            "clients = 0",
        ),
        ("--unixsocket {socket}", "--unixsocket {sock}", "{sock}"),
        ('test = "set"', 'tset = "set"', "tset"),
        ("[metrics.server_cpu_ns_per_request]", "[metrics.nonsense]", "[metrics.nonsense]"),
        ("trials = 5", "trials = five", "trials = five"),
    ],
)
def test_a_mistake_names_its_line(old: str, new: str, where: str) -> None:
    text = SUITE.replace(old, new)
    expected = line(where, text) - (1 if where == 'name = "set-p1"' else 0)  # a missing key is missing in its table
    assert expected in lines_of(text)


def test_lines_are_right_after_strings_of_several_lines_and_in_tables_of_benchmarks() -> None:
    text = SUITE.replace(
        'command = "make"', 'kind = "docker"\ncommand = "make"\ndockerfile = """\nFROM x\nname = y\n[server]\n"""'
    )
    text += '[benchmark.workload.rate]\nof = "get-p1"\nshare = 7\n'
    text = text.replace('workload = { test = "set"', '# workload = { test = "set"')
    text = text.replace("[benchmark.workload.rate]", '[benchmark.workload]\ntest = "set"\n[benchmark.workload.rate]')
    assert lines_of(text) == [line("share = 7", text)]


def test_a_text_that_ends_too_early_is_wrong_on_its_last_line() -> None:
    assert lines_of(SUITE + "x = [") == [SUITE.count("\n") + 1]


def fates(new: str, known: Any = frozenset()) -> dict[str, Fate]:
    found = suiteedits.compare(parse_suite(SUITE, ""), parse_suite(new, ""), known)
    return {one.name: one.fate for one in found.benchmarks}


def test_a_change_of_the_workload_begins_that_line_anew() -> None:
    new = SUITE.replace('"get", clients = 50', '"get", clients = 60')
    assert fates(new) == {"get-p1": Fate.ANEW, "set-p1": Fate.SAME}
    (changed,) = suiteedits.compare(parse_suite(SUITE, ""), parse_suite(new, "")).of(Fate.ANEW)
    assert changed.changed == ["workload.clients: 50 → 60"]


def test_a_change_of_the_build_begins_all_lines_anew_and_is_said_once() -> None:
    new = SUITE.replace('command = "make"', 'command = "make fast"')
    found = suiteedits.compare(parse_suite(SUITE, ""), parse_suite(new, ""))
    assert (found.ended, found.shared) == (2, ["build.command: make → make fast"])
    assert all(one.changed == [] for one in found.benchmarks)


def test_what_differs_at_the_end_of_a_long_command_is_seen() -> None:
    long = SUITE.replace('command = "make"', f'command = "make {"A=1 " * 60}jemalloc"')
    found = suiteedits.compare(parse_suite(long, ""), parse_suite(long.replace("jemalloc", "libc"), ""))
    assert found.shared == [f"build.command: …{'A=1 ' * 5}jemalloc → …{'A=1 ' * 5}libc"]


def test_a_change_that_no_digest_has_lets_lines_go_on() -> None:
    new = SUITE.replace("the plain read path", "reads").replace("trials = 5", "trials = 6")
    found = suiteedits.compare(parse_suite(SUITE, ""), parse_suite(new, ""))
    assert [one.fate for one in found.benchmarks] == [Fate.ALTERED, Fate.SAME]
    assert (found.ended, found.shared) == (0, ["trials: 5 → 6"])


def test_another_name_ends_a_line_and_an_old_definition_goes_on_with_its_line(db: None) -> None:
    new = SUITE.replace('name = "set-p1"', 'name = "set-p2"')
    assert fates(new) == {"get-p1": Fate.SAME, "set-p2": Fate.ADDED, "set-p1": Fate.REMOVED}
    digest = suiteedits.json_digest(
        suiteedits.benchmark_meaning(content := parse_suite(new, "").model_dump(), content["benchmark"][1])
    )
    assert fates(new, {("set-p2", digest)})["set-p2"] == Fate.RETURNS


@pytest.fixture
def ada(db: None, settings: Any, tmp_path: Path) -> User:
    use_suite(settings, tmp_path / "suites")
    return User.objects.create_user("ada")


def save(ada: User, text: str, seen: str | None = None) -> SuiteEdit:
    return suiteedits.save_edit("tiny", text, ada, suiteedits.version_of("tiny") if seen is None else seen)


def test_an_edit_is_in_force_before_the_file_until_the_file_is_taken_again(ada: User) -> None:
    save(ada, SUITE.replace("trials = 5", "trials = 6"))
    assert load_suite("tiny").trials == 6
    save(ada, SUITE.replace("trials = 5", "trials = 7"))
    assert load_suite("tiny").trials == 7
    suiteedits.return_to_file("tiny", ada, suiteedits.version_of("tiny"))
    assert load_suite("tiny").trials == 5
    assert list(SuiteEdit.objects.order_by("number").values_list("number", "author__username")) == [
        *((1, "ada"), (2, "ada"), (3, "ada"))
    ]


def test_a_file_that_changes_beside_an_edit_is_said_and_stays_out_of_force(ada: User, settings: Any) -> None:
    edit = save(ada, SUITE.replace("trials = 5", "trials = 6"))
    assert suiteedits.conflict(edit) == ""
    (settings.SUITES / "tiny.toml").write_text(SUITE.replace("trials = 5", "trials = 9"))
    assert "has changed since" in suiteedits.conflict(edit)
    assert load_suite("tiny").trials == 6
    (settings.SUITES / "tiny.toml").unlink()
    assert "is gone" in suiteedits.conflict(edit)
    assert suite_names() == ["tiny"] and text_of("tiny")


def test_who_has_not_seen_the_newest_version_does_not_overwrite_it(ada: User, settings: Any) -> None:
    seen = suiteedits.version_of("tiny")
    save(ada, SUITE.replace("trials = 5", "trials = 6"), seen)
    with pytest.raises(NotSaved, match="meanwhile"):
        save(ada, SUITE.replace("trials = 5", "trials = 7"), seen)
    seen = suiteedits.version_of("tiny")
    (settings.SUITES / "tiny.toml").write_text(SUITE + "\n")
    with pytest.raises(NotSaved, match="meanwhile"):
        save(ada, SUITE, seen)
    assert load_suite("tiny").trials == 6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SUITE.replace('name = "tiny"', 'name = "other"'), "name: it must stay 'tiny'"),
        (SUITE + "#" * suiteedits.LONGEST_TEXT, "at most 200,000"),
        ("trials = ", "not TOML"),
        ("a" * 10 + " = " + "[" * 5000, "not TOML|recursion|nest"),
    ],
)
def test_a_text_with_a_mistake_is_not_saved(ada: User, text: str, words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        save(ada, text)
    assert not SuiteEdit.objects.exists()


@pytest.mark.parametrize(
    ("old", "new", "saved"),
    [
        ("trials = 5", "trials = 5  # of each", "trials = 20  # of each"),
        ("trials = 5", '"trials"=5', '"trials"= 20'),
        ("trials = 5", "trials = 5\nmost_trials = 15", "trials = 20\nmost_trials = 20"),
        ("trials = 5", "trials = 5\nmost_trials = 40", "trials = 20\nmost_trials = 40"),
        ("trials = 5\n", "", 'name = "tiny"\ntrials = 20'),
    ],
)
def test_trials_are_set_and_all_else_stays_as_it_is_written(
    ada: User, settings: Any, old: str, new: str, saved: str
) -> None:
    (settings.SUITES / "tiny.toml").write_text(SUITE.replace(old, new))
    edit, before = suiteedits.set_trials("tiny", 20, ada, suiteedits.version_of("tiny"))
    assert before == 5 and saved in str(edit.text) and load_suite("tiny").trials == 20
    rest = SUITE.replace(old, "", 1) if new else SUITE.replace('name = "tiny"\ntrials = 5', "", 1)
    assert str(edit.text).replace(saved, "", 1) == rest


def test_trials_that_it_has_already_or_after_another_version_are_not_saved(ada: User) -> None:
    seen = suiteedits.version_of("tiny")
    for trials, words in ((5, "has 5 trials already"), (20, "meanwhile")):
        with pytest.raises(NotSaved, match=words):
            suiteedits.set_trials("tiny", trials, ada, "0 other" if trials == 20 else seen)
    with pytest.raises(NotSaved, match="no suite 'none'"):
        suiteedits.set_trials("none", 20, ada, seen)
    assert not SuiteEdit.objects.exists()
