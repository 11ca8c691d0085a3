"""What programs change: with a role and a scope, once per key, and in the audit log."""

import base64
import gzip
import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from speedtrack.accounts.models import AuditEntry, Membership, Role, Scope
from speedtrack.alerts.models import Alert, Mute
from speedtrack.alerts.triage import triage
from speedtrack.api.v1.tests.conftest import Program, program
from speedtrack.calls.models import KeptAnswer
from speedtrack.outside.readers.tests.samples import content_of
from speedtrack.outside.tests.test_files_of_tools import NAMED
from speedtrack.projects.mirrors.directories import mirror_of, remove_mirror
from speedtrack.projects.models import Annotation, Project, PullRequest
from speedtrack.runs.models import Approval, PairedComparison, Reason, Run
from speedtrack.runs.planning import pushes
from speedtrack.runs.requests import comparing
from speedtrack.web.tests.world import CPU, World

KEY = "Idempotency-Key"


def actions() -> list[str]:
    return list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))


def test_alerts_mutes_and_annotations(slow: tuple[World, Alert], anybody: Program) -> None:
    made, alert = slow
    triager = program("ada", Scope.READ, Scope.TRIAGE, project=made.project, role=Role.TRIAGER)
    path = f"alerts/{alert.pk}"
    problem = triager.refused("PATCH", path, {"seen": "confirmed", "status": "expected"})
    assert (problem["status"], problem["errors"][0]["pointer"]) == (422, "/note")
    decision = {"seen": "confirmed", "status": "expected", "note": "worth it", "assignee": "ada"}
    decided = triager.write("PATCH", path, decision)
    assert (decided["status"], decided["assignee"]) == ("expected", "ada")
    assert (decided["history"][-1]["who"], decided["history"][-1]["after"]) == ("ada", "expected")
    assert triager.refused("PATCH", path, decision)["status"] == 409
    assert (
        triager.refused("PATCH", path, {"seen": "expected", "assignee": "eve"})["errors"][0]["pointer"] == "/assignee"
    )

    mute = triager.write("POST", "projects/kvd/mutes", {"benchmark": "get-p1", "reason": "noise", "days": 3}, 201)
    assert triager.write("DELETE", f"mutes/{mute['id']}")["ended_at"]
    assert triager.refused("DELETE", f"mutes/{mute['id']}")["status"] == 409
    for wrong, place in (
        ({"benchmark": "no"}, "/benchmark"),
        ({"benchmark": ""}, "/benchmark"),
        ({"machine": "no"}, "/machine"),
        ({"days": 0}, "/days"),
        ({"reason": " "}, "/reason"),
    ):
        problem = triager.refused(
            "POST", "projects/kvd/mutes", {"benchmark": "get-p1", "reason": "x", "days": 3} | wrong
        )
        assert problem["errors"][0]["pointer"] == place
    assert Mute.objects.count() == 1

    note = triager.write("POST", "projects/kvd/annotations", {"commit": "main", "text": "new compiler"}, 201)
    assert note["sha"] == made.shas[-1]
    assert triager.write("PATCH", note["url"], {"text": "newer compiler"})["text"] == "newer compiler"
    assert anybody.read(f"projects/kvd/annotations?commit={made.shas[-1]}")["items"][0]["id"] == note["id"]
    assert triager.write("DELETE", note["url"])["author"] == "ada"
    future = (timezone.now() + timedelta(days=1)).isoformat()
    for wrong, place in (
        ({}, "/commit"),
        ({"moment": future}, "/moment"),
        ({"commit": "no"}, "/commit"),
        ({"commit": ""}, "/commit"),
    ):
        assert (
            triager.refused("POST", "projects/kvd/annotations", {"text": "x", **wrong})["errors"][0]["pointer"] == place
        )
    assert not Annotation.objects.exists()
    assert actions() == [
        *("alert.decide", "mute.create", "mute.end", "annotation.create", "annotation.change", "annotation.delete")
    ]
    assert AuditEntry.objects.filter(door="api", token__isnull=False, project=made.project).count() == 6

    reader, unscoped = program("bob", project=made.project, role=Role.READER), program("ada", Scope.READ)
    for refused in (reader, unscoped):
        assert refused.refused("POST", "projects/kvd/mutes", {"reason": "x", "days": 1})["status"] == 403
    assert anybody.refused("POST", "projects/kvd/mutes", {"reason": "x", "days": 1})["status"] == 401


