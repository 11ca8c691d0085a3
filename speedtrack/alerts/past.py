"""What is news, and what was there before anybody could be told of it.

News is a change that a push has shown: a push measured its commit, and among the new points that raised the suspicion
is one that a push measured. However late that is (a nightly machine, a backlog of a week, a small change that needs ten
commits to be seen), it is news.

The past is all else: a history that was there when the repository was tracked, commits measured by hand or filled in
later, and what `manage.py detect` finds in a line that was looked at before. Its alerts are raised like others, and
marked, so that whoever tells of them puts them into a digest.
"""

from collections.abc import Iterable

from speedtrack.alerts.models import ChangePoint
from speedtrack.runs.models import Measurement, Reason


def mark_past(suspicion: ChangePoint, new: Iterable[int]) -> None:
    """Mark a new suspicion that is the past. ``new``: the commits of the new points that it rests on."""
    pushed = Measurement.objects.filter(
        series=suspicion.series_id, accepted=True, paired=False, attempt__run__reason=Reason.PUSH
    )
    news = pushed.filter(commit=suspicion.commit_id).exists() and pushed.filter(commit__in=list(new)).exists()
    suspicion.past = not news
    suspicion.save(update_fields=["past"])
