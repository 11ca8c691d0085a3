"""The settings of projects and machines, and the installation's."""

import logging
import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as live_settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client

from speedtrack.projects.models import Branch, Project
from speedtrack.runs.models import Machine, MachineToken, Run, UnknownMachineToken
from speedtrack.tests import builders
from speedtrack.web.pages.settings import installation
from speedtrack.web.tests.world import World, html_of, queries

POLICY = {"machine_policy": "each", "lag_alarm_hours": "24", "cancel_unreachable": "on"}
HOSTILE_NAMES = ["", " ", "<img src=x onerror=alert(1)>", "a b", "ä", "x" * 51, "kvd-m1"]
UNTRACKABLE: list[tuple[dict[str, str], str]] = [
    ({"url": ""}, "This field is required"),
    ({"url": "javascript:alert(1)"}, "give an https URL"),
    ({"url": "https://a:b@example.org/x"}, "carries a user name or password"),
    ({"url": "https://example.org/a b"}, "white space"),
    ({"url": "https://" + "x" * 600}, "at most 500 characters"),
    ({"suite": "../../etc/passwd"}, "Select a valid choice"),
    ({"last": "-1"}, "greater than or equal to 0"),
    ({"last": "9999999"}, "less than or equal to 500"),
    ({"name": "<b>" * 30}, "at most 50 characters"),
    ({"branch": "no such"}, "has no branch"),
    ({"name": "<>"}, "cannot make a project name of &#x27;&lt;&gt;&#x27;: enter another name."),
]
TOKEN = re.compile(r"strn_[0-9a-f]{12}_[\w-]+")


@pytest.fixture
def ada(kvd: World, client: Client) -> Client:
    client.force_login(User.objects.create_superuser("ada"))
    return client


@pytest.fixture
def newcomer(db: None, client: Client, settings: Any, tmp_path: Path) -> Client:
    """Somebody who is logged in before anything is tracked."""
    builders.use_suite(settings, tmp_path / "suites")
    client.force_login(User.objects.create_superuser("ada"))
    return client


def post(client: Client, address: str, **fields: str) -> str:
    return html_of(client.post(address, fields, follow=True))


def test_all_settings_need_a_login_and_a_token_of_the_form(kvd: World, client: Client) -> None:
    pages = ["/settings/", "/settings/track/", "/settings/suites/", "/settings/suites/tiny/", "/settings/machines/"]
    pages += ["/settings/installation/", "/settings/new-suite/", "/p/kvd/settings/", "/p/kvd/settings/untrack/"]
    acts = ["/settings/check-suite", "/settings/track/check", "/settings/machines/kvd-m1/pause"]
    acts += ["/settings/machines/kvd-m1/token", "/p/kvd/settings/secret", "/p/kvd/settings/track-again"]
    acts += ["/p/kvd/settings/end-former-secret", "/p/kvd/settings/keep-address"]
    pages += ["/p/kvd/deliveries/"]
    acts += ["/settings/suites/tiny/file", "/annotations/1/delete"]
    for address in pages:
        assert client.get(address)["Location"].startswith("/login/"), address
    for address in [*pages, *acts]:
        if address != "/settings/installation/" and address not in ("/settings/", "/settings/suites/"):
            assert client.post(address)["Location"].startswith("/login/"), address
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(User.objects.create_superuser("ada"))
    for address in acts:
        assert client.get(address)["Location"].startswith("/login/"), address
        assert strict.get(address).status_code == 405, address
    for address in acts:
        assert strict.post(address, {"sure": "yes"}).status_code == 403, address
    assert not Machine.objects.get().paused


def test_the_first_start_leads_to_tracking(newcomer: Client) -> None:
    assert "/settings/track/" in html_of(newcomer.get("/"))
    assert "Log in to track" in html_of(Client().get("/"))


def test_a_repository_is_tracked_and_its_page_says_what_happens(newcomer: Client, tmp_path: Path) -> None:
    repository = builders.Repository(tmp_path / "kvd")
    repository.commits(2)
    url = str(repository.path)
    answer = newcomer.post("/settings/track/", {"url": url, "suite": "tiny", "last": "5"})
    page, project = html_of(answer), Project.objects.get()
    assert project.hook_secret.reveal() in page and f"/hooks/{project.hook_id}" in page
    assert answer["Cache-Control"] == "no-store"
    page = html_of(newcomer.get("/p/kvd/"))
    assert "is being cloned" in page and "No machine measures yet" in page
    for address in ("/p/kvd/", "/p/kvd/settings", "/p/kvd/settings/"):
        assert project.hook_secret.reveal() not in html_of(newcomer.get(address)), "it is shown once"
    page = post(newcomer, "/settings/track/", url=url, suite="tiny", last="5")
    assert "there is a project kvd already" in page and "No machine" not in page
    assert Project.objects.get().name == "kvd"


