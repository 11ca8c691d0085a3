"""The evidence behind numbers and verdicts: imports, bisections, checks of canaries, profiles, latencies, noise."""

import zlib
from typing import Any

from pydantic import Field

from speedtrack.alerts.bisections.searches import Search
from speedtrack.alerts.models import Bisection, BisectionAnswer, SeriesSensitivity
from speedtrack.benchmarks.metrics import HEADLINE, METRICS
from speedtrack.reports.common import Document, Sent, Text, Time, Tried
from speedtrack.runs.models import CanaryCheck, Import, Profile


class ImportDocument(Document):
    """A batch of results that were measured elsewhere."""

    id: int
    project: str
    at: Time
    door: str = Field(description="`api`, `codespeed` or `command`")
    by: Text = Field(description="the sender's name at that time; empty: anybody")
    tool: Text = Field(description="what wrote the results, as the sender names it")
    source: Text = Field(description="name of the file")
    page: Text = Field(description="address of a page about the batch, such as a CI job")
    runs: int = Field(description="how many runs its results are; each commit on each machine is one")
    url: str

    @staticmethod
    def of(batch: Import, runs: int) -> "ImportDocument":
        return ImportDocument(
            id=batch.pk,
            project=batch.project.slug,
            at=batch.at,
            door=batch.door,
            by=batch.name,
            tool=batch.tool,
            source=batch.source,
            page=batch.url,
            runs=runs,
            url=f"/api/v1/imports/{batch.pk}",
        )


class BisectionDocument(Document):
    """A search, by paired runs, for the commit between two others at which benchmarks changed."""

    id: int
    project: str
    machine: str
    metric: str
    before: str = Field(description="the older end, a commit id")
    commit: str = Field(description="the newer end")
    commits: int = Field(description="how many commits lie behind the older end, up to the newer one")
    created: Time
    ended_at: Time | None
    note: Text = Field(description="why it ended, if not because all is known")
    asked_by: Text = Field(description="empty: not known")
    url: str

    @staticmethod
    def of(bisection: Bisection) -> "BisectionDocument":
        return BisectionDocument(**bisection_fields(bisection))


def bisection_fields(bisection: Bisection) -> dict[str, Any]:
    """The fields of a bisection's document. ``bisection`` has its project, machine, commits and asker loaded."""
    return {
        "id": bisection.pk,
        "project": bisection.project.slug,
        "machine": bisection.machine.name,
        "metric": bisection.metric_name,
        "before": bisection.before.sha,
        "commit": bisection.commit.sha,
        "commits": len(bisection.path),
        "created": bisection.created,
        "ended_at": bisection.ended_at,
        "note": bisection.note,
        "asked_by": bisection.asked_by.get_username() if bisection.asked_by else "",
        "url": f"/api/v1/bisections/{bisection.pk}",
    }


class BisectionOrder(Tried):
    """The two commits to search between, and how."""

    before: Sent = Field(
        min_length=1, max_length=250, description="the older end: a commit id, tag or branch", examples=["8.0.0"]
    )
    commit: Sent = Field(min_length=1, max_length=250, description="the newer end, likewise", examples=["main"])
    machine: Sent | None = Field(None, max_length=50, description="null: the first one of the project")
    benchmarks: list[Sent] = Field([], max_length=100, description="none: the usual ones, of which 8 are measured")
    metric: Sent = Field(HEADLINE, max_length=100, description="of these benchmarks")


class BisectionAnswerDocument(Document):
    """What all pairs of the older end and a commit show about a benchmark."""

    sha: str
    answer: str = Field(
        description="of the newer end `different` or `same`, of others `old` or `new`: the level on which it runs; "
        "`unknown`, `undecided` or `failed`"
    )
    ratio: float | None = Field(description="commit / older end")
    low: float | None = Field(description="lower end of the ratio's interval")
    high: float | None
    pairs: int
    why: Text = Field(description="why it could not be built or measured")

    @staticmethod
    def of(answer: BisectionAnswer) -> "BisectionAnswerDocument":
        return BisectionAnswerDocument(
            sha=answer.commit.sha,
            answer=answer.answer,
            ratio=answer.ratio,
            low=answer.low,
            high=answer.high,
            pairs=answer.pairs,
            why=answer.why,
        )


class SearchDocument(Document):
    """The search of one benchmark."""

    benchmark: Text
    after: str | None = Field(description="the change lies behind this commit; null: not known that it changed")
    until: str | None = Field(description="and up to this one; they are neighbours once it is found")
    answers: list[BisectionAnswerDocument]

    @staticmethod
    def of(search: Search, bisection: Bisection, shas: dict[int, str]) -> "SearchDocument":
        span = search.range_left(bisection)
        commit_ids = [bisection.before_id, *bisection.path]
        return SearchDocument(
            benchmark=search.benchmark.name,
            after=shas[commit_ids[span.first]] if span else None,
            until=shas[commit_ids[span.last]] if span else None,
            answers=[BisectionAnswerDocument.of(answer) for answer in search.answers.values()],
        )


class BisectionDetails(BisectionDocument):
    """A bisection with its runs and the answers about each benchmark so far."""

    searches: list[SearchDocument]
    runs: list[int] = Field(description="ids of the paired runs, oldest first")
    steps_left: int = Field(description="how many commits will be measured at most")
    seconds_left: float | None = Field(description="about how long that takes; null: it has ended, or not known")


