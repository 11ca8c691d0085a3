"""The editor of suites: what is said about a text, what has to be agreed to, and the versions."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from speedtrack.benchmarks.models import SuiteEdit
from speedtrack.benchmarks.suitefiles import load_suite
from speedtrack.tests.builders import SUITE, use_suite
from speedtrack.web.tests.world import html_of

EDITOR = "/settings/suites/tiny/"
HARMLESS = SUITE.replace("trials = 5", "trials = 6")
ENDING = SUITE.replace('"get", clients = 50', '"get", clients = 60')


@pytest.fixture
def ada(db: None, settings: Any, tmp_path: Path, client: Client) -> Client:
    use_suite(settings, tmp_path / "suites")
    client.force_login(User.objects.create_superuser("ada"))
    return client


def hidden(page: str, name: str) -> str:
    return page.partition(f'name="{name}" value="')[2].partition('"')[0]


def save(client: Client, text: str, **fields: str) -> str:
    seen = hidden(html_of(client.get(EDITOR)), "seen")
    form = {"text": text.replace("\n", "\r\n"), "seen": seen, "save": "yes", **fields}
    return html_of(client.post(EDITOR, form, follow=True))


def check(client: Client, text: str, name: str = "tiny") -> str:
    return html_of(client.post("/settings/check-suite", {"text": text, "name": name}))


def test_a_mistake_is_said_with_its_line_and_nothing_is_saved(ada: Client) -> None:
    wrong = SUITE.replace("trials = 5", "trials = 3")
    found = check(ada, wrong)
    assert 'data-line="3"' in found and "trials: Input should be greater than or equal to 5" in found
    assert "Not saved" in save(ada, wrong)
    assert not SuiteEdit.objects.exists()


def test_of_many_mistakes_the_editor_lists_the_first_and_counts_all(ada: Client) -> None:
    document = check(ada, SUITE + "".join(f'[[benchmark]]\nname = "B{number}"\n' for number in range(20)))
    assert "40 mistakes" in document and "<li>and 30 more</li>" in document
    assert document.count("data-line=") == 10


def test_what_ends_lines_has_to_be_agreed_to(ada: Client) -> None:
    found = check(ada, ENDING)
    assert "begins anew" in found and "workload.clients: 50 → 60" in found and "1 benchmark unchanged" in found
    page = save(ada, ENDING)
    assert "tick that you agree" in page and not SuiteEdit.objects.exists()
    agreed = hidden(page, "agreed")
    assert "tick that you agree" in save(ada, ENDING.replace("set-p1", "set-p2"), agreed=agreed), "it was another text"
    assert "Version 1 of tiny is saved" in save(ada, ENDING, agreed=agreed)
    assert load_suite("tiny").benchmark[0].workload.clients == 60  # type: ignore[union-attr]


def test_what_lets_lines_go_on_is_saved_at_once_and_kept_as_written(ada: Client) -> None:
    assert "Version 1 of tiny is saved" in save(ada, HARMLESS)
    edit = SuiteEdit.objects.get()
    assert (edit.text, edit.author and edit.author.username) == (HARMLESS, "ada")
    page = html_of(ada.get(EDITOR))
    assert "Version 1 is in force" in page and "trials = 6" in page


def test_a_version_that_is_out_of_date_is_not_saved_and_its_text_not_lost(ada: Client) -> None:
    seen = hidden(html_of(ada.get(EDITOR)), "seen")
    save(ada, HARMLESS)
    mine = HARMLESS.replace("trials = 6", "trials = 8")
    page = html_of(ada.post(EDITOR, {"text": mine, "seen": seen, "save": "yes"}))
    assert "changed this suite meanwhile" in page and "trials = 8" in page
    assert load_suite("tiny").trials == 6


def test_versions_are_listed_shown_restored_and_the_file_is_taken_again(ada: Client) -> None:
    save(ada, HARMLESS)
    save(ada, SUITE.replace("trials = 5", "trials = 7"))
    assert "trials = 6" in html_of(ada.get(EDITOR + "1/"))
    assert "trials = 6" in html_of(ada.post(EDITOR + "1/restore"))
    assert load_suite("tiny").trials == 7, "it is shown, not saved"
    seen = hidden(html_of(ada.get(EDITOR)), "seen")
    assert "is in force again" in html_of(ada.post(EDITOR + "file", {"seen": seen}, follow=True))
    assert load_suite("tiny").trials == 5
    assert ada.get(EDITOR + "9/").status_code == 404
    assert ada.get("/settings/suites/nope/").status_code == 404


def test_a_file_that_differs_is_said(ada: Client, settings: Any) -> None:
    save(ada, HARMLESS)
    (settings.SUITES / "tiny.toml").write_text(ENDING)
    assert "The file tiny.toml has changed since" in html_of(ada.get(EDITOR))
    assert "the file differs" in html_of(ada.get("/settings/suites/"))


def test_a_new_suite_is_named_by_its_text(ada: Client) -> None:
    page = html_of(ada.get("/settings/new-suite/?from=tiny"))
    assert "[[benchmark]]" in page
    taken = check(ada, SUITE, name="")
    assert "there is a suite &#x27;tiny&#x27; already" in taken and 'data-line="2"' in taken
    form = {"text": SUITE.replace('name = "tiny"', 'name = "other"'), "save": "yes"}
    assert "Version 1 of other is saved" in html_of(ada.post("/settings/new-suite/", form, follow=True))
    assert load_suite("other").name == "other"


def test_hostile_texts_are_shown_as_text(ada: Client) -> None:
    for text in ("</textarea><script>alert(1)</script>", 'name = "<img src=x onerror=alert(1)>"', "\u202e = 1"):
        page = html_of(ada.post(EDITOR, {"text": text, "check": "yes"})).partition("<main")[2]
        assert "<script>" not in page and "<img" not in page
        assert "<script>" not in check(ada, text) and "<img" not in check(ada, text)


def test_a_suite_file_that_is_wrong_can_be_opened_and_mended(ada: Client, settings: Any) -> None:
    (settings.SUITES / "tiny.toml").write_text("trials = ")
    assert "not TOML" in html_of(ada.get(EDITOR))
    assert "Version 1 of tiny is saved" in save(ada, SUITE)
    (settings.SUITES / "odd.toml").write_bytes(b"\xff\xfe")
    assert "not UTF-8" in html_of(ada.get("/settings/suites/odd/"))
