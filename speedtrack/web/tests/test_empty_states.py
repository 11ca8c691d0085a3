"""What pages say where there is nothing to show: an action that the reader may take, or a place of the help."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

import speedtrack
from speedtrack.accounts import members
from speedtrack.accounts.models import Role
from speedtrack.web.tests.world import World, html_of, world

TEMPLATES = sorted(Path(speedtrack.__path__[0], "web", "templates").glob("**/*.html"))
HELP = re.compile(r"\{% url 'help' '(\w+)' %\}#([\w-]+)")
EMPTY = re.compile(r'<(p|li|div|td) [^>]*class="empty[^>]*>.*?</\1>', re.S)
COMMAND = re.compile(r"manage\.py|python -m|\.toml|docs/")


def test_links_to_the_help_lead_to_a_heading(client: Client, db: None) -> None:
    places = {place for path in TEMPLATES for place in HELP.findall(path.read_text())}
    assert len(places) > 5
    for page, anchor in places:
        assert f'id="{anchor}"' in html_of(client.get(f"/help/{page}/")), (page, anchor)


def test_no_empty_state_sends_the_reader_to_a_file_or_a_command() -> None:
    empty = {path.name: found[0] for path in TEMPLATES for found in EMPTY.finditer(path.read_text())}
    assert len(empty) > 15
    assert not {name: text for name, text in empty.items() if COMMAND.search(text)}
    assert not COMMAND.search(next(path for path in TEMPLATES if path.name == "first_project.html").read_text())


def empty_state(client: Client, page: str) -> str:
    return next(found[0] for found in EMPTY.finditer(html_of(client.get(f"/p/kvd/{page}"))))


@pytest.mark.parametrize("page", ["compare/", "board/", "releases/", "story/"])
def test_each_reader_is_offered_what_they_may_do(
    client: Client, db: None, settings: Any, tmp_path: Path, page: str
) -> None:
    made: World = world(settings, tmp_path)
    assert "Log in</a> to measure" in empty_state(client, page)
    assert 'href="/p/kvd/measure/' not in empty_state(client, page)
    bob = User.objects.create_user("bob")
    client.force_login(bob)
    assert "you need the role maintainer" in empty_state(client, page)
    members.give_role(made.project, bob, Role.MAINTAINER)
    (address,) = re.findall(r'href="(/p/kvd/measure/[^"]*)">Measure', empty_state(client, page))
    assert client.get(address).status_code == 200


def test_without_a_machine_only_operators_are_led_to_the_settings(client: Client, db: None) -> None:
    for page in ("/machines/", "/queue/"):
        assert "An operator adds one" in html_of(client.get(page))
        assert "/settings/machines/" not in html_of(client.get(page))
    client.force_login(User.objects.create_superuser("ada"))
    for page in ("/machines/", "/queue/"):
        assert 'href="/settings/machines/"' in html_of(client.get(page))
    assert "Make an enrolment code" in html_of(client.get("/machines/"))
