"""Each forge: its signature as openssl computes it, and what its events mean."""

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from speedtrack.ground.secrets.sealed import Secret
from speedtrack.projects import intake
from speedtrack.projects.forges.signing import BadSignature, SignatureFault
from speedtrack.projects.models import Delivery, Project, PullRequest
from speedtrack.projects.tests import calls
from speedtrack.projects.tests.calls import CALLS, NEW, NONE, OLD, PULLS, SECRET, SampleCall


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(
        slug="kvd", name="kvd", url="/kvd", default_branch="main", suite="tiny", hook_secret=Secret.of(SECRET)
    )


def take(project: Project, call: SampleCall) -> Delivery:
    delivery = intake.receive(project, call.signed(), call.body)
    assert delivery is not None
    return delivery


@pytest.fixture(params=CALLS)
def call(request: pytest.FixtureRequest) -> SampleCall:
    return CALLS[request.param]


@pytest.fixture(params=PULLS)
def pull(request: pytest.FixtureRequest) -> SampleCall:
    return PULLS[request.param]


def test_a_signed_call_causes_a_look(project: Project, call: SampleCall) -> None:
    delivery = take(project, call)
    assert (delivery.provider, delivery.status) == (call.forge, "received")
    assert delivery.summary in ("main pushed to b2b2b2b2b2", "asked to look at the repository")
    assert delivery.delivery_id in ("d1", "msg_7", "msg_1")
    assert list(Project.objects.with_deliveries()) == [project]
    assert SECRET not in str(Delivery.objects.get().headers)


def test_headers_are_found_whatever_their_case(project: Project, call: SampleCall) -> None:
    assert intake.receive(project, {k.upper(): v for k, v in call.signed().items()}, call.body) is not None


def test_another_secret_an_altered_body_and_no_signature_are_refused(project: Project, call: SampleCall) -> None:
    other = "whsec_" + SECRET[6:][::-1].lstrip("=") + "=" * SECRET.count("=")
    wrong = [(call.signed(other), call.body), (call.headers, call.body)]
    if call.scheme != "token":
        wrong += [(call.signed(), call.body + b" "), (call.signed(), call.body[:-1]), (call.signed(), b"")]
    for headers, body in wrong:
        with pytest.raises(BadSignature):
            intake.receive(project, headers, body)
    assert not Delivery.objects.exists()


def test_an_empty_or_cut_signature_is_refused(project: Project, call: SampleCall) -> None:
    right = call.signed()[call.header]
    for given in ("", " ", right[:-1], right + "0", right.swapcase(), "sha256=", "v1,", "é", "\ud800"):
        with pytest.raises(BadSignature):
            intake.receive(project, call.signed() | {call.header: given}, call.body)


@pytest.mark.parametrize("name", ["gitlab", "generic-standard"])
@pytest.mark.parametrize(("off_s", "accepted"), [(-290, True), (290, True), (-310, False), (310, False), (-1e9, False)])
def test_a_signature_counts_for_five_minutes(project: Project, name: str, off_s: float, accepted: bool) -> None:
    call = CALLS[name]
    headers = call.signed(at=time.time() + off_s)
    if accepted:
        assert intake.receive(project, headers, call.body) is not None
        return
    with pytest.raises(BadSignature, match="set the clocks") as refused:
        intake.receive(project, headers, call.body)
    assert refused.value.fault == SignatureFault.TIME


@pytest.mark.parametrize("given", ["", "soon", "1e9", "-1", "٣", "9" * 5000])
def test_a_time_that_is_none_is_refused(project: Project, given: str) -> None:
    with pytest.raises(BadSignature):
        intake.receive(project, CALLS["gitlab"].signed() | {"webhook-timestamp": given}, CALLS["gitlab"].body)


def test_the_signature_of_gitlab_is_preferred_to_its_token(project: Project) -> None:
    call = CALLS["gitlab"]
    wrong = call.signed() | {"webhook-signature": "v1,AAAA", "X-Gitlab-Token": SECRET}
    with pytest.raises(BadSignature):
        intake.receive(project, wrong, call.body)
    several = call.signed()
    several["webhook-signature"] = f"v1a,xyz v1,AAAA {several['webhook-signature']}"
    assert intake.receive(project, several | {"X-Gitlab-Token": "other"}, call.body) is not None


