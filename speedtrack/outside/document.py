"""The document ``speedtrack.points/1``: a batch of results from outside. docs/results-from-outside.md describes it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from speedtrack.outside.readers import OutsideResult

SCHEMA = "speedtrack.points/1"
LARGEST_DOCUMENT = 26 * 1024 * 1024  # bytes
MOST_RESULTS = 10_000  # of a batch
MOST_SAMPLES = 1000  # of a result
MOST_WORDS = 100  # of an environment
LONGEST_BENCHMARK = 1000  # of a name, which is shortened where it is stored
MOST_PARAMETERS = 20  # and tags
SMALLEST, LARGEST = 1e-15, 1e18  # statistics divide and square values; 0 is a value too
TEXT = r"^[^\x00-\x1f\x7f-\x9f\x{61c}\x{200e}\x{200f}\x{202a}-\x{202e}\x{2066}-\x{2069}]*$"  # see text.UNSEEN
OUT_OF_RANGE = f"a value is 0, or lies between {SMALLEST:g} and {LARGEST:g}"
EARLIEST = datetime(1980, 1, 1, tzinfo=UTC)

T = TypeVar("T")


class DocumentError(Exception):
    """The whole document is refused, and nothing is stored. ``pointer``: the JSON pointer to the fault."""

    def __init__(self, detail: str, pointer: str = "") -> None:
        self.pointer, self.detail = pointer, detail
        super().__init__(f"{pointer}: {detail}" if pointer else detail)


class TooLarge(DocumentError):
    """The document is too long, or has too many results."""


@dataclass(frozen=True)
class ResultRefusal:
    """A result that was not stored. ``pointer``: the JSON pointer to the fault, within the document."""

    index: int
    pointer: str
    detail: str


def whole_number(value: Any) -> Any:
    """Convert a float without a fraction into an int, since 1.0 and 1 are the same number in JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def check_date(date: Any) -> Any:
    if not isinstance(date, str | datetime):
        raise ValueError("a date is a text such as 2026-01-31T12:00:00Z")
    return date


def check_value(value: float) -> float:
    if 0 < value < SMALLEST:
        raise ValueError(OUT_OF_RANGE)
    return value


def sorted_words(values: dict[str, Any]) -> dict[str, Any]:
    return dict(sorted(values.items()))


Text = Annotated[str, Field(pattern=TEXT)]
Name = Annotated[Text, Field(min_length=1, max_length=100)]
JsonWord = Annotated[
    Annotated[bool, Field(strict=True)]
    | Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)]
    | Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-1e18, le=1e18), AfterValidator(whole_number)]
    | Annotated[Text, Field(max_length=300)],
    Field(union_mode="left_to_right"),
]
Facts = Annotated[dict[Name, JsonWord], Field(max_length=MOST_WORDS), AfterValidator(sorted_words)]
Parameters = Annotated[dict[Name, JsonWord], Field(max_length=MOST_PARAMETERS), AfterValidator(sorted_words)]
Tags = Annotated[dict[Name, Annotated[Text, Field(max_length=300)]], Field(max_length=MOST_PARAMETERS)]
Value = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=LARGEST), AfterValidator(check_value)]
Url = Annotated[Text, Field(max_length=500, pattern=r"^(https?://[^\s/?#]+[^\s]*)?$")]
CommitName = Annotated[Text, Field(min_length=1, max_length=250)]
Date = Annotated[AwareDatetime, BeforeValidator(check_date), Field(ge=EARLIEST)]


class StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)


class Shared(StrictModel):
    """The fields that a result states itself, or that its batch states for all results."""

    commit: CommitName | None = Field(
        None, description="id, full or at least 7 digits of it, or the name of a branch or tag"
    )
    machine: Name | None = Field(None, description="where it was measured; a new name becomes an outside machine")
    environment: Facts | None = Field(
        None, description="what else affects the values, in free words; another environment begins another series"
    )
    measured_at: Date | None = None
    tags: Tags | None = None
    url: Url | None = Field(None, description="a page about it, such as a CI job")


