"""Who may change what: every address that changes something, asked by people of every role; and what is noted of it."""

import re
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import transaction
from django.test import Client
from django.urls import reverse

from speedtrack.accounts import invitations, members
from speedtrack.accounts.models import AuditEntry, Invitation, Membership, Role
from speedtrack.accounts.operations import OPERATIONS, SELF
from speedtrack.alerts.models import Alert, Bisection
from speedtrack.notices.models import Channel
from speedtrack.projects.models import Annotation, Project
from speedtrack.runs.models import Machine, Run
from speedtrack.web.requests.permissions import RULES, Need
from speedtrack.web.tests.world import CPU, World, html_of, peopled  # noqa: F401

TRIAGER, MAINTAINER, OWNER, OPERATOR = Role.TRIAGER, Role.MAINTAINER, Role.OWNER, Need.OPERATOR
#: What each change needs, written down a second time: whoever adds an address decides twice.
NEEDED: dict[Any, str] = {
    Need.PERSON: "alert-decide invitation notifications pins settings",
    TRIAGER: "alert alert-move alert-split alert-merge mutes mute-end annotations annotation annotation-delete tries",
    MAINTAINER: "run-act compare-measure bisect bisection-stop measure pull-approve try-approve policies deliveries"
    " delivery channels channel-add channel channel-act project-settings project-access project-secret project-act"
    " project-audit project-audit-values",
    OWNER: "project-untrack project-visibility members member-act invitation-make invitation-revoke",
    OPERATOR: "all-annotations machine takes track track-check installation audit audit-values suites suite-new"
    " suite-check suite suite-file suite-version suite-restore machine-settings machine-token machine-return"
    " machine-plan machine-act",
}
LADDER = ["anonymous", "stranger", *Role.values, "operator"]
LOWEST = {Need.PERSON: "stranger", OPERATOR: "operator"}


@pytest.fixture
def made(peopled: World) -> World:  # noqa: F811
    return peopled


def client_of(name: str) -> Client:
    client = Client()
    if name != "anonymous":
        client.force_login(User.objects.get(username=name))
    return client


def address_of(name: str, made: World) -> str:
    alert, run = Alert.objects.latest("pk").pk, Run.objects.latest("pk").pk
    code = invitations.make(made.project, Role.READER, None)[1] if name == "invitation" else ""
    bisection = Bisection.objects.order_by("pk").last()
    by_name = {"alert": alert, "run": run, "annotation": Annotation.objects.latest("pk").pk}
    by_name |= {"mute": made.project.mutes.latest("pk").pk, "bisection": bisection.pk if bisection else 1}
    pk = by_name.get(name.partition("-")[0], 1)
    machine = made.machines[0].name if name.startswith("machine") else "tiny"
    words = {"slug": "kvd", "pk": pk, "name": machine, "number": 1, "code": code, "action": "pause", "kind": "webhook"}
    words |= {"form": "json", "benchmark": "get-p1", "metric": CPU, "token": "t"}
    parts = re.findall(r"<\w+:(\w+)>", ROUTES[name])
    return reverse(name, kwargs={part: words[part] for part in parts})


def routes() -> dict[str, str]:
    from speedtrack.urls import urlpatterns

    return {one.name: str(one.pattern) for one in urlpatterns if getattr(one, "name", None) in RULES}


ROUTES: dict[str, str] = {}


def test_each_change_needs_its_role_and_a_higher_one_will_do(made: World) -> None:
    ROUTES.update(routes())
    needed = {name: need for need, names in NEEDED.items() for name in names.split()}
    changing = {name for name, rule in RULES.items() if rule.change not in (Need.NOTHING, Need.SIGHT)}
    assert needed.keys() == changing, "say in NEEDED what a new address needs"
    wrong = []
    for who in LADDER:
        client = client_of(who)
        for name, need in needed.items():
            allowed = LADDER.index(who) >= LADDER.index(LOWEST.get(need, str(need)))
            with transaction.atomic():
                answer = client.post(address_of(name, made))
                transaction.set_rollback(True)
            at_login = answer.status_code == 302 and "/login/" in answer["Location"]
            refused = at_login if who == "anonymous" else answer.status_code == 403
            if refused == allowed:
                wrong.append(f"{who} {name}: {answer.status_code}")
    assert wrong == []


