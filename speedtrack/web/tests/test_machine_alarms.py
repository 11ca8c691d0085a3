"""What home and a machine's page show of alarms, tokens and pools, and the forms that set them."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from speedtrack.projects.models import Project
from speedtrack.runs.fleet import enrolment, tokens
from speedtrack.runs.models import Alarm, EnrolmentCode, Machine, MachineToken
from speedtrack.runs.scheduling import alarms
from speedtrack.web.tests.test_settings import post
from speedtrack.web.tests.world import World, html_of

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def ada(kvd: World) -> Client:
    """Somebody who is logged in; ``client`` is a visitor."""
    client = Client()
    client.force_login(User.objects.create_superuser("ada"))
    return client


def test_open_alarms_are_shown_on_home_and_the_machine(kvd: World, client: Client) -> None:
    machine, branch = kvd.machines[0], kvd.project.branches.get()
    alarms.begin(Alarm.Kind.UNABLE, f"the disk is full {HOSTILE}", machine=machine)
    alarms.begin(Alarm.Kind.LAG, "its head has not been measured", branch=branch)
    home, page = html_of(client.get("/")), html_of(client.get(f"/machines/{machine.name}/"))
    assert home.count("the disk is full") == page.count("the disk is full") == 1
    assert "its head has not been measured" in home and HOSTILE not in home + page
    alarms.end(Alarm.Kind.UNABLE, "there is space again", machine=machine)
    assert "the disk is full" not in html_of(client.get(f"/machines/{machine.name}/"))
    document = client.get(f"/machines/{machine.name}.json").json()
    assert [one["kind"] for one in document["alarms"]] == ["unable"] and document["alarms"][0]["ended_at"]


def test_a_code_is_shown_once(ada: Client, kvd: World) -> None:
    page = post(ada, "/settings/machines/", name="bench-9", pool="large", how="code")
    (code,) = re.findall(r"python -m runners enroll http\S+ (\S+)", page)
    assert "valid once, for 10 minutes" in page and not Machine.objects.filter(name="bench-9").exists()
    row = EnrolmentCode.objects.get()
    assert (row.digest, row.pool, row.who) == (enrolment.digest_of(code), "large", User.objects.get())
    assert code not in html_of(ada.get("/settings/machines/"))
    for odd in ({"name": "a b"}, {"name": "x", "pool": HOSTILE}, {"name": ""}):
        page = post(ada, "/settings/machines/", how="code", **odd)
        assert "Not added" in page and HOSTILE not in page


def test_pool_and_tokens_are_set_on_the_machines_page(ada: Client, kvd: World, client: Client) -> None:
    name = kvd.machines[0].name

    def act(action: str, **fields: str) -> str:
        return post(ada, f"/settings/machines/{name}/{action}", **fields)

    assert "is in pool large" in act("pool", pool="large")
    assert "pool large" in html_of(client.get("/machines/"))
    assert "not a valid name of a pool" in act("pool", pool="a b")
    assert "replaces its token" in act("rotate")
    assert MachineToken.objects.filter(rotate_at__isnull=False).count() == 1
    assert "confirm" in act("revoke")
    assert "are refused" in act("revoke", sure="yes")
    assert "no valid token" in act("rotate") and "It has no valid token" in html_of(client.get(f"/machines/{name}/"))


def test_a_token_is_shown_by_its_beginning_and_its_address_to_people_only(
    ada: Client,
    kvd: World,
    client: Client,
) -> None:
    machine = kvd.machines[0]
    token = tokens.give(machine, days=30)
    MachineToken.of(token).note_call("192.0.2.77")
    mine, theirs = (html_of(one.get(f"/machines/{machine.name}/")) for one in (ada, client))
    assert token[:17] in mine and token[:25] not in mine
    assert "192.0.2.77" in mine and "192.0.2.77" not in theirs


def test_a_refused_version_is_shown(kvd: World, client: Client) -> None:
    Machine.objects.update(runner_version="7.0.0", runner_protocol=2)
    page = html_of(client.get(f"/machines/{kvd.machines[0].name}/"))
    assert "Its runner gets no work: the runner is version 7.0.0 (protocol 2)" in page


def test_the_policy_and_the_hours_of_a_project_are_set(ada: Client, kvd: World) -> None:
    fields = {"name": "kvd", "url": kvd.project.url, "suite": "tiny", "default_branch": "main"}
    fields |= {"machine_policy": "one", "lag_alarm_hours": "6", "cancel_unreachable": "on"}
    assert "Saved: machine policy was each, lag alarm hours was 24" in post(ada, "/p/kvd/settings/", **fields)
    project = Project.objects.get()
    assert (project.machine_policy, project.lag_alarm_hours) == ("one", 6)
    for odd in ({"machine_policy": "all"}, {"lag_alarm_hours": "-1"}, {"lag_alarm_hours": "99999999"}):
        post(ada, "/p/kvd/settings/", **(fields | odd))
    project.refresh_from_db()
    assert (project.machine_policy, project.lag_alarm_hours) == ("one", 6)
