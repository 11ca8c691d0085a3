"""The content of a suite file: the models of its sections, with the rules between them."""

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, Discriminator, Field, Tag, ValidationError, field_validator, model_validator

from speedtrack.benchmarks import external
from speedtrack.benchmarks.ladders import Ladder, Rung, at_rung, rungs_of
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.benchmarks.workloads import (
    Expectations,
    Keys,
    Name,
    Probe,
    RateOf,
    Repeated,
    Replay,
    Setup,
    Strict,
    Values,
    Weighted,
    Workload,
    form_of,
)
from speedtrack.ground.texts.text import listed

USUAL_CAP = 15  # trials; the interval of five is halved by about as many
GROUP = r"^([a-z0-9][a-z0-9 -]{0,29})?$"
IMAGE, TRUST, FUNCTION = r"^[^\s-]?\S*$", r"^[A-Za-z0-9_-]{0,100}$", r"^[A-Za-z_][A-Za-z0-9_.$]{0,499}$"
NOT_COUNTABLE = "instructions needs the native driver, which sends the same requests again, and no recording"
BUILD = "build"  # name of the benchmark of the build's own series
Content = dict[str, Any]  # a section or a whole suite as stored JSON
PLACEHOLDER = re.compile(r"(?<!\$)\{[A-Za-z_]\w*(?::[^{}]*)?\}")  # not ${NAME}, which belongs to the shell
KNOWN_OPTION = re.compile(r"\{known:-{1,2}[\w-]{3,}(?: [^{}]*)?\}")  # for programs that contain its name


class Mistake(NamedTuple):
    """A mistake in a suite, with the line of its text; None if it concerns the whole suite."""

    line: int | None
    words: str


class DefinitionError(Exception):
    """The suite is wrong; the message names file, position, cause and remedy.

    ``mistakes``: the first single mistakes with their lines; ``count``: of all.
    """

    def __init__(self, message: str, mistakes: Sequence[Mistake] = (), count: int = 1) -> None:
        super().__init__(message)
        self.mistakes = mistakes or [Mistake(None, message)]
        self.count = count


class LayoutsSection(Strict):
    """How the programs are linked again with their functions in a random order.

    Either by a ``linker``, for which functions get sections of their own, or by a shell command, ``link``, in the tree
    of the build, where ``{layout}`` is a number. Pairs measure layouts; ordinary runs do if ``trials`` says so.
    """

    linker: Literal["", "any", "mold", "lld", "gold", "bfd"] = ""
    link: str = ""
    trials: Literal["plain", "layouts"] = "plain"

    @model_validator(mode="after")
    def one_way(self) -> "LayoutsSection":
        if bool(self.linker) == bool(self.link):
            raise ValueError('layouts needs either linker, such as linker = "any", or link: a shell command')
        check_placeholders("layouts.link", self.link, {"{layout}", "{cores}"})
        if self.link and "{layout}" not in self.link:
            raise ValueError("layouts.link needs {layout}: the number that decides on the order of the functions")
        return self


class BuildSection(Strict):
    """How to build the server: a shell command for a fresh source tree, and the files that it must produce.

    ``kind`` = "docker": in a container of ``image``, or of an image built from ``dockerfile`` (its text; the build
    context is empty, and its steps only have a network with ``dockerfile_network``). ``trust``: runs with the same
    value share a compiler cache; empty: the runs of the project.
    """

    command: str = Field(min_length=1)
    artifacts: list[str] = Field(min_length=1)
    timeout_s: int = Field(1800, ge=1, le=24 * 3600)
    environment: dict[str, str] = Field({})
    kind: Literal["host", "docker"] = "host"
    image: str = Field("", pattern=IMAGE)
    dockerfile: str = ""
    dockerfile_network: bool = False
    trust: str = Field("", pattern=TRUST)
    layouts: LayoutsSection | None = None

    @model_validator(mode="after")
    def one_image(self) -> "BuildSection":
        images = bool(self.image) + bool(self.dockerfile)
        if images != (self.kind == "docker"):
            raise ValueError('kind = "docker" needs either image or dockerfile; kind = "host" takes neither')
        if self.dockerfile_network and not self.dockerfile:
            raise ValueError("dockerfile_network is for the steps of a dockerfile: add one, or remove it")
        return self

    @field_validator("artifacts")
    @classmethod
    def inside_the_tree(cls, artifacts: list[str]) -> list[str]:
        for path in artifacts:
            if path.startswith("/") or ".." in Path(path).parts:
                raise ValueError(f"{path!r} must be a path inside the source tree")
        names = [Path(path).name for path in artifacts]
        if "" in names or len(set(names)) != len(names):
            raise ValueError("artifacts need different file names, for {artifact:NAME}")
        return artifacts


class ServerSection(Strict):
    """How to start the server and talk to it.

    ``listen``: the text for {listen} per transport, for servers that cannot serve both at once. ``cores``: the number
    of physical cores for a multithreaded server.
    """

    command: str = Field(min_length=1)
    listen: dict[Literal["tcp", "unix"], str] = Field({})
    protocol: Literal["resp", "memcached"]
    ready_timeout_s: int = Field(20, ge=1, le=600)
    cores: int = Field(1, ge=1, le=256)


