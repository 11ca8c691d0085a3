"""Calls as forges send them, shortened to what matters, and signed by openssl rather than by the code under test."""

import base64
import json
import subprocess
import time
from dataclasses import dataclass, replace
from typing import Any

from speedtrack.projects.forges.signing import KEY_PREFIX

OLD, NEW, NONE = "a1" * 20, "b2" * 20, "0" * 40
KEY = bytes(range(32))
SECRET = KEY_PREFIX + base64.b64encode(KEY).decode()


@dataclass(frozen=True)
class SampleCall:
    """``scheme``: ``hex`` or ``hub`` (``sha256=`` before the hex) in ``header``; ``token``; ``standard``."""

    forge: str
    headers: dict[str, str]
    document: Any
    header: str = ""
    scheme: str = "hub"

    @property
    def body(self) -> bytes:
        return self.document if isinstance(self.document, bytes) else json.dumps(self.document).encode()

    def signed(self, secret: str = SECRET, at: float | None = None) -> dict[str, str]:
        return self.headers | signature(self, secret, int(time.time() if at is None else at))

    def saying(self, document: Any, **headers: str) -> "SampleCall":
        return replace(self, document=document, headers=self.headers | headers)


def openssl(body: bytes, *key: str) -> bytes:
    """HMAC-SHA256."""
    command = ["openssl", "dgst", "-sha256", "-binary", *key]
    return subprocess.run(command, input=body, capture_output=True, check=True).stdout


def signature(call: SampleCall, secret: str, at: int) -> dict[str, str]:
    if call.scheme == "token":
        return {call.header: secret}
    if call.scheme == "standard":
        head = {"webhook-id": call.headers.get("Idempotency-Key", "msg_1"), "webhook-timestamp": str(at)}
        key = base64.b64decode(secret.removeprefix(KEY_PREFIX))
        signed = f"{head['webhook-id']}.{at}.".encode() + call.body
        mac = openssl(signed, "-mac", "HMAC", "-macopt", f"hexkey:{key.hex()}")
        return head | {"webhook-signature": f"v1,{base64.b64encode(mac).decode()}"}
    prefix = "sha256=" if call.scheme == "hub" else ""
    return {call.header: prefix + openssl(call.body, "-hmac", secret).hex()}


def headers_of(event_header: str, event: str, id_header: str, id: str = "d1", **more: str) -> dict[str, str]:
    return {event_header: event, id_header: id, "Content-Type": "application/json", **more}


PUSH = {"ref": "refs/heads/main", "before": OLD, "after": NEW, "repository": {"full_name": "kv/server"}}
GITHUB = SampleCall(
    "github", headers_of("X-GitHub-Event", "push", "X-GitHub-Delivery"), PUSH, header="X-Hub-Signature-256"
)
GITEA_HEADERS = {
    **headers_of("X-GitHub-Event", "push", "X-GitHub-Delivery"),
    **headers_of("X-Gogs-Event", "push", "X-Gogs-Delivery"),
    **headers_of("X-Gitea-Event", "push", "X-Gitea-Delivery"),
}
GITEA = SampleCall("gitea", GITEA_HEADERS, PUSH, header="X-Gitea-Signature", scheme="hex")
FORGEJO = SampleCall(
    "forgejo",
    GITEA_HEADERS | headers_of("X-Forgejo-Event", "push", "X-Forgejo-Delivery"),
    PUSH,
    header="X-Forgejo-Signature",
    scheme="hex",
)
GITLAB_PUSH = {"object_kind": "push", "event_name": "push", **PUSH, "total_commits_count": 40}
GITLAB_TOKEN = SampleCall(
    "gitlab",
    headers_of("X-Gitlab-Event", "Push Hook", "X-Gitlab-Event-UUID"),
    GITLAB_PUSH,
    header="X-Gitlab-Token",
    scheme="token",
)
GITLAB = replace(
    GITLAB_TOKEN,
    headers=GITLAB_TOKEN.headers | {"Idempotency-Key": "msg_7"},
    header="webhook-signature",
    scheme="standard",
)
CLOUD = SampleCall(
    "bitbucket",
    headers_of("X-Event-Key", "repo:push", "X-Request-UUID", **{"X-Hook-UUID": "h1", "X-Attempt-Number": "1"}),
    {
        "push": {
            "changes": [
                {
                    "old": {"type": "branch", "name": "main", "target": {"hash": OLD}},
                    "new": {"type": "branch", "name": "main", "target": {"hash": NEW}},
                    "forced": False,
                }
            ]
        }
    },
    header="X-Hub-Signature",
)
DATA_CENTER = SampleCall(
    "bitbucket-dc",
    headers_of("X-Event-Key", "repo:refs_changed", "X-Request-Id"),
    {
        "eventKey": "repo:refs_changed",
        "changes": [
            {
                "ref": {"id": "refs/heads/main", "displayId": "main", "type": "BRANCH"},
                "refId": "refs/heads/main",
                "fromHash": OLD,
                "toHash": NEW,
                "type": "UPDATE",
            }
        ],
    },
    header="X-Hub-Signature",
)
GENERIC = SampleCall(
    "generic", {"X-SpeedTrack-Delivery": "d1", "Content-Type": "application/json"}, {}, "X-SpeedTrack-Signature-256"
)
GENERIC_STANDARD = SampleCall("generic", {"Content-Type": "application/json"}, {}, "webhook-signature", "standard")

