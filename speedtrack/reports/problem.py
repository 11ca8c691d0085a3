"""The documents of refusals."""

from typing import Annotated

from pydantic import BaseModel, Field


class FieldProblem(BaseModel):
    """One field or parameter at fault."""

    pointer: Annotated[str | None, Field(description="JSON pointer (RFC 6901) into the body")] = None
    parameter: Annotated[str | None, Field(description="name of the parameter of the address, or of the header")] = None
    detail: Annotated[str, Field(description="what is expected there")]


class ProblemDocument(BaseModel):
    """A refusal (RFC 9457)."""

    type: Annotated[str, Field(description="address of a text about this kind of refusal; it does not change")]
    title: Annotated[str, Field(description="the kind, in words")]
    status: Annotated[int, Field(description="as the status of the answer")]
    detail: Annotated[str, Field(description="cause and remedy, for people")]
    instance: Annotated[str, Field(description="the address that was called")]
    errors: Annotated[list[FieldProblem], Field(description="each field or parameter at fault")] = []
    refused_count: Annotated[int | None, Field(description="results that are refused, of the kind refused-results")] = (
        None
    )
