"""Tracked repositories: projects, branches, commits, tags, pull requests, annotations, and webhook calls."""

from speedtrack.projects.models.history import (
    Annotation,
    Branch,
    Chain,
    ChainCommit,
    Commit,
    Position,
    PullRequest,
    Segment,
    Tag,
    sha_begins,
)
from speedtrack.projects.models.projects import (
    SYNC_LOCK,
    Credential,
    Delivery,
    MachinePolicy,
    Project,
    ProjectQuerySet,
    Refusal,
    new_hook_id,
    new_hook_secret,
)

__all__ = [
    "SYNC_LOCK",
    "Annotation",
    "Branch",
    "Chain",
    "ChainCommit",
    "Commit",
    "Credential",
    "Delivery",
    "MachinePolicy",
    "Position",
    "Project",
    "ProjectQuerySet",
    "PullRequest",
    "Refusal",
    "Segment",
    "Tag",
    "new_hook_id",
    "new_hook_secret",
    "sha_begins",
]
