"""The answers to calls of runners (docs/result-format.md)."""

from typing import Any

from pydantic import BaseModel, Field


class RunnerRefusal(BaseModel):
    """Why a call was refused."""

    error: str = Field(description="cause and remedy")


class Nothing(BaseModel):
    """The answer to a call whose document was stored."""


class EnrolledMachine(BaseModel):
    """The machine that the token belongs to."""

    machine: str
    queue: str = Field(description="name of its queue at the broker")


class Whose(BaseModel):
    """The machine that the token belongs to, and the server that answers."""

    machine: str
    version: str = Field(description="release of the server")
    time: float = Field(description="its clock, in seconds since 1970")


class Turn(BaseModel):
    """Whether the runner is to replace its token."""

    rotate: bool


class Renewed(Turn):
    """The lease goes on."""

    lease_s: int
    cancel: bool = Field(description="the work is not wanted any more: stop it")


class LinkedRun(BaseModel):
    """Another run that measured the identical program."""

    run: int
    sha: str


class BuildAnswer(BaseModel):
    """What a build led to."""

    linked: LinkedRun | None = Field(description="the run whose measurements stand for this one; null: measure")


Job = dict[str, Any]