def test_runs(kvd: World) -> None:
    maintainer = program("ada", Scope.READ, Scope.RUNS, project=kvd.project, role=Role.MAINTAINER)
    queued = maintainer.write("POST", "projects/kvd/runs", {"commits": [sha[:12] for sha in kvd.shas[1:3]]}, 201)
    assert (queued["queued"], queued["commits"], len(queued["runs"])) == (2, 2, 2)
    some = {"range": f"{kvd.shas[0]}..main", "every": 2, "benchmarks": ["get-p1"], "machine": "kvd-m1"}
    ranged = maintainer.write("POST", "projects/kvd/runs", some, 201)
    assert ranged["queued"] == 2
    first = queued["runs"][0]
    assert maintainer.read("queue")["machines"][0]["waiting"] == 4
    assert maintainer.write("POST", f"runs/{first}/raise")["run"]["priority"] > 0
    assert maintainer.write("POST", f"runs/{first}/cancel")["run"]["status"] == "cancelled"
    assert maintainer.refused("POST", f"runs/{first}/cancel")["status"] == 409
    assert maintainer.write("POST", f"runs/{first}/retry")["run"]["status"] == "queued"
    for wrong, place in (
        ({}, ""),
        ({"branch": "main", "range": "main"}, ""),
        ({"branch": "no"}, "/branch"),
        ({"commits": ["main", "no"]}, "/commits"),
        ({"range": "main..main"}, "/range"),
        ({"branch": "main", "benchmarks": ["no"]}, "/benchmarks"),
        ({"branch": "main", "machine": "no"}, "/machine"),
        ({"branch": "main", "every": 0}, "/every"),
    ):
        problem = maintainer.refused("POST", "projects/kvd/runs", wrong)
        assert (problem["status"], problem["errors"][0]["pointer"]) == (422, place), wrong
    assert Run.objects.filter(reason=Reason.MANUAL).count() == 4
    assert actions() == ["run.queue", "run.queue", "run.raise", "run.cancel", "run.retry"]

    pull = PullRequest.objects.create(
        project=kvd.project, number=7, head_sha=kvd.shas[0], base_ref="main", updated_at=timezone.now()
    )
    problem = maintainer.refused("POST", "projects/kvd/runs", {"pull_request": 7, "head": "f" * 40})
    assert problem["status"] == 409
    asked = {"pull_request": 7, "head": kvd.shas[0]}
    problem = maintainer.refused("POST", "projects/kvd/runs", asked | {"dry_run": True})
    assert (problem["status"], "adds nothing to main" in problem["detail"]) == (409, True)
    PullRequest.objects.update(head_sha="f" * 40)
    outcome = maintainer.write("POST", "projects/kvd/runs", asked | {"head": "f" * 40, "dry_run": True}, 200)
    assert (outcome["machines"][0]["queued"], Approval.objects.count()) == (1, 0)
    PullRequest.objects.update(head_sha=kvd.shas[0])
    assert maintainer.write("POST", "projects/kvd/runs", asked, 202)["approved_head"] == kvd.shas[0]
    assert Approval.objects.get().pull_request == pull
    triager = program("bob", project=kvd.project, role=Role.TRIAGER)
    assert triager.refused("POST", f"runs/{first}/cancel")["status"] == 403


def test_the_newest_patch_of_each_minor_version_can_be_asked_for(kvd: World) -> None:
    for tag, sha in zip(("1.0.0", "1.0.1", "1.1.0"), kvd.shas, strict=False):
        kvd.repository.git("tag", tag, sha)
    pushes.sync_and_plan(kvd.project)
    maintainer = program("ada", Scope.READ, Scope.RUNS, project=kvd.project, role=Role.MAINTAINER)
    queued = maintainer.write("POST", "projects/kvd/runs", {"releases": "1.*", "benchmarks": ["get-p1"]}, 201)
    assert queued["commits"] == 2
    runs = Run.objects.filter(reason=Reason.MANUAL)
    assert set(runs.values_list("commit__sha", flat=True)) == set(kvd.shas[1:3])
    for wrong in ({"releases": "2.*"}, {"releases": "1.*", "branch": "main"}):
        assert maintainer.refused("POST", "projects/kvd/runs", wrong)["status"] == 422


