"""Charts and detection load the accepted attempt of a run, and no other."""

from speedtrack.alerts.lines import lines
from speedtrack.projects.models import Commit
from speedtrack.runs.models import Run, Series
from speedtrack.runs.queue import queue
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.tests import builders

from .conftest import Runner


def shown(tracked: Tracked) -> dict[str, tuple[float, int]]:
    """The line of get-p1: commit -> value and number of samples."""
    series = Series.objects.filter(benchmark__name="get-p1", metric="server_cpu_ns_per_request")
    points = lines.points(series.values_list("pk", flat=True), tracked.branch, 0)
    return {Commit.objects.get(pk=point.commit_id).sha: (point.value, point.n) for point in points}


def test_a_lost_attempt_is_invisible_and_the_accepted_one_alone_counts(
    runner: Runner, tracked: Tracked, run: Run
) -> None:
    builders.measure(run, 9000.0)
    assert shown(tracked) == {}
    again = Run.objects.get(pk=runner.claim()["run"])
    assert (again.pk, again.attempt) == (run.pk, 2)
    builders.measure(again, 5000.0)
    assert shown(tracked) == {}
    queue.complete(runner.machine, again.pk, again.lease_token)
    assert shown(tracked) == {run.commit.sha: (5002.0, 5)}
