"""Calls to GitHub, GitLab, Gitea and Forgejo: set the status of a commit, and maintain one comment.

Each forge is a row of a table. The paths are those of GitHub's REST API 2022-11-28, GitLab's API v4 and Gitea's API v1.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from speedtrack.ground.texts.text import shortened
from speedtrack.notices.channels.calls import OutgoingCall, Response, call, require_success
from speedtrack.notices.models import Channel, CommitStatus

MOST_BYTES = 4 * 1024 * 1024  # of an answer: a page of comments may be long
PER_PAGE, MOST_PAGES = 50, 20
State = CommitStatus.State


@dataclass(frozen=True)
class Forge:
    """A forge. ``states`` and ``context``: its names for the states of a commit, and for the field of the context."""

    repository: str
    scheme: str  # of the Authorization header
    pulls: str
    number: str
    comments: str
    comment: str
    edit: str = "PATCH"
    states: Mapping[str, str] = field(default_factory=dict)
    context: str = "context"
    open: tuple[str, ...] = ("open",)
    headers: Mapping[str, str] = field(default_factory=dict)
    longest_description: int = 140


FORGES: dict[str, Forge] = {
    Channel.Kind.GITHUB: Forge(
        repository="/repos/{place}",
        scheme="Bearer",
        pulls="/commits/{sha}/pulls?",
        number="number",
        comments="/issues/{number}/comments",
        comment="/issues/comments/{comment}",
        headers={"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"},
    ),
    Channel.Kind.GITLAB: Forge(
        repository="/api/v4/projects/{id}",
        scheme="Bearer",
        pulls="/repository/commits/{sha}/merge_requests?",
        number="iid",
        comments="/merge_requests/{number}/notes",
        comment="/merge_requests/{number}/notes/{comment}",
        edit="PUT",
        states={State.FAILURE: "failed", State.ERROR: "failed"},
        context="name",
        open=("opened", "locked"),
        longest_description=255,
    ),
    # Its own list of a commit's pull requests has only merged ones.
    Channel.Kind.GITEA: Forge(
        repository="/api/v1/repos/{place}",
        scheme="token",
        pulls="/pulls?state=open&",
        number="number",
        comments="/issues/{number}/comments",
        comment="/issues/comments/{comment}",
    ),
}
#: GitLab's answer to a status that it shows already; it then keeps the former description.
SAME_STATE = b"Cannot transition status"


@dataclass(frozen=True)
class Repository:
    """The repository of a channel at its forge. All calls raise TemporaryFailure, PermanentFailure or KeyLost."""

    channel: Channel

    @property
    def forge(self) -> Forge:
        return FORGES[self.channel.kind]

    def ask(self, method: str, path: str, document: Any = None) -> Response:
        base = self.forge.repository.format(place=quote(self.channel.place), id=quote(self.channel.place, safe=""))
        token = {"Authorization": f"{self.forge.scheme} {self.channel.secret.reveal()}"}
        url = self.channel.url.reveal().rstrip("/") + base + path
        return call(OutgoingCall(method, url, document, token | dict(self.forge.headers), most_bytes=MOST_BYTES))

    def asked(self, method: str, path: str, document: Any = None) -> Any:
        return require_success(self.ask(method, path, document), self.channel.origin).document()

    def pages(self, path: str) -> Iterator[dict[str, Any]]:
        """All rows of a list; ``path`` ends with ? or &. GitLab and GitHub use ``per_page``, Gitea ``limit``."""
        for page in range(1, MOST_PAGES + 1):
            rows = self.asked("GET", f"{path}per_page={PER_PAGE}&limit={PER_PAGE}&page={page}")
            yield from rows
            if len(rows) < PER_PAGE:
                return

    def name(self) -> str:
        """The name of the repository; reading it proves that the token is valid."""
        description = self.asked("GET", "")
        return str(description.get("full_name") or description.get("path_with_namespace"))

    def show(self, sha: str, state: str, description: str, url: str, context: str) -> None:
        """Set a status; it replaces the one with the same context."""
        forge = self.forge
        document = {
            "state": forge.states.get(state, state),
            "target_url": url,
            "description": shortened(description, forge.longest_description),
            forge.context: context,
        }
        answer = self.ask("POST", f"/statuses/{sha}", document)
        if answer.status != 400 or SAME_STATE not in answer.body:
            require_success(answer, self.channel.origin)

    def pulls(self, sha: str) -> list[int]:
        """The numbers of the open pull requests whose head is the commit."""
        rows = self.pages(self.forge.pulls.format(sha=sha))
        mine = [row for row in rows if row.get("state") in self.forge.open and head_of(row) == sha]
        return [int(row[self.forge.number]) for row in mine]

    def comment_with(self, number: int, marker: str) -> str | None:
        """The id of the oldest comment whose text contains the marker."""
        rows = self.pages(self.forge.comments.format(number=number) + "?")
        ids = [int(row["id"]) for row in rows if marker in (row.get("body") or "")]
        return str(min(ids)) if ids else None

    def comment(self, number: int, text: str) -> str:
        """Create a comment, and return its id."""
        return str(self.asked("POST", self.forge.comments.format(number=number), {"body": text})["id"])

    def edit(self, number: int, comment: str, text: str) -> bool:
        """Replace the text of a comment. False if the comment no longer exists."""
        path = self.forge.comment.format(number=number, comment=comment)
        answer = self.ask(self.forge.edit, path, {"body": text})
        if answer.status == 404:
            return False
        require_success(answer, self.channel.origin)
        return True


def head_of(pull: Mapping[str, Any]) -> str:
    return str(pull.get("sha") or (pull.get("head") or {}).get("sha"))
