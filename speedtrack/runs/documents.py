"""The documents that runners send, as validated models. docs/result-format.md describes every field."""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from speedtrack.runs.documentfields import (
    LARGEST,
    LARGEST_INTEGER,
    LARGEST_TOKEN,
    LONGEST_S,
    SMALLEST,
    ArtifactName,
    Count,
    CpuList,
    Date,
    Details,
    Digest,
    Facts,
    Flag,
    Metrics,
    Seconds,
    Sha,
    Share,
    Size,
    Text,
    Word,
    check_folded,
)

MOST_PAIRS = 2000  # of one metric, of an unfinished run


class RunnerDocument(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Hello(RunnerDocument):
    version: Text = Field(max_length=40)
    protocol: int | None = Field(None, ge=0, le=LARGEST_INTEGER)
    boot_id: Text = Field(max_length=100)
    facts: Facts


class Claim(RunnerDocument):
    instance: str = Field("", pattern=r"^[^\x00-\x1f]{0,64}$")
    version: Text = Field("", max_length=40)
    protocol: int | None = Field(None, ge=0, le=LARGEST_INTEGER)


class Enrolment(RunnerDocument):
    code: Text = Field(max_length=100)
    token: Text = Field(max_length=100)
    version: Text = Field("", max_length=40)
    protocol: int | None = Field(None, ge=0, le=LARGEST_INTEGER)


class Succession(RunnerDocument):
    """A runner's new token, which it has made itself."""

    token: Text = Field(max_length=100)


class Beat(RunnerDocument):
    """Sent by an idle runner. ``unable``: why it takes no work, which operators are mailed; empty if it takes some.

    ``waits``: for what it waits before it asks for work, as the end of "waits for ..."; ``ended``: why it has ended, as
    the end of "its runner ...". Both are empty if that is not so, and None is what older runners send.
    """

    unable: Text = Field("", max_length=1000)
    waits: Annotated[Text, Field(max_length=1000)] | None = None
    ended: Text = Field("", max_length=200)


class ReportedPair(RunnerDocument):
    """A pair of an unfinished run: the metrics of both sides that the run is for, and the flags of either."""

    base: Metrics
    head: Metrics
    flags: list[Flag] = Field([], max_length=40)


def check_pairs(pairs: dict[str, list[ReportedPair]]) -> dict[str, list[ReportedPair]]:
    if sum(len(pair.base) for of_benchmark in pairs.values() for pair in of_benchmark) > MOST_PAIRS:
        raise ValueError(f"at most {MOST_PAIRS} pairs are shown")
    return pairs


def valid_or_none(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """Nothing for pairs that are not valid: they are only shown, and a refused renewal would end the run."""
    try:
        return validate(value)
    except ValidationError:
        return {}


PairsSoFar = Annotated[
    dict[Annotated[str, Field(max_length=100)], list[ReportedPair]],
    AfterValidator(check_pairs),
    WrapValidator(valid_or_none),
]


class ReportedProgress(RunnerDocument):
    """How far a run is. ``age_s``: seconds since the last progress; people are told when that exceeds ``overdue_s``.

    ``pairs``: by benchmark those of a paired run so far; empty from an older runner.
    """

    done: Count
    total: Count
    now: Text = Field(max_length=200)
    phase: Text = Field("", max_length=200)
    age_s: Seconds = 0
    overdue_s: Seconds = LONGEST_S
    pairs: PairsSoFar = Field(default_factory=dict)

    @property
    def overdue(self) -> bool:
        return self.age_s > self.overdue_s


class Leased(RunnerDocument):
    """The base of every call about a run: it carries the lease token of the run's claim."""

    token: int = Field(ge=0, le=LARGEST_TOKEN)


class Renewal(Leased):
    """Extends the lease. ``hung``: why the work cannot go on although the heartbeat does; empty if it can.

    ``draining``: the runner ends after this run.
    """

    progress: ReportedProgress | None = None
    hung: Text = Field("", max_length=1000)
    draining: bool = False

    def trouble(self) -> str:
        """Why the run makes no progress, as a sentence for people; empty if nothing is known to be wrong."""
        if self.hung:
            return self.hung
        if self.progress is None or not self.progress.overdue:
            return ""
        at, since_s = self.progress.now or "nothing", round(self.progress.age_s)
        usual_s = f"{self.progress.overdue_s:g} s"
        return f"no progress for {since_s} s, at {at} (more than {usual_s} is unusual)"


class LogPiece(Leased):
    seq: Count
    phase: Text = Field(max_length=100)
    text: Text = Field(max_length=1_000_000)


class ReportedArtifact(RunnerDocument):
    digest: Digest
    bytes: Size
    loaded_bytes: Size | None = None

    @property
    def size(self) -> int:
        """The size in bytes: of code and data if it is known, otherwise of the file."""
        return self.bytes if self.loaded_bytes is None else self.loaded_bytes


class ReportedCompilerCache(RunnerDocument):
    hits: Count
    misses: Count


class ReportedBuild(RunnerDocument):
    side: Literal["head", "base"]
    sha: Sha
    succeeded: bool
    cached: bool
    seconds: Seconds
    artifacts: dict[ArtifactName, ReportedArtifact] = Field(max_length=100)
    ccache: ReportedCompilerCache | None = None
    recipe_digest: Digest
    error: Text | None = Field(None, max_length=20_000)


class ReportedEnvironment(RunnerDocument):
    digest: Digest
    series: Facts
    recorded: Facts


class BuildReport(Leased):
    build: ReportedBuild
    environment: ReportedEnvironment | None = None


class FailureReport(Leased):
    kind: Literal["transient", "permanent", "stopped"]
    error: Text = Field(min_length=1, max_length=20_000)


class Completion(Leased):
    """Ends a run. ``out_of_reach``: the benchmarks that the machine cannot measure, each with the reason."""

    out_of_reach: dict[Annotated[Text, Field(max_length=100)], Annotated[Text, Field(max_length=1000)]] = Field(
        {}, max_length=10_000
    )


class BenchmarkRef(RunnerDocument):
    name: Text = Field(max_length=100)
    digest: Digest


class LoadRecipe(RunnerDocument):
    argv: list[Word] = Field(min_length=1, max_length=200)
    workload: Details | None


class BuildByHand(RunnerDocument):
    command: Word
    environment: dict[Word, Word] = Field(max_length=1000)


class ReportedRelink(RunnerDocument):
    """The two builds that make a layout: one keeps what the programs are linked from, one links them."""

    keep: BuildByHand
    link: BuildByHand


class ReportedRecipe(RunnerDocument):
    """How to repeat a trial by hand: command lines with placeholders in braces."""

    server: list[Word] = Field(min_length=1, max_length=1000)
    loads: list[LoadRecipe] = Field(min_length=1, max_length=100)
    padding_bytes: int = Field(ge=0, le=1_000_000)
    server_cpus: CpuList
    driver_cpus: CpuList
    memory_nodes: CpuList
    relink: ReportedRelink | None = None


class ReportedLayouts(RunnerDocument):
    """The random layouts of a run: their linker, how many were left out, and why there are none (any more)."""

    linker: Text = Field(max_length=40)
    left_out: Count
    refusal: Text = Field(max_length=20_000)


class ReportedTrial(RunnerDocument):
    trial: int = Field(ge=0, le=9999)
    order: Count
    started_at: Date
    seconds: Seconds
    metrics: Metrics = Field(min_length=1)
    flags: list[Flag] = Field(max_length=100)
    pairing: Details | None = None
    layout: Annotated[int, Field(ge=1, le=LARGEST_INTEGER)] | None = None
    quiet: Details = Field(default_factory=dict)
    server: Details = Field(default_factory=dict)
    reproduce: ReportedRecipe | None = None
    driver: Details


class Stopping(RunnerDocument):
    """Why no more trials of a side were made. Widths are shares of the median of the headline metric.

    ``half_width_at_most``: what ``most_trials`` would have given; both only where the reason is ``futile``.
    """

    reason: Literal["target", "futile", "cap", "fixed", "failed"]
    half_width: Share | None
    target: Share = Field(gt=0)
    trials: int = Field(ge=1, le=LARGEST_INTEGER)
    thrown_out: Count
    most_trials: int | None = Field(None, ge=1, le=LARGEST_INTEGER)
    half_width_at_most: Share | None = None

    @model_validator(mode="after")
    def check_futile(self) -> "Stopping":
        if self.reason == "futile" and None in (self.most_trials, self.half_width_at_most):
            raise ValueError("reason is futile: state most_trials and half_width_at_most")
        return self


class ProfileReport(Leased):
    """The profile of one side's server under one benchmark, by sampling or by counting instructions."""

    kind: Literal["samples", "instructions"] = "samples"
    side: Literal["head", "base"]
    sha: Sha
    benchmark: BenchmarkRef
    event: Text = Field(max_length=40)
    frequency_hz: int = Field(ge=0, le=100_000)
    samples: Count
    folded: Annotated[Text, Field(max_length=8_000_000), AfterValidator(check_folded)]
    cpu_ns_per_request: Annotated[float, Field(allow_inf_nan=False, ge=SMALLEST, le=LARGEST["ns"])] | None
    unavailable: Text = Field(max_length=2_000)


class ResultDocument(Leased):
    """One measurement: all trials of one benchmark on one side of a run.

    ``not_countable``: why its instructions could not be counted, if they were to be.
    """

    schema_: Literal["speedtrack.result/1"] = Field(alias="schema")
    side: Literal["head", "base"]
    sha: Sha
    benchmark: BenchmarkRef
    environment: ReportedEnvironment
    artifacts: dict[ArtifactName, Digest] = Field(max_length=100)
    layouts: ReportedLayouts | None = None
    stopping: Stopping | None = None
    trials: list[ReportedTrial] = Field(min_length=1, max_length=1000)
    once: Metrics = Field(default_factory=dict)
    not_countable: Text = Field("", max_length=2_000)

    def how_it_ended(self) -> dict[str, Any] | None:
        """``stopping`` as it is stored, with ``not_countable`` if there is a reason."""
        cause = {"not_countable": self.not_countable} if self.not_countable else {}
        return self.stopping.model_dump(exclude_defaults=True) | cause if self.stopping else None
