"""Files of the real tools: what is read is what each tool itself says of its file."""

import json
from datetime import UTC, datetime
from statistics import fmean, median

import pytest

from speedtrack.outside import document
from speedtrack.outside.readers import OutsideResult, ReadError
from speedtrack.outside.readers.registry import READERS
from speedtrack.outside.readers.tests.samples import FILES, FORMATS, content_of, read, reading_of

COMMIT = "c" * 40


def results(name: str, **options: object) -> dict[tuple[str, str], OutsideResult]:
    """By benchmark with its parameters, and metric."""
    found = {}
    for one in reading_of(name, **options).results:
        words = " ".join(f"{key}={value}" for key, value in one.parameters.items())
        found[f"{one.benchmark} {words}".strip(), one.metric] = one
    return found


def from_file(name: str) -> object:
    return json.loads((FILES / name).read_text())


@pytest.mark.parametrize("name", FORMATS)
def test_each_file_is_of_one_format_and_fits_the_native_document(name: str) -> None:
    content = content_of(name)
    assert [reader.name for reader in READERS if reader.sniff(content, name)] == [FORMATS[name]]
    stated = {} if FORMATS[name] in ("asv", "github-action-history") else {"commit": COMMIT}
    found = reading_of(name, machine="box", **stated).results
    batch = document.batch_of(document.document_of(found, commit=stated.get("commit", ""), machine="box"))
    points = list(document.points_of(batch))
    assert len(points) == len(found) > 0
    assert [one for one in points if isinstance(one, document.ResultRefusal)] == []
    assert {one.unit for one in found} <= {
        "ns",
        "bytes",
        "requests/s",
        "ops/s",
        "bytes/s",
        "allocs/op",
        "fields/op",
        "Megabytes",
        "Percent",
    }


def test_redis_benchmark() -> None:
    found = results("redis-benchmark.csv")
    assert len(found) == 3 * 5
    rate, latency = found["GET", "throughput"], found["GET", "latency_p99"]
    assert (rate.samples, rate.unit, rate.better) == ((13824.89,), "requests/s", "higher")
    assert (latency.samples, latency.unit, latency.better) == ((13_943_000.0,), "ns", "lower")
    assert ("LPUSH (needed to benchmark LRANGE)", "throughput") in results("redis-benchmark-tests.csv")
    assert results("valkey-benchmark.csv")["MSET (10 keys)", "latency_avg"].samples == (4_143_000.0,)


def test_memtier_has_each_run_where_all_are_printed() -> None:
    # The means are those of the table "AGGREGATED AVERAGE RESULTS" that memtier_benchmark printed.
    found = {(one.benchmark, one.metric): one for one in reading_of("memtier-runs.json").results}
    assert fmean(found["memtier Sets", "throughput"].samples) == pytest.approx(4814.50, abs=0.01)
    assert fmean(found["memtier Gets", "throughput"].samples) == pytest.approx(9629.00, abs=0.01)
    assert len(found["memtier Totals", "latency_p50"].samples) == 3
    assert ("memtier Waits", "throughput") not in found
    assert ("memtier Totals", "latency_avg") not in found  # memtier writes zero there
    one = reading_of("memtier.json").results[0]
    assert (one.parameters["pipeline"], one.parameters["ratio"], one.parameters["clients"]) == ("4", "1:2", "2")
    assert one.measured_at == datetime(2026, 11, 23, 20, 42, 13, 14000, tzinfo=UTC)


def test_memtier_without_its_runs_has_their_average() -> None:
    stripped = {k: v for k, v in from_file("memtier-runs.json").items() if not k.startswith("RUN #")}  # type: ignore[attr-defined]
    found = read(json.dumps(stripped).encode(), "memtier")
    assert {(one.metric, one.value, one.n) for one in found if one.benchmark == "memtier Sets"} >= {
        ("throughput", 4814.5, 3)
    }


