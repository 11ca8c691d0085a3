"""Runs: one commit on one machine with some benchmarks."""

from collections.abc import Iterable
from typing import Any

from pydantic import Field, model_validator

from speedtrack.reports.common import Document, Sent, Text, Time, Tried, Whole, WholeId
from speedtrack.runs.models import Attempt, Build, Run, RunEvent
from speedtrack.runs.queue import estimates

MOST_COMMITS = 200


class RunDocument(Document):
    """One commit on one machine with some benchmarks. A retry is a new attempt, not a new run."""

    id: int
    project: str
    sha: str
    base: str | None = Field(description="the other side of a paired run")
    machine: str
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
    is_cancelling: bool = Field(description="it ends as soon as its runner hears of it")
    error: Text = Field(description="why it failed")
    url: str

    @staticmethod
    def of(run: Run) -> "RunDocument":
        return RunDocument(**run_fields(run))


def run_fields(run: Run) -> dict[str, Any]:
    """The fields of a run's document. ``run`` has its project, commit, base and machine loaded."""
    return {
        "id": run.pk,
        "project": run.project.slug,
        "sha": run.commit.sha,
        "base": run.base.sha if run.base else None,
        "machine": run.machine.name,
        "reason": run.reason,
        "status": run.status,
        "trials": run.trials,
        "attempt": run.attempt,
        "priority": run.priority,
        "created": run.created,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "is_cancelling": run.cancel_requested_at is not None and not run.done,
        "error": run.error,
        "url": f"/api/v1/runs/{run.pk}",
    }


class RunEventDocument(Document):
    """A change of a run's status."""

    at: Time
    attempt: int
    before: str
    after: str
    why: Text

    @staticmethod
    def of(event: RunEvent) -> "RunEventDocument":
        return RunEventDocument(
            at=event.at, attempt=event.attempt, before=event.before, after=event.after, why=event.why
        )


class ArtifactDocument(Document):
    """A file that a build produced."""

    name: Text
    digest: str
    bytes: int = Field(description="size of the file")
    loaded_bytes: int | None = Field(description="size of its code and data; null: not known")


class BuildDocument(Document):
    """A commit built by one attempt."""

    attempt: int
    sha: str
    side: str = Field(description="`head` or `base`")
    succeeded: bool
    is_cached: bool = Field(description="the artifacts of an earlier build of the commit were used")
    seconds: float
    artifacts: list[ArtifactDocument]
    error: Text

    @staticmethod
    def of(build: Build) -> "BuildDocument":
        artifacts = [
            ArtifactDocument(
                name=name, digest=artifact["digest"], bytes=artifact["bytes"], loaded_bytes=artifact.get("loaded_bytes")
            )
            for name, artifact in sorted(build.artifacts.items())
        ]
        return BuildDocument(
            attempt=build.attempt.number,
            sha=build.commit.sha,
            side=build.side,
            succeeded=build.succeeded,
            is_cached=build.cached,
            seconds=build.seconds,
            artifacts=artifacts,
            error=build.error,
        )


class AttemptDocument(Document):
    """One lease of a run, from its claim to its end."""

    number: int
    started_at: Time
    ended_at: Time | None
    outcome: str = Field(description="the run's status after it; empty while it lasts")
    postponed: dict[str, str] = Field(description="benchmarks that could not be measured yet, and why")
    out_of_reach: dict[str, str] = Field(description="benchmarks that the machine cannot measure, and why")

    @staticmethod
    def of(attempt: Attempt) -> "AttemptDocument":
        return AttemptDocument(
            number=attempt.number,
            started_at=attempt.started_at,
            ended_at=attempt.ended_at,
            outcome=attempt.outcome,
            postponed=attempt.postponed,
            out_of_reach=attempt.out_of_reach,
        )


class ProgressDocument(Document):
    """How far a run is."""

    done: int
    total: int
    now: Text = Field(description="what it is at")


class RunDetails(RunDocument):
    """A run with what happened to it."""

    benchmarks: list[str]
    progress: ProgressDocument | None
    why_waiting: Text = Field(
        description="why a queued run is not measured yet, as a sentence; empty if it does not wait"
    )
    late_s: float = Field(description="for how many seconds it should have begun, or have ended; 0: it is not late")
    events: list[RunEventDocument]
    attempts: list[AttemptDocument]
    builds: list[BuildDocument]
    log_url: str

    @staticmethod
    def of(run: Run) -> "RunDetails":
        expected = estimates.expected_times(run)
        builds = Build.objects.filter(attempt__run=run).select_related("attempt", "commit").order_by("pk")
        return RunDetails(
            **run_fields(run),
            benchmarks=run.benchmark_set.names,
            progress=progress_of(run),
            why_waiting=expected.why if expected else "",
            late_s=round(expected.late_s, 1) if expected else 0.0,
            events=[RunEventDocument.of(event) for event in run.events.order_by("pk")],
            attempts=[AttemptDocument.of(attempt) for attempt in run.attempts.order_by("pk")],
            builds=[BuildDocument.of(build) for build in builds],
            log_url=f"/api/v1/runs/{run.pk}/log",
        )


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


def runs_of(rows: Iterable[Run]) -> list[RunDocument]:
    return [RunDocument.of(run) for run in rows]
