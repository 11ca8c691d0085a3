"""Results from outside: measured elsewhere, and sent in batches."""

from collections.abc import Sequence
from typing import Annotated, Any

from django.db import transaction
from ninja import Header, Router
from ninja.errors import HttpError
from ninja.responses import Status
from pydantic import Field

from speedtrack.api.v1.serving.callers import ApiRequest, actor_of, project_or_404, user_of
from speedtrack.api.v1.serving.refusals import Invalid, NoneTaken
from speedtrack.api.v1.serving.writing import HEADER, MEANING, OK, once
from speedtrack.operations import results
from speedtrack.outside import document, taking
from speedtrack.outside.document import DocumentError, ResultRefusal, TooLarge
from speedtrack.outside.taking import Sender
from speedtrack.reports.common import Document
from speedtrack.runs.models import Import

router = Router(tags=["Results from outside"])

ROW = {"benchmark": "json_dumps", "metric": "seconds", "unit": "s", "better": "lower", "samples": [0.0121, 0.0119]}
EXAMPLE = {"schema": document.SCHEMA, "commit": "main", "machine": "ci", "results": [ROW]}


def described_batch() -> dict[str, Any]:
    """The JSON schema of a body, with the example that the page of the API shows."""
    schema = document.schema_of_batch()
    for name, value in EXAMPLE.items():
        schema["properties"][name]["examples"] = [value]
    return schema


BODY = {"requestBody": {"required": True, "content": {"application/json": {"schema": described_batch()}}}}


class RefusedResult(Document):
    """A result that was not stored."""

    index: Annotated[int, Field(description="its place among the results, from 0")]
    pointer: Annotated[str, Field(description="JSON pointer (RFC 6901) to the field at fault")]
    detail: Annotated[str, Field(description="cause and remedy")]


class ResultsReport(Document):
    """The result of sending a batch."""

    taken: Annotated[int, Field(description="results that are stored now")]
    unchanged: Annotated[int, Field(description="results that were stored before")]
    refused: Annotated[list[RefusedResult], Field(description="results that are not stored, and why")]


@router.post(
    "projects/{slug}/results",
    response=ResultsReport,
    summary="Send results that were measured elsewhere",
    openapi_extra=BODY,
)
def send_results(
    request: ApiRequest,
    slug: str,
    all_or_nothing: Annotated[bool, Field(description="if one result is refused, take none")] = False,
    idempotency_key: str | None = Header(None, alias=HEADER, description=MEANING),  # type: ignore[type-arg]
) -> Status[Any]:
    """A document `speedtrack.points/1`. Each result is taken or refused by itself, unless `all_or_nothing` is set. A
    result that was sent before changes nothing. Needs the scope `results` and the role maintainer."""
    project = project_or_404(request, slug)
    actor_of(request).require("results.import", project)
    user = user_of(request)
    try:
        batch = document.parse(request.body)
        # Before the transaction, as it may have to look at the repository.
        prepared = taking.prepare(project, batch, Sender(Import.Door.API, user, user.get_username()))

        def work() -> tuple[int, ResultsReport]:
            return OK, report_of(request, prepared, all_or_nothing)

        if idempotency_key is not None:
            return Status(*once(request, idempotency_key, work))
        with transaction.atomic():
            return Status(*work())
    except TooLarge as e:
        raise HttpError(413, e.detail) from e
    except DocumentError as e:
        raise Invalid(e.detail, field=e.pointer.removeprefix("/")) from e


def report_of(request: ApiRequest, prepared: taking.Prepared, all_or_nothing: bool) -> ResultsReport:
    """Store the valid results. Return the report. Raises NoneTaken."""
    (report,) = results.take(actor_of(request), prepared.project, [prepared], all_or_nothing).row
    if report.refused and not report.taken and not report.unchanged:
        raise none_taken(report.refused, len(prepared.batch.results))
    refusals = [
        RefusedResult(index=refusal.index, pointer=refusal.pointer, detail=refusal.detail) for refusal in report.refused
    ]
    return ResultsReport(taken=report.taken, unchanged=report.unchanged, refused=refusals)


def none_taken(refusals: Sequence[ResultRefusal], total: int) -> NoneTaken:
    """The refusal that lists all results at fault."""
    first, count = refusals[0], len(refusals)
    summary = f"{count} results are refused, so none was taken" if count < total else "every result is refused"
    errors = [{"pointer": refusal.pointer, "detail": refusal.detail} for refusal in refusals]
    return NoneTaken(f"{summary}; {first.pointer}: {first.detail}", errors, count)
