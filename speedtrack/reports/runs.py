"""Runs: one commit on one machine with some benchmarks."""

from operator import attrgetter
from typing import Annotated, Any, Self

from django.db.models import QuerySet
from pydantic import Field, model_validator

from speedtrack.benchmarks.metrics import METRICS
from speedtrack.reports.common import Document, Filled, From, Sent, Text, Time, Tried, Whole, WholeId, read_columns
from speedtrack.reports.measuring import MeasuredColumns, MeasuredDocument
from speedtrack.runs.models import Attempt, Build, Run
from speedtrack.runs.queue import estimates

MOST_COMMITS = 200


class RunDocument(Document):
    """One commit on one machine with some benchmarks. A retry is a new attempt, not a new run."""

    id: int
    project: Annotated[str, From("project.slug")]
    sha: Annotated[str, From("commit.sha")]
    base: Annotated[str | None, From("base.sha")] = Field(description="the other side of a paired run")
    machine: Annotated[str, From("machine.name")]
    reason: str = Field(
        description="`push`, `backfill`, `confirm`, `bisect`, `manual`, `canary`, `aa`, `profile` or `pull`"
    )
    status: str = Field(description="`queued`, `leased`, `running`, `succeeded`, `failed` or `cancelled`")
    trials: int = Field(description="per benchmark, or pairs of a paired run")
    attempt: int
    priority: int = Field(description="the highest goes first")
    created: Time
    started_at: Time | None
    ended_at: Time | None
    is_cancelling: Annotated[bool, From(lambda run: run.cancel_requested_at is not None and not run.done)] = Field(
        description="it ends as soon as its runner hears of it"
    )
    error: Text = Field(description="why it failed")
    url: Annotated[str, Filled("/api/v1/runs/{0.pk}")]


class RunEventDocument(Document):
    """A change of a run's status."""

    at: Time
    attempt: int
    before: str
    after: str
    why: Text


class ArtifactDocument(Document):
    """A file that a build produced."""

    name: Text
    digest: str
    bytes: int = Field(description="size of the file")
    loaded_bytes: int | None = Field(description="size of its code and data; null: not known")


class BuildDocument(Document):
    """A commit built by one attempt."""

    attempt: Annotated[int, From("attempt.number")]
    sha: Annotated[str, From("commit.sha")]
    side: str = Field(description="`head` or `base`")
    succeeded: bool
    is_cached: Annotated[bool, From("cached")] = Field(
        description="the artifacts of an earlier build of the commit were used"
    )
    seconds: float
    artifacts: Annotated[list[ArtifactDocument], From(lambda build: artifacts_of(build))]
    error: Text


def artifacts_of(build: Build) -> list[ArtifactDocument]:
    files = ({"name": name, "loaded_bytes": None, **artifact} for name, artifact in sorted(build.artifacts.items()))
    return [ArtifactDocument.model_validate(file) for file in files]


class AttemptDocument(Document):
    """One lease of a run, from its claim to its end."""

    number: int
    started_at: Time
    ended_at: Time | None
    outcome: str = Field(description="the run's status after it; empty while it lasts")
    postponed: dict[str, str] = Field(description="benchmarks that could not be measured yet, and why")
    out_of_reach: dict[str, str] = Field(description="benchmarks that the machine cannot measure, and why")


class ProgressDocument(Document):
    """How far a run is."""

    done: int
    total: int
    now: Text = Field(description="what it is at")


class RunDetails(RunDocument):
    """A run with what happened to it, and what its newest attempt measured."""

    SCHEMA = "speedtrack.run/2"

    suite: Annotated[str, From("project.suite")]
    benchmarks: Annotated[list[str], From("benchmark_set.names")]
    progress: Annotated[ProgressDocument | None, From(lambda run: progress_of(run))]
    why_waiting: Text = Field(
        description="why a queued run is not measured yet, as a sentence; empty if it does not wait"
    )
    late_s: float = Field(description="for how many seconds it should have begun, or have ended; 0: it is not late")
    events: list[RunEventDocument]
    attempts: list[AttemptDocument]
    builds: list[BuildDocument]
    measurements: list[MeasuredDocument] = Field(description="of the newest attempt")
    log_url: Annotated[str, Filled("/api/v1/runs/{0.pk}/log")]

    @classmethod
    def of(cls, row: Any, **given: Any) -> Self:
        """The document of a run that was loaded as ``known_runs`` does."""
        expected = estimates.expected_times(row)
        builds = Build.objects.filter(attempt__run=row).select_related("attempt", "commit").order_by("pk")
        attempts = list(row.attempts.order_by("pk"))
        return super().of(
            row,
            why_waiting=expected.why if expected else "",
            late_s=round(expected.late_s, 1) if expected else 0.0,
            events=list(map(RunEventDocument.of, row.events.order_by("pk"))),
            attempts=list(map(AttemptDocument.of, attempts)),
            builds=list(map(BuildDocument.of, builds)),
            measurements=measured_by(attempts[-1]) if attempts else [],
            **given,
        )


