"""The evidence behind numbers and verdicts: imports, bisections, checks of canaries, profiles, latencies, noise."""

import zlib
from typing import Annotated

from pydantic import Field

from speedtrack.alerts.bisections.searches import Search
from speedtrack.alerts.lines.takes import PLANNED_PAIRS, Take, Takes
from speedtrack.alerts.models import Bisection
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import HEADLINE
from speedtrack.reports.common import Document, Filled, From, Sent, Text, Time, Tried
from speedtrack.runs.models import Profile
from speedtrack.stats.changes.trials import MOST


class ImportDocument(Document):
    """A batch of results that were measured elsewhere."""

    id: int
    project: Annotated[str, From("project.slug")]
    at: Time
    door: str = Field(description="`api`, `codespeed` or `command`")
    by: Annotated[Text, From("name")] = Field(description="the sender's name at that time; empty: anybody")
    tool: Text = Field(description="what wrote the results, as the sender names it")
    source: Text = Field(description="name of the file")
    page: Annotated[Text, From("url")] = Field(description="address of a page about the batch, such as a CI job")
    runs: Annotated[int, From("count_of_runs")] = Field(
        description="how many runs its results are; each commit on each machine is one"
    )
    url: Annotated[str, Filled("/api/v1/imports/{0.pk}")]


class BisectionDocument(Document):
    """A search, by paired runs, for the commit between two others at which benchmarks changed."""

    id: int
    project: Annotated[str, From("project.slug")]
    machine: Annotated[str, From("machine.name")]
    metric: Annotated[str, From("metric_name")]
    before: Annotated[str, From("before.sha")] = Field(description="the older end, a commit id")
    commit: Annotated[str, From("commit.sha")] = Field(description="the newer end")
    commits: Annotated[int, From(lambda bisection: len(bisection.path))] = Field(
        description="how many commits lie behind the older end, up to the newer one"
    )
    created: Time
    ended_at: Time | None
    note: Text = Field(description="why it ended, if not because all is known")
    asked_by: Annotated[Text, From(lambda bisection: bisection.asked_by.username if bisection.asked_by else "")] = (
        Field(description="empty: not known")
    )
    url: Annotated[str, Filled("/api/v1/bisections/{0.pk}")]


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

    sha: Annotated[str, From("commit.sha")]
    answer: str = Field(
        description="of the newer end `different` or `same`, of others `old` or `new`: the level on which it runs; "
        "`unknown`, `undecided` or `failed`"
    )
    ratio: float | None = Field(description="commit / older end")
    low: float | None = Field(description="lower end of the ratio's interval")
    high: float | None
    pairs: int
    why: Text = Field(description="why it could not be built or measured")


class SearchDocument(Document):
    """The search of one benchmark."""

    benchmark: Text
    after: str | None = Field(description="the change lies behind this commit; null: not known that it changed")
    until: str | None = Field(description="and up to this one; they are neighbours once it is found")
    answers: list[BisectionAnswerDocument]