def test_forgejo_decides_by_its_own_header(project: Project) -> None:
    call = CALLS["forgejo"]
    right = call.signed()["X-Forgejo-Signature"]
    with pytest.raises(BadSignature):
        intake.receive(project, call.headers | {"X-Forgejo-Signature": "0" * 64, "X-Gitea-Signature": right}, call.body)
    assert intake.receive(project, call.headers | {"X-Gitea-Signature": right}, call.body) is not None


def test_a_secret_that_is_a_plain_text_signs_standard_webhooks_as_its_bytes(project: Project) -> None:
    project.hook_secret = Secret.of("a secret of many words")
    call = CALLS["generic-standard"]
    now = int(time.time())
    mac = calls.openssl(f"m.{now}.".encode() + call.body, "-hmac", "a secret of many words")
    signature = f"v1,{calls.base64.b64encode(mac).decode()}"
    headers = {"webhook-id": "m", "webhook-timestamp": str(now), "webhook-signature": signature}
    assert intake.receive(project, headers, call.body) is not None


def github_push(ref: str, before: str, after: str, **more: Any) -> SampleCall:
    return CALLS["github"].saying({"ref": ref, "before": before, "after": after, **more})


TAG = {"X-SpeedTrack-Event": "tag"}


def cloud_push(kind: str, old: str, new: str, forced: bool = False) -> SampleCall:
    sides = {
        side: {"type": kind, "name": "x", "target": {"hash": sha}} if sha else None
        for side, sha in (("old", old), ("new", new))
    }
    return CALLS["bitbucket"].saying({"push": {"changes": [{**sides, "forced": forced}]}})


@pytest.mark.parametrize(
    ("call", "summary"),
    [
        (github_push("refs/heads/x", NONE, NEW), "branch x made at b2b2b2b2b2"),
        (github_push("refs/heads/x", OLD, NONE), "branch x deleted"),
        (github_push("refs/heads/a/b", OLD, NEW, forced=True), "a/b force-pushed to b2b2b2b2b2"),
        (github_push("refs/tags/1.0", NONE, NEW), "tag 1.0 made at b2b2b2b2b2"),
        (github_push("refs/tags/1.0", OLD, NEW), "tag 1.0 moved to b2b2b2b2b2"),
        (cloud_push("branch", OLD, "", True), "branch x deleted"),
        (cloud_push("tag", "", NEW), "tag x made at b2b2b2b2b2"),
        (cloud_push("branch", OLD, NEW, True), "x force-pushed to b2b2b2b2b2"),
        (
            CALLS["github"].saying({"ref": "1.0", "ref_type": "tag"}, **{"X-GitHub-Event": "create"}),
            "tag 1.0 made",
        ),
        (
            CALLS["gitea"].saying({"ref": "x", "ref_type": "branch"}, **{"X-Gitea-Event": "delete"}),
            "branch x deleted",
        ),
        (
            CALLS["gitlab"].saying(
                {"ref": "refs/tags/v1", "before": NONE, "after": NEW}, **{"X-Gitlab-Event": "Tag Push Hook"}
            ),
            "tag v1 made at b2b2b2b2b2",
        ),
        (
            CALLS["gitlab"].saying({"event_name": "push", **calls.PUSH}, **{"X-Gitlab-Event": "System Hook"}),
            "main pushed to b2b2b2b2b2",
        ),
        (CALLS["bitbucket"].saying({"push": {"changes": []}}), "a push"),
        (CALLS["bitbucket-dc"].saying({"changes": [{"refId": "refs/heads/x", "toHash": 5}] * 9}), "4 more"),
        (CALLS["generic"].saying({"name": "8.0.1", "sha": NEW}, **TAG), "tag 8.0.1 at b2b2b2b2b2"),
        (CALLS["generic-standard"].saying({"name": "8.0.1", "sha": "main"}, **TAG), "tag 8.0.1"),
        (CALLS["generic"].saying([], **TAG), "a tag"),
        (CALLS["github"].saying({}), "a push"),
        (CALLS["github"].saying([]), "a push"),
        (CALLS["github"].saying({"ref": 5, "before": {}, "after": None}), "a push"),
        (github_push("refs/heads/\0\ud800", NONE, NEW), "branch \N{REPLACEMENT CHARACTER}"),
    ],
)
def test_whatever_moves_a_branch_or_tag_causes_a_look(project: Project, call: SampleCall, summary: str) -> None:
    delivery = take(project, call)
    assert (delivery.status, Project.objects.with_deliveries().count()) == ("received", 1)
    assert Delivery.objects.get().summary.startswith(summary)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (CALLS["github"].saying({"zen": "Speak."}, **{"X-GitHub-Event": "ping"}), "a test call"),
        (CALLS["bitbucket-dc"].saying({"test": True}, **{"X-Event-Key": "diagnostics:ping"}), "a test call"),
        (CALLS["github"].saying({}, **{"X-GitHub-Event": "star"}), "event 'star' is not interesting"),
        (CALLS["gitlab"].saying({}, **{"X-Gitlab-Event": "Note Hook"}), "event 'Note Hook' is not interesting"),
        (CALLS["gitlab"].saying({"event_name": 1}, **{"X-Gitlab-Event": "System Hook"}), "event '' is not"),
        (CALLS["bitbucket"].saying({}, **{"X-Event-Key": "repo:fork"}), "event 'repo:fork' is not"),
        (CALLS["generic"].saying({}, **{"X-SpeedTrack-Event": "ping"}), "a test call"),
        (CALLS["generic"].saying({}, **{"X-SpeedTrack-Event": "nap"}), "event 'nap' is not"),
        (PULLS["generic"].saying(calls.generic_pull(state="locked")), "the state of a pull request is open, closed or"),
        (PULLS["generic"].saying(calls.generic_pull(head_sha="main")), "the report of a pull request lacks its number"),
        (CALLS["github"].saying({"action": "archived"}, **{"X-GitHub-Event": "repository"}), "a repository was arch"),
        (CALLS["bitbucket"].saying({"changes": {}}, **{"X-Event-Key": "repo:updated"}), "a repository was changed"),
        (CALLS["github"].saying({"action": "renamed"}, **{"X-GitHub-Event": "repository"}), "the report of a new name"),
    ],
)
def test_what_is_not_interesting_is_ignored_with_the_reason(project: Project, call: SampleCall, why: str) -> None:
    delivery = take(project, call)
    assert delivery.status == "ignored" and delivery.outcome.startswith(why)
    assert not Project.objects.with_deliveries().exists()