def known_runs() -> QuerySet[Run]:
    """Runs with all that their documents show."""
    rows: QuerySet[Run] = Run.objects.select_related("project", "commit", "base", "machine")
    return rows.defer("machine__facts")


#: What lists read.
LISTED = read_columns(RunDocument, "cancel_requested_at")


def measured_by(attempt: Attempt) -> list[MeasuredDocument]:
    """What an attempt measured, ordered by benchmark, metric and side."""
    documents = sorted(MeasuredColumns.of(attempt).documents, key=attrgetter("id"))
    order = {metric.name: rank for rank, metric in enumerate(METRICS.among(row.metric for row in documents))}
    return sorted(documents, key=lambda row: (row.benchmark, order[row.metric], row.side))


def progress_of(run: Run) -> ProgressDocument | None:
    progress = run.progress
    if run.done or not progress:
        return None
    return ProgressDocument(
        done=progress.get("done", 0), total=progress.get("total", 0), now=str(progress.get("now", ""))
    )


class LogLine(Document):
    """A line of a log, without terminal escapes."""

    number: int
    text: Text
    is_cut: bool = Field(description="the line is longer")


class LogDocument(Document):
    """Lines of a run's log."""

    run: int
    total: int = Field(description="how many lines there are now; the last one may still grow")
    lines: list[LogLine]
    next: str | None = Field(description="address of the lines after these; null if there are none now")


class QueuedMachine(Document):
    """What a machine does now, and which runs wait for it."""

    machine: str
    state: str = Field(description="what it does now, as on its page, such as `idle`, `working` or `waiting`")
    why: Text = Field(description="why it takes no run now, as a sentence; empty if it takes runs")
    is_paused: bool
    is_quarantined: bool
    running: RunDocument | None = Field(description="null: nothing, or a run of a project that is private to others")
    waiting: int = Field(description="how many runs wait for it")
    next: list[RunDocument] = Field(description="the first of those in the order of their priority")


class Queue(Document):
    """The queues of all machines that are in service."""

    machines: list[QueuedMachine]


class RunsOrder(Tried):
    """What to measure, even if it was measured before. Exactly one of the first five fields states it."""

    range: Sent | None = Field(
        None, min_length=1, max_length=500, description="a commit id, tag or branch, or A..B, which leaves out A"
    )
    branch: Sent | None = Field(
        None, min_length=1, max_length=250, description="the head of this branch", examples=["main"]
    )
    commits: list[Sent] | None = Field(None, min_length=1, max_length=MOST_COMMITS, description="ids, tags or branches")
    releases: Sent | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="a pattern of tags, such as `7.*`: of those that match, the newest patch of each minor version",
    )
    pull_request: WholeId | None = Field(
        None, description="its head, in pairs against the merge base; this approves the head"
    )
    head: Sent | None = Field(
        None, max_length=64, description="with `pull_request`: the head that is approved; if it is another one now, 409"
    )
    benchmarks: list[Sent] = Field([], max_length=100, description="only these, or rungs of these ladders")
    extended: bool = Field(False, description="with the extended benchmarks of the suite")
    machine: Sent | None = Field(None, max_length=50, description="only on this one; null: on those of the project")
    every: Whole = Field(1, ge=1, le=1_000_000, description="of a range each n-th commit, counted from the newest")
    halves: bool = Field(False, description="of a range first both ends, then the middle, then the quarters ...")
    reason: Sent = Field("", max_length=500, description="for the audit log", examples=["before the release"])

    @model_validator(mode="after")
    def says_one_thing(self) -> "RunsOrder":
        names = ("range", "branch", "commits", "releases", "pull_request")
        if sum(getattr(self, name) is not None for name in names) != 1:
            raise ValueError("give exactly one of `range`, `branch`, `commits`, `releases` and `pull_request`")
        if (self.head is not None) != (self.pull_request is not None):
            raise ValueError("give `pull_request` and `head` together")
        return self


class QueuedRuns(Document):
    """What was queued."""

    queued: int = Field(description="how many runs")
    commits: int = Field(description="of how many commits")
    runs: list[int] = Field(description="ids of the runs, the first 1000 of them")
    approved_head: str | None = Field(
        description="of a pull request: its runs are queued as soon as this head is fetched; its pull request has them"
    )


class RunAction(Document):
    """The result of an action on a run."""

    message: Text = Field(description="in words")
    run: RunDocument
