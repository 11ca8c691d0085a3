import base64
import struct
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from speedtrack.benchmarks.digests import json_digest
from speedtrack.runs.documents import LogPiece
from speedtrack.runs.models import (
    Build,
    Environment,
    LogChunk,
    Machine,
    Measurement,
    Result,
    Run,
    Samples,
    Series,
    Trial,
)
from speedtrack.runs.queue import fence, queue
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.runs.results import results
from speedtrack.stats import histogram
from speedtrack.tests import builders
from speedtrack.tests.latencies import encoded

EMPTY = json_digest({})


@pytest.fixture
def run(tracked: Tracked, machine: Machine) -> Run:
    return builders.claim(machine)


def send(run: Run, values: list[float], **changes: Any) -> None:
    results.accept_result(run.machine, run.pk, builders.result(run, "get-p1", run.commit, values, **changes))


def counts() -> list[int]:
    return [model.objects.count() for model in (Series, Measurement, Trial, Samples, Environment)]


def test_every_sample_is_stored_with_its_summary(run: Run) -> None:
    send(run, [5.0, 3.0, 4.0, 1.0, 2.0])
    measurement = Measurement.objects.get(series__metric="server_cpu_ns_per_request")
    assert (measurement.value, measurement.n, measurement.flags) == (3.0, 5, [])
    assert measurement.low <= 3.0 <= measurement.high
    assert (measurement.samples.values, measurement.samples.flagged) == ([5.0, 3.0, 4.0, 1.0, 2.0], None)
    assert counts() == [2, 2, 5, 2, 1]
    assert list(Result.objects.get().unpacked())[3] == {"trial": 3, "driver": {"schema": "speedbench.v1"}}


def test_the_same_measurement_twice_stores_no_sample_twice(run: Run) -> None:
    send(run, [1.0] * 5)
    before = counts()
    send(run, [1.0] * 5)
    assert counts() == before


@pytest.mark.django_db(transaction=True)
def test_one_document_delivered_twice_at_once_is_stored_once(tracked: Tracked, machine: Machine) -> None:
    run = builders.claim(machine)
    document = builders.result(run, "get-p1", run.commit, [1.0] * 5)
    together = threading.Barrier(4)

    def deliver(_: int) -> None:
        try:
            together.wait()
            results.accept_result(machine, run.pk, document)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(deliver, range(4)))
    assert counts() == [2, 2, 5, 2, 1]


@pytest.mark.parametrize(
    ("values", "changes"),
    [
        ([9.0] * 5, {}),
        ([1.0, 1.0, 1.0, 1.0, 1.0 + 2**-52], {}),
        ([1.0] * 4, {}),
        ([1.0] * 5, {"flags": [["steal"], [], [], [], []]}),
        ([1.0] * 5, {"once": {"callgrind_instructions_per_request": 3.0}}),
        ([1.0] * 5, {"environment": {"digest": EMPTY, "series": {}, "recorded": {}}}),
    ],
)
def test_another_measurement_of_a_benchmark_is_refused_and_the_first_stays(
    run: Run, values: list[float], changes: dict[str, Any]
) -> None:
    send(run, [1.0] * 5)
    before = counts()
    with pytest.raises(results.Contradiction, match="another measurement of get-p1"):
        send(run, values, **changes)
    assert counts() == before
    assert set(Measurement.objects.filter(series__metric="server_cpu_ns_per_request").values_list("value")) == {(1.0,)}


def test_the_same_latencies_may_be_sent_again_compressed_otherwise(run: Run) -> None:
    """Which bytes deflate makes of a histogram depends on the implementation; the stored text is our own."""

    def send_latencies(text: str) -> None:
        document = builders.result(run, "get-p1", run.commit, [1.0] * 5)
        for trial in document.trials:
            trial.driver["latency_hdr_v2"] = text
        results.accept_result(run.machine, run.pk, document)

    for level in (9, 9, 1):
        packed = zlib.compress(histogram.inflate(encoded([5000, 6000])), level)
        send_latencies(base64.b64encode(struct.pack(">ii", histogram.COMPRESSED_COOKIE, len(packed)) + packed).decode())
    with pytest.raises(results.Contradiction, match="another measurement of get-p1"):
        send_latencies(encoded([5000, 7000]))
    assert {document["driver"]["latency_hdr_v2"] for document in Result.objects.get().unpacked()} == {
        encoded([5000, 6000])
    }


def test_why_instructions_are_not_countable_is_kept_with_the_result(run: Run) -> None:
    stopping = {"reason": "fixed", "half_width": None, "target": 0.01, "trials": 5, "thrown_out": 0}
    cause = {"not_countable": "the server has no function serve"}
    send(run, [1.0] * 5, stopping=stopping, **cause)
    assert Result.objects.get().stopping == stopping | cause


def test_flagged_trials_are_kept_and_do_not_count(run: Run) -> None:
    send(run, [1.0, 100.0, 2.0, 100.0, 3.0], flags=[[], ["steal"], [], ["steal", "client_bound"], []])
    measurement = Measurement.objects.get(series__metric="server_cpu_ns_per_request")
    assert (measurement.value, measurement.n, measurement.flags) == (2.0, 3, [])
    assert measurement.samples.flagged == [1, 3]
    assert measurement.samples.clean_by_trial == {0: 1.0, 2: 2.0, 4: 3.0}