class Row(Shared):
    """One metric of one benchmark at one commit. Fields that it lacks are taken from the batch."""

    benchmark: Annotated[Text, Field(min_length=1, max_length=LONGEST_BENCHMARK)]
    parameters: Parameters = Field({}, description="of the benchmark; they belong to its identity")
    metric: Annotated[Name, Field(max_length=60)]
    unit: Annotated[Text, Field(max_length=20)] | None = Field(
        None, description="required for a new metric; may be empty"
    )
    better: Literal["higher", "lower"] | None = Field(None, description="required for a new metric")
    samples: Annotated[list[Value], Field(min_length=1, max_length=MOST_SAMPLES)] | None = Field(
        None, description="the raw repeats"
    )
    value: Value | None = Field(None, description="instead of samples: their median, or the only one")
    low: Value | None = Field(None, description="lower end of the 95% interval of the value")
    high: Value | None = None
    n: Annotated[int, Field(strict=True, ge=1, le=32_767)] | None = Field(
        None, description="how many repeats the value sums up"
    )
    id: Annotated[Text, Field(max_length=100)] = Field(
        "", description="tells results of one series and commit apart: of one id, another value is a repetition"
    )


class Batch(Shared):
    """The document without its results, which are checked one by one."""

    schema_: Literal["speedtrack.points/1"] = Field(alias="schema")
    tool: Annotated[Text, Field(max_length=100)] = Field("", description="what measured, such as `pyperf 2.9`")
    results: list[Any] = Field(min_length=1, description="each as `Row`")


def schema_of_batch() -> dict[str, Any]:
    """The whole document as JSON Schema, without references."""
    schema = Batch.model_json_schema()
    row = Row.model_json_schema()
    schema["properties"]["results"] |= {"items": row, "maxItems": MOST_RESULTS}
    return schema


@dataclass(frozen=True)
class OutsidePoint:
    """A result that was checked alone, completed with the batch's fields. ``index``: its position in the batch."""

    index: int
    row: Row
    commit: str
    machine: str
    environment: Mapping[str, Any]
    measured_at: datetime | None
    tags: Mapping[str, str]
    url: str


def parse(content: bytes) -> Batch:
    """The batch in a document. Raises DocumentError."""
    return batch_of(parse_json(content))


def parse_json(content: bytes, largest: int = LARGEST_DOCUMENT) -> Any:
    """The value in JSON. Raises DocumentError. The checks of values refuse numbers beyond JSON (NaN, Infinity)."""
    if len(content) > largest:
        raise TooLarge(f"the document has more than {largest} bytes: send several")
    try:
        return json.loads(content.decode("utf-8-sig"), object_pairs_hook=without_repetition)
    except UnicodeDecodeError as e:
        raise DocumentError(f"byte {e.start} is not UTF-8: send JSON in UTF-8") from e
    except json.JSONDecodeError as e:
        raise DocumentError(f"line {e.lineno}, column {e.colno}: {e.msg}: send JSON") from e
    except RecursionError as e:
        raise DocumentError("it is nested too deeply: send the document that docs/results-from-outside.md shows") from e
    except ValueError as e:  # a repeated key, or a number of thousands of digits
        raise DocumentError(str(e)) from e


def without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        again = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"a JSON object has the key {again[:100]!r} twice")
    return members


def parse_file(content: bytes, shared: Mapping[str, Any]) -> Batch:
    """All results of a file, however many. ``shared``: fields that it lacks. Raises DocumentError."""
    document = parse_json(content, len(content))
    if isinstance(document, dict):
        document = {**shared, **{name: value for name, value in document.items() if value is not None}}
    return whole_of(document)


def batch_of(document: Any) -> Batch:
    """The batch in a parsed document. Raises DocumentError."""
    batch = whole_of(document)
    if len(batch.results) > MOST_RESULTS:
        raise TooLarge(f"{len(batch.results)} results: send at most {MOST_RESULTS} at once", "/results")
    return batch


def whole_of(document: Any) -> Batch:
    """All results of a parsed document, even if they are too many to be stored at once. Raises DocumentError."""
    try:
        return Batch.model_validate(document)
    except ValidationError as e:
        error = e.errors(include_url=False, include_context=False)[0]
        raise DocumentError(words_of(error), pointer_of(error)) from e


