"""What operators and owners change: machines, webhooks, deliveries, policies. Each order may be tried first."""

from datetime import time
from typing import Annotated

from pydantic import Field

from speedtrack.projects import hooks
from speedtrack.reports.common import Document, From, NotText, Sent, Text, Time, Tried, Whole, WholeId
from speedtrack.runs.requests.rules import WantedPolicy


class MachineChange(Document):
    """What changes in the queue of a machine."""

    machine: str
    queued: int = Field(description="runs that are new in its queue")
    gone: int = Field(description="waiting runs that are taken from its queue")
    seconds: float | None = Field(description="how long the new runs take; null: it has measured nothing like them yet")
    before_seconds: Annotated[float | None, From("before_s")] = Field(
        description="how long what waits already takes; null: not known"
    )


class Outcome(Document):
    """What was done, or what would be."""

    message: Annotated[Text, From("said")] = Field(description="in words")
    dry_run: Annotated[bool, From(lambda _: True)] = Field(description="nothing was changed")
    machines: Annotated[list[MachineChange], From(lambda outlook: list(map(MachineChange.of, outlook.machines)))] = (
        Field(description="of a dry run: the queues that would change")
    )
    commits: Annotated[int, From(lambda outlook: len(outlook.commits))] = Field(
        description="of a dry run: of how many commits runs would be queued or taken away"
    )
    secret: str | None = Field(None, description="a new secret of the webhook; it is not shown again")


class PauseOrder(Tried):
    """How a machine is paused."""

    at_once: bool = Field(False, description="take its run from it and queue it again; else it is drained: it finishes")


class WindowsOrder(Tried):
    """When a machine takes work by itself."""

    windows: list[Sent] = Field(max_length=50, description="none: at any time", examples=[["mon-fri 22:00-06:00"]])
    zone: Sent = Field("UTC", max_length=64, description="their time zone")


class SharesOrder(Tried):
    """What the time of a machine is for."""

    shares: dict[str, Annotated[int, Field(ge=0, le=99), NotText]] = Field(
        max_length=10,
        description="percent by kind of work: `settling`, `pulls`, `backfill`, `aa`; the rest is for pushes; empty: as "
        "the server's settings say",
        examples=[{"backfill": 20}],
    )


class TrialsOrder(Tried):
    """How many trials a suite has."""

    trials: Whole = Field(ge=5, le=1000, description="of each benchmark, at least", examples=[20])


class RotateOrder(Tried):
    """A new secret for a webhook."""

    days: Whole = Field(hooks.FORMER_DAYS, ge=0, le=hooks.MOST_DAYS, description="for which the former one stays valid")


class ReplayOrder(Tried):
    """Which calls are taken as if they had just arrived."""

    deliveries: list[WholeId] = Field(min_length=1, max_length=1000, description="their ids", examples=[[1]])


class PurgeOrder(Tried):
    """Which calls are deleted."""

    older_than_days: Whole = Field(ge=0, le=36_500, examples=[90])
    status: Annotated[str, Field(pattern="^(processed|ignored|)$", description="only these; empty: all")] = ""


class PolicyOrder(Tried):
    """A planning policy of the branches that match a pattern; the defaults measure every commit."""

    branches: Sent = Field("", max_length=200, description="such as `8.*`; empty: all that no other policy names")
    every: Whole = Field(1, ge=1, le=1_000_000, description="one commit in so many")
    most_waiting: Annotated[int, Field(ge=1, le=1_000_000), NotText] | None = Field(
        None, description="commits that wait at most; null: no limit"
    )
    fills_gaps: bool = Field(False, description="measure what `every` leaves out while a machine is idle")
    ignored_paths: list[Sent] = Field(
        [], max_length=100, description="patterns as in .gitignore", examples=[["docs/**"]]
    )
    suite: Sent = Field("", max_length=100, description="empty: the project's")
    machines: list[Sent] = Field([], max_length=100, description="names; none: all of the project")
    extended_at: time | None = Field(None, description="when the head is measured with the extended set each day")
    zone: Sent = Field("UTC", max_length=64, description="of `extended_at`")

    def wanted(self) -> WantedPolicy:
        return WantedPolicy(**self.model_dump(exclude={"dry_run"}))


class PolicyRemoval(Tried):
    """Which policy is removed."""

    branches: Sent = Field("", max_length=200, description="its pattern; empty: that of all other branches")


class PolicyDocument(Document):
    """A planning policy."""

    branches: Text = Field(description="the pattern of its branches; empty: all that no other policy names")
    every: int
    most_waiting: int | None
    fills_gaps: bool
    ignored_paths: Annotated[list[Text], From("patterns")]
    suite: str = Field(description="empty: the project's")
    machines: Annotated[list[str], From(lambda policy: sorted(machine.name for machine in policy.machines.all()))] = (
        Field(description="none: all of the project")
    )
    extended_at: time | None
    zone: str


class DeliveryDocument(Document):
    """A call of a project's webhook."""

    id: int
    provider: str
    event: Text
    summary: Text = Field(description="what it says, in words")
    received_at: Time
    status: str = Field(description="`received`, `processed` or `ignored`")
    outcome: Text = Field(description="what followed, or why it was ignored")
    bytes: Annotated[int, From("size")]
    copies: int = Field(description="how often it arrived or was replayed")
