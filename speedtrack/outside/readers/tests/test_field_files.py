"""Files that people have: cut down from what tools wrote, with numbers that no measurement has, or in rarer forms."""

import json
import math
import shutil
from pathlib import Path

import pytest

from speedtrack.outside.readers import Options, ReadError
from speedtrack.outside.readers.files import File
from speedtrack.outside.readers.registry import reader_of
from speedtrack.outside.readers.results import FileResults
from speedtrack.outside.readers.tests.samples import tar_of

CASES = Path(__file__).parent / "cases"
GET = "example.org/field.Get-2"


def reading_of(name: str) -> FileResults:
    path = CASES / name
    content = tar_of(path) if path.is_dir() else path.read_bytes()
    return reading_in(content, name)


def reading_in(content: bytes, name: str = "") -> FileResults:
    return reader_of(File(content, name)).reading(File(content, name), Options(name=name))


def values_of(reading: FileResults) -> dict[tuple[str, str], list[float]]:
    """The values by benchmark and metric."""
    return {(one.benchmark, one.metric): [*one.samples] or [one.value or 0.0] for one in reading.results}


EXPECTED = [
    ("memtier-2.1.0-nan.json", "memtier Sets", "throughput", [0.5]),
    ("memtier-2.1.0-nan.json", "memtier Sets", "latency_avg", [2_002_000_000]),
    ("memtier-two-gets.json", "memtier Totals", "throughput", [21_356.12]),
    ("memtier-two-gets.json", "memtier Gets (1)", "throughput", [10_678.06]),
    ("memtier-two-gets.json", "memtier Gets (2)", "throughput", [10_678.06]),
    ("memtier-two-gets.json", "memtier Gets (1)", "latency_p99", [295_000]),
    ("memtier-two-gets.json", "memtier Gets (2)", "latency_p99", [295_000]),
    ("google-nan-counter.json", "Get", "time", [12.5]),
    ("google-nan-counter.json", "Hit", "time", [10.5]),
    ("go-nan-metric.txt", GET, "time", [790_401]),
    ("go-nan-metric.txt", "example.org/field.Ratio-2", "time", [759_908]),
    ("go-test-json.txt", GET, "time", [790_401]),
    ("history-value-as-text.js", "Benchmark: BenchmarkGet", "allocated", [4_910_336]),
    ("history-combined-unit.js", "Benchmark: BenchmarkGet", "time", [5_908]),
    ("history-combined-unit.js", "Benchmark: BenchmarkGet", "allocated", [1_056]),
    ("history-combined-unit.js", "Benchmark: BenchmarkGet", "allocations", [4]),
    ("history-combined-unit.js", "Benchmark: BenchmarkSet", "allocations", [0]),
    ("asv-negative", "b.time_it", "time", [1_000_000]),
    (
        "pytest-name-118.json",
        "tests/benchmarks/test_queries_of_the_orm.py::TestSelectMany::test_join"
        "[postgresql-100000-isolation=READ_COMMITTED]",
        "time",
        [10_000_000, 11_000_000, 12_000_000],
    ),
    ("redis-benchmark-cluster.csv", "SET", "throughput", [1132.08]),
    ("redis-benchmark-cluster.csv", "SET", "latency_p50", [775_000]),
]


@pytest.mark.parametrize(("name", "benchmark", "metric", "expected"), EXPECTED)
def test_what_can_be_used_is_read(name: str, benchmark: str, metric: str, expected: list[float]) -> None:
    assert values_of(reading_of(name))[benchmark, metric] == expected


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("memtier-2.1.0-nan.json", []),  # no reader needs that part
        ("google-nan-counter.json", ["/benchmarks/1/ratio", "/benchmarks/1/per"]),
        ("go-nan-metric.txt", ["line 5, delta/op", "line 5, inf/op", "line 5, ratio/op"]),
        ("asv-negative", ["box/00000000-e.json#/results/b.track_error/0/0"]),
    ],
)
def test_what_cannot_be_used_is_told_with_its_place(name: str, places: list[str]) -> None:
    assert [one.position for one in reading_of(name).left_out if one.is_fault] == places