class CanaryCheckDocument(Document):
    """What one run of a machine's canary shows about the machine."""

    id: int
    machine: str
    project: str = Field(description="whose commit the canary is")
    run: int
    at: Time = Field(description="when the run ended")
    answer: str = Field(description="`learning`, `steady`, `off` or `unknown`")
    is_good: bool
    series: int | None = Field(description="the one that moved most")
    ratio: float | None = Field(description="its value / its usual level")
    limit: float | None = Field(description="how far from 1 the ratio may be; null: while learning")

    @staticmethod
    def of(check: CanaryCheck) -> "CanaryCheckDocument":
        return CanaryCheckDocument(
            id=check.pk,
            machine=check.canary.machine.name,
            project=check.canary.project.slug,
            run=check.run_id,
            at=check.at,
            answer=check.answer,
            is_good=check.good,
            series=check.series_id,
            ratio=check.ratio,
            limit=check.limit,
        )


class ProfileDocument(Document):
    """Where one side's server spends its time under a benchmark, or the reason why that is not known."""

    id: int
    run: int
    benchmark: Text
    side: str = Field(description="`head` or `base`")
    kind: str = Field(description="`samples`, taken by perf, or `instructions`, counted by callgrind")
    event: Text
    frequency_hz: int
    samples: int = Field(description="of counted instructions: those of 100 requests")
    cpu_ns_per_request: float | None = Field(description="of the server, while it was sampled")
    unavailable: Text = Field(description="empty, or cause and remedy")
    created: Time
    url: str

    @staticmethod
    def of(profile: Profile) -> "ProfileDocument":
        return ProfileDocument(**profile_fields(profile))


def profile_fields(profile: Profile) -> dict[str, Any]:
    """The fields of a profile's document. ``profile`` has its attempt and benchmark loaded."""
    return {
        "id": profile.pk,
        "run": profile.attempt.run_id,
        "benchmark": profile.benchmark.name,
        "side": profile.side,
        "kind": profile.kind,
        "event": profile.event,
        "frequency_hz": profile.frequency_hz,
        "samples": profile.samples,
        "cpu_ns_per_request": profile.cpu_ns_per_request,
        "unavailable": profile.unavailable,
        "created": profile.created,
        "url": f"/api/v1/profiles/{profile.pk}",
    }


class ProfileDetails(ProfileDocument):
    """A profile with its stacks."""

    stacks: list[Text] = Field(description="folded stacks, the most outer function first, each with its count")

    @staticmethod
    def of(profile: Profile) -> "ProfileDetails":
        folded = zlib.decompress(profile.folded).decode("utf-8", "replace")
        return ProfileDetails(**profile_fields(profile), stacks=folded.splitlines())


class Quantile(Document):
    """A point of a percentile curve."""

    share: float = Field(description="of all requests")
    ns: float = Field(description="that this share of them did not exceed")


class LatencyDocument(Document):
    """The latencies of one commit under a benchmark, over all of its trials on a machine."""

    project: str
    sha: str
    benchmark: Text
    machine: str
    trials: int = Field(description="that recorded latencies; 0: none did, or retention has deleted them")
    requests: int
    is_flagged: bool = Field(description="every trial has a flag that makes its latencies doubtful")
    curve: list[Quantile]


class SensitivityDocument(Document):
    """How small a change a series shows, and how noisy it is. Changes and noise are shares: 0.01 is 1%."""

    series: int
    benchmark: Text
    metric: str
    machine: str
    position: int = Field(description="of the newest commit that it rests on, on the default branch")
    points: int = Field(description="how many it rests on")
    between: float | None = Field(description="noise between runs; null: not known")
    within: float | None = Field(description="noise within runs")
    modes: float | None = Field(description="how far apart two levels lie between which it switches")
    visible: float | None = Field(description="the smallest lasting change that the line shows")
    visible_within: int | None = Field(description="within so many points")
    paired: float | None = Field(description="the smallest change that ten pairs confirm")
    smallest: float | None = Field(description="the smallest change that is both shown and confirmed")
    smallest_effect: float = Field(description="changes below this one do not count")
    is_too_noisy: bool
    aa_runs: int = Field(description="runs of a commit against itself that have an answer")
    aa_different: int = Field(description="those that found a difference, at 95%")
    causes: list[list[Text]] = Field(description="of too much noise: pairs of a likely reason and a remedy")

    @staticmethod
    def of(sensitivity: SeriesSensitivity) -> "SensitivityDocument":
        """The document of a series. ``sensitivity`` has its series, benchmark and machine loaded."""
        columns = [
            *("position", "points", "between", "within", "modes", "visible", "visible_within", "paired", "smallest"),
            *("smallest_effect", "aa_runs", "aa_different", "causes"),
        ]
        return SensitivityDocument(
            series=sensitivity.series_id,
            benchmark=sensitivity.series.benchmark.name,
            metric=METRICS[sensitivity.series.metric].name,
            machine=sensitivity.series.machine.name,
            is_too_noisy=sensitivity.too_noisy,
            **{name: getattr(sensitivity, name) for name in columns},
        )
