"""The webhook calls of a project: what arrived, what followed, and what was refused; and one call with its body."""

import json
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Sum
from django.http import Http404, QueryDict
from django.utils import timezone

from speedtrack.projects import deliveries, hooks
from speedtrack.projects.forges.providers import BY_NAME
from speedtrack.projects.models import Delivery, Project, Refusal

PER_PAGE = 50
REFUSALS = 20  # the newest counts of refused calls
SHOWN = 20_000  # bytes of a body
RECENT = timedelta(days=1)
STATUSES = Delivery.Status.values


@dataclass(frozen=True)
class DeliveriesPage:
    """``refused``: calls of the last day. ``following``: the number before which the next page begins, 0 for none."""

    rows: list[Delivery]
    status: str
    before: int
    following: int
    refusals: list[Refusal]
    refused: int
    counted: int = hooks.COUNTED


@dataclass(frozen=True)
class DeliveryPage:
    """``text``: the body as it can be shown, ``left_out`` how many of its bytes are not."""

    delivery: Delivery
    headers: list[tuple[str, str]]
    text: str
    left_out: int


def load(project: Project, query: QueryDict) -> DeliveriesPage:
    status, before = query.get("status", ""), number_or_404(query.get("before", ""))
    if status and status not in STATUSES:
        raise Http404(f"There is no status {status!r}: there are {', '.join(STATUSES)}.")
    calls = deliveries.list_calls(project, status)
    rows = list((calls.filter(pk__lt=before) if before else calls)[: PER_PAGE + 1])
    refusal_count = project.refusals.filter(last_at__gte=timezone.now() - RECENT).aggregate(all=Sum("count"))["all"]
    return DeliveriesPage(
        rows=[named(row) for row in rows[:PER_PAGE]],
        status=status,
        before=before,
        following=rows[PER_PAGE - 1].pk if len(rows) > PER_PAGE else 0,
        refusals=list(project.refusals.order_by("-hour", "reason")[:REFUSALS]),
        refused=refusal_count or 0,
    )


def number_or_404(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise Http404(f"There is no delivery {text[:50]!r}.")
    return int(text)


def named(row: Delivery) -> Delivery:
    """The delivery, with ``forge`` set to the forge's name as people write it."""
    row.forge = BY_NAME[row.provider].title if row.provider in BY_NAME else row.provider  # type: ignore[attr-defined]
    return row


def load_one(project: Project, pk: int) -> DeliveryPage:
    delivery: Delivery | None = project.deliveries.filter(pk=pk).first()
    if delivery is None:
        raise Http404(f"The project {project.slug!r} has no delivery {pk}.")
    begin = delivery.beginning(SHOWN)
    text = begin.decode(errors="replace")
    if len(begin) == delivery.size:
        text = indented(text)
    return DeliveryPage(named(delivery), sorted(delivery.headers.items()), text, max(0, delivery.size - len(begin)))


def indented(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