def test_a_paired_comparison(kvd: World) -> None:
    """Of a commit of no tracked branch: it is fetched, measured against its merge base, and judged."""
    maintainer = program("ada", Scope.READ, Scope.RUNS, project=kvd.project, role=Role.MAINTAINER)
    kvd.repository.git("checkout", "--quiet", "-b", "topic", kvd.shas[2])
    head = kvd.repository.commit("slower by a fifth")
    kvd.slow |= {head}
    asked = {"head": head, "base": "main", "benchmarks": ["get-p1"]}
    made = maintainer.write("POST", "projects/kvd/comparisons", asked, 202)
    assert (made["state"], made["is_ended"], made["verdict"], made["runs"]) == ("fetching", False, None, [])
    assert comparing.plan_asked() == 1
    waiting = maintainer.read(made["url"])
    assert (waiting["state"], waiting["base"], waiting["head"]) == ("queued", kvd.shas[2], head)
    again = maintainer.write("POST", "projects/kvd/comparisons", asked, 202)
    assert [run["id"] for run in again["runs"]] == [run["id"] for run in waiting["runs"]]
    kvd.measure()
    done = maintainer.read(made["url"])
    assert (done["state"], done["is_ended"], done["verdict"]) == ("done", True, "worse")
    worst = done["rows"][0]
    assert (worst["benchmark"], worst["metric"], worst["verdict"], worst["pairs"]) == ("get-p1", CPU, "worse", 15)
    assert 1.1 < worst["low"] < worst["ratio"] < worst["high"] < 1.3
    assert maintainer.refused("POST", "projects/kvd/comparisons", {"head": "main~1"})["status"] == 409
    maintainer.write("POST", "projects/kvd/comparisons", {"head": "f" * 40}, 202)
    assert comparing.plan_asked() == 0
    failed = maintainer.read("projects/kvd/comparisons")["items"][0]
    assert (failed["state"], failed["is_ended"]) == ("failed", True)
    assert "f" * 10 in failed["error"]
    assert PairedComparison.objects.count() == 3


def test_a_request_that_is_sent_again(kvd: World) -> None:
    maintainer = program("ada", Scope.READ, Scope.RUNS, project=kvd.project, role=Role.MAINTAINER)
    order = {"branch": "main"}
    path = "projects/kvd/runs"
    first, second = (maintainer.write("POST", path, order, 201, **{KEY: '"8e03978e"'}) for _ in range(2))
    assert first == second
    assert Run.objects.filter(reason=Reason.MANUAL).count() == AuditEntry.objects.count() == 1
    problem = maintainer.refused("POST", path, {"branch": "main", "reason": "x"}, **{KEY: "8e03978e"})
    assert (problem["status"], problem["type"]) == (422, "/api/v1/docs#problem-used-key")
    assert maintainer.refused("POST", path, order, **{KEY: "two words"})["errors"][0]["parameter"] == KEY
    other = program("ada", Scope.RUNS)
    assert other.write("POST", path, order, 201, **{KEY: "8e03978e"})["runs"] != first["runs"]
    assert maintainer.refused("POST", path, {"branch": "no"}, **{KEY: "second"})["status"] == 422
    assert maintainer.write("POST", path, order, 201, **{KEY: "second"})["queued"] == 1  # a refusal leaves a key free
    KeptAnswer.objects.update(created=timezone.now() - timedelta(hours=25))
    assert maintainer.write("POST", path, order, 201, **{KEY: "8e03978e"})["runs"] != first["runs"]


def test_a_kept_answer_is_for_those_who_may_do_still_what_was_done(kvd: World) -> None:
    Project.objects.update(is_public=False)
    maintainer = program("ada", Scope.READ, Scope.RUNS, Scope.TRIAGE, project=kvd.project, role=Role.MAINTAINER)
    path, order = "projects/kvd/runs", {"branch": "main"}
    first = maintainer.write("POST", path, order, 201, **{KEY: "one"})
    mute = maintainer.write("POST", "projects/kvd/mutes", {"benchmark": "get-p1", "reason": "x", "days": 1}, 201)
    ended = maintainer.write("DELETE", f"mutes/{mute['id']}", **{KEY: "two"})
    assert maintainer.write("DELETE", f"mutes/{mute['id']}", **{KEY: "two"}) == ended

    for role, status in ((Role.READER, 403), (None, 404)):
        members = Membership.objects.filter(project=kvd.project)
        members.update(role=role) if role else members.delete()
        for key in ("one", "new"):
            assert maintainer.refused("POST", path, order, **{KEY: key})["status"] == status
        assert maintainer.refused("DELETE", f"mutes/{mute['id']}", **{KEY: "two"})["status"] == status
    members.create(project=kvd.project, user=User.objects.get(username="ada"), role=Role.MAINTAINER)
    assert maintainer.write("POST", path, order, 201, **{KEY: "one"}) == first
    KeptAnswer.objects.update(rights=None)
    assert "an older version" in str(maintainer.refused("POST", path, order, **{KEY: "one"})).lower()

    operator = program("olga", Scope.SETTINGS)
    User.objects.filter(username="olga").update(is_superuser=True)
    word: dict[str, str] = {}
    paused = operator.write("POST", "machines/kvd-m1/pause", word, **{KEY: "three"})
    assert operator.write("POST", "machines/kvd-m1/pause", word, **{KEY: "three"}) == paused
    User.objects.filter(username="olga").update(is_superuser=False)
    assert operator.refused("POST", "machines/kvd-m1/pause", word, **{KEY: "three"})["status"] == 403