def test_github_action_needs_the_direction_of_units_that_do_not_say_it() -> None:
    assert results("github-action-smaller.json").keys() == {("split", "time")}
    found = results("github-action-smaller.json", given={"better": "lower"})
    split, resident = found["split", "time"], found["resident", "Megabytes"]
    assert (split.value, split.low, split.high) == (3_250_000.0, 3_000_000.0, 3_500_000.0)
    assert (resident.samples, resident.unit, resident.better) == ((100.0,), "Megabytes", "lower")
    found = results("github-action-bigger.json", given={"better": "Percent=higher"})
    assert found["score", "Percent"].better == "higher"
    assert found["requests", "throughput"].low == pytest.approx(1520.5 * 0.97)
    with pytest.raises(ReadError, match="'upwards' is no direction"):
        results("github-action-bigger.json", given={"better": "upwards"})


def test_the_history_of_github_action_names_its_commits() -> None:
    found = reading_of("data.js").results
    times = [(one.commit, one.value) for one in found if one.benchmark == "Times: split"]
    assert times == [("1" * 40, 3_250_000.0), ("2" * 40, 3_250_000.0)]
    assert [one.better for one in found if one.benchmark == "Rates: score"] == ["higher"]
    waits = [one for one in found if one.benchmark.startswith("Copies: BM_Wait")]
    assert [len(one.samples) for one in waits] == [3]  # without the rows of mean, median and so on
    rates = [one for one in found if one.metric == "rate"]
    assert {(one.unit, one.better) for one in rates} == {("ops/s", "higher")}
    with pytest.raises(ReadError, match="leave the commit out"):
        reading_of("data.js", commit=COMMIT)


def test_bencher() -> None:
    # hyperfine's mean is 0.0193749556 s, JMH's scores are those of jmh.json
    found = results("bencher.json")
    sleep = found["sleep 0.01", "latency"]
    assert (sleep.value, sleep.low, sleep.high) == (19374955.6, 16822340.14805972, 21927571.05194028)
    split = found["org.example.Words.split", "rate"]
    assert (split.value, split.low, split.unit, split.better) == (5181.700698463129, None, "ops/s", "higher")


def test_google_benchmark() -> None:
    # The medians are the rows that Google Benchmark adds itself.
    found = results("google-benchmark.json", given={"better": "allocs=lower"})
    assert median(found["BM_Copy/512/repeats:3", "time"].samples) == pytest.approx(73.12567909796216)
    assert median(found["BM_Copy/8/repeats:3", "cpu_time"].samples) == pytest.approx(3.1911918153549794)
    assert median(found["BM_Copy/8/repeats:3", "bandwidth"].samples) == pytest.approx(2506900387.969973)
    assert found["BM_Copy/8/repeats:3", "allocs"].samples == (1.5, 1.5, 1.5)
    wait = found["BM_Wait/iterations:20/repeats:3/real_time", "time"]
    assert median(wait.samples) == pytest.approx(305_115.05000276884)
    assert (wait.machine, wait.environment["library_build_type"]) == ("box", "debug")
    assert wait.measured_at == datetime(2026, 11, 23, 20, 36, 57, tzinfo=UTC)
    causes = [str(one) for one in reading_of("google-benchmark.json").left_out]
    assert any("'BM_Broken' was not measured: no such file" in cause for cause in causes)
    (aggregate,) = [one for one in reading_of("google-aggregates.json").results if one.metric == "time"]
    assert (aggregate.value, aggregate.n) == (pytest.approx(172_667.3500115794), 3)


def test_hyperfine() -> None:
    found = results("hyperfine.json")
    assert median(found["true", "time"].samples) == pytest.approx(0.002134162e9)
    assert fmean(found["sleep 0.01", "time"].samples) == pytest.approx(0.0193749556e9)
    assert found["sleep 0.01", "user_time"].n == 5
    assert min(results("hyperfine-parameters.json")["seq 3000 n=3", "time"].samples) == 0
    assert ("seq 3000 n=3", "user_time") in results("hyperfine-parameters.json")


def test_pyperf() -> None:
    # python -c "import pyperf; ... BenchmarkSuite.load(FILE) ... b.median(), b.get_nvalue(), b.get_dates()"
    found = results("pyperf.json")
    split = found["split", "time"]
    assert (len(split.samples), median(split.samples)) == (6, pytest.approx(57.95999982183275))
    assert median(found["join", "time"].samples) == pytest.approx(80.77000018147374)
    assert split.measured_at == datetime(2026, 11, 23, 20, 37, 42, 975139, tzinfo=UTC)
    assert (split.machine, split.environment["cpu_model_name"]) == ("box", "AMD EPYC")
    memory = results("pyperf-command.json")["command", "memory"]
    assert (median(memory.samples), memory.unit) == (12793856.0, "bytes")