def test_a_refusal_says_which_role_is_needed_and_pages_offer_nothing_that_is_refused(made: World) -> None:
    reader, triager, maintainer = client_of("reader"), client_of("triager"), client_of("maintainer")
    refused = reader.post("/p/kvd/mutes/").content.decode()
    assert "needs the role triager in this project" in refused and "its owners give it" in refused
    alert = f"/alerts/{Alert.objects.latest('pk').pk}/"
    assert 'name="status"' not in reader.get(alert).content.decode()
    assert "you need the role" in reader.get(alert).content.decode()
    assert 'name="status"' in triager.get(alert).content.decode()
    for page, control in (("/p/kvd/", "/p/kvd/settings/"), ("/p/kvd/bisect/", 'name="before"')):
        assert control not in triager.get(page).content.decode()
        assert control in maintainer.get(page).content.decode()
    settings = maintainer.get("/p/kvd/settings/").content.decode()
    assert "untrack/" not in settings and "members/" not in settings and "/settings/suites/" not in settings
    settings = client_of("owner").get("/p/kvd/settings/").content.decode()
    assert "untrack/" in settings and "members/" in settings
    assert "machines/" not in client_of("owner").get("/settings/").content.decode().partition("<main")[2]
    assert client_of("operator").get("/settings/machines/").status_code == 200


def test_a_decision_on_several_alerts_leaves_out_those_of_other_projects(made: World) -> None:
    alert = Alert.objects.latest("pk")
    form = {"alert": f"{alert.pk}:confirmed", "action": "expected", "note": "it is meant"}
    answer = client_of("reader").post("/alerts/decide/", form, follow=True).content.decode()
    assert "needs the role triager" in answer
    alert.refresh_from_db()
    assert alert.status == "confirmed" and not AuditEntry.objects.exists()
    client_of("triager").post("/alerts/decide/", form)
    alert.refresh_from_db()
    assert alert.status == "expected"
    assert AuditEntry.objects.get().name == "triager"


SECRETS = ["s3cret-of-a-channel-0123456789", "s3cret-token-of-a-repository", "s3cret-made-by-the-forge-0123456789012"]


