"""Bitbucket Cloud and Bitbucket Data Center. Both call the SHA-256 signature X-Hub-Signature."""

from dataclasses import replace

from speedtrack.projects.forges.events import (
    CLOSED,
    MERGED,
    OPEN,
    Meaning,
    PullReport,
    RefChange,
    id_or_none,
    ignored,
    looked_at,
    ping,
    pull_reported,
    pushed,
    renamed,
)
from speedtrack.projects.forges.payloads import Payload
from speedtrack.projects.forges.provider import Provider
from speedtrack.projects.forges.signing import hex_digest

HUB = hex_digest("X-Hub-Signature", "sha256=")
STATES = {"OPEN": OPEN, "MERGED": MERGED}
SHOWN_CHANGES = 5


def cloud_push(payload: Payload) -> Meaning:
    changes = payload.at("push", "changes")
    hidden_count = len(changes.value) - SHOWN_CHANGES if isinstance(changes.value, list) else 0
    return pushed([cloud_change(item) for item in changes.items(most=SHOWN_CHANGES)], hidden_count)


def cloud_change(change: Payload) -> RefChange:
    ref = change.at("new") if change.at("new").value else change.at("old")
    prefix = "refs/tags/" if ref.text("type") == "tag" else "refs/heads/"
    return RefChange(
        prefix + ref.text("name"),
        change.sha("old", "target", "hash"),
        change.sha("new", "target", "hash"),
        change.is_true("forced"),
    )


def cloud_pull_request(payload: Payload) -> Meaning:
    pull = payload.at("pullrequest")
    head, base = (pull.text(side, "repository", "full_name") for side in ("source", "destination"))
    return pull_reported(
        PullReport(
            number=pull.number("id"),
            title=pull.text("title", longest=300),
            head_sha=pull.sha("source", "commit", "hash"),
            head_ref=pull.text("source", "branch", "name"),
            head_repository=head,
            base_ref=pull.text("destination", "branch", "name"),
            from_fork=not head or head != base,
            state=STATES.get(pull.text("state"), CLOSED),
            updated_at=pull.time("updated_on"),
        )
    )


def cloud_updated(payload: Payload) -> Meaning:
    if not any(payload.at("changes", name, "new").value for name in ("name", "full_name")):
        return ignored("a repository was changed: its name is the old one")
    return renamed(payload.text("repository", "full_name"))


def cloud_transferred(payload: Payload) -> Meaning:
    return renamed(payload.text("repository", "full_name"))


def server_push(payload: Payload) -> Meaning:
    changes = payload.at("changes")
    hidden_count = len(changes.value) - SHOWN_CHANGES if isinstance(changes.value, list) else 0
    return pushed([server_change(item) for item in changes.items(most=SHOWN_CHANGES)], hidden_count)


def server_change(change: Payload) -> RefChange:
    before, after = (id_or_none(change.sha(name)) for name in ("fromHash", "toHash"))
    return RefChange(change.text("ref", "id") or change.text("refId"), before, after)


def server_pull_request(payload: Payload) -> Meaning:
    return pull_reported(server_report(payload.at("pullRequest")))


def server_pull_deleted(payload: Payload) -> Meaning:
    """The payload still has the last state, so this sets the state that follows from the deletion."""
    return pull_reported(replace(server_report(payload.at("pullRequest")), state=CLOSED))


def server_report(pull: Payload) -> PullReport:
    head, base = (server_name(pull.at(side, "repository")) for side in ("fromRef", "toRef"))
    return PullReport(
        number=pull.number("id"),
        title=pull.text("title", longest=300),
        head_sha=pull.sha("fromRef", "latestCommit"),
        head_ref=pull.text("fromRef", "displayId"),
        head_repository=head,
        base_ref=pull.text("toRef", "displayId"),
        from_fork=not head or head != base,
        state=STATES.get(pull.text("state"), CLOSED),
        updated_at=pull.time("updatedDate"),
    )


def server_name(repository: Payload) -> str:
    project, slug = repository.text("project", "key"), repository.text("slug")
    return f"{project}/{slug}" if project and slug else ""


def server_modified(payload: Payload) -> Meaning:
    name = server_name(payload.at("new"))
    if name == server_name(payload.at("old")):
        return ignored("a repository was changed: its name is the old one")
    return renamed(name)


def mirrored(payload: Payload) -> Meaning:
    return looked_at("a mirror of the repository was synchronised")


CLOUD = Provider(
    name="bitbucket",
    title="Bitbucket Cloud",
    marks=("X-Hook-UUID",),
    schemes=(HUB,),
    event_header="X-Event-Key",
    id_headers=("X-Request-UUID",),
    moves={"repo:push": cloud_push},
    reports={
        **{f"pullrequest:{action}": cloud_pull_request for action in ("created", "updated", "fulfilled", "rejected")},
        "repo:updated": cloud_updated,
        "repo:transfer": cloud_transferred,
    },
)
DATA_CENTER = Provider(
    name="bitbucket-dc",
    title="Bitbucket Data Center",
    marks=("X-Event-Key",),
    schemes=(HUB,),
    event_header="X-Event-Key",
    id_headers=("X-Request-Id",),
    moves={"repo:refs_changed": server_push, "mirror:repo_synchronized": mirrored},
    reports={
        **{
            f"pr:{action}": server_pull_request
            for action in ("opened", "from_ref_updated", "to_ref_updated", "modified", "merged", "declined", "reopened")
        },
        "pr:deleted": server_pull_deleted,
        "repo:modified": server_modified,
        "diagnostics:ping": ping,
    },
)