def test_a_line_of_counts_may_begin_at_zero() -> None:
    counts = [one.samples[0] for one in reading_of("zero-to-three-allocs.js").results if one.metric == "allocations"]
    assert (counts[:30], set(counts[30:])) == ([0] * 30, {3})


def test_an_old_entry_of_all_units_is_dropped_beside_entries_of_each() -> None:
    entries = (
        '{"name": "BenchmarkGet", "value": 5, "unit": "ns/op\\t 7 B/op"}',
        '{"name": "BenchmarkGet - ns/op", "value": "5", "unit": "ns/op"}',
        '{"name": "BenchmarkGet - B/op", "value": "7", "unit": "B/op"}',
    )
    run = '{"commit": {"id": "' + "1" * 40 + '"}, "date": 1, "tool": "go", "benches": [' + ", ".join(entries) + "]}"
    reading = reading_in(f'window.BENCHMARK_DATA = {{"entries": {{"B": [{run}]}}}}'.encode())
    assert values_of(reading) == {("B: BenchmarkGet", "time"): [5], ("B: BenchmarkGet", "allocated"): [7]}


def test_lines_of_go_are_put_together_from_events_of_several_packages() -> None:
    def event(package: str, output: str) -> str:
        return f'{{"Action":"output","Package":"{package}","Output":"{output}"}}\n'

    content = (
        '{"Time":"2026-11-26T19:00:00Z","Action":"start","Package":"a"}\n'
        + event("a", r"pkg: a\n")
        + event("b", r"pkg: b\n")
        + event("a", r"BenchmarkGet-2 \t")
        + event("b", r"BenchmarkGet-2 \t 10\t 7 ns/op\n")
        + event("a", r"     200\t    5 ns/op\n")
    )
    assert values_of(reading_in(content.encode())) == {("a.Get-2", "time"): [5], ("b.Get-2", "time"): [7]}


def test_a_benchmark_of_go_that_prints_is_told() -> None:
    content = b"BenchmarkLoud-2 \thello\n     200\t    790401 ns/op\nBenchmarkGet-2 \t 10\t 7 ns/op\n"
    reading = reading_in(content)
    assert values_of(reading) == {("Get-2", "time"): [7]}
    assert [str(one) for one in reading.left_out] == [
        "line 2: BenchmarkLoud-2 printed something between its name and its numbers: let it print nothing"
    ]


def test_titles_of_redis_benchmark_may_have_quotes() -> None:
    content = b'"test","rps"\n"EVAL "return 1" 0","12.50"\n"say ""x""","7.00"\n"GET","1.00"\n"GET","2.00"\n'
    reading = reading_in(content)
    assert values_of(reading) == {
        ('EVAL "return 1" 0', "throughput"): [12.5],
        ('say "x"', "throughput"): [7],
        ("GET", "throughput"): [1],
    }
    assert [str(one) for one in reading.left_out] == [
        "line 5: the test 'GET' is there twice: keep one, or repeat the line of names before it"
    ]


@pytest.mark.parametrize(("unit", "expected"), [("ops/min", 2), ("ops/hr", 2 / 60), ("ops/day", 2 / 60 / 24)])
def test_jmh_may_count_operations_per_minute_hour_or_day(unit: str, expected: float) -> None:
    row = {"benchmark": "x.A", "mode": "thrpt", "primaryMetric": {"scoreUnit": unit, "rawData": [[120.0]]}}
    (result,) = reading_in(json.dumps([row]).encode()).results
    assert (result.metric, result.unit, result.better) == ("rate", "ops/s", "higher")
    assert result.samples == pytest.approx([expected])


def test_an_operation_of_memtier_that_lacks_what_it_needs_is_refused_alone() -> None:
    sets = {"Count": 3, "Average Latency": 2.0}
    gets = {"Count": 3, "Ops/sec": 5.0, "Average Latency": 2.0, "Percentile Latencies": {"p50.00": None, "p99.00": 3.0}}
    waits = {"Count": None, "Ops/sec": 1.5, "Percentile Latencies": []}
    run = {"Runtime": {"Start time": 1730996277188}, "Sets": sets, "Gets": gets, "Waits": waits}
    reading = reading_in(json.dumps({"configuration": {}, "ALL STATS": run}).encode())
    assert values_of(reading) == {
        ("memtier Sets", "latency_avg"): [2_000_000],
        ("memtier Gets", "throughput"): [5],
        ("memtier Gets", "latency_avg"): [2_000_000],
        ("memtier Gets", "latency_p99"): [3_000_000],
        ("memtier Waits", "throughput"): [1.5],
    }
    assert [str(one) for one in reading.left_out if one.is_fault] == [
        "/ALL STATS/Sets: it has no 'Ops/sec'",
        "/ALL STATS/Gets/Percentile Latencies/p50.00: it is null, expected was a number",
        "/ALL STATS/Waits/Count: it is null, expected was a number",
        "/ALL STATS/Waits/Percentile Latencies: it is a list, expected was an object",
    ]