#: A function by its name in the program's symbol table; callgrind would take `*` and `?` for patterns.
Function = Annotated[str, Field(pattern=FUNCTION)]


class CountedFunctions(Strict):
    """The functions of the server inside of which instructions are counted: the first that its program contains."""

    inside: list[Function] = Field(min_length=1, max_length=20)


class CountedBenchmarks(CountedFunctions):
    """The functions inside of which instructions are counted, for several benchmarks of a suite.

    Without `benchmarks`, for all that are measured of every commit and that the native driver loads.
    """

    benchmarks: list[Name] | None = Field(None, min_length=1)


Instructions = Annotated[
    Annotated[Literal["callgrind"], Tag("single")] | Annotated[CountedFunctions, Tag("table")], Discriminator(form_of)
]


class BenchmarkSection(Strict):
    """One benchmark.

    ``extended``: it is measured only if it is named, or if all extended benchmarks are requested. ``group``: the
    heading under which pages show it (groups.py); empty: by its name. ``ladder``: the section defines one extended
    benchmark per value of a setting, each with its ``rung``. ``target``: no more trials are needed once the half-width
    of the median's 95% interval is at most this share of the median.
    """

    name: Name
    why: str = Field(min_length=1)
    group: str = Field("", pattern=GROUP)
    extended: bool = False
    driver: Literal["speedbench", "redis-benchmark", "memtier", "command"] = "speedbench"
    workload: Workload | None = None
    command: str | None = Field(None, min_length=1)
    timeout_s: int = Field(300, ge=1, le=3600)
    instructions: Instructions | None = None
    target: float = Field(0.01, gt=0, le=1, allow_inf_nan=False)
    ladder: Ladder | None = None
    rung: Rung | None = None

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
        if self.instructions and not self.is_countable:
            raise ValueError(NOT_COUNTABLE)
        if self.ladder and not self.workload:
            raise ValueError("a ladder changes a setting of the workload: give one, or remove the ladder")
        if self.workload and self.driver != "speedbench":
            external.check_external_driver(self.driver, self.workload)
        return self

    def rungs(self) -> list["BenchmarkSection"]:
        """The benchmarks that this section defines; without a ladder, only itself.

        Raises ValueError if one is not valid.
        """
        if self.ladder is None or self.workload is None:
            return [self]
        return [self.rung_named(name, rung) for name, rung in rungs_of(self.name, self.ladder)]

    def rung_named(self, name: str, rung: Rung) -> "BenchmarkSection":
        content = self.model_dump(exclude={"ladder"})
        content |= {"name": name, "extended": True, "rung": rung, "workload": at_rung(content["workload"], rung)}
        try:
            return BenchmarkSection.model_validate(content)
        except ValidationError as e:
            mistake = e.errors()[0]
            location = ".".join(str(key) for key in mistake["loc"])
            raise ValueError(f"ladder: {name}: {location}: {mistake['msg']}") from None

    @property
    def names_written(self) -> list[str]:
        """The names that no other section of the suite may use: its own, and those of its ladder's rungs."""
        return [self.name, *(rung.name for rung in self.rungs() if rung is not self)]

    @property
    def names(self) -> set[str]:
        """The names under which lists of benchmarks may have it: its name, or that of its ladder."""
        return {self.name, self.rung.ladder} if self.rung else {self.name}

    @property
    def is_countable(self) -> bool:
        """Whether one connection can send its requests in turn, again and again."""
        return self.driver == "speedbench" and self.workload is not None and self.workload.replay is None

    @property
    def transport(self) -> str:
        if self.workload:
            return self.workload.transport
        return "tcp" if self.command and "{port}" in self.command else "unix"

    def work(self) -> dict[str, Any]:
        """The benchmark's part of a job (docs/result-format.md)."""
        workload = self.workload.phase() if self.workload else {}
        return {
            "driver": self.driver,
            "transport": self.transport,
            "workload": workload,
            "command": self.command or "",
            "timeout_s": self.timeout_s,
            "instructions": "callgrind" if self.instructions == "callgrind" else "",
            "target": self.target,
        }

    @property
    def rate_of(self) -> str | None:
        """The name of the benchmark whose first throughput on a machine determines this one's rate there."""
        rate = self.workload.rate if self.workload else None
        return rate.of if isinstance(rate, RateOf) else None


def check_names(names: list[str]) -> None:
    """Raise ValueError if two benchmarks, ladders or rungs have the same name."""
    if twice := sorted(name for name, times in Counter(names).items() if times > 1):
        raise ValueError(f"benchmarks, ladders and rungs need different names: {listed(twice)} occurs twice")
    if BUILD in names:
        raise ValueError(f"a benchmark cannot be named {BUILD}: the build's own series have that name")


class MetricSection(Strict):
    smallest_effect: float = Field(gt=0, lt=1)


class SettleSection(Strict):
    """``budget_s``: the seconds for which a suspicion may be measured again before it is left unsettled."""

    budget_s: int = Field(ge=1, le=7 * 24 * 3600)


