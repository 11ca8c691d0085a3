"""A small forge: it holds statuses and comments, and answers as the APIs of GitHub, GitLab and Gitea document."""

import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from speedtrack.notices.tests.channels import SECRET
from speedtrack.notices.tests.receivers import Request, Response

REPOSITORY = {"github": "/repos/ann/kvd", "gitlab": "/api/v4/projects/ann%2Fkvd", "gitea": "/api/v1/repos/ann/kvd"}
SCHEME = {"github": "Bearer", "gitlab": "Bearer", "gitea": "token"}
STATES = {
    "github": {"error", "failure", "pending", "success"},
    "gitlab": {"pending", "running", "success", "failed", "canceled"},
    "gitea": {"error", "failure", "pending", "success", "warning"},
}
COMMENTS = {"gitlab": r"/merge_requests/(\d+)/notes"}
COMMENT = {"gitlab": r"/merge_requests/\d+/notes/(\d+)"}


@dataclass
class Forge:
    """``pulls``: number -> head. ``shown``: all states that a (sha, context) had. ``trouble``: answers in advance."""

    kind: str
    pulls: dict[int, str] = field(default_factory=dict)
    shown: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)
    comments: dict[int, dict[int, str]] = field(default_factory=dict)
    trouble: list[Response] = field(default_factory=list)
    last_id: int = 100

    def states(self, sha: str) -> list[str]:
        return [shown["state"] for (of, _), all_ in self.shown.items() if of == sha for shown in all_]

    def texts(self) -> list[str]:
        return [text for comments in self.comments.values() for text in comments.values()]

    def answer(self, request: Request) -> Response:
        if self.trouble:
            return self.trouble.pop(0)
        status, document = self.handle(request)
        return status, {"Content-Type": "application/json"}, json.dumps(document).encode()

    def handle(self, request: Request) -> tuple[int, Any]:
        if request.headers.get("authorization") != f"{SCHEME[self.kind]} {SECRET}":
            return 401, {"message": "Bad credentials"}
        parts = urlsplit(request.path)
        if not parts.path.startswith(REPOSITORY[self.kind]):
            return 404, {"message": "Not Found"}
        path, query = parts.path[len(REPOSITORY[self.kind]) :], parse_qs(parts.query)
        document = json.loads(request.body) if request.body else {}
        for method, pattern, verb in self.routes():
            if request.method == method and (found := re.fullmatch(pattern, path)):
                return verb(*found.groups(), document, query)
        return 404, {"message": "Not Found"}

    def routes(self) -> list[tuple[str, str, Any]]:
        comments = COMMENTS.get(self.kind, r"/issues/(\d+)/comments")
        comment = COMMENT.get(self.kind, r"/issues/comments/(\d+)")
        pulls = {"github": r"/commits/(\w+)/pulls", "gitlab": r"/repository/commits/(\w+)/merge_requests"}
        return [
            ("GET", "", lambda document, query: (200, {"full_name": "ann/kvd"})),
            ("POST", r"/statuses/(\w+)", self.show),
            ("GET", pulls.get(self.kind, r"/(pulls)"), self.list_pulls),
            ("GET", comments, self.list_comments),
            ("POST", comments, self.add_comment),
            ("PUT" if self.kind == "gitlab" else "PATCH", comment, self.edit_comment),
        ]

    def show(self, sha: str, document: dict[str, Any], query: Any) -> tuple[int, Any]:
        context = document.get("name" if self.kind == "gitlab" else "context")
        limit = 255 if self.kind == "gitlab" else 140
        if document["state"] not in STATES[self.kind] or len(document["description"]) > limit or not context:
            return 422, {"message": "Validation Failed"}
        states = self.shown.setdefault((sha, context), [])
        if self.kind == "gitlab" and states and states[-1]["state"] == document["state"] == "pending":
            return 400, {"message": "Cannot transition status via :enqueue from :pending"}
        states.append(document)
        return 201, {"id": 1}

    def list_pulls(self, sha: str, document: Any, query: dict[str, list[str]]) -> tuple[int, Any]:
        mine = {n: head for n, head in self.pulls.items() if sha in ("pulls", head)}
        if self.kind == "gitlab":
            return 200, [{"iid": n, "state": "opened", "sha": head} for n, head in mine.items()]
        return 200, [{"number": n, "state": "open", "head": {"sha": head}} for n, head in mine.items()]

    def list_comments(self, number: str, document: Any, query: dict[str, list[str]]) -> tuple[int, Any]:
        size, page = int(query["per_page"][0]), int(query["page"][0])
        rows = [{"id": pk, "body": text} for pk, text in sorted(self.comments.get(int(number), {}).items())]
        return 200, rows[(page - 1) * size : page * size]

    def add_comment(self, number: str, document: dict[str, Any], query: Any) -> tuple[int, Any]:
        self.last_id += 1
        self.comments.setdefault(int(number), {})[self.last_id] = document["body"]
        return 201, {"id": self.last_id}

    def edit_comment(self, pk: str, document: dict[str, Any], query: Any) -> tuple[int, Any]:
        for comments in self.comments.values():
            if int(pk) in comments:
                comments[int(pk)] = document["body"]
                return 200, {"id": int(pk)}
        return 404, {"message": "Not Found"}
