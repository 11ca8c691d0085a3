"""The workloads of suites: phases of the load driver's workload documents (runners/driver/README.md), validated.

The driver validates them again; both are tested with runners/tests/golden/workloads.json. Modes that do not measure the
speed of one server under one load (search, sweep, idle, churn, ...) are not available to suites.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

#: The named tests of each protocol; `get:9+set:1` mixes some of them.
TESTS = {
    "resp": ("ping", "set", "get", "incr"),
    "memcached": (
        "mn",
        "ping",
        "version",
        "set",
        "get",
        "get_miss",
        "gets_10",
        "gets_100",
        "add",
        "replace",
        "append",
        "cas",
        "incr",
        "touch",
        "gat",
        "delete",
        "ms",
        "mg",
        "mg_quiet",
        "md",
        "ma",
        "get_10",
        "get_100",
        "gets",
        "gat_10",
        "gat_100",
        "gats",
        "gats_10",
        "gats_100",
        "prepend",
        "decr",
        "ms_base64",
        "mg_base64",
        "ms_quiet",
        "mg_flags",
        "mg_touch",
        "ma_value",
    ),
}


#: Tags for the forms of a key that has several; they occur in the locations of pydantic's errors.
FORMS = ("single", "list", "table", "word")
#: A command line, split like redis-cli does: quotes may begin anywhere, and must end before a space.
REQUEST = re.compile(r"""\s*(?:(?:[^\s"']|"(?:\\.|[^"\\])*"(?=\s|$)|'(?:\\'|[^'])*'(?=\s|$))+\s*)+""")


def form_of(value: Any) -> str:
    return "list" if isinstance(value, list) else "table" if isinstance(value, dict | BaseModel) else "single"


def speed_form(value: Any) -> str:
    return "word" if isinstance(value, str) else "single"


def check_request_text(request: str) -> str:
    if not REQUEST.fullmatch(request):
        raise ValueError("this is not a command: begin it with a name, and close its quotes before a space")
    return request


def check_request_words(request: list[str]) -> list[str]:
    if not request[0]:
        raise ValueError("the first word is the name of a command: it must not be empty")
    return request


def check_weighted_size(pair: list[int]) -> list[int]:
    if not 1 <= pair[1] <= 1_000_000:
        raise ValueError("this is [bytes, weight], with a weight of 1 to 1000000")
    return pair


def check_rising(pair: list[Any]) -> list[Any]:
    if pair[0] > pair[1]:
        raise ValueError("the smaller number must come first")
    return pair


#: The driver judges ten slices of 0.1 s, after one further slice of load before the window.
LEAST_JUDGED_S = 1.1
Single, Listed, Table, BY_FORM = Tag("single"), Tag("list"), Tag("table"), Discriminator(form_of)
TWO = Field(min_length=2, max_length=2)
RISING = AfterValidator(check_rising)
NAME = r"^[a-z0-9][a-z0-9._-]{0,60}$"
RECORDING = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}(/[A-Za-z0-9][A-Za-z0-9._-]{0,99}){0,4}$"
DIGEST = r"^sha256:[0-9a-f]{64}$"
Name = Annotated[str, Field(pattern=NAME)]
Part = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Size = Annotated[int, Field(ge=0, le=512 << 20)]
Seconds = Annotated[int, Field(ge=1, le=2**32 - 1)]
HitRate = Annotated[Annotated[Part, Single] | Annotated[list[Part], TWO, RISING, Listed], BY_FORM]
Lifetime = Annotated[Annotated[Seconds, Single] | Annotated[list[Seconds], TWO, RISING, Listed], BY_FORM]
#: A typed command line, or its words.
Request = Annotated[
    Annotated[str, AfterValidator(check_request_text), Single]
    | Annotated[list[str], Field(min_length=1), AfterValidator(check_request_words), Listed],
    BY_FORM,
]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def require_one_of(model: BaseModel, *names: str) -> None:
    """Raise ValueError unless exactly one of these keys is given."""
    present = [name for name in names if getattr(model, name) is not None]
    if len(present) != 1:
        raise ValueError(f"exactly one of {', '.join(names)} is needed ({' and '.join(present) or 'none'} given)")


class Keys(Strict):
    """The number of keys, and how requests choose among them."""

    count: int = Field(1, ge=1, le=10**12)
    distribution: Literal["uniform", "sequential", "zipf", "gaussian", "hotspot", "latest"] = "uniform"
    exponent: float | None = Field(None, gt=0, le=10, allow_inf_nan=False)
    deviation: Share | None = None
    hot_keys: Share | None = None
    hot_requests: Part | None = None
    bytes: int | None = Field(None, ge=16, le=64 << 10, description="of a key of a named test; as the driver has it")

    @model_validator(mode="after")
    def of_the_distribution(self) -> "Keys":
        owners = {
            "exponent": ("zipf", "latest"),
            "deviation": ("gaussian",),
            "hot_keys": ("hotspot",),
            "hot_requests": ("hotspot",),
        }
        for name, distributions in owners.items():
            if getattr(self, name) is not None and self.distribution not in distributions:
                names = " or ".join(f'"{distribution}"' for distribution in distributions)
                raise ValueError(f"{name} is for distribution = {names}: remove it")
        return self


class Values(Strict):
    """The sizes of values in bytes: one size, a uniform range, or several sizes with weights."""

    bytes: Size | None = None
    range: Annotated[list[Size], TWO, RISING] | None = None
    weighted: (
        Annotated[list[Annotated[list[Size], TWO, AfterValidator(check_weighted_size)]], Field(min_length=1)] | None
    ) = None

    @model_validator(mode="after")
    def one_form(self) -> "Values":
        require_one_of(self, "bytes", "range", "weighted")
        return self


class Item(Strict):
    """One command: a request, or a named test."""

    request: Request | None = None
    test: str | None = None
    name: str | None = Field(None, min_length=1, max_length=60)

    @model_validator(mode="after")
    def one_form(self) -> "Item":
        require_one_of(self, "request", "test")
        return self


class Weighted(Item):
    weight: int = Field(1, ge=1, le=1000)


class Repeated(Item):
    times: int = Field(1, ge=1, le=65_535)


class Setup(Strict):
    """A request that one connection sends a number of times before the load; it is not measured."""

    request: Request
    times: int = Field(1, ge=1, le=10**9)


class Expectations(Strict):
    """Conditions that every trial must meet to count."""

    hit_rate: HitRate | None = None
    keys: int | None = Field(None, ge=0)
    errors: Part | None = Field(None, description="the largest share of error replies to recorded requests")


class RateOf(Strict):
    """A rate as a share of the throughput another benchmark had when first measured on the machine."""

    of: Name
    share: Share


class Probe(Strict):
    """Additional connections with few requests, which measure how long a rare request waits."""

    clients: int = Field(1, ge=1, le=1000)
    rate: Rate = 100.0


class Replay(Strict):
    """Recorded traffic: a file in a machine's folder of recordings, known by its digest, and how fast it is played."""

    file: str = Field(pattern=RECORDING)
    digest: str = Field(pattern=DIGEST)
    format: Literal["monitor", "aof", "twitter", "kvcache"] | None = None
    speed: Annotated[
        Annotated[Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)], Single]
        | Annotated[Literal["fast"], Tag("word")],
        Discriminator(speed_form),
    ] = 1.0


#: Keys about requests, which a recording brings along.
RECORDED = ("keys", "values", "ttl_s", "prefill", "prefill_request", "verify", "warmup_most_s", "probe")


class Workload(Strict):
    """A phase of the driver's workload documents, and its transport."""

    test: str | None = None
    commands: list[Weighted] | None = Field(None, min_length=1)
    sequence: list[Repeated] | None = Field(None, min_length=1)
    transport: Literal["unix", "tcp"] = "unix"
    clients: int = Field(50, ge=1, le=100_000)
    threads: int | None = Field(None, ge=1, le=64, description="the runner's driver cores unless given")
    pipeline: int = Field(1, ge=1, le=10_000)
    window: Literal["batch", "rolling"] = "batch"
    keys: Keys = Keys()
    values: Values = Values(bytes=3)
    ttl_s: Lifetime | None = None
    prefill: bool = False
    prefill_request: Request | None = Field(None, description="what stores a key, by its __key__, instead of SET")
    setup: Setup | None = None
    expect: Expectations = Expectations()
    verify: Part = 0.0
    warmup_s: float = Field(ge=0, le=600)
    warmup_most_s: float | None = Field(None, ge=LEAST_JUDGED_S, le=600)
    duration_s: float | None = Field(None, gt=0, le=3600)
    requests: int | None = Field(None, ge=1, le=10**12)
    mode: Literal["closed", "open", "replay"] = "closed"
    rate: Annotated[Annotated[Rate, Single] | Annotated[RateOf, Table], BY_FORM] | None = None
    arrivals: Literal["fixed", "poisson"] | None = None
    probe: Probe | None = None
    replay: Replay | None = None
    resp3: bool | None = None
    tracking: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def long_enough(cls, document: Any) -> Any:
        """Set a window of 5 s unless requests are counted, and a warm-up of 0.5 s unless they are, or were recorded."""
        if not isinstance(document, dict):
            return document
        has_requests, is_recorded = document.get("requests") is not None, document.get("mode") == "replay"
        length = {"warmup_s": 0.0 if has_requests or is_recorded else 0.5} | (
            {} if has_requests else {"duration_s": 5.0}
        )
        return length | {key: value for key, value in document.items() if value is not None}

    @model_validator(mode="after")
    def consistent(self) -> "Workload":
        require_one_of(self, "test", "commands", "sequence", "replay")
        require_one_of(self, "duration_s", "requests")
        if self.warmup_most_s is not None and self.warmup_most_s < self.warmup_s:
            raise ValueError("warmup_most_s is less than warmup_s: raise it, or lower warmup_s")
        if self.mode == "open" and self.rate is None:
            raise ValueError('mode = "open" needs a rate: requests/s, or { of = "BENCHMARK", share = 0.5 }')
        for name in ("rate", "arrivals"):
            if self.mode != "open" and getattr(self, name) is not None:
                raise ValueError(f'{name} is for mode = "open": add that, or remove it')
        if (self.mode == "replay") != (self.replay is not None):
            raise ValueError('mode = "replay" and the key replay need each other: add the one, or remove the other')
        if self.threads and self.threads > self.clients:
            raise ValueError("there are more threads than clients: lower threads or raise clients")
        if self.setup and self.prefill:
            raise ValueError("prefill needs an empty server: use either prefill or setup")
        if self.prefill_request and not self.prefill:
            raise ValueError("prefill_request is how prefill stores a key: add prefill = true, or remove it")
        if self.prefill_request and "__key__" not in str(self.prefill_request):
            raise ValueError("prefill_request names its key by __key__, as in 'SADD set:__key__ a b c'")
        return self

    @model_validator(mode="after")
    def recorded(self) -> "Workload":
        if self.replay is None:
            if self.expect.errors is not None:
                raise ValueError('expect.errors is for mode = "replay": other requests must have no error replies')
            return self
        foreign = [name for name in RECORDED if getattr(self, name) != type(self).model_fields[name].default]
        if self.warmup_s or self.expect.hit_rate is not None:
            foreign.append("warmup_s" if self.warmup_s else "expect.hit_rate")
        if foreign:
            raise ValueError(f'{foreign[0]} is not for mode = "replay", which sends what was recorded: remove it')
        if self.replay.speed == "fast" and self.requests is None:
            raise ValueError('replay.speed = "fast" needs requests, so that every commit is sent the same ones')
        if self.replay.speed != "fast" and self.requests is not None:
            raise ValueError('requests is for replay.speed = "fast": give duration_s, as this recording has its pace')
        return self

    @property
    def has_rate(self) -> bool:
        """Whether its requests have their times, so that its throughput is no property of the server."""
        return self.mode == "open" or (self.replay is not None and self.replay.speed != "fast")

    def items(self) -> list[Item]:
        return [*(self.commands or []), *(self.sequence or [])]

    def check_protocol(self, protocol: str) -> None:
        """Raise ValueError for a request or a test that this protocol does not have."""
        names = [self.test, *(item.test for item in self.items())]
        pieces = (entry.partition(":") for name in names if name for entry in name.split("+"))
        for test, colon, weight in pieces:
            if test not in TESTS[protocol]:
                raise ValueError(f"{protocol} has no test {test!r}: there are {', '.join(TESTS[protocol])}")
            if colon and not (weight.isdecimal() and int(weight)):
                raise ValueError(f"{test}:{weight}: the weight of a test in a mix is a whole number above 0")
        if protocol != "resp" and (self.setup or any(item.request for item in self.items())):
            raise ValueError("requests are for protocol = \"resp\": name tests, such as { test = 'get', weight = 9 }")
        if protocol != "resp" and self.replay and self.replay.format in ("monitor", "aof"):
            raise ValueError(f'replay.format = "{self.replay.format}" is for protocol = "resp": give a cache trace')
        for name in ("resp3", "tracking", "prefill_request"):
            if protocol != "resp" and getattr(self, name):
                raise ValueError(f'{name} is for protocol = "resp": remove it')

    def phase(self) -> dict[str, Any]:
        """The phase for the driver: all keys that have a value, without the transport."""
        return self.model_dump(exclude={"transport"}, exclude_none=True)