def test_a_null_of_hyperfine_is_refused_with_its_place() -> None:
    """It writes null for what is no number, such as NaN."""
    result = {"command": "a", "mean": 1.0, "times": [1.0, None], "user": None, "system": 0.5}
    reading = reading_in(json.dumps({"results": [result]}).encode())
    assert values_of(reading) == {("a", "time"): [1e9], ("a", "system_time"): [5e8]}
    assert [one.position for one in reading.left_out if one.is_fault] == ["/results/0/times/1", "/results/0/user"]


def test_combinations_of_asv_without_a_value_are_left_out_with_their_place(tmp_path: Path) -> None:
    """asv writes NaN for one that was skipped, and null for one that failed."""
    shutil.copytree(CASES / "asv-negative", folder := tmp_path / "results")
    (path,) = (folder / "box").glob("0*.json")
    document = json.loads(path.read_text())
    document["results"] = {"b.time_it": [[0.001, math.nan, None], [["1", "2", "3"]], "1"]}
    path.write_text(json.dumps(document))
    reading = reading_in(tar_of(folder))
    assert values_of(reading) == {("b.time_it", "time"): [1_000_000]}
    assert [(str(one), one.is_fault) for one in reading.left_out] == [
        (
            f"box/{path.name}#/results/b.time_it/0: 'b.time_it' failed, was skipped or has no number in 2 of 3 "
            "combinations",
            False,
        ),
    ]


def test_a_name_that_an_object_has_twice_refuses_only_what_needs_it() -> None:
    """A counter of Google Benchmark may have the name of another one. Equal values are no contradiction."""
    row = '{"name": "%s", "run_type": "iteration", "real_time": 2.0, "cpu_time": 1.0, "time_unit": "ns", %s}'
    rows = [
        row % ("A", '"hits": 3, "hits": 4'),
        row % ("B", '"threads": 1, "threads": 2, "items_per_second": 5, "items_per_second": 5'),
        row % ("C", '"real_time": 2.0, "cpu_time": 7'),
    ]
    reading = reading_in(f'{{"context": {{"num_cpus": 2}}, "benchmarks": [{",".join(rows)}]}}'.encode())
    times = {(name, "time"): [2] for name in "ABC"}
    assert values_of(reading) == times | {("A", "cpu_time"): [1], ("B", "cpu_time"): [1], ("B", "items/s"): [5]}
    assert [str(one) for one in reading.left_out if one.is_fault] == [
        f"/benchmarks/{place}: it is there several times with different values, expected was a number"
        for place in ("0/hits", "2/cpu_time")
    ]


def test_rows_of_google_benchmark_have_units_and_counters_of_their_own() -> None:
    """A benchmark registered twice, as with two units, has rows of one name."""
    shared = {"name": "D", "run_type": "iteration", "iterations": 1, "real_time": 2.0, "cpu_time": 1.0}
    first = shared | {"time_unit": "ms"}
    second = shared | {"time_unit": "us", "label": "4 KB", "items_per_second": 5.0}
    reading = reading_in(json.dumps({"context": {"num_cpus": 2}, "benchmarks": [first, second]}).encode())
    assert values_of(reading) == {
        ("D", "time"): [2_000_000, 2_000],
        ("D", "cpu_time"): [1_000_000, 1_000],
        ("D", "items/s"): [5],
    }
    assert reading.left_out == []


