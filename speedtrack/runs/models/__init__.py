"""Machines, runs and measurements. PostgreSQL enforces the rules by named constraints."""

from speedtrack.runs.models.alarms import Alarm
from speedtrack.runs.models.approvals import Approval, ApprovalQuerySet
from speedtrack.runs.models.canaries import Canary, CanaryCheck
from speedtrack.runs.models.comparisons import PairedComparison, PairedComparisonQuerySet
from speedtrack.runs.models.imports import Import, Origin
from speedtrack.runs.models.machines import IN_SERVICE, Assignment, Environment, Machine, MachineEvent
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
from speedtrack.runs.models.policies import Deferral, DeferralQuerySet, PlanningPolicy
from speedtrack.runs.models.runs import (
    ACTIVE,
    ENDED,
    MEASURED,
    MOVES,
    ROUTINE,
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
from speedtrack.runs.models.tokens import EnrolmentCode, MachineToken, UnknownMachineToken, WrongCode

__all__ = [
    "ACTIVE",
    "ENDED",
    "IN_SERVICE",
    "MEASURED",
    "MOVES",
    "ROUTINE",
    "SETTLING",
    "Alarm",
    "Approval",
    "ApprovalQuerySet",
    "Assignment",
    "Attempt",
    "Build",
    "Canary",
    "CanaryCheck",
    "Deferral",
    "DeferralQuerySet",
    "EnrolmentCode",
    "Environment",
    "Import",
    "LogChunk",
    "Machine",
    "MachineEvent",
    "MachineToken",
    "Measurement",
    "Origin",
    "PairedComparison",
    "PairedComparisonQuerySet",
    "PlanningPolicy",
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
    "UnknownMachineToken",
    "WrongCode",
]
