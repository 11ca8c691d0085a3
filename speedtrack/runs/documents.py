"""The documents that runners send, as checked models. docs/result-format.md describes every field."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from speedtrack.benchmarks.metrics import METRICS

Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
Sha = Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
Finite = Annotated[float, Field(allow_inf_nan=False)]
MetricName = Annotated[str, Field(pattern=f"^({'|'.join(METRICS)})$")]
Flag = Annotated[str, Field(pattern=r"^[a-z_]{1,40}$")]


class Document(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Hello(Document):
    version: str = Field(max_length=40)
    boot_id: str = Field(max_length=100)
    facts: dict[str, Any]


class Progress(Document):
    done: int = Field(ge=0)
    total: int = Field(ge=0)
    now: str = Field(max_length=200)


class Leased(Document):
    """Every call about a run carries the lease token of its claim."""

    token: int


class Renewal(Leased):
    progress: Progress | None = None


class LogPiece(Leased):
    seq: int = Field(ge=0)
    phase: str = Field(max_length=100)
    text: str = Field(max_length=1_000_000)


class Artifact(Document):
    digest: Digest
    bytes: int = Field(ge=0)


class BuildDocument(Document):
    side: Literal["head", "base"]
    sha: Sha
    succeeded: bool
    cached: bool
    seconds: Finite
    artifacts: dict[str, Artifact]
    recipe_digest: Digest
    error: str | None = None


class BuildReport(Leased):
    build: BuildDocument


class Failure(Leased):
    kind: Literal["transient", "permanent"]
    error: str = Field(min_length=1, max_length=20_000)


class BenchmarkRef(Document):
    name: str
    digest: Digest


class EnvironmentDocument(Document):
    digest: Digest
    series: dict[str, Any]
    recorded: dict[str, Any]


class TrialDocument(Document):
    trial: int = Field(ge=0)
    order: int = Field(ge=0)
    started_at: datetime
    seconds: Finite
    metrics: dict[MetricName, Finite] = Field(min_length=1)
    flags: list[Flag]
    driver: dict[str, Any]


class Result(Leased):
    """One measurement: one benchmark on one side of a run, all its trials."""

    schema_: Literal["speedtrack.result/1"] = Field(alias="schema")
    side: Literal["head", "base"]
    sha: Sha
    benchmark: BenchmarkRef
    environment: EnvironmentDocument
    artifacts: dict[str, Digest]
    trials: list[TrialDocument] = Field(min_length=1, max_length=1000)
