"""The rows that policies may delete, without those on which something rests.

What is kept for the sake of a run is kept of all of its attempts. The conditions are correlated subqueries that follow
indexes, so that they cost little for the few rows that are looked at in one go.
"""

from django.db.models import Exists, F, Model, OuterRef, Q, QuerySet, Window
from django.db.models.functions import RowNumber

from speedtrack.alerts.models import Alert, BestLevel, ChangePoint, NoiseFloor, Verdict
from speedtrack.notices.models import Outbox
from speedtrack.projects.models import Delivery, Tag
from speedtrack.runs.models import (
    Attempt,
    CanaryCheck,
    MachineEvent,
    Reason,
    ReferenceRate,
    Run,
    RunEvent,
    Status,
)
from speedtrack.stats import canary

#: The columns that name a commit on whose runs something rests.
COMMITS: list[tuple[type[Model], tuple[str, ...]]] = [
    (ChangePoint, ("before", "commit")),
    (Verdict, ("base", "commit")),
    (Alert, ("before", "commit", "fixed_by", "reverted_by")),
    (BestLevel, ("commit",)),
]
CHECKS = max(canary.ANCHOR, canary.RECENT)  # of an environment, oldest and newest, with which a canary is compared


def is_held_commit(commit: str) -> Q:
    """Does something rest on the runs of this commit (the path to it): is it a release, or in COMMITS?"""
    held = Q(Exists(Tag.objects.filter(project=OuterRef("project"), sha=OuterRef(f"{commit}__sha"))))
    for model, columns in COMMITS:
        for column in columns:
            held |= Q(Exists(model._default_manager.filter(**{column: OuterRef(commit)})))
    return held


def held_runs() -> QuerySet[Run]:
    """Runs on which a change point, an alert, a release, a noise floor, a reference rate or a best level rests.

    A run that measured the program of a held commit, under another commit, is held as well.
    """
    settles = Exists(ChangePoint.runs.through._default_manager.filter(run=OuterRef("pk")))
    floor = Exists(NoiseFloor.objects.filter(run=OuterRef("pk")))
    rates = ReferenceRate.objects.filter(machine=OuterRef("machine"), measurement__attempt__run=OuterRef("pk"))
    linked = Exists(Run.objects.filter(is_held_commit("commit"), linked=OuterRef("pk")))
    return Run.objects.filter(Q(settles) | Q(floor) | Q(Exists(rates)) | Q(linked) | is_held_commit("commit"))


def free_attempts() -> QuerySet[Attempt]:
    return Attempt.objects.filter(~Exists(held_runs().filter(pk=OuterRef("run"))))


def free_deliveries() -> QuerySet[Delivery]:
    """Those that no look waits for."""
    return Delivery.objects.exclude(status=Delivery.Status.RECEIVED)


def free_run_events() -> QuerySet[RunEvent]:
    """Not those of cancellations: they tell which runs are queued again when their commits return to a branch."""
    return RunEvent.objects.filter(~Exists(held_runs().filter(pk=OuterRef("run")))).exclude(after=Status.CANCELLED)


def free_machine_events() -> QuerySet[MachineEvent]:
    """Those of which everybody was told; not the newest of its kind, which begins the history of the present state."""
    unsent = Outbox.objects.filter(machine_event=OuterRef("pk"), sent_at=None)
    newer = MachineEvent.objects.filter(machine=OuterRef("machine"), kind=OuterRef("kind"), pk__gt=OuterRef("pk"))
    return MachineEvent.objects.filter(Exists(newer), ~Exists(unsent), untold=False)


def free_canary_runs() -> QuerySet[Run]:
    """Ended runs of canaries, without those with which the next run of a canary in use is compared."""
    ended = Run.objects.filter(reason=Reason.CANARY, ended_at__isnull=False)
    unjudged = Q(status__in=(Status.SUCCEEDED, Status.FAILED), canary_check=None)
    return ended.exclude(unjudged).exclude(pk__in=compared_checks().values("run"))


def compared_checks() -> QuerySet[CanaryCheck]:
    """The oldest and the newest checks of canaries in use, in each environment: good ones apart from others."""
    in_use = CanaryCheck.objects.filter(canary__retired_at=None, at__gt=F("canary__since"))
    alike = ["canary", "series__environment", "is_good"]
    numbered = in_use.annotate(is_good=Q(answer__in=CanaryCheck.GOOD)).annotate(
        from_oldest=Window(RowNumber(), partition_by=alike, order_by=F("pk").asc()),
        from_newest=Window(RowNumber(), partition_by=alike, order_by=F("pk").desc()),
    )
    return numbered.filter(Q(from_oldest__lte=CHECKS) | Q(from_newest__lte=CHECKS))
