"""How the commit of an alert was found: the commits that were measured again, what each showed, and what remains."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import Subquery

from speedtrack.alerts.models import Alert, Verdict
from speedtrack.judging.verdicts import sign_of_change
from speedtrack.projects.models import Position
from speedtrack.runs.models import Run, Status

MOST = 120  # commits of a path
Answer = Verdict.Answer
#: What is drawn of a commit, and what it means. Shapes tell them apart, not colours alone.
MARKS = {
    "old": "○",
    "new": sign_of_change(True),
    "better": sign_of_change(False),
    "unknown": "?",
    "failed": "×",
    "unmeasured": "·",
}
MEANINGS = {
    "old": "runs on the level before",
    "new": "runs on the level after: slower",
    "better": "runs on the level after: better",
    "unknown": "its pairs do not decide",
    "failed": "could not be built or measured",
    "unmeasured": "was not measured again",
}


class PathRow(NamedTuple):
    """A commit of a branch."""

    pk: int
    number: int
    sha: str
    subject: str
    author: str

    @property
    def short(self) -> str:
        return self.sha[:10]


@dataclass(frozen=True)
class PathCommit:
    """``possible``: it may be the cause."""

    commit: PathRow
    look: str
    possible: bool

    @property
    def mark(self) -> str:
        return MARKS[self.look]

    @property
    def title(self) -> str:
        may = "; it may be the cause" if self.possible else ""
        return f"{self.commit.short} {MEANINGS[self.look]}{may}: {self.commit.subject}"


@dataclass(frozen=True)
class Narrowing:
    """The commits of the bracket with its ends, oldest first. ``asked``: how many of them were measured."""

    commits: list[PathCommit]
    left_out: int

    @property
    def asked(self) -> int:
        return sum(commit.look not in ("unmeasured",) for commit in self.commits)

    @property
    def legend(self) -> list[tuple[str, str, str]]:
        looks = {commit.look for commit in self.commits}
        return [(look, MARKS[look], MEANINGS[look]) for look in MARKS if look in looks]


def path_of(alert: Alert, ends: Verdict | None) -> list[PathRow]:
    """The commits from one end of the bracket, or of the alert's range, to the other: at most the newest MOST + 1.

    Empty if they are one commit apart.
    """
    own = alert.before_id, alert.commit_id
    before, commit = (ends.base_id, ends.commit_id) if ends else own
    if alert.width == 1 and (before, commit) == own:
        return []  # nothing lies between them
    positions = Position.objects.filter(branch=alert.branch_id)
    bracket = positions.filter(
        number__gte=Subquery(positions.filter(commit=before).values("number")),
        number__lte=Subquery(positions.filter(commit=commit).values("number")),
    )
    columns = ("commit_id", "number", "commit__sha", "commit__subject", "commit__author_name")
    rows = bracket.order_by("-number").values_list(*columns)[: MOST + 1]
    return [PathRow._make(row) for row in reversed(rows)]


def narrowing_of(
    alert: Alert, path: Sequence[PathRow], steps: Iterable[Verdict], runs: Iterable[Run], worse: bool
) -> Narrowing | None:
    """How the range was narrowed; None if nothing lies between its two commits.

    ``steps`` and ``runs``: of the worst change.
    """
    if len(path) < 3:
        return None
    after = "new" if worse else "better"
    looks = {run.commit_id: "failed" for run in runs if run.status == Status.FAILED}
    for step in steps:
        if step.answer == Answer.DIFFERENT:
            looks |= {step.base_id: "old", step.commit_id: after}
        elif step.answer in (Answer.OLD, Answer.NEW, Answer.UNKNOWN):
            looks[step.commit_id] = after if step.answer == Answer.NEW else str(step.answer)
    first, last = alert.ends if len(alert.ends) == 2 else (0, 0)
    rows = path[-MOST:]
    commits = [PathCommit(row, looks.get(row.pk, "unmeasured"), first < row.number <= last) for row in rows]
    return Narrowing(commits, len(path) - len(rows))