class Definition(Strict):
    """A whole suite file."""

    name: Name
    trials: int = Field(5, ge=5, le=1000)
    most_trials: int | None = Field(None, ge=5, le=1000)
    build: BuildSection
    server: ServerSection
    benchmark: list[BenchmarkSection] = Field(min_length=1)
    metrics: dict[str, MetricSection] = Field({})
    instructions: CountedBenchmarks | None = None
    settle: SettleSection | None = None

    @field_validator("benchmark")
    @classmethod
    def with_rungs(cls, sections: list[BenchmarkSection]) -> list[BenchmarkSection]:
        check_names([name for section in sections for name in section.names_written])
        return [rung for section in sections for rung in section.rungs()]

    @model_validator(mode="after")
    def consistent(self) -> "Definition":
        if self.most_trials and self.most_trials < self.trials:
            raise ValueError(f"most_trials is below trials, which is {self.trials}: raise it")
        if all(b.extended for b in self.benchmark):
            raise ValueError("every benchmark is extended, so none would be measured: remove that from some")
        if unknown := self.metrics.keys() - METRICS.keys():
            raise ValueError(f"metrics: no metric {listed(sorted(unknown))}: there are {', '.join(METRICS)}")
        known_names = set().union(*(b.names for b in self.benchmark))
        if unknown := set(self.instructions.benchmarks or [] if self.instructions else []) - known_names:
            raise ValueError(f"instructions.benchmarks: there is no benchmark {listed(sorted(unknown))}")
        artifact_names = {f"{{artifact:{Path(a).name}}}" for a in self.build.artifacts}
        if not any(placeholder in self.server.command for placeholder in artifact_names):
            raise ValueError(f"server.command must start an artifact: use {' or '.join(sorted(artifact_names))}")
        check_placeholders("build.command", self.build.command, {"{cores}"})
        common = {"{port}", "{socket}", "{clients}"}
        listen = {"{listen}"} if self.server.listen else set()
        command = KNOWN_OPTION.sub("", self.server.command)
        check_placeholders("server.command", command, {"{data}", "{known:--OPTION}"} | common | artifact_names | listen)
        for transport, arguments in self.server.listen.items():
            check_placeholders(f"server.listen.{transport}", arguments, common)
        for section in self.benchmark:
            try:
                self.check_benchmark(section)
            except ValueError as e:
                raise ValueError(f"benchmark {section.name}: {e}") from e
        return self

    @property
    def cap(self) -> int:
        """The largest number of trials of a benchmark, even if its interval misses the target."""
        return self.most_trials or max(self.trials, USUAL_CAP)

    def functions_of(self, section: BenchmarkSection) -> list[str]:
        """The functions inside of which a benchmark's instructions are counted: its section's, else the suite's."""
        if isinstance(section.instructions, CountedFunctions):
            return section.instructions.inside
        if self.instructions is None:
            return []
        if self.instructions.benchmarks is None:
            is_counted = section.is_countable and not section.extended
        else:
            is_counted = not section.names.isdisjoint(self.instructions.benchmarks)
        return self.instructions.inside if is_counted else []

    def check_benchmark(self, section: BenchmarkSection) -> None:
        """Raise ValueError if a benchmark does not fit the server or the other benchmarks."""
        if self.server.listen and section.transport not in self.server.listen:
            raise ValueError(f"server.listen has no text for transport {section.transport!r}: add it")
        if section.workload and section.driver == "speedbench":
            section.workload.check_protocol(self.server.protocol)
        if section.driver == "redis-benchmark" and self.server.protocol != "resp":
            raise ValueError('driver = "redis-benchmark" supports only resp: use speedbench or memtier')
        if not section.is_countable and self.functions_of(section):
            raise ValueError(NOT_COUNTABLE)
        if section.rate_of:
            self.reference_of(section)

    def reference_of(self, section: BenchmarkSection) -> BenchmarkSection:
        """The benchmark whose throughput determines this one's rate. Raises ValueError if there is no suitable one."""
        reference = next((benchmark for benchmark in self.benchmark if benchmark.name == section.rate_of), None)
        if reference is None:
            raise ValueError(f"rate.of: there is no benchmark {section.rate_of!r}: name one of this suite")
        if reference.workload and reference.workload.has_rate:
            raise ValueError(f"rate.of: {reference.name} has a rate itself: name a benchmark without a rate")
        if reference.extended and not section.extended:
            raise ValueError(f"rate.of: {reference.name} is extended: then this one must be extended, too")
        return reference


def check_placeholders(key: str, command: str, placeholders: set[str]) -> None:
    for placeholder in PLACEHOLDER.findall(command):
        if placeholder not in placeholders:
            raise ValueError(
                f"{key}: {placeholder} is not a placeholder; there are {', '.join(sorted(placeholders))}"
                " (for braces of the shell, put spaces inside them)"
            )


SECTIONS: dict[str, type[BaseModel]] = {
    "build": BuildSection,
    "layouts": LayoutsSection,
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
    "replay": Replay,
    "ladder": Ladder,
    "rung": Rung,
    "setup": Setup,
    "instructions": CountedBenchmarks,
    "settle": SettleSection,
}
