"""Machines, runs and measurements. PostgreSQL enforces the rules by named constraints."""

from speedtrack.runs.models.canaries import Canary, CanaryCheck
from speedtrack.runs.models.machines import Environment, Machine, MachineEvent, UnknownToken
from speedtrack.runs.models.measurements import (
    Build,
    Measurement,
    Profile,
    ReferenceRate,
    Result,
    Samples,
    Series,
    SeriesQuerySet,
    Trial,
)
from speedtrack.runs.models.runs import (
    ACTIVE,
    MOVES,
    SETTLING,
    Attempt,
    LogChunk,
    Reason,
    Run,
    RunEvent,
    RunQuerySet,
    Side,
    Status,
)

__all__ = [
    "ACTIVE",
    "MOVES",
    "SETTLING",
    "Attempt",
    "Build",
    "Canary",
    "CanaryCheck",
    "Environment",
    "LogChunk",
    "Machine",
    "MachineEvent",
    "Measurement",
    "Profile",
    "Reason",
    "ReferenceRate",
    "Result",
    "Run",
    "RunEvent",
    "RunQuerySet",
    "Samples",
    "Series",
    "SeriesQuerySet",
    "Side",
    "Status",
    "Trial",
    "UnknownToken",
]
