"""Calls of other senders that sign: a script, a git hook, a forge that follows Standard Webhooks."""

from speedtrack.projects.forges.events import (
    CLOSED,
    MERGED,
    OPEN,
    Meaning,
    PullReport,
    ignored,
    looked_at,
    ping,
    pull_reported,
)
from speedtrack.projects.forges.payloads import Payload
from speedtrack.projects.forges.provider import Provider
from speedtrack.projects.forges.signing import STANDARD, hex_digest


def look(payload: Payload) -> Meaning:
    return looked_at("asked to look at the repository")


def tag(payload: Payload) -> Meaning:
    name, sha = payload.text("name"), payload.sha("sha")
    return looked_at(f"tag {name}{f' at {sha[:10]}' if sha else ''}" if name else "a tag")


def pull_request(payload: Payload) -> Meaning:
    state, head_repository = payload.text("state"), payload.text("head_repository")
    if state not in (OPEN, CLOSED, MERGED):
        return ignored(f"the state of a pull request is open, closed or merged, not {state[:50]!r}")
    return pull_reported(
        PullReport(
            number=payload.number("number"),
            title=payload.text("title", longest=300),
            head_sha=payload.sha("head_sha"),
            head_ref=payload.text("head_ref"),
            head_repository=head_repository,
            base_ref=payload.text("base_ref"),
            from_fork=bool(head_repository),
            state=state,
            updated_at=payload.time("updated_at"),
        )
    )


GENERIC = Provider(
    name="generic",
    title="a signed call",
    marks=("webhook-signature", "X-SpeedTrack-Signature-256"),
    schemes=(STANDARD, hex_digest("X-SpeedTrack-Signature-256", "sha256=")),
    event_header="X-SpeedTrack-Event",
    id_headers=("webhook-id", "X-SpeedTrack-Delivery"),
    moves={"": look, "push": look, "tag": tag},
    reports={"pull_request": pull_request, "ping": ping},
)
