"""Each operation by each face: the same roles may do it, and it leaves the same entry in the audit log."""

import json
import pkgutil
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import transaction
from django.http import HttpResponse
from django.test import Client

from speedtrack import operations
from speedtrack.accounts import tokens
from speedtrack.accounts.models import AuditEntry, Membership, Role, Scope
from speedtrack.accounts.operations import OPERATIONS
from speedtrack.alerts.models import Alert, Bisection
from speedtrack.ground.secrets.sealed import Secret
from speedtrack.operations import performing
from speedtrack.projects.models import Annotation, Project
from speedtrack.runs.models import Run
from speedtrack.web.tests.test_tries import patch_of
from speedtrack.web.tests.world import CPU, World, peopled  # noqa: F401

LADDER = ["stranger", *Role.values, "operator"]


@dataclass(frozen=True)
class Act:
    """An operation as its faces are asked for it. ``page``: address and form. ``api``: method, path and body."""

    name: str
    page: tuple[str, dict[str, Any]] | None = None
    api: tuple[str, str, dict[str, Any] | None] | None = None
    command: list[str] = field(default_factory=list)


@pytest.fixture
def made(peopled: World) -> World:  # noqa: F811
    return peopled


def acts(made: World) -> list[Act]:
    alert, sha = Alert.objects.latest("pk"), made.shas[3]
    note, mute = Annotation.objects.latest("pk").pk, made.project.mutes.latest("pk").pk
    decision = {"seen": alert.status, "status": "expected", "note": "meant", "assignee": "triager"}
    quiet = {"benchmark": "get-p1", "days": 2, "reason": "noisy"}
    return [
        Act("alert.decide", (f"/alerts/{alert.pk}/", decision), ("PATCH", f"alerts/{alert.pk}", decision)),
        Act("mute.create", ("/p/kvd/mutes/", quiet), ("POST", "projects/kvd/mutes", quiet)),
        Act("mute.end", (f"/p/kvd/mutes/{mute}/end/", {}), ("DELETE", f"mutes/{mute}", None)),
        Act(
            "annotation.create",
            ("/p/kvd/annotations/", {"place": sha, "text": "moved"}),
            ("POST", "projects/kvd/annotations", {"commit": sha, "text": "moved"}),
        ),
        Act(
            "annotation.change",
            (f"/annotations/{note}/", {"place": alert.commit.sha, "text": "again"}),
            ("PATCH", f"annotations/{note}", {"text": "again"}),
        ),
        Act("annotation.delete", (f"/annotations/{note}/delete", {}), ("DELETE", f"annotations/{note}", None)),
        Act("alert.move", (f"/alerts/{alert.pk}/move/", {"commit": made.shas[4], "note": "it was that"})),
        *machine_acts(made),
        *run_acts(made),
        *project_acts(made),
        *channel_acts(made),
        Act(
            "suite.save",
            (f"/p/kvd/timeline/get-p1/{CPU}/takes/", {"trials": "20"}),
            ("PUT", "suites/tiny/trials", {"trials": 20}),
        ),
    ]


def machine_acts(made: World) -> list[Act]:
    page, api, command = "/settings/machines/kvd-m1", "machines/kvd-m1", ["machine"]
    shares = {"share-backfill": "20", "windows": "22:00-06:00", "zone": "UTC"}
    return [
        Act("machine.pause", (f"{page}/drain", {}), ("POST", f"{api}/pause", {}), [*command, "pause", "kvd-m1"]),
        Act("machine.resume", (f"{page}/resume", {}), ("POST", f"{api}/resume", {}), [*command, "resume", "kvd-m1"]),
        Act("machine.plan", (f"{page}/plan/", shares)),
        Act(
            "machine.plan",
            None,
            ("PUT", f"{api}/windows", {"windows": ["22:00-06:00"]}),
            [*command, "windows", "kvd-m1", "22:00-06:00"],
        ),
        Act(
            "machine.plan",
            None,
            ("PUT", f"{api}/shares", {"shares": {"backfill": 20}}),
            [*command, "shares", "kvd-m1", "backfill=20"],
        ),
        Act("machine.pool", (f"{page}/pool", {"pool": "large"}), None, [*command, "pool", "kvd-m1", "--pool", "large"]),
        Act("machine.revoke", (f"{page}/revoke", {"sure": "yes"}), None, [*command, "revoke", "kvd-m1"]),
        Act("machine.token", (f"{page}/token", {"sure": "yes"}), None, [*command, "token", "kvd-m1"]),
        Act("machine.retire", (f"{page}/retire", {"name": "kvd-m1"}), None, [*command, "retire", "kvd-m1"]),
        Act(
            "machine.add",
            ("/settings/machines/", {"name": "box2", "how": "token"}),
            None,
            [*command, "add", "box2"],
        ),
        Act("machine.enroll-code", ("/settings/machines/", {"name": "box3"}), None, [*command, "enroll-code", "box3"]),
    ]