def search_document(search: Search, bisection: Bisection, shas: dict[int, str]) -> SearchDocument:
    """The document of a search. ``shas``: commit id -> hash."""
    span = search.range_left(bisection)
    commit_ids = [bisection.before_id, *bisection.path]
    return SearchDocument(
        benchmark=search.benchmark.name,
        after=shas[commit_ids[span.first]] if span else None,
        until=shas[commit_ids[span.last]] if span else None,
        answers=list(map(BisectionAnswerDocument.of, search.answers.values())),
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
    machine: Annotated[str, From("canary.machine.name")]
    project: Annotated[str, From("canary.project.slug")] = Field(description="whose commit the canary is")
    run: Annotated[int, From("run_id")]
    at: Time = Field(description="when the run ended")
    answer: str = Field(description="`learning`, `steady`, `off` or `unknown`")
    is_good: Annotated[bool, From("good")]
    series: Annotated[int | None, From("series_id")] = Field(description="the one that moved most")
    benchmark: Annotated[Text | None, From("series.benchmark.name")] = Field(description="of this series")
    metric: Annotated[str | None, From("series.metric")]
    ratio: float | None = Field(description="its value / its usual level")
    limit: float | None = Field(description="how far from 1 the ratio may be; null: while learning")


class ProfileDocument(Document):
    """Where one side's server spends its time under a benchmark, or the reason why that is not known."""

    id: int
    run: Annotated[int, From("attempt.run_id")]
    benchmark: Annotated[Text, From("benchmark.name")]
    side: str = Field(description="`head` or `base`")
    kind: str = Field(description="`samples`, taken by perf, or `instructions`, counted by callgrind")
    event: Text
    frequency_hz: int
    samples: int = Field(description="of counted instructions: those of 100 requests")
    cpu_ns_per_request: float | None = Field(description="of the server, while it was sampled")
    unavailable: Text = Field(description="empty, or cause and remedy")
    created: Time
    url: Annotated[str, Filled("/api/v1/profiles/{0.pk}")]


def stacks_of(profile: Profile) -> list[str]:
    return zlib.decompress(profile.folded).decode("utf-8", "replace").splitlines()


class ProfileDetails(ProfileDocument):
    """A profile with its stacks."""

    stacks: Annotated[list[Text], From(stacks_of)] = Field(
        description="folded stacks, the most outer function first, each with its count"
    )


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

    series: Annotated[int, From("series_id")]
    benchmark: Annotated[Text, From("series.benchmark.name")]
    metric: Annotated[str, From("series.metric")]
    machine: Annotated[str, From("series.machine.name")]
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
    is_too_noisy: Annotated[bool, From("too_noisy")]
    aa_runs: int = Field(description="runs of a commit against itself that have an answer")
    aa_different: int = Field(description="those that found a difference, at 95%")
    causes: list[list[Text]] = Field(description="of too much noise: pairs of a likely reason and a remedy")


class TakeDocument(Document):
    """What it takes to see a change of some size."""

    see: float = Field(description="the change, as a share")
    trials: int | None = Field(description="of each run; null: no number of them is enough")
    seconds: float | None = Field(description="how much longer each commit is then measured; null: not known")
    seconds_a_day: float | None = Field(description="the same per day, at the pace of the last 30 days")
    pairs: int | None = Field(description="about how many pairs of two commits confirm it; null: no A/A run says")
    sentence: Text = Field(description="the same in words")


class TakesDocument(Document):
    """What it would take to see smaller changes of a series than now."""

    SCHEMA = "speedtrack.takes/1"

    project: Annotated[str, From("series.project.slug")]
    benchmark: Annotated[Text, From("series.benchmark.name")]
    metric: Annotated[str, From("series.metric")]
    machine: Annotated[str, From("series.machine.name")]
    suite: Annotated[str, From("series.project.suite")]
    suite_trials: int = Field(description="of the suite in force")
    trials: int = Field(description="that its commits have")
    smallest: float = Field(description="the smallest change that is seen now")
    smallest_effect: float = Field(description="changes below this one do not count")
    limit: float = Field(description="the smallest change that any number of trials would show")
    commits_a_day: float = Field(description="how many the machine measures")
    takes: Annotated[list[TakeDocument], From(lambda takes: [take_document(takes, take) for take in takes.takes])]


def take_document(takes: Takes, take: Take) -> TakeDocument:
    return TakeDocument.of(take, sentence=". ".join(filter(None, [trials_words(takes, take), pairs_words(take)])))


def trials_words(takes: Takes, take: Take) -> str:
    if take.trials is None and take.see < takes.limit:
        because = f"runs differ by {takes.of_runs:.1%} whatever their trials"
        return f"No number of trials sees less than {numbers.change_seen(takes.limit)} here, as {because}; pairs do"
    if take.trials is None:
        return f"More than {MOST:,} trials; pairs are cheaper"
    if take.trials <= takes.trials:
        return f"The line sees it with its {takes.trials} trials"
    comparison = f"{take.trials} trials instead of {takes.trials} (×{two_digits(take.trials / takes.trials)})"
    if take.seconds is None or take.seconds_a_day is None:
        return f"{comparison}; how much longer that takes is not known: the machine has measured nothing for 30 days"
    longer = f"{numbers.duration(take.seconds)} more per commit"
    pace = f"{two_digits(takes.commits_a_day)} commit{'s' * (takes.commits_a_day != 1)} a day"
    return f"{comparison}: {longer}, {numbers.duration(take.seconds_a_day)} per day at {pace}"


def two_digits(number: float) -> str:
    """Such as ``3.8`` or ``120``."""
    return f"{float(f'{number:.2g}'):,g}"


def pairs_words(take: Take) -> str:
    if take.pairs is None:
        return "" if take.trials else "How many is known after an A/A run"
    if take.trials is None or take.pairs > PLANNED_PAIRS:
        return f"About {take.pairs:,} pairs of two commits confirm it"
    return ""


class SensitivityList(Document):
    """How small a change each current series of a project shows, the noisiest first."""

    SCHEMA = "speedtrack.sensitivity/2"

    project: str
    branch: str | None
    series: list[SensitivityDocument]
