"""``manage.py hook`` and ``manage.py delivery``."""

import io
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from speedtrack.projects.models import Delivery, Project
from speedtrack.tests import builders

PUSH = {"ref": "refs/heads/main", "before": "a1" * 20, "after": "b2" * 20}


@pytest.fixture
def project(db: None, tmp_path: Path, settings: Any) -> Project:
    return Project.objects.create(slug="kvd", name="kvd", url="/kvd", default_branch="main", suite="tiny")


def manage(*arguments: str) -> str:
    out = io.StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def call(project: Project, number: int, event: str = "push") -> int:
    delivery = builders.call_hook(project, PUSH | {"number": number}, event, f"d{number}")
    assert delivery is not None
    return delivery.pk


def test_a_secret_is_rotated_shown_once_and_ended(project: Project) -> None:
    old = project.hook_secret.reveal()
    tried = manage("hook", "rotate", "kvd", "--dry-run")
    assert "Nothing was done. It would be: kvd has a new secret" in tried and "shown again" not in tried
    with pytest.raises(CommandError, match="0 to 90 days"):
        manage("hook", "rotate", "kvd", "--days", "91", "--dry-run")
    assert Project.objects.get().hook_secret.reveal() == old
    said = manage("hook", "rotate", "kvd", "--days", "2")
    new = Project.objects.get().hook_secret.reveal()
    assert new != old and said.splitlines()[-1] == new and "valid for 2 days" in said
    shown = manage("hook", "show", "kvd")
    assert new not in shown and old not in shown
    assert "former     secret valid until" in shown and "last used never" in shown
    assert "Nothing was done" in manage("hook", "end", "kvd", "--dry-run")
    assert "are refused" in manage("hook", "end", "kvd")
    assert "has no former secret" in manage("hook", "end", "kvd")


def test_a_given_secret_is_read_from_the_standard_input(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("a secret of mine\n"))
    with pytest.raises(CommandError, match="no blanks"):
        manage("hook", "rotate", "kvd", "--given")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(CommandError, match="nothing was read"):
        manage("hook", "rotate", "kvd", "--given")
    monkeypatch.setattr("sys.stdin", io.StringIO("made-by-the-forge-1234\n"))
    assert "made-by" not in manage("hook", "rotate", "kvd", "--given", "--days", "0")
    assert Project.objects.get().hook_secret.reveal() == "made-by-the-forge-1234"


def test_wrong_arguments_are_explained(project: Project) -> None:
    for arguments, words in [
        (("hook", "show", "nope"), "no project 'nope'"),
        (("hook", "rotate", "kvd", "--days", "1000"), "0 to 90 days"),
        (("delivery", "list", "nope"), "no project 'nope'"),
        (("delivery", "replay", "kvd"), "name the deliveries"),
        (("delivery", "replay", "kvd", "7"), "has no delivery 7"),
        (("delivery", "list", "kvd", "--last", "0"), "1 or more"),
        (("delivery", "purge", "kvd"), "--older-than"),
        (("delivery", "purge", "kvd", "--older-than", "-1"), "from 0 to"),
        (("delivery", "purge", "kvd", "--older-than", "1", "--status", "received"), "wait for a look"),
    ]:
        with pytest.raises(CommandError, match=words):
            manage(*arguments)


def test_calls_are_listed_replayed_and_deleted(project: Project) -> None:
    first, second, ping = call(project, 1), call(project, 2), call(project, 3, "ping")
    Delivery.objects.filter(event="push").update(status="processed", outcome="nothing new")
    listed = manage("delivery", "list", "kvd").splitlines()
    assert [int(line.split()[0]) for line in listed] == [ping, second, first]
    assert "github" in listed[0] and "a test call" in listed[0] and "main pushed to" in listed[1]
    assert len(manage("delivery", "list", "kvd", "--status", "ignored").splitlines()) == 1
    tried = manage("delivery", "replay", "kvd", "--last", "2", "--dry-run")
    assert "Nothing was done. It would be: 2 deliveries are replayed" in tried
    assert not Delivery.objects.filter(status="received").exists()
    Project.objects.update(untracked_at=timezone.now())
    with pytest.raises(CommandError, match="is not tracked"):
        manage("delivery", "replay", "kvd", "--last", "2", "--dry-run")
    Project.objects.update(untracked_at=None)
    assert not Delivery.objects.filter(status="received").exists()
    assert "1 delivery is replayed" in manage("delivery", "replay", "kvd", str(first))
    assert Project.objects.with_deliveries().exists()
    assert "It would be: 1 deliveries and 0 counts of refused calls are deleted" in manage(
        "delivery", "purge", "kvd", "--older-than", "0", "--status", "ignored", "--dry-run"
    )
    assert "2 deliveries and 0 counts" in manage("delivery", "purge", "kvd", "--older-than", "0")
    assert Delivery.objects.get().pk == first