def test_a_pull_request_is_noted_for_planning(project: Project, pull: SampleCall) -> None:
    delivery = take(project, pull)
    assert (delivery.status, delivery.outcome) == ("processed", "pull request 12 was noted")
    assert delivery.summary == "pull request 12 open at b2b2b2b2b2 from ada/server for main"
    row = PullRequest.objects.get()
    assert (row.number, row.title, row.state, row.from_fork) == (12, "Make GET faster", "open", True)
    assert (row.head_ref, row.head_repository, row.base_ref) == ("fast", "ada/server", "main")
    assert NEW.startswith(row.head_sha) and len(row.head_sha) == (12 if pull.forge == "bitbucket" else 40)
    assert row.updated_at == datetime(2026, 11, 1, 10, tzinfo=UTC)
    assert not Project.objects.with_deliveries().exists(), "nothing on a tracked branch has changed"


GITHUB_PULL = PULLS["github"]


def pull_call(**changes: Any) -> SampleCall:
    return GITHUB_PULL.saying(calls.github_pull(**changes))


@pytest.mark.parametrize(
    ("call", "state"),
    [
        (pull_call(state="closed"), "closed"),
        (pull_call(state="closed", merged=True), "merged"),
        (PULLS["gitlab"].saying(calls.gitlab_pull(state="merged")), "merged"),
        (PULLS["gitlab"].saying(calls.gitlab_pull(state="locked")), "open"),
        (PULLS["bitbucket"].saying(calls.cloud_pull(state="DECLINED")), "closed"),
        (PULLS["bitbucket-dc"].saying(calls.server_pull(state="MERGED")), "merged"),
        (PULLS["bitbucket-dc"].saying(calls.server_pull(), **{"X-Event-Key": "pr:deleted"}), "closed"),
        (pull_call(state={"a": 1}), "closed"),
        (PULLS["generic"].saying(calls.generic_pull(state="merged")), "merged"),
        (PULLS["generic-standard"].saying(calls.generic_pull(state="closed")), "closed"),
    ],
)
def test_the_state_of_a_pull_request(project: Project, call: SampleCall, state: str) -> None:
    take(project, call)
    assert PullRequest.objects.get().state == state


