"""Files that are wrong: a reader returns results or raises one ReadError that says where and why, whatever it gets."""

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speedtrack.outside.readers import Options, OutsideResult, ReadError
from speedtrack.outside.readers.files import LARGEST_FILE, File, parse_json
from speedtrack.outside.readers.folders import folder_of
from speedtrack.outside.readers.registry import READERS, reader_named, reader_of
from speedtrack.outside.readers.tests.samples import FILES, FORMATS, archive, content_of, read

TEXTS = [name for name in FORMATS if not (FILES / name).is_dir()]
DOCUMENTS = [name for name in TEXTS if name.endswith(".json") and name != "cargo-criterion.json"]
PLACES = 50  # at which a file is cut off


def read_or_refused(content: bytes, name: str, **options: Any) -> list[OutsideResult] | str:
    """By its own reader, and by whichever takes it. Anything but a ReadError fails the test."""
    try:
        reader_of(File(content, name))
    except ReadError as refused:
        assert str(refused)
    try:
        return reader_named(FORMATS[name]).read(content, Options(name=name, **options))
    except ReadError as refused:
        assert str(refused).count("\n") == 0
        return str(refused)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda text: b"", "file: it is empty"),
        (lambda text: b" \r\n ", "file: it is empty"),
        (lambda text: text.decode().encode("utf-16"), "UTF-16"),
        (lambda text: text.replace(b"a", b"\xe4", 1), "it is not UTF-8"),
        (lambda text: b" " * (LARGEST_FILE + 1), "at most 34 MB"),
        (lambda text: b"PK\x03\x04" + text, "zip archive"),
        (lambda text: b"[" * 100_000, ""),
        (lambda text: b'{"a":' * 100_000, ""),
        (lambda text: b"\x00" * 500, ""),
        (lambda text: b"null", ""),
        (lambda text: b"[[1e400, NaN, -Infinity]]", ""),
        (lambda text: b"1" * 10_000, ""),
    ],
)
@pytest.mark.parametrize("name", TEXTS)
def test_what_is_no_such_file_is_refused(name: str, change: Callable[[bytes], bytes], expected: str) -> None:
    refused = read_or_refused(change(content_of(name)), name)
    assert isinstance(refused, str)
    assert expected in refused


