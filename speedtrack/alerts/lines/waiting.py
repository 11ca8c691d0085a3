"""Which rows wait for noise floors, or to read a sweep or the whole effect of a commit.

The dispatcher asks all day for them, and need not hold the statistics of those who answer.
"""

from datetime import timedelta

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from speedtrack.alerts.models import Alert, AlertEvent
from speedtrack.runs.models import ENDED, IN_SERVICE, SETTLING, Build, Machine, Reason, Run, RunQuerySet, Side

IDLE = timedelta(minutes=10)  # without work before this begins: pushes come in groups and must not wait


def unasked_machines() -> QuerySet[Machine]:
    """Idle machines for which due pairs have not been looked up lately."""
    runs = Run.objects.filter(machine=OuterRef("pk"))
    unfinished = Run.objects.unfinished().filter(machine=OuterRef("pk"))
    busy = Exists(unfinished) | Exists(runs.filter(ended_at__gt=Now() - IDLE))
    long_ago = Q(aa_looked_at=None) | Q(aa_looked_at__lt=Now() - IDLE)
    in_service = Machine.objects.filter(IN_SERVICE).filter(paused=False, quarantined_at=None)
    return in_service.filter(long_ago, Exists(runs)).exclude(busy)


def runs_with_due_floors() -> RunQuerySet:
    """Runs of identical builds without stored noise floors, and sweeps whose results were not read yet.

    Only runs that were not checked before.
    """
    head = Build.objects.filter(attempt=OuterRef("attempt"), side=Side.HEAD, artifacts=OuterRef("artifacts"))
    base = Build.objects.filter(attempt__run=OuterRef("pk"), attempt__token=OuterRef("lease_token"), side=Side.BASE)
    twins = base.filter(Exists(head), succeeded=True)
    runs = Run.objects.filter(floors_due=True, floors=None)
    return runs.filter(Q(reason__in=(Reason.AA, Reason.SWEEP)) | (Q(reason__in=SETTLING) & Exists(twins)))


def unread_effects() -> RunQuerySet:
    """Ended runs of the whole effect of a commit that no event reports yet; of several rounds, the newest."""
    readings = AlertEvent.objects.filter(kind=AlertEvent.Kind.MEASURED, run=OuterRef("pk"))
    alike = {name: OuterRef(name) for name in ("base", "commit", "machine", "reason", "metrics")}
    later = Run.objects.filter(**alike, pk__gt=OuterRef("pk"))
    ended_runs = Run.objects.filter(reason=Reason.EFFECT, status__in=ENDED)
    return ended_runs.filter(~Exists(readings), ~Exists(later))


def alerts_with_unread_effects() -> QuerySet[Alert]:
    """Open alerts whose whole effect has been measured, but not read."""
    unread = unread_effects().filter(base=OuterRef("before"), commit=OuterRef("commit"))
    alerts: QuerySet[Alert] = Alert.objects.open().filter(Exists(unread))
    return alerts.order_by("pk")