def test_a_pull_request_from_its_own_repository_is_from_no_fork(project: Project) -> None:
    own = {"ref": "fast", "sha": NEW, "repo": {"full_name": "KV/server"}}
    take(project, pull_call(head=own))
    assert not PullRequest.objects.get().from_fork
    take(project, PULLS["generic-standard"].saying(calls.generic_pull(number=13, head_repository=None)))
    assert not PullRequest.objects.get(number=13).from_fork


def test_a_pull_request_whose_repository_is_not_named_is_from_a_fork(project: Project) -> None:
    take(project, pull_call(head={"ref": "fast", "sha": NEW, "repo": None}))
    assert PullRequest.objects.get().from_fork
    assert Delivery.objects.get().summary == "pull request 12 open at b2b2b2b2b2 from a fork for main"


def test_reports_of_a_pull_request_may_come_in_any_order(project: Project) -> None:
    def report(minute: int, title: str) -> None:
        intake.receive(project, (one := pull_call(title=title, updated_at=stamp(minute))).signed(), one.body)

    def stamp(minute: int) -> str:
        return f"2026-11-01T10:{minute:02}:00Z"

    for minute, title in ((5, "newest"), (1, "oldest"), (3, "between")):
        report(minute, title)
    assert PullRequest.objects.get().title == "newest"
    report(6, "newer still")
    assert PullRequest.objects.get().title == "newer still"


def test_a_report_of_the_future_keeps_no_later_one_out(project: Project) -> None:
    take(project, pull_call(updated_at="9999-01-01T00:00:00Z"))
    now = datetime.now(UTC).isoformat()
    later = pull_call(updated_at=now, title="later")
    intake.receive(project, later.signed(), later.body)
    assert PullRequest.objects.get().title == "later"


@pytest.mark.parametrize(
    "changes",
    [
        {"number": 0},
        {"number": -5},
        {"number": 2**80},
        {"number": "12"},
        {"number": True},
        {"head": None},
        {"head": {"sha": "main"}},
        {"head": {"sha": "--upload-pack=x"}},
        {"head": {"sha": NEW * 2}},
        {"base": []},
    ],
)
def test_a_report_without_number_head_or_base_is_ignored(project: Project, changes: dict[str, Any]) -> None:
    document = calls.github_pull(**changes) | {"number": changes.get("number", 12)}
    delivery = take(project, GITHUB_PULL.saying(document))
    assert (delivery.status, PullRequest.objects.count()) == ("ignored", 0)
    assert "lacks its number, its head or its base" in delivery.outcome


@pytest.mark.parametrize("when", [None, 0, -1, 10**30, "soon", "2026-13-01", [], {"a": 1}, "0001-01-01T00:00:00+14:00"])
def test_a_report_with_an_odd_time_or_words_is_kept(project: Project, when: Any) -> None:
    take(project, pull_call(updated_at=when, title="\0\ud800" + "x" * 5000))
    assert len(PullRequest.objects.get().title) == 300


@pytest.mark.parametrize(
    "call",
    [
        CALLS["github"].saying(
            {"action": "renamed", "repository": {"full_name": "kv/new"}}, **{"X-GitHub-Event": "repository"}
        ),
        CALLS["github"].saying(
            {"action": "transferred", "repository": {"full_name": "kv/new"}}, **{"X-GitHub-Event": "repository"}
        ),
        CALLS["gitlab"].saying(
            {"event_name": "project_rename", "path_with_namespace": "kv/new"}, **{"X-Gitlab-Event": "System Hook"}
        ),
        CALLS["bitbucket"].saying(
            {"changes": {"name": {"old": "server", "new": "new"}}, "repository": {"full_name": "kv/new"}},
            **{"X-Event-Key": "repo:updated"},
        ),
        CALLS["bitbucket-dc"].saying(
            {"old": {"slug": "s", "project": {"key": "kv"}}, "new": {"slug": "new", "project": {"key": "kv"}}},
            **{"X-Event-Key": "repo:modified"},
        ),
    ],
)
def test_a_new_name_is_noted_and_the_address_stays(project: Project, call: SampleCall) -> None:
    assert take(project, call).status == "received"
    after = Project.objects.get()
    assert (after.renamed_to, after.url, bool(after.renamed_at)) == ("kv/new", "/kvd", True)
    assert Delivery.objects.get().summary == "the repository is now called kv/new"
