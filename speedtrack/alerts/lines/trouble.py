"""A series that fails does not hold up others: the failure is logged and stored, and retried after growing pauses."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db import InterfaceError, OperationalError, transaction
from django.db.models.functions import Now

from speedtrack.runs.models import Series

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 60  # doubled by each failure in a row
LONGEST_PAUSE_S = 6 * 3600
DATABASE_AWAY = (OperationalError, InterfaceError)  # not the fault of a series


@contextmanager
def isolated(*series: Series) -> Iterator[None]:
    """Run the block in a savepoint. If it raises, it is rolled back and the failure is stored on these series.

    If the database is away, the error is raised: the caller waits for it.
    """
    try:
        with transaction.atomic():
            yield
    except DATABASE_AWAY:
        raise
    except Exception as e:  # the top of the loop over all series
        log.exception("series %s: no changes can be looked for", ", ".join(str(member.pk) for member in series))
        for member in series:
            store_failure(member, e)
    else:
        clear_trouble(series)


def clear_trouble(series: Iterable[Series]) -> None:
    """Delete the stored failures of series that were judged without one."""
    recovered = [member.pk for member in series if member.failures]
    if recovered:
        Series.objects.filter(pk__in=recovered).update(error="", failures=0, retry_at=None)


def store_failure(series: Series, e: Exception) -> None:
    """Store a failure on a series, with the time of the next attempt."""
    before = Series.objects.values_list("failures", flat=True).get(pk=series.pk)
    pause = timedelta(seconds=min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(before, 20)))
    series.failures = before + 1
    Series.objects.filter(pk=series.pk).update(
        error=f"{type(e).__name__}: {e}"[:2000], failures=series.failures, retry_at=Now() + pause
    )