def changes(made: World) -> list[tuple[str, str, dict[str, Any], str]]:
    """For each address that changes something: who, the address, a form that does it, and the action noted."""
    alert, first, last = Alert.objects.latest("pk"), made.shas[0], made.shas[-1]
    pairs = {"what": "pairs", "benchmark": "get-p1"}
    note, mute = Annotation.objects.latest("pk").pk, made.project.mutes.latest("pk").pk
    member = Membership.objects.get(user__username="reader").pk
    return [
        (
            "triager",
            f"/alerts/{alert.pk}/",
            {"seen": alert.status, "status": "expected", "note": "meant"},
            "alert.decide",
        ),
        (
            "triager",
            "/alerts/decide/",
            {"alert": f"{alert.pk}:expected", "action": "confirmed", "note": "no"},
            "alert.decide",
        ),
        ("triager", f"/alerts/{alert.pk}/move/", {"commit": made.shas[4], "note": "it was that"}, "alert.move"),
        ("triager", f"/p/kvd/mutes/{mute}/end/", {}, "mute.end"),
        ("triager", "/p/kvd/mutes/", {"benchmark": "get-p1", "days": "2", "reason": "noisy"}, "mute.create"),
        ("triager", "/p/kvd/annotations/", {"place": "2026-05-01", "text": "moved"}, "annotation.create"),
        ("triager", f"/annotations/{note}/", {"place": "2026-05-02", "text": "again"}, "annotation.change"),
        ("triager", f"/annotations/{note}/delete", {}, "annotation.delete"),
        ("operator", "/annotations/", {"place": "2026-05-01", "text": "for all"}, "annotation.create"),
        ("maintainer", "/p/kvd/measure/", {"range": first, "every": "1", "order": "newest"}, "run.queue"),
        (
            "maintainer",
            f"/p/kvd/compare/measure/?base={first}&head={last}",
            pairs,
            "run.queue",
        ),
        ("maintainer", "/p/kvd/bisect/", {"before": first, "commit": last, "machine": "kvd-m1"}, "bisection.begin"),
        ("maintainer", "/bisections/LATEST/stop", {}, "bisection.stop"),
        ("maintainer", "/runs/QUEUED/act/cancel", {}, "run.cancel"),
        ("maintainer", "/p/kvd/policies/", {"branches": "8.*", "every": "2", "zone": "UTC"}, "policy.save"),
        (
            "maintainer",
            "/p/kvd/channels/add/webhook/",
            {"name": "ci", "url": "https://127.0.0.1/h", "secret": SECRETS[0]},
            "channel.add",
        ),
        ("maintainer", "/p/kvd/channels/CHANNEL/", {"name": "ci2"}, "channel.change"),
        ("maintainer", "/p/kvd/channels/CHANNEL/pause", {}, "channel.pause"),
        ("maintainer", "/p/kvd/settings/secret", {"sure": "yes", "days": "3", "given": SECRETS[2]}, "hook.rotate"),
        ("maintainer", "/p/kvd/settings/end-former-secret", {}, "hook.end"),
        ("maintainer", "/p/kvd/settings/access", {"remove": "yes"}, "credential.remove"),
        ("maintainer", "/p/kvd/deliveries/", {"act": "purge", "days": "1", "sure": "yes"}, "delivery.purge"),
        ("owner", f"/p/kvd/members/{member}/", {"act": "change", "role": "triager"}, "member.change"),
        ("owner", f"/p/kvd/members/{member}/", {"act": "remove"}, "member.remove"),
        ("owner", "/p/kvd/members/invite", {"role": "reader", "days": "7", "uses": "1"}, "invitation.make"),
        ("owner", "/p/kvd/members/invitations/INVITATION/revoke", {}, "invitation.revoke"),
        ("owner", "/p/kvd/settings/visibility/", {"slug": "kvd", "to": "private"}, "project.visibility"),
        ("operator", "/settings/machines/", {"name": "box2", "how": "token"}, "machine.add"),
        ("operator", "/settings/machines/", {"name": "box3"}, "machine.enroll-code"),
        ("operator", "/settings/machines/kvd-m1/token", {"sure": "yes"}, "machine.token"),
        ("operator", "/settings/machines/kvd-m1/plan/", {"windows": "", "zone": "UTC"}, "machine.plan"),
        ("operator", "/settings/machines/kvd-m1/pause", {}, "machine.pause"),
        ("operator", "/settings/machines/kvd-m1/retire", {"name": "kvd-m1"}, "machine.retire"),
        ("operator", "/settings/machines/kvd-m1/return", {}, "machine.return"),
        ("operator", "/settings/notifications/", {"act": "subscription", **SUBSCRIPTION}, "notification.subscription"),
        ("owner", "/p/kvd/settings/untrack/", {"slug": "kvd"}, "project.untrack"),
        ("owner", "/p/kvd/settings/track-again", {}, "project.track-again"),
    ]


SUBSCRIPTION = {"branches": "*", "benchmarks": "*", "smallest_percent": "0", "direction": "worse", "pace": "now"}
LATEST: dict[str, Callable[[], int]] = {
    "LATEST": lambda: Bisection.objects.latest("pk").pk,
    "QUEUED": lambda: Run.objects.filter(status="queued").latest("pk").pk,
    "CHANNEL": lambda: Channel.objects.latest("pk").pk,
    "INVITATION": lambda: Invitation.objects.latest("pk").pk,
}