@pytest.mark.parametrize("name", TEXTS)
def test_a_mark_of_byte_order_and_other_line_ends_change_nothing(name: str) -> None:
    content = content_of(name)
    usual = reader_named(FORMATS[name]).read(content, Options())
    assert read(b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n"), FORMATS[name]) == usual


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_is_cut_off_gives_no_other_value(name: str) -> None:
    """JSON is refused. Of lines, those before the cut are whole."""
    content = content_of(name)
    usual = {(one.benchmark, one.metric): one for one in reader_named(FORMATS[name]).read(content, Options())}
    for place in range(PLACES):
        found = read_or_refused(content[: len(content) * place // PLACES], name)
        if name in DOCUMENTS or name == "data.js":
            assert isinstance(found, str)
        for one in found if isinstance(found, list) else []:
            whole = usual[one.benchmark, one.metric]
            assert one.samples == tuple(whole.samples)[: len(one.samples)] or name == "asv"


BAD_NUMBERS = ["NaN", "Infinity", "1e999", "-1", '"fast"', "null", "[]", "{}", "true", "1" * 400]
VALUE_AT = {  # in each format, the bytes of one value that is read
    "memtier.json": b'"Ops/sec": 37071.36',
    "github-action-smaller.json": b'"value": 3.25',
    "data.js": b'"value": 3.25',
    "bencher.json": b'"value": 23353.0',
    "google-benchmark.json": b'"real_time": 9.7434660875517523e+00',
    "hyperfine.json": b'"median": 0.002134162',
    "pyperf.json": b'"values":[5.993499939904722e-08',
    "pytest-benchmark.json": b'"rounds": 5',
    "cargo-criterion.json": b'"measured_values":[984649.0',
    "jmh.json": b"46.860918261699844",
}


@pytest.mark.parametrize("bad", BAD_NUMBERS)
@pytest.mark.parametrize("name", VALUE_AT)
def test_a_value_that_cannot_have_been_measured_is_left_out_alone(name: str, bad: str) -> None:
    old = VALUE_AT[name]
    content = content_of(name)
    assert old in content
    key, colon, number = old.rpartition(b":") if b":" in old else (b"", b"", old)
    bracket = b"[" if number.strip().startswith(b"[") else b""
    usual, found = (
        reader_of(File(text, name)).reading(File(text, name), Options(given={"better": "lower"}))
        for text in (content, content.replace(old, key + colon + bracket + bad.encode(), 1))
    )
    if name in ("hyperfine.json", "pytest-benchmark.json"):  # the repeats are there, so this number is not needed
        assert found.results == usual.results
        return
    places = [one.position for one in found.left_out if one.is_fault]
    assert len(places) == 1
    assert "/" in places[0]
    changed = [one for one in usual.results if one not in found.results]
    assert len(changed) == 1
    assert [one for one in found.results if one not in usual.results] == shortened(changed[0])


def shortened(one: OutsideResult) -> list[OutsideResult]:
    """What remains of a result whose first sample is left out."""
    return [replace(one, samples=one.samples[1:])] if len(one.samples) > 1 else []


@pytest.mark.parametrize("word", ["-nan", "nan", "-nan(ind)", "inf", "-inf", "Infinity", "NaN", "-1.#IND", "1.#QNAN"])
def test_words_that_c_writes_for_numbers_are_read_as_no_number(word: str) -> None:
    old = VALUE_AT["memtier.json"]
    content = content_of("memtier.json").replace(old, b'"Ops/sec": ' + word.encode(), 1)
    assert len(read(content, "memtier")) == len(read(content_of("memtier.json"), "memtier")) - 1
    with pytest.raises(ReadError, match="no JSON"):
        read(content.replace(word.encode(), b"nanas"), "memtier")


@pytest.mark.parametrize("piece", ['\\"', "\\\n", '" ', "\\", "1.#", "-"])
def test_a_text_without_an_end_is_read_once(piece: str) -> None:
    """Were it searched anew from each of its quotes, this would take hours."""
    with pytest.raises(ReadError, match="no JSON"):
        parse_json('{"' + piece * 1_000_000)


def test_such_words_within_texts_are_left_as_they_are() -> None:
    text = '{"a \\" inf": "the nan, -inf and 1.#IND", "b": -nan}'
    assert str(parse_json(text)) == "{'a \" inf': 'the nan, -inf and 1.#IND', 'b': nan}"


@pytest.mark.parametrize(
    ("format", "content", "message"),
    [
        ("redis-benchmark", b'"test","rps"\n"SET","fast"', "line 2, rps: 'fast' is no number"),
        ("redis-benchmark", b'"test","rps"\n"SET","nan"', "line 2, rps: 'nan' is no number"),
        ("redis-benchmark", b'"test","rps"\n"SET","-1"', "line 2, rps: -1 is negative"),
        ("redis-benchmark", b'"test","rps"\n"SET","1","2"', "line 2: 3 columns instead of 2"),
        ("redis-benchmark", b'"test","rps"\n"SE\x07T","1"', "line 2: this is no name of a test"),
        ("redis-benchmark", b'"test","rps"\n"SET","1', "line 2: no row of a table"),
        ("redis-benchmark", b'"test","rps"\n', "no usable result"),
        ("go", b"BenchmarkA 10 12 ns/op 5", "line 1: a value stands there without its unit"),
        ("go", b"BenchmarkA 10 x ns/op", "line 1, ns/op: 'x' is no number"),
        ("go", b"BenchmarkA 10 -3 ns/op", "line 1, ns/op: -3 is negative"),
        ("go", b"BenchmarkA 10 NaN ns/op", "line 1, ns/op: 'NaN' is no number"),
        ("go", b"BenchmarkA 10 3 ns/op 4 ns/op", "line 1: it has two values of one unit"),
        ("go", b"BenchmarkA 10 3 parrots", "line 1: it is unknown which direction of 'parrots' is better"),
        ("go", b"PASS\nok words 1s", "no usable result"),
        ("hyperfine", b'{"results": [{"command": "x", "command": "y"}]}',
         "/results/0/command: it is there several times with different values, expected was a text"),
        ("hyperfine", b'{"results": {}}', "/results: it is an object, expected was a list"),
        ("hyperfine", b'{"results": [{"command": 3, "mean": 1}]}', "/results/0/command: it is a number, expected"),
        ("hyperfine", b'{"results": [{"command": "\\u0000", "mean": 1}]}', "/results/0/command: a text with a control"),
        ("hyperfine", b'{"results": [{"command": "\\ud800", "mean": 1}]}', "/results/0/command: a text with a control"),
        ("hyperfine", b'{"results": [{"command": "x", "times": [-0.5], "mean": 1}]}', "/results/0/times/0: -0.5 is"),
        ("google-benchmark", b'{"context": {"num_cpus": 1}, "benchmarks": [{"name": "x", "real_time": 1, "cpu_time": 1,'
         b' "time_unit": "fortnight"}]}', "/benchmarks/0/time_unit: 'fortnight' is no unit of time"),
        ("pyperf", b'{"version": "1.0", "metadata": {"name": "x", "unit": "stone"}, "benchmarks": [{"runs":'
         b' [{"values": [1]}]}]}', "/metadata/unit: 'stone' is no unit of pyperf"),
        ("pyperf", b'{"version": "1.0", "benchmarks": [{"runs": []}]}', "/benchmarks/0: it has no name"),
        ("jmh", b'[{"benchmark": "x", "mode": "guess", "primaryMetric": {}}]', "/0/mode: 'guess' is no mode of JMH"),
        ("jmh", b'[{"benchmark": "x", "mode": "sample", "primaryMetric": {"scoreUnit": "us/op",'
         b' "rawDataHistogram": [[[[1, 0]]]]}}]', "/0/primaryMetric/rawDataHistogram/0/0: it has no calls"),
        ("github-action", b'[{"name": "x", "value": "fast", "unit": "ms"}]', "/0/value: 'fast' is no number"),
        ("github-action-history", b"window.BENCHMARK_DATA = alert(1)", "line 1, column 1: no JSON"),
        ("github-action-history", b'window.BENCHMARK_DATA = {"entries": {"a": [{"date": 1}]}}', "/entries/a/0: it has"),
        ("github-action-history", b'{"lastUpdate": 1, "entries": {"a": [{"date": 1e18, "commit": {"id": "abc"}}]}}',
         "/entries/a/0/date: 1e+18 is no date"),
        ("bencher", b'{"a": {"parrots": {"value": 1}}}', "it is unknown which direction of 'parrots'"),
        ("memtier", b'{"configuration": [], "ALL STATS": {"Sets": {"Count": 1, "Ops/sec": 1}}}', "/configuration: it"),
        ("asv", b'{"commit_hash": "a", "result_columns": []}', "one file of asv has neither units nor types"),
        ("asv", archive(benchmarks=b"{}", box__1=b"{}"), "the archive has no box/machine.json"),
        ("asv", archive(benchmarks=b"{}", box__machine=b"{}", box__1=b'{"version": 1}'), "asv update makes it 2"),
        ("asv", archive(benchmarks=b"{", box__machine=b"{}", box__1=b"{}"), "benchmarks.json, line 1, column 2"),
        ("criterion", archive(a__new__benchmark=b'{"full_id": "a"}'), "a/new/: beside benchmark.json there is no esti"),
        ("criterion", archive(a__new__benchmark=b'{"full_id": "a"}', a__new__sample=b'{"times": [1], "iters": [0]}'),
         "a/new/sample.json#/iters/0: no iteration"),
        ("criterion", archive(a__new__benchmark=b'{"full_id": "a"}', a__new__sample=b'{"times": [1], "iters": []}'),
         "a/new/sample.json#/iters: 0 counts of iterations for 1 times"),
        ("cargo-criterion", b'{"reason": "benchmark-complete", "id": "x"}', "line 1#: it has no 'measured_values'"),
    ],
)  # fmt: skip
def test_an_error_names_the_place_and_the_cause(format: str, content: bytes, message: str) -> None:
    with pytest.raises(ReadError) as refused:
        read(content, format)
    assert message in str(refused.value)


def test_archives_that_would_grow_or_reach_outside_are_refused_or_ignored(tmp_path: Any) -> None:
    bomb = gzip.compress(b"\0" * (LARGEST_FILE + 1))
    with pytest.raises(ReadError, match="more than 34 MB once unpacked"):
        read(bomb, "asv")
    many = io.BytesIO()
    with tarfile.open(fileobj=many, mode="w") as tar:
        for number in range(20_001):
            tar.addfile(tarfile.TarInfo(f"{number}.json"))
    with pytest.raises(ReadError, match="more than 20,000 files"):
        read(many.getvalue(), "asv")
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("benchmarks.json", "{}")
    with pytest.raises(ReadError, match="zip archive: give the folder"):
        reader_of(File(zipped.getvalue(), "results.zip"))
    links = io.BytesIO()
    with tarfile.open(fileobj=links, mode="w:gz") as tar:
        link = tarfile.TarInfo("benchmarks.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
        hollow = tarfile.TarInfo("hollow.json")
        hollow.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": "999999999999", "GNU.sparse.name": "x.json"}
        tar.addfile(hollow)
    with pytest.raises(ReadError, match="format is not known"):
        reader_of(File(links.getvalue(), "links.tar.gz"))
    (tmp_path / "results" / "box").mkdir(parents=True)
    (tmp_path / "results" / "benchmarks.json").symlink_to("/etc/hostname")
    with pytest.raises(ReadError, match="results: the folder has no JSON file"):
        reader_of(folder_of(tmp_path / "results"))


def test_more_repeats_than_a_result_may_have_become_their_median() -> None:
    times = json.dumps([1 + number / 10_000 for number in range(3001)])
    (one,) = read(f'{{"results": [{{"command": "x", "mean": 1, "times": {times}}}]}}'.encode(), "hyperfine")
    assert (one.samples, one.value, one.n) == ((), 1.15e9, 3001)
    assert one.low is not None and one.high is not None
    assert 1.1e9 < one.low < 1.15e9 < one.high < 1.2e9


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    """A real file with another value somewhere in it, or with other bytes."""
    name = draw(st.sampled_from(sorted(FORMATS)))
    content = content_of(name)
    if name in DOCUMENTS and draw(st.integers(0, 3)):
        document = json.loads(content)
        replace_somewhere(document, draw)
        return name, json.dumps(document).encode(errors="surrogatepass")
    start = draw(st.integers(0, len(content) - 1))
    return name, content[:start] + draw(st.binary(max_size=8)) + content[start + draw(st.integers(0, 8)) :]


def replace_somewhere(document: Any, draw: st.DrawFn) -> None:
    while True:
        keys = list(document) if isinstance(document, dict) else list(range(len(document)))
        key = draw(st.sampled_from(keys))
        inner = document[key]
        if not isinstance(inner, dict | list) or not inner or draw(st.integers(0, 4)) == 0:
            document[key] = draw(JSON)
            return
        document = inner


@settings(max_examples=600)
@given(damaged(), st.sampled_from(["", "higher", "lower"]))
def test_damaged_files_raise_nothing_but_read_errors(case: tuple[str, bytes], better: str) -> None:
    name, content = case
    found = read_or_refused(content, name, given={"better": better})
    for one in found if isinstance(found, list) else []:
        assert all(0 <= value < 1e310 for value in (*one.samples, *([one.value] if one.value else [])))


@settings(max_examples=200)
@given(st.binary(max_size=300) | JSON.map(lambda value: json.dumps(value).encode()), st.sampled_from(READERS))
def test_other_files_raise_nothing_but_read_errors(content: bytes, reader: Any) -> None:
    with pytest.raises(ReadError):
        reader.read(content, Options())
