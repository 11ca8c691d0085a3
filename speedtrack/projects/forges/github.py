"""GitHub, and Gitea and Forgejo, whose payloads have the same shape."""

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

HUB = hex_digest("X-Hub-Signature-256", "sha256=")


def push(payload: Payload) -> Meaning:
    before, after = (id_or_none(payload.sha(name)) for name in ("before", "after"))
    return pushed([RefChange(payload.text("ref"), before, after, payload.is_true("forced"))])


def made(payload: Payload) -> Meaning:
    return looked_at(f"{payload.text('ref_type') or 'reference'} {payload.text('ref')} made")


def deleted(payload: Payload) -> Meaning:
    return looked_at(f"{payload.text('ref_type') or 'reference'} {payload.text('ref')} deleted")


def pull_request(payload: Payload) -> Meaning:
    pull = payload.at("pull_request")
    head, base = pull.text("head", "repo", "full_name"), pull.text("base", "repo", "full_name")
    state = MERGED if pull.is_true("merged") else OPEN if pull.text("state") == "open" else CLOSED
    return pull_reported(
        PullReport(
            number=pull.number("number") or payload.number("number"),
            title=pull.text("title", longest=300),
            head_sha=pull.sha("head", "sha"),
            head_ref=pull.text("head", "ref"),
            head_repository=head,
            base_ref=pull.text("base", "ref"),
            from_fork=not head or head.lower() != base.lower(),
            state=state,
            updated_at=pull.time("updated_at"),
        )
    )


def repository(payload: Payload) -> Meaning:
    action = payload.text("action")
    if action not in ("renamed", "transferred"):
        return ignored(f"a repository was {action or 'changed'}: neither its name nor its owner is new")
    return renamed(payload.text("repository", "full_name"))


MOVES = {"push": push, "create": made, "delete": deleted}
REPORTS = {"pull_request": pull_request, "repository": repository, "ping": ping}

GITHUB = Provider(
    name="github",
    title="GitHub",
    marks=("X-GitHub-Event", "X-Hub-Signature-256"),
    schemes=(HUB,),
    event_header="X-GitHub-Event",
    id_headers=("X-GitHub-Delivery",),
    moves=MOVES,
    reports=REPORTS,
    weak=("X-Hub-Signature",),
)
# Both also send GitHub's headers, and Forgejo also Gitea's: their own headers decide.
GITEA = Provider(
    name="gitea",
    title="Gitea",
    marks=("X-Gitea-Event", "X-Gitea-Signature"),
    schemes=(hex_digest("X-Gitea-Signature"), HUB),
    event_header="X-Gitea-Event",
    id_headers=("X-Gitea-Delivery",),
    moves=MOVES,
    reports=REPORTS,
    weak=("X-Hub-Signature",),
)
FORGEJO = Provider(
    name="forgejo",
    title="Forgejo",
    marks=("X-Forgejo-Event", "X-Forgejo-Signature"),
    schemes=(hex_digest("X-Forgejo-Signature"), *GITEA.schemes),
    event_header="X-Forgejo-Event",
    id_headers=("X-Forgejo-Delivery", "X-Gitea-Delivery"),
    moves=MOVES,
    reports=REPORTS,
    weak=("X-Hub-Signature",),
)
