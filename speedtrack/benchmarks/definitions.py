"""Suite files: TOML text -> checked Definition -> rows, with digests that cover what changes a number's meaning."""

import hashlib
import json
import re
import shlex
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from django.conf import settings
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from speedtrack.benchmarks import external
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.benchmarks.models import Benchmark, Suite
from speedtrack.benchmarks.workloads import (
    FORMS,
    Expectations,
    Keys,
    Name,
    Probe,
    RateOf,
    Repeated,
    Setup,
    Strict,
    Values,
    Weighted,
    Workload,
)
from speedtrack.projects.models import Project

USUAL_CAP = 15  # trials; the interval of five is halved by about as many
BUILD = "build"  # the benchmark that stands for building the server
Content = dict[str, Any]  # a section or a whole suite as JSON, as it is stored
PLACEHOLDER = re.compile(r"(?<!\$)\{[A-Za-z_]\w*(?::[^{}]*)?\}")  # not ${NAME}: that is the shell's


class DefinitionError(Exception):
    """The suite is wrong; the message names the file, the place, the cause and the remedy."""


class BuildSection(Strict):
    """How the server is built: a shell command run in the fresh source tree, and the files it must leave.

    ``kind`` = "docker": in a container of ``image``, or of an image made from ``dockerfile`` (its text; no files go in,
    and its steps have no network without ``dockerfile_network``). ``trust``: who shares a compiler cache; empty: the
    runs of the project.
    """

    command: str = Field(min_length=1)
    artifacts: list[str] = Field(min_length=1)
    timeout_s: int = Field(1800, ge=1, le=24 * 3600)
    environment: dict[str, str] = Field({})
    kind: Literal["host", "docker"] = "host"
    image: str = Field("", pattern=r"^[^\s-]?\S*$")
    dockerfile: str = ""
    dockerfile_network: bool = False
    trust: str = Field("", pattern=r"^[A-Za-z0-9_-]{0,100}$")

    @model_validator(mode="after")
    def one_image(self) -> "BuildSection":
        given = bool(self.image) + bool(self.dockerfile)
        if given != (self.kind == "docker"):
            raise ValueError('kind = "docker" needs either image or dockerfile; kind = "host" takes neither')
        if self.dockerfile_network and not self.dockerfile:
            raise ValueError("dockerfile_network speaks of the steps of a dockerfile, and there is none")
        return self

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
    """How the server is started and spoken to. ``listen``: words for {listen} where it cannot serve both transports.

    ``cores``: physical cores it is given, for servers of several threads.
    """

    command: str = Field(min_length=1)
    listen: dict[Literal["tcp", "unix"], str] = Field({})
    protocol: Literal["resp", "memcached"]
    ready_timeout_s: int = Field(20, ge=1, le=600)
    cores: int = Field(1, ge=1, le=256)


class BenchmarkSection(Strict):
    """One benchmark. ``extended``: left out unless it is asked for by name or with all the others.

    ``target``: half the width of the median's 95% interval, as a share of it, at which no more trials are needed.
    """

    name: Name
    why: str = Field(min_length=1)
    extended: bool = False
    driver: Literal["speedbench", "redis-benchmark", "memtier", "command"] = "speedbench"
    workload: Workload | None = None
    command: str | None = Field(None, min_length=1)
    timeout_s: int = Field(300, ge=1, le=3600)
    instructions: Literal["callgrind"] | None = None
    target: float = Field(0.01, gt=0, le=1, allow_inf_nan=False)

    @model_validator(mode="after")
    def consistent(self) -> "BenchmarkSection":
        own = self.driver == "command"
        if own != (self.command is not None) or own == (self.workload is not None):
            raise ValueError('driver = "command" needs a command and no workload; every other driver the reverse')
        if self.command:
            check_placeholders("command", self.command, {"{host}", "{port}", "{socket}", "{output}"})
            try:
                shlex.split(self.command)
            except ValueError as e:
                raise ValueError(f"command cannot be split: {e}: check its quotes") from e
            if "{output}" not in self.command or ("{port}" in self.command) == ("{socket}" in self.command):
                raise ValueError("command needs {output}, and either {host} and {port} or {socket}")
        if self.instructions and self.driver != "speedbench":
            raise ValueError('instructions = "callgrind" needs the native driver: it sends a number of requests')
        if self.workload and self.driver != "speedbench":
            external.check(self.driver, self.workload)
        return self

    @property
    def transport(self) -> str:
        if self.workload:
            return self.workload.transport
        return "tcp" if self.command and "{port}" in self.command else "unix"

    def work(self) -> dict[str, Any]:
        """What a job tells the runner of it (docs/result-format.md)."""
        workload = self.workload.phase() if self.workload else {}
        return {
            "driver": self.driver,
            "transport": self.transport,
            "workload": workload,
            "command": self.command or "",
            "timeout_s": self.timeout_s,
            "instructions": self.instructions or "",
            "target": self.target,
        }

    @property
    def rate_of(self) -> str | None:
        """The benchmark whose first throughput on a machine sets the rate of this one there."""
        rate = self.workload.rate if self.workload else None
        return rate.of if isinstance(rate, RateOf) else None


