"""The few facts from the payload of a call, in the same form for all forges."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from speedtrack.projects.forges.payloads import Payload

OPEN, CLOSED, MERGED = "open", "closed", "merged"


@dataclass(frozen=True)
class PullReport:
    """A forge's description of a pull or merge request.

    ``head_sha`` may be abbreviated (Bitbucket Cloud): ``heads.complete`` finds the rest. ``from_fork``: its commits are
    in another repository, or in one that the forge does not name.
    """

    number: int
    title: str
    head_sha: str
    head_ref: str
    head_repository: str
    base_ref: str
    from_fork: bool
    state: str
    updated_at: datetime | None


@dataclass(frozen=True)
class Meaning:
    """The meaning of an event. ``summary``: the event in words. ``look``: the repository may have changed.

    ``ignored``: why the call has no effect.
    """

    summary: str = ""
    look: bool = False
    pull: PullReport | None = None
    renamed_to: str = ""
    ignored: str = ""


Reader = Callable[[Payload], Meaning]


def ignored(why: str, summary: str = "") -> Meaning:
    return Meaning(summary, ignored=why)


def looked_at(summary: str) -> Meaning:
    return Meaning(summary, look=True)


def ping(payload: Payload) -> Meaning:
    return ignored("a test call: the address and the secret are right", "ping")


@dataclass(frozen=True)
class RefChange:
    """A branch or tag before and after a push; an empty id where it did not exist."""

    ref: str
    before: str
    after: str
    forced: bool = False

    def __str__(self) -> str:
        kind, name = ("tag", self.ref[10:]) if self.ref.startswith("refs/tags/") else ("branch", branch_of(self.ref))
        if not self.after:
            return f"{kind} {name} deleted"
        if not self.before:
            return f"{kind} {name} made at {self.after[:10]}"
        if kind == "tag":
            return f"tag {name} moved to {self.after[:10]}"
        return f"{name} {'force-pushed' if self.forced else 'pushed'} to {self.after[:10]}"


def branch_of(ref: str) -> str:
    return ref.removeprefix("refs/heads/")


def id_or_none(sha: str) -> str:
    """The commit id; empty for zeros, which forges write if there is no commit."""
    return sha if sha.strip("0") else ""


def pushed(changes: Iterable[RefChange], hidden_count: int = 0) -> Meaning:
    texts = [str(change) for change in changes if change.ref and (change.before or change.after)]
    return looked_at(", ".join([*texts, *([f"{hidden_count} more"] if hidden_count > 0 else [])]) or "a push")


def pull_reported(report: PullReport) -> Meaning:
    """The meaning of a report about a pull request; it is ignored if it lacks facts for planning."""
    if not (report.number and report.head_sha and report.base_ref):
        return ignored("the report of a pull request lacks its number, its head or its base")
    source = f"from {report.head_repository or 'a fork'}" if report.from_fork else f"from {report.head_ref}"
    summary = f"pull request {report.number} {report.state} at {report.head_sha[:10]} {source} for {report.base_ref}"
    return Meaning(summary, pull=report)


def renamed(name: str) -> Meaning:
    """Return the meaning of a new name or owner of the repository.

    The next fetch shows whether its old address still works.
    """
    if not name:
        return ignored("the report of a new name lacks the name")
    return Meaning(f"the repository is now called {name}", look=True, renamed_to=name)
