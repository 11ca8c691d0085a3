"""A month's gains: what commits of it certainly made better, the largest first, in one project or in all."""

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import TruncMonth
from django.http import Http404
from django.utils import timezone

from speedtrack.accounts.access import Access
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.benchmarks.metrics import INSTRUCTIONS
from speedtrack.projects.models import Project
from speedtrack.web.pages import changes
from speedtrack.web.pages.changes import ChangeGroup

MONTH = re.compile(r"[1-9]\d{3}-(0[1-9]|1[0-2])", re.ASCII)
MOST = 2000  # of a month


@dataclass(frozen=True)
class GainsPage:
    """``earlier``, ``later``: the nearest months that have gains, as their first moments; None without any."""

    project: Project | None
    month: datetime
    gains: list[ChangeGroup]
    earlier: datetime | None
    later: datetime | None


def load(project: Project | None, month: str, access: Access) -> GainsPage:
    """The page of a month such as ``2026-11``; without one, of the newest month with gains. Raises Http404."""
    gains = confirmed_gains(project, access)
    months = months_of(gains)
    current = month_named(month) if month else (months or [first_moment(timezone.now())])[-1]
    return GainsPage(
        project,
        current,
        groups_of_month(gains, current),
        earlier=max((candidate for candidate in months if candidate < current), default=None),
        later=min((candidate for candidate in months if candidate > current), default=None),
    )


def month_named(name: str) -> datetime:
    if not MONTH.fullmatch(name):
        raise Http404(f"{name[:40]!r} is no month: give such as 2026-11.")
    return datetime.strptime(name, "%Y-%m").replace(tzinfo=UTC)


def first_moment(at: datetime) -> datetime:
    return at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def confirmed_gains(project: Project | None, access: Access) -> QuerySet[ChangePoint]:
    """Confirmed steps to the better whose alert nobody found to be false."""
    steps = changes.change_points().gains().filter(status=ChangePoint.Status.CONFIRMED, kind=ChangePoint.Kind.STEP)
    own: dict[str, Any] = {"series__project": project} if project else {}
    return access.among(steps.filter(**own).exclude(alert__status=Alert.Status.INVALID), "series__project")


def months_of(gains: QuerySet[ChangePoint]) -> list[datetime]:
    """The months with gains, the oldest first."""
    month = TruncMonth("commit__committed_at", tzinfo=UTC)
    return list(gains.annotate(month=month).order_by("month").values_list("month", flat=True).distinct())


def groups_of_month(gains: QuerySet[ChangePoint], month: datetime) -> list[ChangeGroup]:
    """By cause: the gains of a month, the largest first. Fewer instructions alone come after what got faster."""
    of_month = gains.filter(commit__committed_at__year=month.year, commit__committed_at__month=month.month)
    return sorted(changes.groups_of_rows(of_month.order_by("-pk")[:MOST]), key=rank_of)


def rank_of(group: ChangeGroup) -> tuple[bool, float]:
    ratio = group.worst.ratio
    return group.worst.metric.name in INSTRUCTIONS, -abs(math.log(ratio)) if ratio > 0 else -math.inf
