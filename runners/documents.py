"""The job document of the server, checked and typed; and the small checks every document reader needs."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from runners.errors import Permanent

JOB_SCHEMA = "speedtrack.job/3"
RESULT_SCHEMA = "speedtrack.result/1"
PROTOCOLS = ("resp", "memcached")
TRANSPORTS = ("unix", "tcp")
BUILDS = ("host", "docker")
INSTRUCTIONS = ("", "callgrind")
DRIVERS = ("speedbench", "redis-benchmark", "memtier", "command")
SLUG = re.compile(r"[A-Za-z0-9_-]{1,100}")

type_names = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}


def canonical(value: Any) -> bytes:
    """JSON with sorted keys, no white space, UTF-8: equal values give equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest_of(value: Any) -> str:
    """`sha256:` and the SHA-256 of the canonical JSON of a value."""
    return "sha256:" + hashlib.sha256(canonical(value)).hexdigest()


class Fields:
    """Reads named, typed fields of one JSON object.

    Raises Permanent naming the document and the path of the field that is missing or of the wrong type.
    """

    def __init__(self, value: Any, document: str, path: str = "") -> None:
        if not isinstance(value, dict):
            raise Permanent(f"{document}: {path or 'the document'} is not an object")
        self.value: Mapping[str, Any] = value
        self.document = document
        self.path = path

    def _name(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def _get(self, name: str, *types: type) -> Any:
        if name not in self.value:
            raise Permanent(f"{self.document}: the field {self._name(name)} is missing")
        value = self.value[name]
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise Permanent(f"{self.document}: the field {self._name(name)} must be {type_names[types[-1]]}")
        return value

    def text(self, name: str) -> str:
        return str(self._get(name, str))

    def integer(self, name: str) -> int:
        return int(self._get(name, int))

    def count(self, name: str) -> int:
        number = self.integer(name)
        if number < 1:
            raise Permanent(f"{self.document}: the field {self._name(name)} must be at least 1")
        return number

    def number(self, name: str) -> float:
        return float(self._get(name, int, float))

    def positive(self, name: str) -> float:
        number = self.number(name)
        if not number > 0:
            raise Permanent(f"{self.document}: the field {self._name(name)} must be above 0")
        return number

    def truth(self, name: str) -> bool:
        return bool(self._get(name, bool))

    def one_of(self, name: str, allowed: tuple[str, ...]) -> str:
        word = self.text(name)
        if word not in allowed:
            raise Permanent(f"{self.document}: {self._name(name)} is {word!r}, this runner knows {', '.join(allowed)}")
        return word

    def slug(self, name: str) -> str:
        """A word that may stand in a path."""
        word = self.text(name)
        if not SLUG.fullmatch(word):
            raise Permanent(f"{self.document}: {self._name(name)} must be letters, digits, - and _ only")
        return word

    def child(self, name: str) -> "Fields":
        return Fields(self._get(name, dict), self.document, self._name(name))

    def child_or_none(self, name: str) -> "Fields | None":
        return None if name in self.value and self.value[name] is None else self.child(name)

    def children(self, name: str) -> Iterator["Fields"]:
        for index, item in enumerate(self._get(name, list)):
            yield Fields(item, self.document, f"{self._name(name)}[{index}]")

    def texts(self, name: str) -> tuple[str, ...]:
        items = self._get(name, list)
        if not all(isinstance(item, str) for item in items):
            raise Permanent(f"{self.document}: {self._name(name)} must hold strings only")
        return tuple(items)

    def text_map(self, name: str) -> dict[str, str]:
        child = self.child(name)
        return {key: child.text(key) for key in child.value}


@dataclass(frozen=True)
class Side:
    side: str
    sha: str


@dataclass(frozen=True)
class BuildRecipe:
    """How to build. A Docker build names an image, or the text of a Dockerfile; `trust`: the store of its ccache."""

    command: str
    artifacts: tuple[str, ...]
    timeout_s: float
    environment: dict[str, str]
    kind: str = "host"
    image: str = ""
    dockerfile: str = ""
    dockerfile_network: bool = False
    trust: str = "default"


@dataclass(frozen=True)
class ServerRecipe:
    command: str
    listen: Mapping[str, str]
    protocol: str
    ready_timeout_s: float
    cores: int


@dataclass(frozen=True)
class Benchmark:
    """One workload. `workload` is a phase of the driver's documents, as the suite wrote it; empty for a command."""

    name: str
    digest: str
    driver: str
    transport: str
    workload: Mapping[str, Any]
    command: str
    timeout_s: float
    instructions: str
    target: float


@dataclass(frozen=True)
class ProfileRequest:
    """Sample the server instead of measuring it."""

    frequency_hz: int


@dataclass(frozen=True)
class Job:
    """One claimed run: what to build, how to start it, what to measure, and the lease it is done under.

    `frozen`: artifact name -> digest: exactly these are measured, and nothing else.
    `repeat_for`: the flags that void what the run is to tell; None: a server that does not say it, so all do.
    """

    run: int
    token: int
    attempt: int
    reason: str
    project: str
    seed: int
    trials: int
    most_trials: int
    lease_s: float
    deadline_s: float
    sides: tuple[Side, ...]
    frozen: Mapping[str, str] | None
    build: BuildRecipe
    server: ServerRecipe
    benchmarks: tuple[Benchmark, ...]
    profile: ProfileRequest | None
    repeat_for: frozenset[str] | None

    def voiding(self, flags: Iterable[str]) -> frozenset[str]:
        """Those of these flags for which a trial, or a slice of one, is measured again."""
        return frozenset(flags) if self.repeat_for is None else self.repeat_for.intersection(flags)


def parse_job(document: Any) -> Job:
    """The typed job. Raises Permanent naming the field that is wrong, or the schema this runner wants."""
    fields = Fields(document, "job")
    schema = fields.text("schema")
    if schema != JOB_SCHEMA:
        raise Permanent(
            f"job: schema is {schema!r}, this runner wants {JOB_SCHEMA!r}: install the runner that "
            "belongs to the server"
        )
    job = Job(
        run=fields.integer("run"),
        token=fields.integer("token"),
        attempt=fields.integer("attempt"),
        reason=fields.text("reason"),
        project=fields.text("project"),
        seed=fields.integer("seed"),
        trials=fields.count("trials"),
        most_trials=fields.count("most_trials"),
        lease_s=fields.number("lease_s"),
        deadline_s=fields.number("deadline_s"),
        sides=tuple(_side(side) for side in fields.children("sides")),
        frozen=fields.text_map("frozen") if fields.value.get("frozen") is not None else None,
        build=_build(fields.child("build")),
        server=_server(fields.child("server")),
        benchmarks=tuple(_benchmark(one) for one in fields.children("benchmarks")),
        profile=_profile(fields.child_or_none("profile")),
        repeat_for=frozenset(fields.texts("repeat_for")) if "repeat_for" in fields.value else None,
    )
    if not job.sides or not job.benchmarks:
        raise Permanent("job: sides and benchmarks must not be empty")
    if job.most_trials < job.trials:
        raise Permanent(f"job: most_trials is {job.most_trials}, below trials, which is {job.trials}")
    return job


def _side(fields: Fields) -> Side:
    sha = fields.text("sha")
    if len(sha) != 40 or set(sha) - set("0123456789abcdef"):
        raise Permanent(f"job: {fields.path}.sha must be 40 lower-case hex digits")
    return Side(fields.one_of("side", ("head", "base")), sha)


def _build(fields: Fields) -> BuildRecipe:
    return BuildRecipe(
        command=fields.text("command"),
        artifacts=fields.texts("artifacts"),
        timeout_s=fields.number("timeout_s"),
        environment=fields.text_map("environment"),
        kind=fields.one_of("kind", BUILDS),
        image=fields.text("image"),
        dockerfile=fields.text("dockerfile"),
        dockerfile_network=fields.truth("dockerfile_network"),
        trust=fields.slug("trust"),
    )


def _profile(fields: Fields | None) -> ProfileRequest | None:
    return None if fields is None else ProfileRequest(fields.count("frequency_hz"))


def _server(fields: Fields) -> ServerRecipe:
    return ServerRecipe(
        fields.text("command"),
        fields.text_map("listen"),
        fields.one_of("protocol", PROTOCOLS),
        fields.number("ready_timeout_s"),
        fields.count("cores"),
    )


def _benchmark(fields: Fields) -> Benchmark:
    return Benchmark(
        name=fields.text("name"),
        digest=fields.text("digest"),
        driver=fields.one_of("driver", DRIVERS),
        transport=fields.one_of("transport", TRANSPORTS),
        workload=fields.child("workload").value,
        command=fields.text("command"),
        timeout_s=fields.number("timeout_s"),
        instructions=fields.one_of("instructions", INSTRUCTIONS),
        target=fields.positive("target"),
    )
