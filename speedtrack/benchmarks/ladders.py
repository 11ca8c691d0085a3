"""Ladders of suites: one benchmark at several values of one setting, each value a separate benchmark (a rung)."""

from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from speedtrack.benchmarks.workloads import Strict, require_one_of

Axis = Literal["clients", "pipeline", "value_bytes", "key_bytes", "keys", "rate"]
AXES: tuple[Axis, ...] = ("clients", "pipeline", "value_bytes", "key_bytes", "keys", "rate")
LONGEST_NAME = 40  # of a ladder: the names of its rungs are longer


def check_climbing(values: list[float]) -> list[float]:
    if any(low >= high for low, high in pairwise(values)):
        raise ValueError("the values of a ladder rise, each higher than the one before")
    return values


COUNTS = Annotated[list[int], Field(min_length=2, max_length=60), AfterValidator(check_climbing)]
RATES = Annotated[
    list[Annotated[float, Field(gt=0, allow_inf_nan=False)]],
    Field(min_length=2, max_length=60),
    AfterValidator(check_climbing),
]


class Ladder(Strict):
    """The values of one setting of the workload."""

    clients: COUNTS | None = None
    pipeline: COUNTS | None = None
    value_bytes: COUNTS | None = None
    key_bytes: COUNTS | None = None
    keys: COUNTS | None = None
    rate: RATES | None = None

    def model_post_init(self, _: Any) -> None:
        require_one_of(self, *AXES)

    @property
    def axis(self) -> Axis:
        return next(axis for axis in AXES if getattr(self, axis) is not None)

    @property
    def values(self) -> list[float]:
        values: list[float] = getattr(self, self.axis)
        return values


class Rung(Strict):
    """A benchmark's position on a ladder: the setting and its value."""

    ladder: str
    axis: Axis
    value: float


def rungs_of(name: str, ladder: Ladder) -> list[tuple[str, Rung]]:
    """The name and the position of each rung of a ladder. Raises ValueError if a name is too long."""
    if len(name) > LONGEST_NAME:
        raise ValueError(f"the name of a ladder has at most {LONGEST_NAME} characters: shorten {name}")
    values = [float(value) for value in ladder.values]
    return [(f"{name}.{short(value)}", Rung(ladder=name, axis=ladder.axis, value=value)) for value in values]


def short(value: float) -> str:
    """A value in the form for names of rungs: 1000000, not 1e+06."""
    return f"{value:.0f}" if value == int(value) else str(value)


def at_rung(workload: dict[str, Any], rung: Rung) -> dict[str, Any]:
    """A copy of a stored workload with the rung's value of its setting."""
    number = int(rung.value)
    changes: dict[str, dict[str, Any]] = {
        "clients": {"clients": number},
        "pipeline": {"pipeline": number},
        "value_bytes": {"values": {"bytes": number}},
        "key_bytes": {"keys": workload["keys"] | {"bytes": number}},
        "keys": {"keys": workload["keys"] | {"count": number}},
        "rate": {"mode": "open", "rate": rung.value},
    }
    return workload | changes[rung.axis]