def test_an_alert_is_assigned_to_members_and_operators_only(slow: tuple[World, Alert]) -> None:
    """The answer is the same for a name that nobody has."""
    made, alert = slow
    triager = program("ada", Scope.READ, Scope.TRIAGE, project=made.project, role=Role.TRIAGER)
    for name, more in (("eve", {}), ("mallory", {"is_active": False, "is_superuser": True})):
        User.objects.create_user(name, f"{name}@example.org", **more)
    User.objects.create_user("olga", is_superuser=True)
    for is_public in (True, False):
        Project.objects.update(is_public=is_public)
        problems = [
            str(triager.refused("PATCH", f"alerts/{alert.pk}", {"seen": "confirmed", "assignee": name}))
            for name in ("eve", "zoe", "mallory", "eve@example.org")
        ]
        assert len({re.sub(r"'[^']*' is no member", "", one) for one in problems}) == 1, problems
        assert "no member of kvd" in problems[0]
    for name in ("olga", "ada"):
        decided = triager.write("PATCH", f"alerts/{alert.pk}", {"seen": "confirmed", "assignee": name})
        assert decided["assignee"] == name
    Membership.objects.all().delete()
    assert triage.assignee_named(Alert.objects.get(pk=alert.pk), "ada") is not None, "who has it may keep it"


@pytest.mark.parametrize("state", ["imported", "without its mirror", "with a broken mirror"])
def test_what_git_cannot_do_is_said_without_a_path(kvd: World, settings: Any, state: str) -> None:
    maintainer = program("ada", project=kvd.project, role=Role.OWNER)
    if state == "imported":
        Project.objects.update(untracked_at=timezone.now())
    if state == "with a broken mirror":
        (mirror_of("kvd") / "HEAD").write_text("nonsense")
    else:
        remove_mirror("kvd")
    sha, head = kvd.shas[0], {"commits": [kvd.shas[0][:12]]}
    asked = {
        "projects/kvd/runs": [head, {"range": f"{sha}..main"}, {"branch": "main"}, head | {"dry_run": True}],
        "projects/kvd/comparisons": [{"head": "main", "base": sha}, {"head": sha[:7]}],
        "projects/kvd/comparisons/patches": [{"diff": "x"}, {"diff": "x", "base": sha}],
        "projects/kvd/bisections": [{"base": sha, "head": "main"}],
        "projects/kvd/results": [{"schema": "speedtrack.points/1", "commit": sha, "results": []}],
    }
    for path, orders in asked.items():
        for order in orders:
            answer = maintainer.call("POST", path, order)
            text = answer.content.decode()
            assert answer.status_code != 500 and str(settings.HOME) not in text, text
            assert str(settings.MIRRORS) not in text and "Traceback" not in text, text
            if path.endswith("runs") and state != "with a broken mirror":
                assert answer.status_code == 422 and "is not on this server" in text, text


