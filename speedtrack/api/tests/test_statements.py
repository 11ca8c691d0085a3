"""The calls that runners make all day send few statements to PostgreSQL, however much they are about."""

from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

from speedtrack.api.tests.conftest import CLAIM, Runner
from speedtrack.runs.models import Measurement, Run, Status
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.tests import builders


def statements(runner: Runner, path: str, body: Any) -> list[str]:
    """Those of one call, without the beginnings and ends of transactions."""
    with CaptureQueriesContext(connection) as sent:
        assert runner.post(path, body).status_code == 200
    texts = [str(one["sql"]) for one in sent]  # None of one whose plan is kept
    return [text for text in texts if not text.startswith(("SAVEPOINT", "RELEASE"))]


def test_a_claim(runner: Runner, tracked: Tracked) -> None:
    runner.claim()  # reads the suite and the set, which never change
    Run.objects.active().update(status=Status.CANCELLED, lease_until=None)
    sent = statements(runner, "claim", CLAIM)
    assert len(sent) == 4, sent


def test_a_result_of_many_trials_and_metrics(run: Run, runner: Runner) -> None:
    names = ("throughput_rps", "server_cpu_ns_per_request", "latency_us_p50", "latency_us_p99", "peak_rss_bytes")
    sent = []
    for benchmark, metrics, trials in (("get-p1", names[:1], 1), ("set-p1", names, 100)):
        rows = builders.trials([dict.fromkeys(metrics, 1000.0 + trial) for trial in range(trials)])
        document = builders.result(run, benchmark, run.commit, [], trials=rows)
        sent = statements(runner, f"runs/{run.pk}/measurement", document.model_dump(mode="json", by_alias=True))
    assert Measurement.objects.count() == 6
    assert len(sent) == 7, sent