class MetricSection(Strict):
    smallest_effect: float = Field(gt=0, lt=1)


class Definition(Strict):
    """A whole suite file."""

    name: Name
    trials: int = Field(5, ge=5, le=1000)
    most_trials: int | None = Field(None, ge=5, le=1000)
    build: BuildSection
    server: ServerSection
    benchmark: list[BenchmarkSection] = Field(min_length=1)
    metrics: dict[str, MetricSection] = Field({})

    @model_validator(mode="after")
    def consistent(self) -> "Definition":
        if self.most_trials and self.most_trials < self.trials:
            raise ValueError(f"most_trials is below trials, which is {self.trials}: raise it")
        names = [b.name for b in self.benchmark]
        if twice := {n for n in names if names.count(n) > 1}:
            raise ValueError(f"benchmark names must differ: {', '.join(sorted(twice))} stands twice")
        if BUILD in names:
            raise ValueError(f"a benchmark cannot be named {BUILD}: that is the name of the build's own series")
        if all(b.extended for b in self.benchmark):
            raise ValueError("every benchmark is extended, so none would be measured: leave that out of some")
        if unknown := self.metrics.keys() - METRICS.keys():
            raise ValueError(f"no metric {', '.join(sorted(unknown))}: there are {', '.join(METRICS)}")
        known = {f"{{artifact:{Path(a).name}}}" for a in self.build.artifacts}
        if not any(word in self.server.command for word in known):
            raise ValueError(f"server.command must start an artifact: use {' or '.join(sorted(known))}")
        check_placeholders("build.command", self.build.command, {"{cores}"})
        places = {"{port}", "{socket}"}
        listen = {"{listen}"} if self.server.listen else set()
        check_placeholders("server.command", self.server.command, {"{data}"} | places | known | listen)
        for transport, words in self.server.listen.items():
            check_placeholders(f"server.listen.{transport}", words, places)
        for section in self.benchmark:
            try:
                self.check_benchmark(section)
            except ValueError as e:
                raise ValueError(f"benchmark {section.name}: {e}") from e
        return self

    @property
    def cap(self) -> int:
        """Trials of a benchmark at most, however far its interval is from the target."""
        return self.most_trials or max(self.trials, USUAL_CAP)

    def check_benchmark(self, section: BenchmarkSection) -> None:
        """Raises ValueError for what does not fit the server or the other benchmarks."""
        if self.server.listen and section.transport not in self.server.listen:
            raise ValueError(f"server.listen has no words for transport {section.transport!r}: add them")
        if section.workload and section.driver == "speedbench":
            section.workload.check_protocol(self.server.protocol)
        if section.driver == "redis-benchmark" and self.server.protocol != "resp":
            raise ValueError('driver = "redis-benchmark" speaks resp: use speedbench or memtier')
        if section.rate_of:
            self.reference_of(section)

    def reference_of(self, section: BenchmarkSection) -> BenchmarkSection:
        """The benchmark whose throughput sets this one's rate. Raises ValueError if it cannot."""
        other = next((one for one in self.benchmark if one.name == section.rate_of), None)
        if other is None:
            raise ValueError(f"rate.of: there is no benchmark {section.rate_of!r}: name one of this suite")
        if other.workload and other.workload.mode == "open":
            raise ValueError(f"rate.of: {other.name} has a rate itself: name one that finds out what the server can do")
        if other.extended and not section.extended:
            raise ValueError(f"rate.of: {other.name} is extended: then this one must be, too")
        return other


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
    place = ".".join(str(part) for part in error["loc"] if part not in FORMS) or "suite"
    if error["type"] == "extra_forbidden":
        return f"{where}: {place}: no such key; allowed here: {', '.join(allowed_keys(error['loc']))}"
    if error["type"] == "missing":
        return f"{where}: {place}: this key is missing"
    given = f" (given: {error['input']!r})" if not isinstance(error["input"], dict) else ""
    return f"{where}: {place}: {error['msg'].removeprefix('Value error, ')}{given}"


SECTIONS: dict[str, type[BaseModel]] = {
    "build": BuildSection,
    "server": ServerSection,
    "benchmark": BenchmarkSection,
    "metrics": MetricSection,
    "workload": Workload,
    "commands": Weighted,
    "sequence": Repeated,
    "keys": Keys,
    "values": Values,
    "expect": Expectations,
    "rate": RateOf,
    "probe": Probe,
    "setup": Setup,
}


def allowed_keys(place: tuple[str | int, ...]) -> list[str]:
    model: type[BaseModel] = Definition
    for part in place[:-1]:
        model = SECTIONS.get(str(part), model)
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


