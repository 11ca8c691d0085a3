"""Suite files: TOML text -> checked Definition -> rows, with digests that cover what changes a number's meaning."""

import hashlib
import json
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from django.conf import settings
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from speedtrack.benchmarks.metrics import METRICS
from speedtrack.benchmarks.models import Benchmark, Suite
from speedtrack.projects.models import Project

PLACEHOLDER = re.compile(r"(?<!\$)\{[A-Za-z_]\w*(?::[^{}]*)?\}")  # not ${NAME}: that is the shell's
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,60}$")]


class DefinitionError(Exception):
    """The suite is wrong; the message names the file, the place, the cause and the remedy."""


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class BuildSection(Strict):
    """How the server is built: a shell command run in the fresh source tree, and the files it must leave."""

    command: str = Field(min_length=1)
    artifacts: list[str] = Field(min_length=1)
    timeout_s: int = Field(1800, ge=1, le=24 * 3600)
    environment: dict[str, str] = {}

    @field_validator("artifacts")
    @classmethod
    def inside_the_tree(cls, artifacts: list[str]) -> list[str]:
        for path in artifacts:
            if path.startswith("/") or ".." in Path(path).parts:
                raise ValueError(f"{path!r} must be a path inside the source tree")
        names = [Path(path).name for path in artifacts]
        if "" in names or len(set(names)) != len(names):
            raise ValueError("each artifact needs a file name of its own, for {artifact:NAME}")
        return artifacts


class ServerSection(Strict):
    """How the server is started and spoken to."""

    command: str = Field(min_length=1)
    protocol: Literal["resp"]
    ready_timeout_s: int = Field(20, ge=1, le=600)


class Workload(Strict):
    """What the driver does; the fields are its options (see runners/driver/README.md)."""

    test: Literal["ping", "set", "get", "incr"]
    clients: int = Field(50, ge=1, le=10_000)
    pipeline: int = Field(1, ge=1, le=10_000)
    keyspace: int = Field(1, ge=1, le=1_000_000_000)
    value_bytes: int = Field(3, ge=1, le=1 << 30)
    transport: Literal["unix", "tcp"] = "unix"
    prefill: bool = False
    warmup_s: float = Field(1.0, ge=0, le=600)
    duration_s: float = Field(2.0, gt=0, le=3600)


class Expectations(Strict):
    """What must be true of every trial, or it is no measurement."""

    hit_rate: float | None = Field(None, ge=0, le=1)


class BenchmarkSection(Strict):
    name: Name
    why: str = Field(min_length=1)
    workload: Workload
    expect: Expectations = Expectations()


class MetricSection(Strict):
    smallest_effect: float = Field(gt=0, lt=1)


class Definition(Strict):
    """A whole suite file."""

    name: Name
    trials: int = Field(5, ge=5, le=1000)
    build: BuildSection
    server: ServerSection
    benchmark: list[BenchmarkSection] = Field(min_length=1)
    metrics: dict[str, MetricSection] = {}

    @model_validator(mode="after")
    def consistent(self) -> "Definition":
        names = [b.name for b in self.benchmark]
        if twice := {n for n in names if names.count(n) > 1}:
            raise ValueError(f"benchmark names must differ: {', '.join(sorted(twice))} stands twice")
        if unknown := self.metrics.keys() - METRICS.keys():
            raise ValueError(f"no metric {', '.join(sorted(unknown))}: there are {', '.join(METRICS)}")
        known = {f"{{artifact:{Path(a).name}}}" for a in self.build.artifacts}
        if not any(word in self.server.command for word in known):
            raise ValueError(f"server.command must start an artifact: use {' or '.join(sorted(known))}")
        check_placeholders("build.command", self.build.command, {"{cores}"})
        check_placeholders("server.command", self.server.command, {"{port}", "{socket}", "{data}"} | known)
        return self


