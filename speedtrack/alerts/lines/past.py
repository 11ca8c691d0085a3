"""Which changes are news, and which are the past.

A change is news if a push revealed it: a push measured its commit, and among the new points that raised the suspicion
is one that a push measured. It may come late (a nightly machine, a backlog of a week, a small change that needs ten
commits to be seen) and still is news.

What was measured elsewhere says nothing of pushes. It counts as pushed if it came within FRESH of its commit: a build
server sends its results at once, while whoever brings years of history wants no mail about them.

Everything else is the past: history from before the repository was tracked, commits measured by hand or filled in
later, and what `manage.py detect` finds in a line that was checked before. Its alerts are raised like others, but
marked, so that notices puts them into a digest.
"""

from collections.abc import Iterable
from datetime import timedelta

from django.db.models import F, Q, Value

from speedtrack.alerts.lines import lines
from speedtrack.alerts.models import ChangePoint
from speedtrack.runs.models import Reason

FRESH = timedelta(days=7)


def mark_past(suspicion: ChangePoint, new: Iterable[int]) -> None:
    """Mark a new suspicion as the past, unless it is news.

    ``new``: the ids of the commits whose new points showed it.
    """
    points = lines.point_measurements().filter(series=suspicion.series_id)
    sent_at_once = Q(
        attempt__run__reason=Reason.IMPORT, commit__committed_at__gt=F("attempt__started_at") - Value(FRESH)
    )
    pushed = points.filter(sent_at_once | Q(attempt__run__reason=Reason.PUSH))
    news = pushed.filter(commit=suspicion.commit_id).exists() and pushed.filter(commit__in=list(new)).exists()
    suspicion.past = not news
    suspicion.save(update_fields=["past"])
