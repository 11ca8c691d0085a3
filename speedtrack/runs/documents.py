"""The documents that runners send, as checked models. docs/result-format.md describes every field."""

import json
import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from speedtrack.benchmarks.metrics import METRICS

UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # PostgreSQL's text holds neither a zero byte nor half a surrogate pair
ZERO_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
LARGEST_INTEGER = 2**31 - 1


def readable(text: Any) -> Any:
    return UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text) if isinstance(text, str) else text


def storable(value: dict[str, Any]) -> dict[str, Any]:
    """The value, if PostgreSQL's JSON can hold it. Raises ValueError."""
    if ZERO_BYTE.search(json.dumps(value, ensure_ascii=False, allow_nan=False).encode().decode()):
        raise ValueError("JSON with a zero byte in a text cannot be stored")
    return value


Text = Annotated[str, BeforeValidator(readable)]
Json = Annotated[dict[str, Any], AfterValidator(storable)]
ArtifactName = Annotated[str, Field(pattern=r"^[^\x00-\x1f]{1,250}$")]
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
Sha = Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(allow_inf_nan=False, gt=0)]
MetricName = Annotated[str, Field(pattern=f"^({'|'.join(METRICS)})$")]
CpuList = Annotated[str, Field(pattern=r"^[0-9,-]{0,4000}$")]
Flag = Annotated[str, Field(pattern=r"^[a-z_]{1,40}$")]


class Document(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Hello(Document):
    version: Text = Field(max_length=40)
    boot_id: Text = Field(max_length=100)
    facts: Json


class Claim(Document):
    instance: str = Field("", max_length=64)


class Progress(Document):
    done: int = Field(ge=0)
    total: int = Field(ge=0)
    now: Text = Field(max_length=200)


class Leased(Document):
    """Every call about a run carries the lease token of its claim."""

    token: int


class Renewal(Leased):
    progress: Progress | None = None


class LogPiece(Leased):
    seq: int = Field(ge=0, le=LARGEST_INTEGER)
    phase: Text = Field(max_length=100)
    text: Text = Field(max_length=1_000_000)


class Artifact(Document):
    digest: Digest
    bytes: int = Field(ge=0)
    loaded_bytes: int | None = Field(None, ge=0)

    @property
    def size(self) -> int:
        """Code and data where that is known, else the file."""
        return self.bytes if self.loaded_bytes is None else self.loaded_bytes


class CompilerCache(Document):
    hits: int = Field(ge=0)
    misses: int = Field(ge=0)


class BuildDocument(Document):
    side: Literal["head", "base"]
    sha: Sha
    succeeded: bool
    cached: bool
    seconds: Finite = Field(ge=0)
    artifacts: dict[ArtifactName, Artifact]
    ccache: CompilerCache | None = None
    recipe_digest: Digest
    error: Text | None = None


class EnvironmentDocument(Document):
    digest: Digest
    series: Json
    recorded: Json


class BuildReport(Leased):
    build: BuildDocument
    environment: EnvironmentDocument | None = None


class Failure(Leased):
    kind: Literal["transient", "permanent", "stopped"]
    error: Text = Field(min_length=1, max_length=20_000)


class BenchmarkRef(Document):
    name: str
    digest: Digest


class LoadRecipe(Document):
    argv: list[Text] = Field(min_length=1, max_length=200)
    workload: Json | None


class Recipe(Document):
    """How a trial is repeated by hand; places stand in braces."""

    server: list[Text] = Field(min_length=1, max_length=1000)
    loads: list[LoadRecipe] = Field(min_length=1, max_length=100)
    padding_bytes: int = Field(ge=0, le=1_000_000)
    server_cpus: CpuList
    driver_cpus: CpuList
    memory_nodes: CpuList


class TrialDocument(Document):
    trial: int = Field(ge=0, le=9999)
    order: int = Field(ge=0, le=LARGEST_INTEGER)
    started_at: datetime
    seconds: Finite = Field(ge=0)
    metrics: dict[MetricName, Positive] = Field(min_length=1)
    flags: list[Flag]
    pairing: Json | None = None
    quiet: Json = Field(default_factory=dict)
    server: Json = Field(default_factory=dict)
    reproduce: Recipe | None = None
    driver: Json


class Stopping(Document):
    """Why a side's trials ended: the widths are shares of the median of the headline metric."""

    reason: Literal["target", "cap", "fixed"]
    half_width: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    target: Positive
    trials: int = Field(ge=1)
    thrown_out: int = Field(ge=0)


class ProfileDocument(Leased):
    """Where the server of one side spent its time under one benchmark."""

    side: Literal["head", "base"]
    sha: Sha
    benchmark: BenchmarkRef
    event: Text = Field(max_length=40)
    frequency_hz: int = Field(ge=1, le=100_000)
    samples: int = Field(ge=0, le=LARGEST_INTEGER)
    folded: Text = Field(max_length=8_000_000)
    cpu_ns_per_request: Positive | None
    unavailable: Text = Field(max_length=2_000)


class Result(Leased):
    """One measurement: one benchmark on one side of a run, all its trials."""

    schema_: Literal["speedtrack.result/1"] = Field(alias="schema")
    side: Literal["head", "base"]
    sha: Sha
    benchmark: BenchmarkRef
    environment: EnvironmentDocument
    artifacts: dict[str, Digest]
    stopping: Stopping | None = None
    trials: list[TrialDocument] = Field(min_length=1, max_length=1000)
    once: dict[MetricName, Positive] = Field(default_factory=dict)