def test_odd_requests_are_refused_in_words(kvd: World, anybody: Program) -> None:
    maintainer = program("ada", project=kvd.project, role=Role.MAINTAINER)
    path = "/api/v1/projects/kvd/annotations"
    for method, address, body, headers, status in (
        ("POST", path, b"{", {}, 400),
        ("POST", path, b"\xff", {}, 400),
        ("POST", path, b"[]", {}, 422),
        ("POST", path, b"", {}, 422),
        ("POST", path, {"commit": "main", "text": "a\0b"}, {}, 422),
        ("POST", path, {"commit": "main", "text": "x", "txet": "y"}, {}, 422),
        ("POST", path, {"commit": "main", "text": "x"}, {"Content-Type": "text/plain"}, 415),
        ("POST", path, b'{"text": "' + b"x" * 1_100_000 + b'"}', {}, 413),
        ("PUT", path, {}, {}, 405),
        ("GET", f"{path}/no/such", None, {}, 404),
        ("GET", "/api/v1/projects/kvd%00", None, {}, 400),
        ("GET", "/api/v1/alerts/99999999999999999999", None, {}, 422),
        ("GET", "/api/v1/alerts/99999999", None, {}, 404),
        ("GET", "/api/v1/projects", None, {"Authorization": "Basic YTpi"}, 401),
        ("GET", "/api/v1/projects", None, {"Authorization": "Bearer stpt_wrong"}, 401),
    ):
        problem = maintainer.refused(method, address, body, **headers)
        assert problem["status"] == status, (method, address, body, problem)
    answer = anybody.call("GET", "projects", Authorization="Bearer nonsense")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_rates(kvd: World, anybody: Program, settings: Any) -> None:
    settings.API_RATE, settings.API_RATE_ANONYMOUS = 4, 2
    reader = program("ada", Scope.READ)
    assert [anybody.call("GET", "metrics").status_code for _ in range(3)] == [200, 200, 429]
    answer = anybody.call("GET", "metrics")
    assert answer.status_code == 429
    assert 1 <= int(answer.headers["Retry-After"]) <= 31
    assert answer.headers["RateLimit"].startswith('"default";r=0;t=')
    assert anybody.refused("GET", "metrics")["type"].endswith("too-many")
    assert [reader.call("GET", "metrics").headers["RateLimit"].split(";")[1] for _ in range(2)] == ["r=3", "r=2"]
    settings.API_RATE_ANONYMOUS = 0
    assert "RateLimit" not in anybody.call("GET", "metrics").headers


def test_an_operator_tracks_a_repository(kvd: World) -> None:
    """Nobody else, and not with any token; a name that is taken, or an address that is none, is refused."""
    owner = program("ada", project=kvd.project, role=Role.OWNER)
    order = {"repository": kvd.project.url, "suite": kvd.project.suite, "name": "again", "last": 0}
    assert owner.refused("POST", "projects", order)["status"] == 403
    User.objects.filter(username="ada").update(is_superuser=True)
    assert program("ada", Scope.READ, Scope.RUNS).refused("POST", "projects", order)["status"] == 403
    tried = owner.write("POST", "projects", order | {"last": 2, "dry_run": True})
    assert tried["dry_run"] and tried["message"].endswith("is tracked with suite tiny; 2 runs queued")
    assert [(one["machine"], one["queued"]) for one in tried["machines"]] == [("kvd-m1", 2)]
    assert tried["commits"] == 2 and not Project.objects.filter(slug="again").exists() and not actions()
    made = owner.write("POST", "projects", order, 201)
    assert (made["slug"], made["repository"], made["is_tracked"]) == ("again", kvd.project.url, True)
    assert Membership.objects.get(project__slug="again").user.username == "ada", "who tracks it owns it, as on the page"
    assert owner.refused("POST", "projects", order)["status"] == 409
    assert owner.refused("POST", "projects", order | {"dry_run": True})["status"] == 409
    for wrong in ({"repository": "/nowhere"}, {"suite": "no"}, {"last": -1}, {"branch": "no"}, {"name": "!"}):
        problem = owner.refused("POST", "projects", order | {"name": "other"} | wrong)
        assert (problem["status"], problem["errors"][0]["pointer"]) == (422, f"/{next(iter(wrong))}"), wrong
    assert actions() == ["project.track"]