def test_each_change_is_noted_with_who_did_it_and_no_secret_is(made: World, settings: Any) -> None:
    settings.CHANNEL_NETWORKS = [ip_network("127.0.0.0/8")]
    missing = []
    for who, address, form, action in changes(made):
        needs = OPERATIONS[action]
        assert needs == SELF or LADDER.index(needs) <= LADDER.index(who), f"{action} by {who}"
        for word, find in LATEST.items():
            address = address.replace(word, str(find())) if word in address else address
        before = AuditEntry.objects.count()
        answer = client_of(who).post(address, form, follow=True)
        found = list(AuditEntry.objects.order_by("pk").values_list("action", "name", "door")[before:])
        if found != [(action, who, "page")]:
            said = re.findall(r'<ul class="messages".*?</ul>', answer.content.decode(), re.S)
            missing.append((address, action, found, answer.status_code, said))
    assert missing == []
    entries = str(list(AuditEntry.objects.values_list("target", "changes")))
    texts = [*SECRETS, *re.findall(r"strn_\w+", entries), Project.objects.get().hook_secret.reveal()]
    assert not [text for text in texts if text in entries]
    assert AuditEntry.objects.filter(action="alert.decide").earliest("pk").changes["status"] == [
        "confirmed",
        "expected",
    ]
    operator = client_of("operator")
    every = operator.get("/audit/?person=owner&action=member").content.decode()
    assert "member.remove" in every and "machine.pause" not in every
    listed = operator.get("/audit.json?since=2020-01-01").json()["entries"]
    assert {one["who"] for one in listed} >= {"owner", "triager"}
    own = client_of("maintainer").get("/p/kvd/audit.json").json()["entries"]
    assert own and {one["project"] for one in own} == {"kvd"}
    lines = b"".join(operator.get("/audit.csv").streaming_content).decode().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == 1 + AuditEntry.objects.count()
    assert operator.get("/audit/?since=yesterday").status_code == 404


