"""Files of benchmark tools: read here, and stored like other results from outside."""

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, Any

from django.conf import settings
from django.db import transaction
from django.urls import reverse
from ninja import Header, Router
from ninja.responses import Status
from pydantic import Field

from speedtrack.api.v1.serving.callers import ApiRequest, actor_of, project_or_404, user_of
from speedtrack.api.v1.serving.refusals import Invalid, NoneTaken
from speedtrack.api.v1.serving.writing import HEADER, MEANING, OK, once
from speedtrack.operations import results
from speedtrack.outside import importing, taking
from speedtrack.outside.importing import Contents, ImportOutcome, Unreadable
from speedtrack.outside.readers import Options
from speedtrack.outside.readers.files import File
from speedtrack.outside.taking import Prepared, Sender
from speedtrack.projects.models import Project
from speedtrack.reports.common import Document, Order, Sent, Text, Time
from speedtrack.runs.models import Import

router = Router(tags=["Results from outside"])

GO = base64.b64encode(b"BenchmarkGet-2 1000 812 ns/op\n").decode()
StatedFacts = Annotated[
    dict[Annotated[Sent, Field(max_length=100)], Annotated[Sent, Field(max_length=200)]], Field(max_length=50)
]


class FileOrder(Order):
    """A file as a tool wrote it, and what the file does not state."""

    name: Sent = Field(min_length=1, max_length=255, description="of the file", examples=["bench.txt"])
    content: str = Field(
        description="the bytes in base64; of a folder, those of a tar archive, which gzip may have made smaller",
        examples=[GO],
    )
    format: Sent = Field(
        importing.AUTO, max_length=50, description="`auto` finds it out; the formats are listed in docs/importing.md"
    )
    commit: Sent = Field(
        "", max_length=250, description="a commit id, branch or tag, for files that name none", examples=["main"]
    )
    machine: Sent = Field("", max_length=50, description="for files that name none", examples=["ci"])
    environment: StatedFacts = Field({}, description="what else affects the values, such as `compiler`")
    measured_at: Time | None = Field(None, description="for files that have no date")
    options: StatedFacts = Field({}, description="of the format, such as `better`")
    all_or_nothing: bool = Field(False, description="if one result is refused, take none")

    def said(self) -> Options:
        return Options(
            commit=self.commit,
            machine=self.machine,
            environment=self.environment,
            measured_at=self.measured_at,
            name=self.name,
            given=self.options,
        )


class StoredCommit(Document):
    """A commit of which results are stored."""

    sha: str
    url: str = Field(description="of its page")


class FileReport(Document):
    """The result of sending a file."""

    taken: int = Field(description="results that are stored now")
    unchanged: int = Field(description="results that were stored before")
    refused: list[Text] = Field(
        description="what is not stored, with its reason: a result, or all of a commit that is not known"
    )
    refused_count: int = Field(description="results that are not stored")
    left_out: list[Text] = Field(description="what of the file is no result that can be taken, with reasons")
    benchmarks: list[Text] = Field(description="those with results that are stored now, or were before")
    commits: list[StoredCommit] = Field(description="those with results that are stored now, or were before")


@router.post("projects/{slug}/files", response=FileReport, summary="Send a file of a benchmark tool")
def send_file(
    request: ApiRequest,
    slug: str,
    order: FileOrder,
    idempotency_key: str | None = Header(None, alias=HEADER, description=MEANING),  # type: ignore[type-arg]
) -> Status[Any]:
    """A file that a tool wrote, or a document `speedtrack.points/1`. Each result is taken or refused by itself; one
    that was sent before changes nothing. If all are refused, the answer is 422. Needs the scope `results` and the
    role maintainer."""
    project = project_or_404(request, slug)
    actor_of(request).require("results.import", project)
    user = user_of(request)
    contents = contents_of(order)
    sender = Sender(Import.Door.API, user, user.get_username(), source=order.name)
    # Before the transaction, as it may have to look at the repository.
    prepared = [taking.prepare(project, parcel.batch, sender) for parcel in contents.parcels]

    def work() -> tuple[int, FileReport]:
        return OK, report_of(request, project, contents, prepared, order)

    if idempotency_key is not None:
        return Status(*once(request, idempotency_key, work))
    with transaction.atomic():
        return Status(*work())


def contents_of(order: FileOrder) -> Contents:
    """The contents of the sent file. Raises Invalid."""
    if order.format not in importing.formats():
        raise Invalid(f"there is no format {order.format!r}: {', '.join(importing.formats())}", field="format")
    try:
        content = base64.b64decode(order.content, validate=True)
    except (binascii.Error, ValueError):
        raise Invalid("the content is not in base64", field="content") from None
    try:
        return importing.contents_in(File(content, order.name), order.format, order.said())
    except Unreadable as e:
        raise Invalid(str(e), field="content") from None


def report_of(
    request: ApiRequest, project: Project, contents: Contents, prepared: Sequence[Prepared], order: FileOrder
) -> FileReport:
    """Store the valid results, in the caller's transaction. Return the report. Raises NoneTaken."""
    outcome = ImportOutcome()
    reports = results.take(actor_of(request), project, prepared).row
    for parcel, report, batch in zip(contents.parcels, reports, prepared, strict=True):
        outcome.add(parcel, report, batch)
    outcome.refuse(contents.refused)
    count = outcome.taken + outcome.unchanged
    if outcome.refused and (order.all_or_nothing or not count):
        summary = (
            f"{outcome.refused_count} results are refused, so none was taken" if count else "every result is refused"
        )
        errors = [{"pointer": "/content", "detail": refusal} for refusal in outcome.refused]
        raise NoneTaken(f"{summary}; {outcome.refused[0]}", errors, outcome.refused_count)
    return FileReport(
        taken=outcome.taken,
        unchanged=outcome.unchanged,
        refused=outcome.refused,
        refused_count=outcome.refused_count,
        left_out=contents.left_out,
        benchmarks=list(outcome.benchmarks),
        commits=[StoredCommit(sha=sha, url=page_of_commit(project.slug, sha)) for sha in outcome.commits],
    )


def page_of_commit(slug: str, sha: str) -> str:
    return settings.URL + reverse("commit", args=[slug, sha])