def test_numbers_are_numbers(kvd: World) -> None:
    """Neither texts nor true and false, wherever a body states one, also in lists and objects."""
    User.objects.create_superuser("olga")
    operator = program("olga")
    asked = {
        "projects": ({"repository": kvd.project.url, "suite": "tiny", "name": "again"}, {"last": 5}),
        "projects/kvd/runs": ({"range": "main"}, {"every": 1}),
        "projects/kvd/deliveries/replay": ({}, {"deliveries": [5]}),
        "projects/kvd/deliveries/purge": ({}, {"older_than_days": 5}),
        "projects/kvd/hook/rotate": ({}, {"days": 5}),
    }
    for path, (rest, right) in asked.items():
        (field, value) = next(iter(right.items()))
        for wrong in ("5", True, "5 ", ""):
            given = [wrong] if isinstance(value, list) else wrong
            problem = operator.refused("POST", path, rest | {field: given, "dry_run": True})
            pointer = f"/{field}/0" if isinstance(value, list) else f"/{field}"
            assert (problem["status"], problem["errors"][0]["pointer"]) == (422, pointer), (path, wrong)
            assert "give a number such as 5" in problem["detail"]
    for wrong in ("20", False):
        order = {"shares": {"backfill": wrong}, "dry_run": True}
        assert operator.refused("PUT", "machines/kvd-m1/shares", order)["status"] == 422
        order = {"branches": "8.*", "most_waiting": wrong, "dry_run": True}
        assert operator.refused("PUT", "projects/kvd/policies", order)["status"] == 422
    assert operator.write("POST", "projects/kvd/runs", {"range": "main", "every": 1.0, "dry_run": True})["dry_run"]


def test_a_file_of_a_tool(kvd: World) -> None:
    """It is read by the server; what it does not say, the caller does; nothing of it is stored by halves."""
    maintainer = program("ada", project=kvd.project, role=Role.MAINTAINER)
    path = "projects/kvd/files"

    def order(text: str, **more: Any) -> dict[str, Any]:
        content = base64.b64encode(text.encode()).decode()
        return {"name": "bench.txt", "content": content, "commit": "main", "machine": "ci", **more}

    good = "BenchmarkGet-2 1000 812 ns/op\n"
    first = maintainer.write("POST", path, order(good), **{KEY: "one"})
    assert {**first, "commits": []} == {
        "taken": 1,
        "unchanged": 0,
        "refused": [],
        "refused_count": 0,
        "left_out": [],
        "benchmarks": ["Get-2"],
        "commits": [],
    }
    assert [commit["sha"] for commit in first["commits"]] == kvd.shas[-1:]
    assert maintainer.write("POST", path, order(good), **{KEY: "one"}) == first
    assert maintainer.write("POST", path, order(good))["unchanged"] == 1
    assert actions() == ["results.import"]
    row = {"benchmark": "get", "metric": "time", "unit": "ns", "better": "lower", "value": 900}
    mixed = json.dumps({"schema": "speedtrack.points/1", "results": [row, row | {"commit": "no"}]})
    only_wrong = {"schema": "speedtrack.points/1", "results": [row | {"commit": "no"}]}
    for refused in (order(mixed, all_or_nothing=True), order(json.dumps(only_wrong))):
        none = maintainer.refused("POST", path, refused)
        assert (none["status"], none["type"]) == (422, "/api/v1/docs#problem-refused-results")
        assert [one["pointer"] for one in none["errors"]] == ["/content"]
        assert "no commit, branch or tag 'no'" in none["errors"][0]["detail"]
    lost = json.dumps({"schema": "speedtrack.points/1", "results": [row | {"commit": "no", "id": i} for i in "ab"]})
    none = maintainer.refused("POST", path, order(lost))
    assert (len(none["errors"]), none["refused_count"]) == (1, 2)  # one reason, two results
    some = maintainer.write("POST", path, order(mixed))
    assert some["taken"] == 1 and "/results/1/commit" in some["refused"][0]
    folders: dict[str, dict[str, str]] = {"criterion": {}, "asv": {"commit": "", "machine": ""}}
    for name, said in folders.items():
        content = content_of(name)
        for old, new in zip(NAMED, kvd.shas, strict=True):
            content = content.replace(old.encode(), new.encode())
        for packed in (gzip.compress(content), content):
            sent = order("", **said) | {"name": name, "content": base64.b64encode(packed).decode()}
            report = maintainer.write("POST", path, sent)
            assert report["taken"] + report["unchanged"] > 0 and not report["refused"], name
        assert report["taken"] == 0
        cut = base64.b64encode(gzip.compress(content)[:200]).decode()
        assert maintainer.refused("POST", path, order("", **said) | {"content": cut})["status"] == 422
    wrong = [{"content": "é"}, {"content": ""}, {"format": "no"}, {"name": ""}, {"options": {"a": 1}}, {"more": 1}]
    for one in wrong:
        assert maintainer.refused("POST", path, order(good) | one)["status"] == 422, one
    triager = program("eve", project=kvd.project, role=Role.TRIAGER)
    assert triager.refused("POST", path, order(good))["status"] == 403