def test_a_flag_voids_only_the_metrics_that_it_touches(run: Run) -> None:
    send(run, [1.0] * 5, flags=[["client_bound"]] * 5)
    flags = dict(Measurement.objects.values_list("series__metric", "flags"))
    assert flags == {"server_cpu_ns_per_request": [], "throughput_rps": ["client_bound"]}


def test_a_measurement_of_flagged_trials_alone_carries_the_flags(run: Run) -> None:
    send(run, [1.0, 2.0, 3.0, 4.0, 5.0], flags=[["steal"], ["unsteady"], ["steal"], ["steal"], ["steal"]])
    measurement = Measurement.objects.get(series__metric="server_cpu_ns_per_request")
    assert (measurement.value, measurement.flags) == (3.0, ["steal", "unsteady"])


def test_another_environment_is_another_series(run: Run) -> None:
    send(run, [1.0] * 5)
    facts = {**builders.SERIES_FACTS, "kernel": "6.2"}
    changed = {"digest": results.json_digest(facts), "series": facts, "recorded": {}}
    results.accept_result(
        run.machine, run.pk, builders.result(run, "set-p1", run.commit, [1.0] * 5, environment=changed)
    )
    assert Environment.objects.count() == 2
    assert Series.objects.values("environment").distinct().count() == 2


def test_an_environment_that_does_not_fit_its_digest_is_refused(run: Run) -> None:
    wrong = {"digest": builders.DIGEST, "series": builders.SERIES_FACTS, "recorded": {}}
    with pytest.raises(results.ResultError, match=r"environment\.digest is .*, but the facts under series have"):
        send(run, [1.0] * 5, environment=wrong)
    assert counts() == [0] * 5


def test_a_trial_number_twice_is_refused(run: Run) -> None:
    trials = builders.trials([{"throughput_rps": 1.0}] * 2)
    with pytest.raises(results.ResultError, match="a trial number occurs twice"):
        send(run, [], trials=[trials[0], trials[0]])


@pytest.mark.parametrize("wrong", [{"name": "get-p2"}, {"digest": builders.DIGEST}])
def test_a_benchmark_that_the_run_does_not_measure_is_refused(run: Run, wrong: dict[str, str]) -> None:
    right = builders.result(run, "get-p1", run.commit, [1.0] * 5)
    document = right.model_copy(update={"benchmark": right.benchmark.model_copy(update=wrong)})
    with pytest.raises(results.ResultError, match="does not measure"):
        results.accept_result(run.machine, run.pk, document)
    assert counts() == [0] * 5


def test_a_commit_that_is_no_side_of_the_run_is_refused(run: Run) -> None:
    other = Run.objects.get(rank=0).commit
    for side, commit in (("head", other), ("base", run.commit)):
        with pytest.raises(fence.LeaseLost, match=f"no side {side}"):
            results.accept_result(run.machine, run.pk, builders.result(run, "get-p1", commit, [1.0] * 5, side=side))
    assert counts() == [0] * 5


def test_a_document_of_a_run_planned_with_an_older_suite_still_fits(run: Run, settings: Any) -> None:
    builders.use_suite(settings, settings.SUITES, builders.SUITE.replace("clients = 50", "clients = 51"))
    send(run, [1.0] * 5)
    assert Measurement.objects.exists()


def test_a_piece_of_log_is_stored_once_per_number(run: Run) -> None:
    for text in ("first", "second"):
        queue.keep_log(run.machine, run.pk, LogPiece(token=run.lease_token, seq=0, phase="measure", text=text))
    queue.keep_log(run.machine, run.pk, LogPiece(token=run.lease_token, seq=1, phase="measure", text="a\0b 🐙"))
    assert list(LogChunk.objects.order_by("seq").values_list("text", flat=True)) == ["first", "a�b 🐙"]


def test_a_log_ends_with_a_line_that_says_so(run: Run) -> None:
    def send_piece(seq: int, text: str) -> None:
        queue.keep_log(run.machine, run.pk, LogPiece(token=run.lease_token, seq=seq, phase="measure", text=text))

    pieces = queue.LOG_BYTES // 900_000
    for seq in range(pieces):
        send_piece(seq, "é" * 450_000)
    send_piece(pieces, "é" * 450_000)  # more than is left
    last = LogChunk.objects.get(seq=pieces).text
    assert last.startswith("é")
    assert last.endswith("the log is longer than 8 MB: the rest of this attempt is left out ---\n")
    for seq in (pieces, pieces + 1, pieces + 2):
        send_piece(seq, "more")
    assert LogChunk.objects.count() == pieces + 1
    assert sum(len(chunk.text.encode()) for chunk in LogChunk.objects.all()) < queue.LOG_BYTES + 200


def test_a_build_is_stored_once_per_side(run: Run) -> None:
    builders.send_build(run, run.commit)
    builders.send_build(run, run.commit)
    with pytest.raises(results.Contradiction, match="another build of side head"):
        builders.send_build(run, run.commit, succeeded=False)
    build = Build.objects.get()
    assert (build.succeeded, build.artifacts["kvd"]["bytes"], build.error) == (True, 1000, "")


def test_a_build_of_another_commit_is_refused(run: Run) -> None:
    with pytest.raises(fence.LeaseLost, match="no side head"):
        builders.send_build(run, run.commit, sha="1" * 40)