def test_a_change_that_is_not_noted_is_not_made(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space")

    monkeypatch.setattr("speedtrack.accounts.audit.AuditEntry.objects.create", full)
    client = client_of("owner")
    client.raise_request_exception = False
    client.post("/p/kvd/settings/visibility/", {"slug": "kvd", "to": "private"})
    assert Project.objects.get().is_public
    commands = [("project", "private", "kvd"), ("member", "remove", "kvd", "triager"), ("machine", "pause", "kvd-m1")]
    for command in commands:
        with pytest.raises(OSError, match="no space"):
            call_command(*command)
    assert Project.objects.get().is_public and Membership.objects.filter(user__username="triager").exists()
    assert not Machine.objects.filter(paused=True).exists()


def test_an_invitation_admits_once_and_says_why_it_does_not(made: World) -> None:
    owner, stranger = client_of("owner"), client_of("stranger")
    made_page = owner.post("/p/kvd/members/invite", {"role": "triager", "days": "7", "uses": "1"})
    link = re.search(r"https?://[^<]+/invite/[\w-]+/", made_page.content.decode())
    assert link and made_page["Cache-Control"].startswith("no-store")
    page = html_of(made_page)
    assert "Whoever has it can become <strong>triager</strong> of kvd until" in page and "1 person at most" in page
    assert 'href="/p/kvd/members/" aria-current="page"' in page and 'aria-label="Remove triager"' in page
    path = "/" + link[0].split("/", 3)[3]
    code = path.split("/")[2]
    assert code not in str(list(Invitation.objects.values())) and code not in str(list(AuditEntry.objects.values()))
    members.show_to(made.project, everybody=False)
    visitor = Client().get(path).content.decode()
    assert "triager" in visitor and f"/login/?next={path}" in visitor
    assert Client().post(path)["Location"].startswith("/login/")
    assert "Accept as stranger" in stranger.get(path).content.decode()
    assert not Membership.objects.filter(user__username="stranger").exists()
    assert stranger.get("/p/kvd/").status_code == 404
    assert stranger.post(path)["Location"] == "/p/kvd/"
    assert stranger.get("/p/kvd/").status_code == 200
    assert Membership.objects.get(user__username="stranger").role == "triager"
    used = stranger.get(path)
    assert used.status_code == 410 and "has been used" in used.content.decode()
    for field, value, words in (("revoked_at", "2026-01-01T00:00Z", "taken back"), ("expires_at", None, "expired")):
        invitation, code = invitations.make(made.project, Role.OWNER, None, 1, 5)
        Invitation.objects.filter(pk=invitation.pk).update(**{field: value or "2026-01-01T00:00Z"})
        assert words in stranger.post(f"/invite/{code}/").content.decode()
    invitation, code = invitations.make(made.project, Role.READER, None, 1, 5)
    assert "You are triager already; an invitation takes no role away" in html_of(stranger.get(f"/invite/{code}/"))
    assert "already" not in html_of(Client().get(f"/invite/{code}/"))
    stranger.post(f"/invite/{code}/")
    assert Membership.objects.get(user__username="stranger").role == "triager", "an invitation takes no role away"
    statuses = [Client().get(f"/invite/guess-{number}/").status_code for number in range(11)]
    assert statuses == [404] * 10 + [429]
    assert Client().get(f"/invite/{code}/").status_code == 200, "guesses close the links of nobody"


def test_a_project_keeps_somebody_in_charge(made: World) -> None:
    owner = User.objects.get(username="owner")
    User.objects.filter(username="operator").update(is_active=False)
    member = Membership.objects.get(user=owner).pk
    page = client_of("owner").post(f"/p/kvd/members/{member}/", {"act": "remove"}, follow=True).content.decode()
    assert "the last owner" in page and Membership.objects.filter(user=owner).exists()
    with pytest.raises(CommandError, match="last owner"):
        call_command("member", "add", "kvd", "owner", role="reader")
    User.objects.filter(username="operator").update(is_active=True)
    call_command("member", "remove", "kvd", "owner")
    assert not Membership.objects.filter(user=owner).exists()


def test_commands_change_members_and_visibility_and_are_noted(made: World, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("member", "add", "kvd", "stranger", role="maintainer")
    call_command("project", "private", "kvd")
    call_command("member", "list", "kvd")
    said = capsys.readouterr().out
    assert "stranger" in said and "kvd is private" in said
    call_command("machine", "pause", "kvd-m1")
    call_command("machine", "list")
    call_command("machine", "token", "kvd-m1")
    token = capsys.readouterr().out.split()[-1]
    noted = AuditEntry.objects.order_by("pk").values_list("action", "door", "target")
    assert [action for action, *_ in noted] == [
        "member.add",
        "project.visibility",
        "machine.pause",
        "machine.token",
    ]
    assert {door for _, door, _ in noted} == {"command"} and token not in str(list(noted))
    with pytest.raises(CommandError, match="there is no account 'nobody'"):
        call_command("member", "add", "kvd", "nobody")


def test_those_who_were_there_before_keep_what_they_could_do(db: None) -> None:
    from importlib import import_module

    from django.apps import apps

    project = Project.objects.create(slug="kvd", name="kvd", url="https://example.org/kvd", suite="tiny")
    ada, bob = User.objects.create_user("ada"), User.objects.create_user("bob", is_active=False)
    import_module("speedtrack.accounts.migrations.0003_owners").keep_what_people_could_do(apps, None)
    assert list(project.memberships.values_list("user", "role")) == [(ada.pk, "owner")]
    ada.refresh_from_db(), bob.refresh_from_db()
    assert ada.is_superuser and not bob.is_superuser
