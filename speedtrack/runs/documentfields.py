"""The fields of runners' documents: their types, limits and validators."""

import json
import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    Field,
)

from speedtrack.benchmarks.metrics import METRICS
from speedtrack.ground.texts.text import UNSTORABLE, storable

LARGEST_INTEGER = 2**31 - 1
LARGEST_TOKEN = 2**63 - 1
LARGEST_SIZE = 10**15  # bytes of one file
LONGEST_S = 1e7  # four months
EARLIEST = datetime(2020, 1, 1, tzinfo=UTC)
# Pages divide and square values, and draw in 32 bits: within these bounds the results stay finite.
SMALLEST = 1e-9
LARGEST = {"ns": 1e15, "µs": 1e12, "s": LONGEST_S, "bytes": 1e18, "requests/s": 1e12, "": 1e15}  # of a metric, by unit
# JSON of any shape: what the runner, the driver and the server under test report about themselves.
FACTS_LENGTH = 256 * 1024  # characters as JSON
DETAILS_LENGTH = 1024 * 1024
DEEPEST = 32
LARGEST_NUMBER = 2.0**64
SMALLEST_NUMBER = 1e-100
LONGEST_VALUE = 30  # characters: a number, or what surrounds and follows a text
LONGEST_CHARACTER = 6  # an escaped one
# Folded stacks: `frame;frame;... samples` in each line. The runner sends 4001 of 120 frames at most.
STACK = re.compile(r"[^\n]{1,20000} [0-9]{1,9}")
MOST_STACKS = 5000
MOST_FRAMES = 200


def replace_unstorable(text: Any) -> Any:
    return storable(text) if isinstance(text, str) else text


def check_storable(value: dict[str, Any]) -> int:
    """An upper bound on the length of the document as JSON, in characters.

    Raises ValueError if it cannot be stored or shown. Not recursive, as documents may be nested deeper than a stack;
    one plain loop, as they have thousands of values.
    """
    characters = 0
    level: list[Any] = [value]
    for _ in range(DEEPEST + 1):
        texts: list[str] = []
        inner: list[Any] = []
        for value_inside in level:
            kind = type(value_inside)
            if kind is str:
                texts.append(value_inside)
            elif kind is dict:
                texts += value_inside
                inner += value_inside.values()
            elif kind is list:
                inner += value_inside
            elif (
                (kind is float or kind is int)
                and value_inside
                and not SMALLEST_NUMBER <= abs(value_inside) <= LARGEST_NUMBER
            ):
                raise ValueError(f"the size of a number is 0, or {SMALLEST_NUMBER:g} to {LARGEST_NUMBER:g}")
        text = "".join(texts)
        if UNSTORABLE.search(text):
            raise ValueError("JSON with a zero byte or half a surrogate pair in a text cannot be stored")
        characters += LONGEST_VALUE * (len(level) + len(texts)) + LONGEST_CHARACTER * len(text)
        if not inner:
            return characters
        level = inner
    raise ValueError(f"JSON is at most {DEEPEST} levels deep here")


def at_most_characters(most: int) -> AfterValidator:
    """A validator that accepts a document which can be stored and has at most ``most`` characters as JSON."""

    def check(value: dict[str, Any]) -> dict[str, Any]:
        if check_storable(value) > most and (length := len(json.dumps(value, ensure_ascii=False))) > most:
            raise ValueError(f"at most {most} characters of JSON, not {length}")
        return value

    return AfterValidator(check)


def check_plausible(metrics: dict[str, float]) -> dict[str, float]:
    """The metrics unchanged, if every value is plausible for its unit; otherwise raises ValueError."""
    for name, value in metrics.items():
        unit = METRICS[name].unit
        if not SMALLEST <= value <= LARGEST[unit]:
            raise ValueError(f"{name} is {value:g}: between {SMALLEST:g} and {LARGEST[unit]:g} {unit}".rstrip())
    return metrics


def check_folded(folded: str) -> str:
    lines = folded.removesuffix("\n").split("\n") if folded else []
    if len(lines) > MOST_STACKS:
        raise ValueError(f"at most {MOST_STACKS} stacks, not {len(lines)}")
    for number, line in enumerate(lines, 1):
        if not STACK.fullmatch(line) or line.count(";") >= MOST_FRAMES:
            raise ValueError(
                f"line {number}: a stack is at most {MOST_FRAMES} frames with `;` between them, a blank and its samples"
            )
    return folded


Text = Annotated[str, BeforeValidator(replace_unstorable)]
Facts = Annotated[dict[str, Any], at_most_characters(FACTS_LENGTH)]
Details = Annotated[dict[str, Any], at_most_characters(DETAILS_LENGTH)]
ArtifactName = Annotated[str, Field(pattern=r"^[^\x00-\x1f]{1,250}$")]
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
Sha = Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
Positive = Annotated[float, Field(allow_inf_nan=False, gt=0)]
Seconds = Annotated[float, Field(allow_inf_nan=False, ge=0, le=LONGEST_S)]
Count = Annotated[int, Field(ge=0, le=LARGEST_INTEGER)]
Size = Annotated[int, Field(ge=0, le=LARGEST_SIZE)]
Share = Annotated[float, Field(allow_inf_nan=False, ge=0, le=LARGEST[""])]
Date = Annotated[AwareDatetime, Field(ge=EARLIEST)]  # results.check_clock refuses those in the future
MetricName = Annotated[str, Field(pattern=f"^({'|'.join(METRICS)})$")]
Metrics = Annotated[dict[MetricName, Positive], AfterValidator(check_plausible)]
Word = Annotated[Text, Field(max_length=10_000)]
CpuList = Annotated[str, Field(pattern=r"^[0-9,-]{0,4000}$")]
Flag = Annotated[str, Field(pattern=r"^[a-z_]{1,40}$")]