def test_pytest_benchmark() -> None:
    found = results("pytest-benchmark.json")
    join = found["test_words.py::TestJoin::test_join", "time"]
    assert (len(join.samples), median(join.samples)) == (4, pytest.approx(126.33499864023178))
    assert join.commit == "3407269dc5f7208c203d9ddd42f44e710dd9db39"
    assert (join.machine, join.environment["python_version"], join.environment["cpu_brand"]) == (
        "box",
        "3.11.7",
        "AMD EPYC",
    )
    dirty = (FILES / "pytest-benchmark.json").read_bytes().replace(b'"dirty": false', b'"dirty": true')
    with pytest.raises(ReadError, match=r"/commit_info: .* changes that are not committed: commit them"):
        read(dirty, "pytest-benchmark")
    assert {one.commit for one in read(dirty, "pytest-benchmark", commit=COMMIT)} == {""}  # the caller's counts


def test_go() -> None:
    # benchstat -format csv go.txt, in s/op, B/s, fields/op, B/op and allocs/op
    found = results("go.txt")
    medians = {key: median(one.samples) for key, one in found.items()}
    assert medians["example.org/words.Split/size=16-2", "time"] == pytest.approx(1.6508e-05 * 1e9)
    assert medians["example.org/words.Split/size=256-2", "bandwidth"] == 1.4e07
    assert medians["example.org/words.Split/size=256-2", "fields/op"] == 12.5
    assert medians["example.org/words.Fields-2", "allocated"] == 2304
    assert medians["example.org/words/upper.Upper-2", "time"] == 95.47
    assert all(len(one.samples) == 3 for one in found.values())
    assert found["example.org/words.Fields-2", "time"].environment == {
        "goos": "linux",
        "goarch": "amd64",
        "cpu": "AMD EPYC",
    }


def test_criterion() -> None:
    # mean.point_estimate of estimates.json, mean.estimate of the messages
    assert fmean(results("criterion")["sum/iter/100", "time"].samples) == pytest.approx(186.85482709614308)
    assert fmean(results("criterion")["sum/iter/1000", "time"].samples) == pytest.approx(309.9353145588867)
    assert len(results("criterion")["split words", "time"].samples) == 10
    assert fmean(results("cargo-criterion.json")["sum/iter/1000", "time"].samples) == pytest.approx(352.4525010990534)


def test_jmh() -> None:
    # the scores of the file
    found = results("jmh.json")
    split, hashes = (
        found["org.example.Words.split length=10", "rate"],
        found["org.example.Words.hash length=100", "time"],
    )
    assert (len(split.samples), fmean(split.samples)) == (6, pytest.approx(38916.460130782134))
    assert (split.unit, split.better, hashes.unit, hashes.better) == ("ops/s", "higher", "ns", "lower")
    assert fmean(hashes.samples) == pytest.approx(11761.010648782685)
    assert hashes.environment["jdkVersion"] == "17.0.15"
    sampled = results("jmh-sample.json")
    assert fmean(sampled["org.example.Words.copy length=10", "allocated"].samples) == pytest.approx(71.32382855979185)
    assert len(sampled["org.example.Words.copy length=10", "sampled_time"].samples) == 4


def test_asv() -> None:
    # asv show df2bfc3c: 568 ns, 681 ns and 2.13 µs of time_split, 413 ns of time_join
    found = results("asv", given={"better": "words=higher"})
    split = found["text.Split.time_split length=100 by='space'", "time"]
    assert (len(split.samples), median(split.samples)) == (6, pytest.approx(2131.575001840247))
    assert ("text.Split.time_split length=100 by='tab'", "time") not in found  # skipped by its author
    assert median(found["text.time_join", "time"].samples) == pytest.approx(412.60000216425397)
    assert found["text.mem_list", "memory"].value == 2104
    assert found["text.track_words", "words"].better == "higher"
    assert (split.commit, split.machine) == ("df2bfc3ce141c3049a4c0a90fef99f08f319a1b5", "box")
    assert any("'text.time_broken' failed" in one.cause for one in reading_of("asv").left_out)
