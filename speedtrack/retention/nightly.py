"""Apply all policies once a day. A policy that needs a person's confirmation is not applied."""

import logging
import time
from collections.abc import Callable
from datetime import timedelta

from django.conf import settings
from django.db import DatabaseError
from django.db.models import DateTimeField, Exists, ExpressionWrapper, QuerySet, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Now, TruncDay

from speedtrack.calls.spent import delete_spent
from speedtrack.projects.models import Project
from speedtrack.retention import indexes, pruning
from speedtrack.retention.models import Pruning
from speedtrack.retention.policies import POLICIES, Policy

log = logging.getLogger(__name__)

AT_MOST_S = 300.0  # of one call; the next call continues
FEWEST = 1000  # rows: fewer may be all, as when nobody has pushed for months


def last_night() -> Combinable:
    """The time at which PRUNE_HOUR last began, by the database's clock."""
    hour = Value(timedelta(hours=settings.PRUNE_HOUR))
    return ExpressionWrapper(TruncDay(Now() - hour, output_field=DateTimeField()) + hour, DateTimeField())


def due() -> QuerySet[Project]:
    """All projects if a policy has not been applied since PRUNE_HOUR, otherwise none.

    Without a project nothing is old.
    """
    if settings.PRUNE_HOUR < 0:
        return Project.objects.none()
    prunings = Pruning.objects.filter(policy=Pruning.NIGHT, done_at__gte=last_night())
    return Project.objects.filter(~Exists(prunings), created__lt=last_night())


def prune_due() -> None:
    """Apply the policies that have not been applied since PRUNE_HOUR, for at most AT_MOST_S seconds.

    Safe to run any number of times.
    """
    if not due().exists():
        return
    until = time.monotonic() + AT_MOST_S
    try:
        with pruning.one_at_a_time():
            finished = set(Pruning.objects.filter(done_at__gte=last_night()).values_list("policy", flat=True))
            policies = [policy for policy in POLICIES.values() if policy.name not in finished]
            if all(prune_by_night(policy, lambda: time.monotonic() < until) for policy in policies):
                delete_spent()
                rebuild_if_sparse()
                Pruning.objects.update_or_create(pk=Pruning.NIGHT, defaults={"done_at": Now()})
    except pruning.PruningUnderWay as e:
        log.info("%s", e)


def rebuild_if_sparse() -> None:
    try:
        if indexes.rebuild_sparse():
            log.info("the index of points was rebuilt")
    except DatabaseError as e:  # it serves as it is; the next night tries again
        log.warning("the index of points was not rebuilt: %s", str(e).strip())


def prune_by_night(policy: Policy, go_on: Callable[[], bool]) -> bool:
    """Apply a policy, or store why it was not applied. Return whether it is finished."""
    try:
        doubts = [doubt for doubt in pruning.forecast(policy).doubts if doubt.rows is None or doubt.rows >= FEWEST]
        if doubts:
            why = "; ".join(doubt.words for doubt in doubts)
            note_problem(
                policy, f"not applied automatically: {why}. To prune `{policy.name}` by hand asks, and does it"
            )
            return True
        deleted, is_all = pruning.prune(policy, go_on=go_on)
    except pruning.PruningFailed as e:
        note_problem(policy, str(e))
        return True
    if deleted:
        log.info("retention deleted %d rows: %s", deleted, policy.what)
    return is_all


def note_problem(policy: Policy, why: str) -> None:
    """Report why a policy was not applied this night, in the log and by ``manage.py doctor``."""
    log.error("retention, %s: %s", policy.name, why)
    Pruning.objects.update_or_create(pk=policy.name, defaults={"done_at": Now(), "problem": why})
