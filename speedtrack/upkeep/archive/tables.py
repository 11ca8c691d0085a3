"""The rows of an archive, and their changes on restoring.

``TABLES`` and ``LEFT_OUT`` together name every model of this server, so each new model needs a decision. Rows refer to
each other by the ids of the installation that wrote them; restored rows get new ids. Columns of secrets are never
written.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import User
from django.db import models
from django.db.models import Q

from speedtrack.alerts.models import (
    Alert,
    AlertEvent,
    BestLevel,
    Bisection,
    BisectionAnswer,
    ChangePoint,
    ComparisonBatch,
    HunkStep,
    HunkTrial,
    Mute,
    NoiseFloor,
    SeriesSensitivity,
    Verdict,
)
from speedtrack.benchmarks.models import Benchmark, BenchmarkSet, OutsideMetric, SetMember, Suite
from speedtrack.ground.secrets.sealed import SealedField
from speedtrack.projects.models import (
    Annotation,
    Branch,
    Chain,
    ChainCommit,
    Commit,
    Project,
    PullRequest,
    Segment,
    Tag,
)
from speedtrack.runs.models import (
    Approval,
    Attempt,
    Build,
    Canary,
    CanaryCheck,
    Deferral,
    Environment,
    Import,
    LogChunk,
    Machine,
    Measurement,
    Origin,
    PairedComparison,
    PlanningPolicy,
    Profile,
    ReferenceRate,
    Result,
    Run,
    RunEvent,
    Samples,
    Series,
    Trial,
)

Model = type[models.Model]


@dataclass(frozen=True)
class Table:
    """One table of an archive.

    ``of``: the condition for the rows of a project. ``known_by``: the fields that identify an existing row, which is
    then used. ``restored``: column -> the SQL of its restored value, in which ``r`` is the archived row. ``arrays``:
    columns that are lists of ids of another model's rows.
    """

    model: Model
    of: Callable[[Project], Q]
    known_by: tuple[str, ...] = ()
    restored: Mapping[str, str] = field(default_factory=dict)
    arrays: Mapping[str, Model] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.model._meta.db_table

    @property
    def file(self) -> str:
        return f"{self.name}.ndjson"

    @property
    def fields(self) -> list[Any]:
        """The fields with a stored column, without secrets."""
        return [
            model_field
            for model_field in self.model._meta.concrete_fields
            if model_field.column and not model_field.generated and not isinstance(model_field, SealedField)
        ]

    @property
    def has_number(self) -> bool:
        """Return whether its rows have ids, to which other rows may refer."""
        return isinstance(self.model._meta.pk, models.AutoField | models.BigAutoField)


def through(path: str) -> Callable[[Project], Q]:
    """The condition for rows from which this lookup leads to the project."""
    return lambda project: Q(**{path: project})


def named_by(*queries: Callable[[Project], Any]) -> Callable[[Project], Q]:
    """The condition for rows whose ids these queries return."""

    def of(project: Project) -> Q:
        rows = Q(pk__in=queries[0](project))
        for query in queries[1:]:
            rows |= Q(pk__in=query(project))
        return rows

    return of


def values(model: Model, column: str, path: str = "project") -> Callable[[Project], Any]:
    return lambda project: model._default_manager.filter(**{path: project}).values(column)


# Unfinished work is ended, and nobody is notified of events elsewhere.
ENDED_RUN = "CASE WHEN r.status IN ('queued', 'leased', 'running') THEN 'cancelled' ELSE r.status END"
# Release 1.0 and earlier ones wrote an array.
FLAGS = """CASE WHEN r.flags LIKE '[%'
    THEN array_to_string(ARRAY(SELECT json_array_elements_text(r.flags::json)), ',') ELSE coalesce(r.flags, '') END"""
OPEN_CHANGE = "r.status IN ('suspected', 'settling')"

# In this order each table refers only to those above it, or to itself.
TABLES = (
    # A user may be matched by name (reading.py); an archive has only the names of users.
    Table(Project, lambda project: Q(pk=project.pk)),  # ``reading.project_values`` changes some of its columns
    Table(
        Machine,
        named_by(
            values(Run, "machine"),
            values(Series, "machine"),
            values(Canary, "machine"),
            values(Mute, "machine"),
            values(PairedComparison, "machine"),
        ),
        known_by=("name",),
        restored={"paused": "true", "retired_at": "coalesce(r.retired_at, now())"},
    ),
    Table(
        Suite,
        named_by(values(Run, "suite"), values(Canary, "suite"), values(Bisection, "suite"), values(HunkTrial, "suite")),
        known_by=("digest",),
    ),
    Table(Environment, named_by(values(Series, "environment")), known_by=("machine", "digest")),
    Table(Commit, through("project")),
    Table(Branch, through("project"), restored={"awaited_number": "NULL", "awaited_since": "NULL"}),
    Table(Chain, through("project")),
    Table(ChainCommit, through("chain__project")),
    Table(Segment, through("chain__project")),
    Table(Tag, through("project")),
    Table(PullRequest, through("project")),
    Table(Annotation, through("project")),
    Table(Benchmark, through("project")),
    Table(OutsideMetric, through("project")),
    Table(BenchmarkSet, through("project")),
    Table(SetMember, through("benchmark_set__project")),
    Table(PlanningPolicy, through("project")),
    Table(Deferral, through("project")),
    Table(Approval, through("pull_request__project"), restored={"planned_at": "coalesce(r.planned_at, now())"}),
    Table(Canary, through("project"), restored={"retired_at": "coalesce(r.retired_at, now())"}),
    Table(Import, through("project"), restored={"unmarked": "'{}'::integer[]"}),  # nothing waits for detection
    Table(
        Run,
        through("project"),
        restored={"status": ENDED_RUN, "lease_until": "NULL", "retry_at": "NULL", "cancel_requested_at": "NULL"},
    ),
    Table(RunEvent, through("run__project")),
    Table(Attempt, through("run__project")),
    Table(LogChunk, through("attempt__run__project")),
    Table(Build, through("attempt__run__project")),
    Table(Series, through("project"), restored={"undetected_since": "NULL", "retry_at": "NULL"}),
    Table(Measurement, through("series__project"), restored={"flags": FLAGS}),
    Table(Origin, through("measurement__series__project")),
    Table(Samples, through("measurement__series__project")),
    Table(Result, through("attempt__run__project")),
    Table(Trial, through("result__attempt__run__project")),
    Table(Profile, through("attempt__run__project")),
    Table(ReferenceRate, through("benchmark__project")),
    Table(CanaryCheck, through("run__project")),
    Table(
        PairedComparison,
        through("project"),
        restored={
            "error": "CASE WHEN r.planned_at IS NULL AND r.error = ''"
            " THEN 'its runs were not queued when it was archived' ELSE r.error END"
        },
    ),
    Table(PairedComparison.runs.through, through("pairedcomparison__project")),
    Table(Alert, through("project")),
    Table(AlertEvent, through("alert__project"), restored={"untold": "false"}),
    Table(
        ChangePoint,
        through("series__project"),
        restored={
            "status": f"CASE WHEN {OPEN_CHANGE} THEN 'unsettled' ELSE r.status END",
            "note": f"CASE WHEN {OPEN_CHANGE} THEN 'not settled when it was archived' ELSE r.note END",
            "settled_at": f"CASE WHEN {OPEN_CHANGE} THEN now() ELSE r.settled_at END",
        },
    ),
    Table(ChangePoint.runs.through, through("changepoint__series__project")),
    Table(Verdict, through("change_point__series__project")),
    Table(BestLevel, through("series__project")),
    Table(ComparisonBatch, through("commit__project"), arrays={"series": Series}),
    Table(NoiseFloor, through("series__project")),
    Table(SeriesSensitivity, through("series__project")),
    Table(Mute, through("project")),
    Table(
        Bisection,
        through("project"),
        restored={
            "ended_at": "coalesce(r.ended_at, now())",
            "note": "CASE WHEN r.ended_at IS NULL THEN 'not ended when it was archived' ELSE r.note END",
        },
        arrays={"path": Commit},
    ),
    Table(Bisection.runs.through, through("bisection__project")),
    Table(BisectionAnswer, through("bisection__project")),
    Table(
        HunkTrial,
        through("project"),
        restored={
            "ended_at": "coalesce(r.ended_at, now())",
            "note": "CASE WHEN r.ended_at IS NULL THEN 'not ended when it was archived' ELSE r.note END",
        },
    ),
    Table(HunkStep, through("trial__project")),
)

# Label of a model -> why an archive holds none of its rows.
OF_PEOPLE = "people and what they are told belong to an installation"
OF_MACHINES = "machines belong to an installation; the archive has the names and environments of those that measured"
OF_THE_FORGE = "a secret, or what a forge sent: the project gets a new webhook"
OF_THE_SERVER = "state of the server's own processes"
LEFT_OUT = {
    "auth.User": "the archive has the names of those whom its rows name",
    "auth.Group": OF_PEOPLE,
    "auth.Permission": OF_PEOPLE,
    "accounts.Membership": OF_PEOPLE,
    "accounts.Invitation": OF_PEOPLE,
    "accounts.OwnerLink": OF_PEOPLE,
    "accounts.WrongInvitation": OF_PEOPLE,
    "accounts.PersonToken": OF_PEOPLE,
    "accounts.Pin": OF_PEOPLE,
    "calls.Allowance": OF_PEOPLE,
    "calls.KeptAnswer": OF_PEOPLE,
    "accounts.AuditEntry": OF_PEOPLE,
    "notices.Subscriber": OF_PEOPLE,
    "notices.Subscription": OF_PEOPLE,
    "notices.Outbox": OF_PEOPLE,
    "notices.Notice": OF_PEOPLE,
    "notices.Channel": OF_PEOPLE,
    "notices.CommitStatus": OF_THE_FORGE,
    "notices.PullComment": OF_THE_FORGE,
    "projects.Credential": OF_THE_FORGE,
    "projects.Delivery": OF_THE_FORGE,
    "projects.Refusal": OF_THE_FORGE,
    "projects.Position": "a view of chains and segments",
    "benchmarks.SuiteEdit": "suites belong to an installation; the archive has the versions that were measured",
    "runs.MachineToken": OF_MACHINES,
    "runs.EnrolmentCode": OF_MACHINES,
    "runs.WrongCode": OF_MACHINES,
    "runs.MachineEvent": OF_MACHINES,
    "runs.Machine_projects": OF_MACHINES,
    "runs.PlanningPolicy_machines": OF_MACHINES,
    "runs.Assignment": OF_MACHINES,
    "runs.Alarm": OF_MACHINES,
    "retention.Pruning": OF_THE_SERVER,
    "monitoring.Heartbeat": OF_THE_SERVER,
    "monitoring.TaskTime": OF_THE_SERVER,
}
PEOPLE = User  #: its rows are matched by name, or become nobody
