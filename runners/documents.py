"""Documents of other programs, checked and typed: the job of the SpeedTrack server, and the checks of all documents."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from runners.errors import Permanent

JOB_SCHEMA = "speedtrack.job/3"
RESULT_SCHEMA = "speedtrack.result/1"
PROTOCOLS = ("resp", "memcached")
MOST_PROBLEMS = 3  # of one document that an error names
STRICT = ConfigDict(strict=True, allow_inf_nan=False)

Parsed = TypeVar("Parsed")
Slug = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,100}$")]  # may be a part of a path
Count = Annotated[int, Field(ge=1)]


def canonical(value: Any) -> bytes:
    """JSON with sorted keys, no white space, UTF-8: equal values give equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest_of(value: Any) -> str:
    """`sha256:` and the SHA-256 of the canonical JSON of a value."""
    return "sha256:" + hashlib.sha256(canonical(value)).hexdigest()


def parse(kind: type[Parsed], content: Any, document: str, path: str = "") -> Parsed:
    """The typed content of a document, or of the part of it at `path`. Unknown fields are ignored.

    Raises Permanent with the document, and the path and problem of each field that is missing or wrong.
    """
    try:
        return TypeAdapter(kind).validate_json(json.dumps(content))
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)[:MOST_PROBLEMS]
        raise Permanent(f"{document}: {'; '.join(_sentence(problem, path) for problem in problems)}") from error


def _sentence(problem: Any, path: str) -> str:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in problem["loc"])
    name = f"{path}{steps}".lstrip(".")
    field = f"the field {name}" if name else "the document"
    match problem["type"]:
        case "missing":
            return f"{field} is missing"
        case "value_error":
            return str(problem["msg"]).removeprefix("Value error, ")
        case _:
            return f"{field} {re.sub('^[A-Z][a-z]* should', 'must', problem['msg'])}"


def check_schema(content: Any, schema: str, document: str, remedy: str) -> None:
    """Raises Permanent with the remedy if the document has another schema."""
    actual = parse(_Envelope, content, document).schema
    if actual != schema:
        raise Permanent(f"{document}: schema is {actual!r}, this runner wants {schema!r}: {remedy}")


@dataclass(frozen=True, config=STRICT)
class _Envelope:
    schema: str


@dataclass(frozen=True, config=STRICT)
class Side:
    side: Literal["head", "base"]
    sha: Annotated[str, Field(pattern="^[0-9a-f]{40}$")]


@dataclass(frozen=True, config=STRICT)
class Layouts:
    """How the programs are linked in another order: by a linker, or by a command with `{layout}`.

    `trials`: what ordinary runs measure; pairs measure layouts.
    """

    linker: Literal["", "any", "mold", "lld", "gold", "bfd"] = ""
    link: str = ""
    trials: Literal["plain", "layouts"] = "plain"


@dataclass(frozen=True, config=STRICT)
class BuildRecipe:
    """How to build. A Docker build has an image, or the text of a Dockerfile; `trust`: whose ccache it uses."""

    command: str
    artifacts: tuple[str, ...]
    timeout_s: float
    environment: dict[str, str]
    kind: Literal["host", "docker"] = "host"
    image: str = ""
    dockerfile: str = ""
    dockerfile_network: bool = False
    trust: Slug = "default"
    layouts: Layouts | None = None


@dataclass(frozen=True, config=STRICT)
class ServerRecipe:
    command: str
    listen: Mapping[str, str]
    protocol: Literal["resp", "memcached"]
    ready_timeout_s: float
    cores: Count


@dataclass(frozen=True, config=STRICT)
class Benchmark:
    """One workload.

    `workload`: a phase of the driver's input, as in the suite; empty for a command. `inside`: functions of the server;
    instructions are counted inside the first one that the program has; if empty, none are counted.
    """

    name: str
    digest: str
    driver: Literal["speedbench", "redis-benchmark", "memtier", "command"]
    transport: Literal["unix", "tcp"]
    workload: Mapping[str, Any]
    command: str
    timeout_s: float
    instructions: Literal["", "callgrind"]
    target: Annotated[float, Field(gt=0)]
    inside: tuple[str, ...] = ()


@dataclass(frozen=True, config=STRICT)
class ProfileRequest:
    """The request to sample the server instead of measuring it."""

    frequency_hz: Count


@dataclass(frozen=True, config=STRICT)
class Job:
    """One claimed run: what to build, how to start it, what to measure, and its lease.

    `frozen`: artifact name -> digest; exactly these artifacts are measured. `counted`: the sides are not loaded in
    pairs; their instructions are counted, in `trials` processes each. `repeat_for`: the flags that void a trial of this
    run; None from an older server, for which all flags do. `metrics`: those that pairs are for, whose values are shown
    while the run goes on; empty from an older server, and for a run of one side.
    """

    run: int
    token: int
    attempt: int
    reason: str
    project: str
    seed: int
    trials: Count
    most_trials: Count
    lease_s: float
    deadline_s: float
    sides: Annotated[tuple[Side, ...], Field(min_length=1)]
    build: BuildRecipe
    server: ServerRecipe
    benchmarks: Annotated[tuple[Benchmark, ...], Field(min_length=1)]
    profile: ProfileRequest | None
    frozen: Mapping[str, str] | None = None
    repeat_for: frozenset[str] | None = None
    counted: bool = False
    metrics: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check_trials(self) -> "Job":
        if self.most_trials < self.trials:
            raise ValueError(f"most_trials is {self.most_trials}, below trials, which is {self.trials}")
        return self

    @property
    def has_layouts(self) -> bool:
        """Whether its trials measure random layouts."""
        layouts = self.build.layouts
        measures = self.profile is None and not self.counted and self.reason != "canary"
        return layouts is not None and measures and (len(self.sides) > 1 or layouts.trials == "layouts")

    def voiding(self, flags: Iterable[str]) -> frozenset[str]:
        """The flags among these that make a trial, or a slice of one, be measured again."""
        return frozenset(flags) if self.repeat_for is None else self.repeat_for.intersection(flags)


@dataclass(frozen=True, config=STRICT)
class RunKey:
    """The fields needed to refuse a job that cannot be read."""

    run: int
    token: int


def parse_job(document: Any) -> Job:
    """The typed job. Raises Permanent with the wrong fields, or with the schema that this runner needs."""
    check_schema(document, JOB_SCHEMA, "job", "install the runner that belongs to the server")
    return parse(Job, document, "job")