def run_acts(made: World) -> list[Act]:
    queued, first = Run.objects.filter(status="queued").latest("pk").pk, made.shas[0]
    last = made.shas[-1]
    bisection = Bisection.objects.latest("pk").pk
    asked = {"range": first, "every": "1", "order": "newest"}
    return [
        Act(
            f"run.{verb}",
            (f"/runs/{queued}/act/{verb}", {}),
            ("POST", f"runs/{queued}/{verb}", {}),
            ["run", verb, str(queued)],
        )
        for verb in ("cancel", "raise")
    ] + [
        Act(
            "run.queue",
            ("/p/kvd/measure/", asked),
            ("POST", "projects/kvd/runs", {"range": first}),
            ["measure", "kvd", first],
        ),
        Act(
            "bisection.begin",
            ("/p/kvd/bisect/", {"before": first, "commit": last, "machine": "kvd-m1"}),
            ("POST", "projects/kvd/bisections", {"before": first, "commit": last, "machine": "kvd-m1"}),
            ["bisect", "kvd", f"{first}..{last}"],
        ),
        Act("bisection.stop", (f"/bisections/{bisection}/stop", {}), ("POST", f"bisections/{bisection}/end", {})),
    ]


def project_acts(made: World) -> list[Act]:
    policy = {"branches": "8.*", "every": 2}
    member = Membership.objects.get(user__username="reader").pk
    return [
        Act(
            "project.untrack",
            ("/p/kvd/settings/untrack/", {"slug": "kvd"}),
            ("POST", "projects/kvd/untrack", {}),
            ["untrack", "kvd"],
        ),
        Act(
            "project.visibility",
            ("/p/kvd/settings/visibility/", {"slug": "kvd", "to": "private"}),
            None,
            ["project", "private", "kvd"],
        ),
        Act("project.track-again", ("/p/kvd/settings/track-again", {})),
        Act(
            "hook.rotate",
            ("/p/kvd/settings/secret", {"sure": "yes", "days": "3"}),
            ("POST", "projects/kvd/hook/rotate", {"days": 3}),
            ["hook", "rotate", "kvd", "--days", "3"],
        ),
        Act(
            "delivery.purge",
            ("/p/kvd/deliveries/", {"act": "purge", "days": "1", "sure": "yes"}),
            ("POST", "projects/kvd/deliveries/purge", {"older_than_days": 1}),
            ["delivery", "purge", "kvd", "--older-than", "1"],
        ),
        Act(
            "policy.save",
            ("/p/kvd/policies/", policy | {"zone": "UTC"}),
            ("PUT", "projects/kvd/policies", policy),
            ["policy", "kvd", "--branches", "8.*", "--every", "2"],
        ),
        Act("credential.remove", ("/p/kvd/settings/access", {"remove": "yes"})),
        Act(
            "member.change",
            (f"/p/kvd/members/{member}/", {"act": "change", "role": "triager"}),
            None,
            ["member", "add", "kvd", "reader", "--role", "triager"],
        ),
        Act(
            "member.remove",
            (f"/p/kvd/members/{member}/", {"act": "remove"}),
            None,
            ["member", "remove", "kvd", "reader"],
        ),
    ]


def channel_acts(made: World) -> list[Act]:
    url = Secret.of("https://ci.example.org/h")
    channel = made.project.channels.create(kind="webhook", name="ci", origin="https://ci.example.org", url=url)
    page = f"/p/kvd/channels/{channel.pk}"
    return [Act(f"channel.{verb}", (f"{page}/{verb}", {})) for verb in ("pause", "resume", "forget", "delete")] + [
        Act("channel.change", (f"{page}/", {"name": "ci2"})),
        Act("invitation.make", ("/p/kvd/members/invite", {"role": "reader", "days": "7", "uses": "1"})),
        Act(
            "comparison.try",
            ("/p/kvd/tries/", {"diff": patch_of(made)}),
            ("POST", "projects/kvd/comparisons/patches", {"diff": patch_of(made)}),
        ),
        Act(
            "comparison.create",
            ("/p/kvd/tries/", {"branch": made.shas[-1], "base": made.shas[0]}),
            ("POST", "projects/kvd/comparisons", {"head": made.shas[-1], "base": made.shas[0]}),
        ),
    ]


def by_page(act: Act, who: str) -> HttpResponse:
    assert act.page
    client = Client()
    client.force_login(User.objects.get(username=who))
    return client.post(*act.page)


