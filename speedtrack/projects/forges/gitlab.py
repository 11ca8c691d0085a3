"""GitLab: a project's, a group's or the system's webhook, signed or with a plain token."""

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
    pull_reported,
    pushed,
    renamed,
)
from speedtrack.projects.forges.payloads import Payload
from speedtrack.projects.forges.provider import Provider
from speedtrack.projects.forges.signing import STANDARD, plain_token

STATES = {"opened": OPEN, "reopened": OPEN, "locked": OPEN, "merged": MERGED, "closed": CLOSED}


def push(payload: Payload) -> Meaning:
    """The meaning of a push. GitLab does not report whether it was forced."""
    before, after = (id_or_none(payload.sha(name)) for name in ("before", "after"))
    return pushed([RefChange(payload.text("ref"), before, after)])


def merge_request(payload: Payload) -> Meaning:
    request = payload.at("object_attributes")
    source, target = (request.number(f"{side}_project_id") for side in ("source", "target"))
    return pull_reported(
        PullReport(
            number=request.number("iid"),
            title=request.text("title", longest=300),
            head_sha=request.sha("last_commit", "id"),
            head_ref=request.text("source_branch"),
            head_repository=request.text("source", "path_with_namespace"),
            base_ref=request.text("target_branch"),
            from_fork=not source or source != target,
            state=STATES.get(request.text("state"), CLOSED),
            updated_at=request.time("updated_at"),
        )
    )


def new_name(payload: Payload) -> Meaning:
    return renamed(payload.text("path_with_namespace"))


def updated(payload: Payload) -> Meaning:
    return looked_at("references of the repository were updated")


# The events of groups and systems share one header each; the body names them.
BY_NAME = {
    "push": push,
    "tag_push": push,
    "repository_update": updated,
    "merge_request": merge_request,
    "project_rename": new_name,
    "project_transfer": new_name,
}


def named_event(payload: Payload) -> Meaning:
    name = payload.text("event_name") or payload.text("object_kind")
    if name not in BY_NAME:
        return ignored(f"event {name!r} is not interesting")
    return BY_NAME[name](payload)


GITLAB = Provider(
    name="gitlab",
    title="GitLab",
    marks=("X-Gitlab-Event", "X-Gitlab-Token"),
    schemes=(STANDARD, plain_token("X-Gitlab-Token")),
    event_header="X-Gitlab-Event",
    id_headers=("webhook-id", "Idempotency-Key", "X-Gitlab-Event-UUID"),
    moves={"Push Hook": push, "Tag Push Hook": push},
    reports={"Merge Request Hook": merge_request, "System Hook": named_event, "Project Hook": named_event},
)