def parts_of(batch: Batch) -> Iterator[tuple[int, Batch]]:
    """The batch in parts that are small enough to be stored at once, each after the index of its first result."""
    for first_index in range(0, len(batch.results), MOST_RESULTS):
        results = batch.results[first_index : first_index + MOST_RESULTS]
        yield first_index, batch.model_copy(update={"results": results})


def points_of(batch: Batch) -> Iterator[OutsidePoint | ResultRefusal]:
    """Each result, checked alone: an OutsidePoint, or the Refusal of a wrong one."""
    for index, row in enumerate(batch.results):
        yield point_of(index, row, batch)


def point_of(index: int, item: Any, batch: Shared) -> OutsidePoint | ResultRefusal:
    try:
        row = Row.model_validate(item)
    except ValidationError as e:
        error = e.errors(include_url=False, include_context=False)[0]
        return ResultRefusal(index, f"/results/{index}{pointer_of(error)}", words_of(error))
    commit, machine = row.commit or batch.commit, row.machine or batch.machine
    if fault := fault_of(row, commit, machine):
        return ResultRefusal(index, f"/results/{index}{fault[0]}", fault[1])
    assert commit and machine
    return OutsidePoint(
        index,
        row,
        commit,
        machine,
        first(row.environment, batch.environment, {}),
        row.measured_at or batch.measured_at,
        first(row.tags, batch.tags, {}),
        first(row.url, batch.url, ""),
    )


def first(*values: T | None) -> T:
    """The first value that is not None."""
    return next(value for value in values if value is not None)


def fault_of(row: Row, commit: str | None, machine: str | None) -> tuple[str, str] | None:
    """The fault among the fields of a result: (position, sentence); None if there is none."""
    if not commit or not machine:
        return ("/machine" if commit else "/commit"), "missing: give it here, or once for the whole batch"
    if (row.samples is None) == (row.value is None):
        return "", "a result has either samples or a value"
    if row.samples is not None and (row.low, row.high, row.n) != (None, None, None):
        return "/samples", "low, high and n come with a value: those of samples are computed"
    if (row.low is None) != (row.high is None):
        return ("/low" if row.low is None else "/high"), "missing: an interval has both ends"
    if row.value is not None and row.low is not None and row.high is not None and not row.low <= row.value <= row.high:
        return "/value", "the value lies outside of its interval: low <= value <= high"
    return None


def pointer_of(error: ErrorDetails) -> str:
    """The place of pydantic's error as a JSON pointer.

    A part that is neither a key nor an index names a branch of a union, and is left out.
    """
    steps = [str(step) for step in error["loc"] if step not in ("bool", "int", "float", "str", "[key]")]
    keys = [step for step in steps if not step.startswith(("constrained-", "function-", "nullable["))]
    return "".join("/" + step.replace("~", "~0").replace("/", "~1")[:200] for step in keys)


WORDS = {
    "extra_forbidden": "there is no such field: check its spelling",
    "missing": "missing",
    "model_type": "expected is a JSON object",
    "string_pattern_mismatch": "a text without control characters or marks of direction, or the address of a web page",
    "string_unicode": "half of a surrogate pair cannot be stored",
}


def words_of(error: ErrorDetails) -> str:
    """The sentence about pydantic's error, with the given value if that is short."""
    sentence = WORDS.get(error["type"]) or error["msg"].removeprefix("Value error, ")
    value = error.get("input")
    is_short = isinstance(value, str | int | float) and len(repr(value)) <= 60
    return sentence if error["type"] in ("missing", "extra_forbidden") or not is_short else f"{sentence}: not {value!r}"


def row_of(result: OutsideResult) -> dict[str, Any]:
    """A reader's result as a row of a batch, without empty fields."""
    return {
        name: list(value) if name == "samples" else value.isoformat() if isinstance(value, datetime) else value
        for name, value in asdict(result).items()
        if (value is not None and value != "" and value != {} and value != ()) or name in ("unit",)
    }


def document_of(results: list[OutsideResult], tool: str = "", **shared: Any) -> dict[str, Any]:
    """The results of a reader as a batch. ``shared``: fields for results that do not state them."""
    shared_values = {name: value for name, value in shared.items() if value}
    return {"schema": SCHEMA, "tool": tool, **shared_values, "results": [row_of(result) for result in results]}