def test_what_cannot_be_tracked_is_said(newcomer: Client, tmp_path: Path) -> None:
    repository = builders.Repository(tmp_path / "kvd")
    repository.commit()
    right = {"url": str(repository.path), "suite": "tiny", "last": "1"}
    for fields, words in UNTRACKABLE:
        page = post(newcomer, "/settings/track/", **(right | fields))
        assert words in page and "<b><b>" not in page, fields
    assert not Project.objects.exists()


def test_an_address_is_checked_as_it_is_typed(newcomer: Client, tmp_path: Path) -> None:
    repository = builders.Repository(tmp_path / "kvd")
    repository.commit()
    repository.git("branch", "<script>x")
    page = post(newcomer, "/settings/track/check", url=str(repository.path))
    assert "It answers: 2 branches, main by default" in page
    assert "&lt;script&gt;x" in page and "<script>" not in page
    assert "is not a repository address" in post(newcomer, "/settings/track/check", url="nonsense")
    assert "Check the address" in post(newcomer, "/settings/track/check", url=str(tmp_path))


def test_a_project_is_renamed_and_the_message_says_what_it_was(ada: Client, kvd: World) -> None:
    fields = {"name": "<i>new</i>", "url": kvd.project.url, "suite": "tiny", "default_branch": "main"} | POLICY
    page = post(ada, "/p/kvd/settings/", **fields)
    assert "Saved: name was kvd." in page
    assert "&lt;i&gt;new&lt;/i&gt;" in page and "<i>new" not in page
    assert "Nothing was changed" in post(ada, "/p/kvd/settings/", **fields)
    for wrong, words in [
        ({"url": "/nowhere"}, "there is no directory"),
        ({"suite": "nope"}, "Select a valid choice"),
        ({"default_branch": "nope"}, "Select a valid choice"),
        ({"name": "x" * 101}, "at most 100"),
    ]:
        assert words in post(ada, "/p/kvd/settings/", **(fields | wrong))
    assert Project.objects.get().url == kvd.project.url