def set_digest(benchmarks: Iterable[Benchmark]) -> str:
    """One digest over a set of benchmarks, whatever their order."""
    return digest_of(sorted(b.digest + b.name for b in benchmarks))


#: By section, the keys that a digest tells of even where they have their default: those it told of before this table
#: was made. Every other key is left out while it has its default, so that a key that is added later changes no digest
#: that is stored. Nothing is ever added here, and no default is ever changed.
ALWAYS_TOLD = {
    "build": {"environment"},
    "server": {"listen"},
    "benchmark": {"driver"},
    "workload": {"transport", "clients", "pipeline", "window", "keys", "values", "prefill", "expect", "verify", "mode"},
    "commands": {"weight"},
    "sequence": {"times"},
    "setup": {"times"},
    "keys": {"count", "distribution"},
    "probe": {"clients", "rate"},
}


def meaning(content: Content, section: Content) -> Content:
    """All that changes what a benchmark's number means, and nothing else: not its ``why``, not its name.

    ``content`` is a whole definition as it is stored, by whatever version, and ``section`` one of its benchmarks. The
    driver's digest belongs to the Environment: a driver built on another machine is another binary, and the benchmark
    would then have another identity on each machine.
    """
    own: Content = {key: section[key] for key in ("driver", "workload", "command") if key in section}
    told = canonical("benchmark", own)
    if isinstance(rate := told.get("workload", {}).get("rate"), dict):
        reference = next(one for one in content["benchmark"] if one["name"] == rate["of"])
        told["rate_of"] = digest_of(meaning(content, reference))
    server = {key: value for key, value in content["server"].items() if key != "ready_timeout_s"}
    return told | {"server": canonical("server", server), "build": build_meaning(content)}


def build_meaning(content: Content) -> Content:
    """What of a stored definition's build section changes what is measured."""
    build = {key: value for key, value in content["build"].items() if key not in ("timeout_s", "trust")}
    return canonical("build", build | {"artifacts": sorted(build["artifacts"])})


def canonical(place: str, content: Content) -> Content:
    """A section as its digest tells of it: without what is not given, or has a default not in ALWAYS_TOLD."""
    defaults = defaults_of(SECTIONS[place])
    always = ALWAYS_TOLD.get(place, set())
    left = {
        key: value
        for key, value in content.items()
        if value is not None and (key in always or key not in defaults or value != defaults[key])
    }
    return {key: canonical_value(key, value) for key, value in left.items()}


def canonical_value(key: str, value: Any) -> Any:
    """The value of a key; of a section that lies in it, or of each of a list of them, what its digest tells."""
    if isinstance(value, list):
        return [canonical_value(key, one) for one in value]
    return canonical(key, value) if key in SECTIONS and isinstance(value, dict) else value


def defaults_of(section: type[BaseModel]) -> Content:
    """The defaults of a section's keys, as they are stored."""
    found = {name: field.default for name, field in section.model_fields.items() if not field.is_required()}
    return {name: value.model_dump() if isinstance(value, BaseModel) else value for name, value in found.items()}


def digests(content: Content) -> dict[str, str]:
    """The digest of each benchmark of a stored definition by its name, in the suite's order."""
    return {section["name"]: digest_of(meaning(content, section)) for section in content["benchmark"]}


def of_suite(suite: Suite) -> Definition:
    """A stored suite as the definition it was; keys added since have their defaults. Raises DefinitionError."""
    try:
        return Definition.model_validate(suite.definition)
    except ValidationError as e:
        mistakes = "; ".join(explain(f"suite {suite}", error) for error in e.errors())
        raise DefinitionError(
            f"another version of SpeedTrack stored this suite, and this one cannot read it: {mistakes}: "
            "correct the suite file and queue the commit again (`manage.py measure`)"
        ) from e


def usual(definition: Definition, benchmarks: list[Benchmark]) -> list[Benchmark]:
    """Those of a suite's benchmarks that are measured without being asked for."""
    extended = {section.name for section in definition.benchmark if section.extended}
    return [benchmark for benchmark in benchmarks if benchmark.name not in extended]


def store(project: Project, definition: Definition) -> tuple[Suite, list[Benchmark]]:
    """The rows of a suite and of its benchmarks, in the file's order, made where they are missing."""
    content = definition.model_dump()
    suite, _ = Suite.objects.get_or_create(
        digest=digest_of(content), defaults={"name": definition.name, "definition": content}
    )
    return suite, [store_benchmark(project, content, section) for section in content["benchmark"]]


def store_benchmark(project: Project, content: Content, section: Content) -> Benchmark:
    told = meaning(content, section)
    benchmark, _ = Benchmark.objects.update_or_create(
        project=project,
        name=section["name"],
        digest=digest_of(told),
        defaults={"definition": told, "why": section["why"]},
    )
    return benchmark