@pytest.mark.parametrize("value", [None, "nan", "-1.5", "1e400"])
@pytest.mark.parametrize("counter", ["bytes_per_second", "hits"])
def test_a_counter_of_google_benchmark_may_be_null_or_text(counter: str, value: str | None) -> None:
    row = {"name": "D", "run_type": "iteration", "real_time": 2.0, "cpu_time": 1.0, "time_unit": "ns", counter: value}
    reading = reading_in(json.dumps({"context": {"num_cpus": 2}, "benchmarks": [row]}).encode())
    assert values_of(reading) == {("D", "time"): [2], ("D", "cpu_time"): [1]}
    assert [one.position for one in reading.left_out if one.is_fault] == [f"/benchmarks/0/{counter}"]


@pytest.mark.parametrize("word", ["inf", "-nan", "nan"])
def test_the_first_row_of_an_old_redis_benchmark_may_be_no_number(word: str) -> None:
    """A test that ended within a millisecond had infinitely many requests per second before version 6.2."""
    reading = reading_in(f'"PING_INLINE","{word}"\n"SET","1000.00"\n'.encode())
    assert values_of(reading) == {("SET", "throughput"): [1000]}
    assert [one.position for one in reading.left_out if one.is_fault] == ["line 1, rps"]


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ([{"name": "a", "value": None, "unit": "ms"}], "/0/value"),
        ({"a": {"latency": {"value": None}}, "b": {}}, "/a/latency/value"),
    ],
)
def test_a_file_without_a_usable_value_is_refused_with_the_place(content: object, place: str) -> None:
    with pytest.raises(ReadError, match=f"{place}: it is null"):
        reading_in(json.dumps(content).encode())


def test_a_benchmark_of_bencher_may_have_no_measures() -> None:
    content = {"a": {"latency": {"value": 5}, "throughput": 3}, "b": {}, "c": None}
    reading = reading_in(json.dumps(content).encode())
    assert values_of(reading) == {("a", "latency"): [5]}
    assert [one.position for one in reading.left_out if one.is_fault] == ["/a/throughput", "/c"]


def test_an_iteration_of_jmh_is_refused_alone() -> None:
    allocated = {"scoreUnit": "B/op", "rawData": [[8.0]]}
    primary = {"scoreUnit": "us/op", "rawDataHistogram": [[[[1.0, 2], ["NaN", 1]], [[3.0, 1]]]]}
    row = {"benchmark": "x.A", "mode": "sample", "primaryMetric": primary}
    row["secondaryMetrics"] = {"gc.alloc.rate.norm": allocated}
    reading = reading_in(json.dumps([row]).encode())
    assert values_of(reading) == {("x.A", "sampled_time"): [3000], ("x.A", "allocated"): [8]}
    place = "/0/primaryMetric/rawDataHistogram/0/0/1/0"
    assert [one.position for one in reading.left_out if one.is_fault] == [place]


PYPERF = {"metadata": {"name": "a", "cpu_count": None, "python_version": "3.13"}, "runs": [{"values": [2.0]}]}
FACTS = {
    "google": {
        "context": {"num_cpus": "NaN", "library_version": "1.9"},
        "benchmarks": [{"name": "a", "real_time": 2.0, "cpu_time": 2.0, "time_unit": "s"}],
    },
    "pytest": {
        "machine_info": {"cpu": {"count": [], "brand_raw": "Xeon"}},
        "benchmarks": [{"name": "a", "stats": {"data": [2.0]}}],
        "version": "5",
    },
    "pyperf": {"version": "1.0", "benchmarks": [PYPERF]},
    "jmh": [
        {
            "benchmark": "a",
            "mode": "avgt",
            "vmName": "OpenJDK",
            "vmVersion": {},
            "primaryMetric": {"scoreUnit": "s/op", "rawData": [[2.0]]},
        }
    ],
}


@pytest.mark.parametrize("tool", FACTS)
def test_a_fact_that_cannot_be_read_refuses_no_result(tool: str) -> None:
    text = json.dumps(FACTS[tool]).replace('"NaN"', "NaN")
    reading = reading_in(text.encode())
    assert {value for values in values_of(reading).values() for value in values} == {2e9}
    assert len(reading.results[0].environment) == 1
    (place,) = [one.position for one in reading.left_out if one.is_fault]
    assert place.rpartition("/")[2] in ("num_cpus", "count", "cpu_count", "vmVersion")