def test_a_new_secret_is_shown_once_and_stored_in_no_session_or_log(
    ada: Client, kvd: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    old = kvd.project.hook_secret.reveal()
    assert "confirm" in post(ada, "/p/kvd/settings/secret")
    assert Project.objects.get().hook_secret.reveal() == old
    for days in ("", "-1", "91", "soon", "9" * 30):
        assert "Not changed" in post(ada, "/p/kvd/settings/secret", sure="yes", days=days)
    assert "Not changed" in post(ada, "/p/kvd/settings/secret", sure="yes", given="short")
    answer = ada.post("/p/kvd/settings/secret", {"sure": "yes"})
    new = Project.objects.get().hook_secret.reveal()
    assert new != old
    assert html_of(answer).count(new) == 1 and answer["Cache-Control"] == "no-store"
    assert old not in html_of(answer)
    assert new not in html_of(ada.get("/p/kvd/settings/"))
    assert new not in caplog.text
    assert not any(new in str(session.get_decoded()) for session in Session.objects.all())


def test_untracking_is_asked_twice(ada: Client, kvd: World) -> None:
    kvd.push(2)
    assert "/p/kvd/settings/untrack/" in html_of(ada.get("/p/kvd/settings/"))
    page = html_of(ada.get("/p/kvd/settings/untrack/"))
    assert "2 waiting runs are cancelled" in page and "What stays" in page
    for typed in ("", "KVD", "kvd2"):
        assert "type kvd, exactly" in post(ada, "/p/kvd/settings/untrack/", slug=typed)
    assert Project.objects.get().untracked_at is None
    assert "Track again" in post(ada, "/p/kvd/settings/untrack/", slug="kvd")
    assert not Run.objects.unfinished().exists()
    assert "kvd" not in html_of(ada.get("/")).partition("<main")[2].partition("What changed")[0]
    assert "what was measured is still here" in html_of(ada.get("/p/kvd/"))
    assert "is tracked again" in post(ada, "/p/kvd/settings/track-again")
    assert Project.objects.get().machines.exists()


def test_branches_are_tracked_and_dropped(ada: Client, kvd: World) -> None:
    kvd.repository.git("branch", "8.0")
    assert "Branch 8.0 is tracked" in post(ada, "/p/kvd/settings/add-branch", branch="8.0")
    assert "no longer measured" in post(ada, "/p/kvd/settings/drop-branch", branch="8.0")
    assert not Branch.objects.get(name="8.0").tracked
    for branch, words in [("main", "default first"), ("<b>", "has no branch"), ("", "has no branch")]:
        assert words in post(ada, "/p/kvd/settings/drop-branch", branch=branch)
    assert "name a branch" in post(ada, "/p/kvd/settings/add-branch")
    assert "There is no action" in post(ada, "/p/kvd/settings/explode")


def test_a_machine_is_added_with_its_token_and_command_once(
    ada: Client, kvd: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    page = post(ada, "/settings/machines/", name="bench-1", how="token")
    (token,) = TOKEN.findall(page)
    assert MachineToken.of(token).machine.name == "bench-1"
    assert "python -m runners --poll" in page
    for address in ("/settings/machines/", "/machines/bench-1/", "/machines/bench-1.json"):
        assert not TOKEN.search(html_of(ada.get(address)))
    assert token not in caplog.text
    assert not any(token in str(session.get_decoded()) for session in Session.objects.all())
    assert kvd.project.machines.count() == 2


def test_a_machine_needs_a_fit_and_new_name(ada: Client) -> None:
    for name in HOSTILE_NAMES:
        page = post(ada, "/settings/machines/", name=name, how="token")
        assert "Not added" in page and "<img" not in page.partition("<main")[2], name
    assert Machine.objects.count() == 1


def test_a_machine_gets_a_new_token_once_that_is_confirmed(ada: Client, kvd: World) -> None:
    before = list(MachineToken.objects.values_list("key", flat=True))
    assert "confirm" in post(ada, "/settings/machines/kvd-m1/token")
    assert list(MachineToken.objects.values_list("key", flat=True)) == before
    (token,) = TOKEN.findall(post(ada, "/settings/machines/kvd-m1/token", sure="yes"))
    assert MachineToken.of(token).machine.name == "kvd-m1"


def test_a_machine_is_drained_paused_resumed_retired_and_returned(ada: Client, kvd: World) -> None:
    def act(action: str, **fields: str) -> str:
        return post(ada, f"/settings/machines/kvd-m1/{action}", **fields)

    assert "finishes its run" in act("drain")
    assert ">Resume</button>" in html_of(ada.get("/machines/kvd-m1/"))
    assert "gets work again" in act("resume")
    assert "is paused" in act("pause")
    assert "is paused: resume it first" in act("canary") or "has no canary" in act("canary")
    assert "type kvd-m1, exactly" in act("retire", name="kvd")
    assert "is retired" in act("retire", name="kvd-m1")
    assert "Not done" in act("resume")
    assert "kvd-m1" not in html_of(ada.get("/queue/")).partition("Runs that ended last")[0]
    (token,) = TOKEN.findall(act("return"))
    assert MachineToken.of(token).machine.paused is False
    assert "There is no action" in act("explode")
    who = list(Machine.objects.get().events.exclude(who=None).order_by("pk").values_list("kind", flat=True))
    assert who == ["paused", "resumed", "paused", "retired", "returned"]
    with pytest.raises(UnknownMachineToken):
        MachineToken.of("strn_x_y")


def test_visitors_see_no_controls(kvd: World, client: Client) -> None:
    assert "Retire" not in html_of(client.get("/machines/kvd-m1/"))
    assert "Annotate" not in html_of(client.get(f"/p/kvd/c/{kvd.shas[0]}/"))


def test_the_installation_lists_every_setting_and_no_secret(ada: Client, settings: Any, monkeypatch: Any) -> None:
    product = Path(live_settings.BASE_DIR) / "speedtrack"
    source = "".join((product / name).read_text() for name in ("settings.py", "ground/postgres/databases.py"))
    read = set(re.findall(r'(?:environ\.get|env_[a-z_]+|database)\(\s*"([A-Z_]+)"', source))
    assert {name for rows in installation.TOPICS.values() for name in rows} == read
    monkeypatch.setenv("POLL_EVERY_S", "17")
    settings.BROKER_URL, settings.EMAIL_HOST_PASSWORD = "redis://me:hush@broker:6379/0", "hush-hush"
    page = html_of(ada.get("/settings/installation/"))
    assert "redis://broker:6379/0" in page and "hush" not in page
    assert live_settings.SECRET_KEY not in page
    assert re.search(r"POLL_EVERY_S</code> </th>|POLL_EVERY_S</code></th>", page) and "environment" in page


def test_the_number_of_queries_depends_on_no_number_of_rows(ada: Client, kvd: World) -> None:
    addresses = ["/settings/", "/settings/suites/", "/settings/machines/", "/p/kvd/settings/", "/p/kvd/annotations/"]
    few = [queries(ada, address) for address in addresses]
    for number in range(4):
        builders.machine(f"more-{number}")
        Project.objects.create(slug=f"p{number}", name=f"p{number}", url="/x", default_branch="main", suite="tiny")
        Branch.objects.create(project=kvd.project, name=f"b{number}")
    assert [queries(ada, address) for address in addresses] == few
    assert max(few) <= 12