CALLS = {
    "github": GITHUB,
    "gitea": GITEA,
    "forgejo": FORGEJO,
    "gitlab": GITLAB,
    "gitlab-token": GITLAB_TOKEN,
    "bitbucket": CLOUD,
    "bitbucket-dc": DATA_CENTER,
    "generic": GENERIC,
    "generic-standard": GENERIC_STANDARD,
}


def github_pull(**changes: Any) -> dict[str, Any]:
    """Of GitHub, Gitea and Forgejo."""
    pull = {
        "number": 12,
        "title": "Make GET faster",
        "state": "open",
        "merged": False,
        "updated_at": "2026-11-01T10:00:00Z",
        "head": {"ref": "fast", "sha": NEW, "repo": {"full_name": "ada/server"}},
        "base": {"ref": "main", "sha": OLD, "repo": {"full_name": "kv/server"}},
    }
    return {"action": "synchronize", "number": 12, "pull_request": pull | changes}


def gitlab_pull(**changes: Any) -> dict[str, Any]:
    attributes = {
        "iid": 12,
        "title": "Make GET faster",
        "state": "opened",
        "action": "update",
        "updated_at": "2026-11-01 10:00:00 UTC",
        "source_branch": "fast",
        "target_branch": "main",
        "source_project_id": 7,
        "target_project_id": 3,
        "source": {"path_with_namespace": "ada/server"},
        "target": {"path_with_namespace": "kv/server"},
        "last_commit": {"id": NEW},
    }
    return {"object_kind": "merge_request", "object_attributes": attributes | changes}


def cloud_pull(**changes: Any) -> dict[str, Any]:
    pull = {
        "id": 12,
        "title": "Make GET faster",
        "state": "OPEN",
        "updated_on": "2026-11-01T10:00:00.000000+00:00",
        "source": {
            "branch": {"name": "fast"},
            "commit": {"hash": NEW[:12]},
            "repository": {"full_name": "ada/server"},
        },
        "destination": {
            "branch": {"name": "main"},
            "commit": {"hash": OLD[:12]},
            "repository": {"full_name": "kv/server"},
        },
    }
    return {"pullrequest": pull | changes}


def server_pull(**changes: Any) -> dict[str, Any]:
    def side(branch: str, sha: str, owner: str) -> dict[str, Any]:
        repository = {"slug": "server", "project": {"key": owner}}
        return {"id": f"refs/heads/{branch}", "displayId": branch, "latestCommit": sha, "repository": repository}

    pull = {
        "id": 12,
        "title": "Make GET faster",
        "state": "OPEN",
        "updatedDate": 1793527200000,
        "fromRef": side("fast", NEW, "ada"),
        "toRef": side("main", OLD, "kv"),
    }
    return {"eventKey": "pr:opened", "pullRequest": pull | changes}


def generic_pull(**changes: Any) -> dict[str, Any]:
    pull = {
        "number": 12,
        "title": "Make GET faster",
        "state": "open",
        "head_sha": NEW,
        "head_ref": "fast",
        "head_repository": "ada/server",
        "base_ref": "main",
        "updated_at": "2026-11-01T10:00:00Z",
    }
    return pull | changes


PULLS = {
    "github": GITHUB.saying(github_pull(), **{"X-GitHub-Event": "pull_request"}),
    "gitea": GITEA.saying(github_pull(), **{"X-Gitea-Event": "pull_request"}),
    "forgejo": FORGEJO.saying(github_pull(), **{"X-Forgejo-Event": "pull_request"}),
    "gitlab": GITLAB.saying(gitlab_pull(), **{"X-Gitlab-Event": "Merge Request Hook"}),
    "bitbucket": CLOUD.saying(cloud_pull(), **{"X-Event-Key": "pullrequest:created"}),
    "bitbucket-dc": DATA_CENTER.saying(server_pull(), **{"X-Event-Key": "pr:opened"}),
    "generic": GENERIC.saying(generic_pull(), **{"X-SpeedTrack-Event": "pull_request"}),
    "generic-standard": GENERIC_STANDARD.saying(generic_pull(), **{"X-SpeedTrack-Event": "pull_request"}),
}
