"""Mutes: for a while nobody is notified of changes of a benchmark, one of its series, or a machine."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from speedtrack.alerts.models import ChangePoint, Mute
from speedtrack.projects.models import Project
from speedtrack.runs.models import Machine, Series

LONGEST_DAYS = 365


@dataclass(frozen=True)
class MuteRequest:
    """What is to be muted (empty: any), why, and for how many days."""

    benchmark: str
    metric: str
    machine: Machine | None
    reason: str
    days: int


@transaction.atomic
def mute(project: Project, quiet: MuteRequest, user: User) -> Mute:
    """Mute from now on. Raises ValueError with the remedy for what cannot be muted."""
    if not quiet.reason.strip():
        raise ValueError("say why: others must be able to judge whether the mute is still needed")
    if not 1 <= quiet.days <= LONGEST_DAYS:
        raise ValueError(f"say for how many days, 1 to {LONGEST_DAYS}")
    if not quiet.benchmark and quiet.machine is None:
        raise ValueError("say which benchmark or machine: a whole project cannot be muted")
    if quiet.metric and not quiet.benchmark:
        raise ValueError("say of which benchmark the metric is muted")
    return Mute.objects.create(
        project=project,
        benchmark=quiet.benchmark,
        metric=quiet.metric,
        machine=quiet.machine,
        reason=quiet.reason.strip(),
        until=Now() + timedelta(days=quiet.days),
        who=user,
    )


def end_mute(mute: Mute, user: User) -> bool:
    """End a mute early. False if it has already ended."""
    return Mute.objects.in_force().filter(pk=mute.pk).update(ended_at=Now(), ended_by=user) == 1


def mute_of(series: Series) -> Mute | None:
    """The mute that covers a series now; None if there is none."""
    return Mute.objects.in_force().of(series).select_related("machine").first()


def mutes_of(change_points: Iterable[ChangePoint]) -> dict[int, Mute]:
    """By id of each muted change point: the mute that covers it now. One query for all."""
    points = list(change_points)
    projects = {cp.series.project_id for cp in points}
    mutes = list(Mute.objects.in_force().filter(project__in=projects).select_related("machine").order_by("until", "id"))
    return {cp.pk: mute for cp in points for mute in mutes if mute.covers(cp.series)}


def mutes_in_force(project: Project) -> QuerySet[Mute]:
    """The mutes of a project that are in force now, the next to end first."""
    return project.mutes.in_force().select_related("machine", "who").order_by("until", "id")