def check_placeholders(place: str, command: str, known: set[str]) -> None:
    for word in PLACEHOLDER.findall(command):
        if word not in known:
            raise ValueError(
                f"{place}: {word} is no placeholder; there are {', '.join(sorted(known))}"
                " (braces for the shell: put spaces inside them)"
            )


def parse(text: str, where: str) -> Definition:
    """A suite file's text, checked. Raises DefinitionError with one line per mistake."""
    try:
        return Definition.model_validate_json(json.dumps(tomllib.loads(text)))
    except tomllib.TOMLDecodeError as e:
        raise DefinitionError(f"{where}: not TOML: {e}") from e
    except (TypeError, ValueError) as e:
        if isinstance(e, ValidationError):
            raise DefinitionError("\n".join(explain(where, error) for error in e.errors())) from e
        raise DefinitionError(f"{where}: {e}") from e


def explain(where: str, error: Any) -> str:
    """One mistake as ``file: place: cause and remedy``."""
    place = ".".join(str(part) for part in error["loc"]) or "suite"
    if error["type"] == "extra_forbidden":
        return f"{where}: {place}: no such key; allowed here: {', '.join(allowed_keys(error['loc']))}"
    if error["type"] == "missing":
        return f"{where}: {place}: this key is missing"
    given = f" (given: {error['input']!r})" if not isinstance(error["input"], dict) else ""
    return f"{where}: {place}: {error['msg'].removeprefix('Value error, ')}{given}"


def allowed_keys(place: tuple[str | int, ...]) -> list[str]:
    sections: dict[str, type[BaseModel]] = {
        "build": BuildSection, "server": ServerSection, "benchmark": BenchmarkSection,
        "workload": Workload, "expect": Expectations, "metrics": MetricSection,
    }  # fmt: skip
    model: type[BaseModel] = Definition
    for part in place[:-1]:
        model = sections.get(str(part), model)
    return sorted(model.model_fields)


def load(name: str) -> Definition:
    """The suite of that name from the suites' directory. Raises DefinitionError naming the suites there are."""
    directory = Path(settings.SUITES)
    names = sorted(p.stem for p in directory.glob("*.toml"))
    if name not in names:
        raise DefinitionError(f"there is no suite {name!r} in {directory}: there are {', '.join(names) or 'none'}")
    try:
        text = (directory / f"{name}.toml").read_text("utf-8")
    except UnicodeDecodeError as e:
        raise DefinitionError(f"{name}.toml: not UTF-8: {e}: save it as UTF-8") from e
    return parse(text, f"{name}.toml")


def digest_of(value: Any) -> str:
    """``sha256:`` and the SHA-256 of the value as canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def meaning(definition: Definition, section: BenchmarkSection) -> dict[str, Any]:
    """All that changes what a benchmark's number means, and nothing else: not its ``why``, not its name.

    The driver's digest belongs to the Environment: a driver built on another machine is another binary, and the
    benchmark would then have another identity on each machine.
    """
    return {
        "workload": section.workload.model_dump(),
        "expect": section.expect.model_dump(),
        "server": definition.server.model_dump(exclude={"ready_timeout_s"}),
        "build": definition.build.model_dump(exclude={"timeout_s"}) | {"artifacts": sorted(definition.build.artifacts)},
    }


def store(project: Project, definition: Definition) -> tuple[Suite, list[Benchmark]]:
    """The rows of a suite and of its benchmarks, in the file's order, made where they are missing."""
    content = definition.model_dump()
    suite, _ = Suite.objects.get_or_create(
        digest=digest_of(content), defaults={"name": definition.name, "definition": content}
    )
    return suite, [store_benchmark(project, definition, section) for section in definition.benchmark]


def store_benchmark(project: Project, definition: Definition, section: BenchmarkSection) -> Benchmark:
    content = meaning(definition, section)
    benchmark, _ = Benchmark.objects.update_or_create(
        project=project,
        name=section.name,
        digest=digest_of(content),
        defaults={"definition": content, "why": section.why},
    )
    return benchmark