def by_api(act: Act, who: str) -> HttpResponse:
    assert act.api
    method, path, body = act.api
    _, token = tokens.issue(User.objects.get(username=who), "all", tuple(Scope), days=None)
    raw = {} if body is None else {"data": json.dumps(body), "content_type": "application/json"}
    headers = {"Authorization": f"Bearer {token}"}
    return Client().generic(method, f"/api/v1/{path}", headers=headers, **raw)


def by_command(act: Act, who: str) -> None:
    call_command(*act.command)


FACES = {"page": by_page, "api": by_api, "command": by_command}


def faces_of(act: Act) -> list[str]:
    return [face for face in FACES if getattr(act, face)]


def test_a_role_that_one_face_refuses_the_others_refuse(made: World) -> None:
    wrong = []
    for act in acts(made):
        for who in LADDER:
            is_allowed = LADDER.index(who) >= LADDER.index(OPERATIONS[act.name])
            for face in set(faces_of(act)) - {"command"}:
                with transaction.atomic():
                    answer = FACES[face](act, who)
                    noted = AuditEntry.objects.filter(action=act.name).exists()
                    transaction.set_rollback(True)
                if (answer.status_code, noted) != ((403, False) if not is_allowed else (answer.status_code, True)):
                    wrong.append((act.name, who, face, answer.status_code, noted))
    assert wrong == []


def test_an_act_leaves_the_same_entry_by_whichever_face(made: World) -> None:
    for act in acts(made):
        entries = {}
        who = OPERATIONS[act.name]
        for face in faces_of(act):
            with transaction.atomic():
                FACES[face](act, who)
                (entry,) = AuditEntry.objects.filter(door=face)
                entries[face] = (entry.action, without_numbers(entry.target), entry.project_id, entry.changes)
                transaction.set_rollback(True)
        assert {entry[0] for entry in entries.values()} == {act.name}
        assert len({str(entry) for entry in entries.values()}) == 1, entries


def without_numbers(target: str) -> str:
    """A row that is made has another number each time."""
    return " ".join("N" if word.strip(":").isdigit() else word for word in target.split())


#: Operations that ``acts`` leaves out, by why.
ELSEWHERE = {
    "test_roles.py has them: pages alone": "alert.merge alert.split credential.store project.add-branch"
    " project.drop-branch project.follow-branch"
    " project.keep-address hook.end machine.return machine.canary machine.freeze machine.lift"
    " machine.rotate member.add",
    "they need a repository, a call or a pull request": "project.track project.change delivery.replay pull.approve"
    " run.retry policy.remove",
    "they need another server, or a real suite": "channel.add channel.test suite.return-to-file",
    "test_doors.py has them": "results.import",
    "test_tries.py has them": "comparison.approve",
    "test_accounts.py has them: one's own account, and commands": "account.activate account.add account.address"
    " account.deactivate account.operator account.owner-link account.remove account.second-step-off session.end"
    " token.add token.revoke invitation.accept invitation.revoke",
    "commands alone": "alerts.detect metric.change metric.delete metric.rename outbox.again"
    " retention.prune run.profile secrets.reseal",
}


def test_each_verb_of_this_room_is_asked_for_by_its_faces(made: World) -> None:
    for module in pkgutil.iter_modules(operations.__path__, f"{operations.__name__}."):
        import_module(module.name)
    asked = {act.name for act in acts(made)}
    elsewhere = {name for names in ELSEWHERE.values() for name in names.split()}
    assert asked | elsewhere == performing.VERBS and not asked & elsewhere


def test_whoever_tracks_a_project_becomes_its_owner(made: World) -> None:
    """A command has no person: its project belongs to the operators until `member add` names an owner."""
    url = made.project.url
    tracked = {
        "page": ("/settings/track/", {"url": url, "suite": "tiny", "name": "again", "last": "0"}),
        "api": ("POST", "projects", {"repository": url, "suite": "tiny", "name": "again", "last": 0}),
        "command": ["track", url, "--suite", "tiny", "--name", "again", "--last", "0"],
    }
    owners = {}
    for face, form in tracked.items():
        with transaction.atomic():
            FACES[face](Act("project.track", **{face: form}), "operator")
            project = Project.objects.get(slug="again")
            owners[face] = list(project.memberships.filter(role="owner").values_list("user__username", flat=True))
            entry = AuditEntry.objects.get(door=face)
            assert (entry.action, entry.project, entry.target) == ("project.track", project, "again")
            assert entry.changes == {"repository": [None, url]}
            transaction.set_rollback(True)
    assert owners == {"page": ["operator"], "api": ["operator"], "command": []}
