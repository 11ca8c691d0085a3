"""Foreign code is built only once a person with the role for that has asked for it, or approved one whole commit id."""

from speedtrack.projects.models import Project
from speedtrack.runs.planning.questions import NotComparable


class NotApprovable(NotComparable):
    """This head cannot be approved; the message says why, and what to do."""


def check_tracked(project: Project) -> None:
    """Raise NotApprovable for a project that nothing is measured of any more."""
    if project.untracked_at:
        raise NotApprovable(f"{project} is not tracked: track it again first")


def check_head(subject: object, head_sha: str, approved_sha: str) -> None:
    """Raise NotApprovable unless the approved commit id is all of that of the head of ``subject``."""
    if approved_sha and head_sha != approved_sha and head_sha.startswith(approved_sha):
        raise NotApprovable(
            f"{approved_sha} is only a part of a commit id: all of it is {head_sha}: look at that commit"
        )
    if approved_sha != head_sha:
        raise NotApprovable(f"{subject} has another head now, {head_sha}: look at that one and approve it")
