"""Documents of trials come back as they were, a long result is unpacked no further than it is read."""

import base64
import hashlib
import json
import random
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from speedtrack.runs import packedhistograms, packing
from speedtrack.stats import histogram
from speedtrack.stats.histogram import COMPRESSED_COOKIE, HEADER, Recorded
from speedtrack.tests.latencies import encoded

DOCUMENTS: list[list[dict[str, Any]]] = [
    [],
    [{}],
    [{"trial": 0, "driver": {"text": "é🐙\n\\n", "large": 2**64, "small": 1e-100, "third": 1 / 3, "none": None}}],
    [{"trial": number, "quiet": {"steal": number / 7}} for number in range(2000)],
    [{"driver": "x" * packing.PIECE * 3}, {"driver": "y"}],
]


@pytest.mark.parametrize("documents", DOCUMENTS)
def test_documents_come_back_in_order(documents: list[dict[str, Any]]) -> None:
    assert list(packing.unpack(packing.pack(documents))) == documents


def test_what_repeats_is_stored_once() -> None:
    document = {"driver": {str(number): random.Random(number).random() for number in range(200)}}
    one, many = (len(packing.pack([document] * count)) for count in (1, 20))
    assert many < 2 * one


def test_the_first_document_is_read_without_the_others() -> None:
    packed = packing.pack([{"trial": number, "driver": random.Random(number).random()} for number in range(10_000)])
    assert next(packing.unpack(packed[: len(packed) // 2])) == {"trial": 0, "driver": random.Random(0).random()}


@pytest.mark.parametrize("length", [0, 5, 40, -1])
def test_a_damaged_one_is_an_error(length: int) -> None:
    with pytest.raises((ValueError, zlib.error)):
        list(packing.unpack(packing.pack(DOCUMENTS[3])[:length]))


def test_the_typical_document_never_changes() -> None:
    """What was packed with another one can no longer be read."""
    digest = hashlib.sha256(packing.TYPICAL).hexdigest()
    assert digest == "498a6595c31794ab15a12691babee32b5c2cd52a18ee824bff6c769b5325a1e5"


GOLDEN = Path(__file__).resolve().parents[3] / "runners" / "tests" / "golden" / "result.v1.json"
TRIALS = json.loads(GOLDEN.read_text())["trials"]
TEXTS = [trial["driver"]["tests"][-1]["latency_hdr_v2"] for trial in TRIALS]
HEADER_OF_DRIVER = HEADER.pack(0, 3, 1, 2**43 - 1, 1.0)


def text_of(plain: bytes, level: int = 9) -> str:
    """The text of an uncompressed histogram, compressed as another implementation might."""
    packed = zlib.compress(plain, level)
    return base64.b64encode(struct.pack(">ii", COMPRESSED_COOKIE, len(packed)) + packed).decode()


def plain_with(content: bytes, length: int | None = None) -> bytes:
    cookie = struct.pack(">ii", histogram.COOKIE, len(content) if length is None else length)
    return cookie + HEADER_OF_DRIVER + content


def contents(documents: list[dict[str, Any]]) -> list[bytes]:
    return [histogram.inflate(document["latency_hdr_v2"]) for document in documents]


def in_documents(texts: list[str]) -> list[dict[str, Any]]:
    return [{"trial": number, "latency_hdr_v2": text} for number, text in enumerate(texts)]


def random_histogram(seed: int) -> Recorded:
    """One with any header that the format allows, and with counts of all sizes."""
    rng = np.random.default_rng(seed)
    buckets = np.unique(rng.integers(0, 30_000, rng.integers(0, 800)))
    counts = rng.integers(1, 2 ** rng.integers(1, 50, len(buckets)))
    return Recorded(HEADER.pack(seed % 2, seed % 6, 1 + seed % 3, 2**40 + seed, 1.0 + seed), buckets, counts)


def test_histograms_of_the_driver_take_less_and_keep_all_of_their_bytes() -> None:
    packed = packing.pack(in_documents(TEXTS))
    assert len(packed) < 0.8 * sum(map(len, TEXTS))
    assert contents(list(packing.unpack(packed))) == list(map(histogram.inflate, TEXTS))


def test_histograms_of_several_forms_come_back_whole() -> None:
    texts = [text_of(histogram.plain_of(random_histogram(seed)), seed % 10) for seed in range(120)]
    packed = packing.pack(in_documents(texts))
    assert packed.count(b"HISTFAA") == 0 and packed[:1] == packing.BEGIN
    assert contents(list(packing.unpack(packed))) == list(map(histogram.inflate, texts))
    recorded = list(packing.unpack(packed, lambda recorded: recorded.counts.sum()))
    assert [one["latency_hdr_v2"] for one in recorded] == [random_histogram(seed).counts.sum() for seed in range(120)]


@pytest.mark.parametrize(
    "text",
    [
        "HISTFAAA",
        "HISTFAAAnonsense",
        TEXTS[0][:-8],
        text_of(plain_with(b"\x04\x80")),
        text_of(plain_with(b"\x04", length=2)),
        text_of(plain_with(b"\x04\x04", length=1)),
        text_of(plain_with(b"\xff" * 8 + b"\x01\x04")),
        text_of(plain_with(b"\xff\xff\xff\xff\xff\x01\x04")),
        text_of(plain_with(b"\x04" * packedhistograms.LONGEST)),
        text_of(histogram.plain_of(Recorded(HEADER_OF_DRIVER, np.array([1 << 24]), np.array([1])))),
    ],
)
def test_what_is_no_whole_histogram_stays_as_it_came(text: str) -> None:
    documents = in_documents([TEXTS[0], text, TEXTS[1]])
    unpacked = list(packing.unpack(packing.pack(documents)))
    assert unpacked[1] == documents[1]
    assert contents([unpacked[0], unpacked[2]]) == list(map(histogram.inflate, TEXTS))


def test_what_looks_like_a_histogram_elsewhere_stays_as_it_came() -> None:
    text = TEXTS[0]
    documents = [{text: 1, "quoted": f'a:"{text}"', "list": [text], "zeros": [-0.0, 0, -1], "marks": "\x01 -0 :-0,"}]
    assert list(packing.unpack(packing.pack(documents))) == documents


def test_more_histograms_than_a_runner_sends_take_bounded_memory() -> None:
    """Beyond the bounds they stay as they came; the matrices hold no more cells than is allowed."""
    far = [
        text_of(histogram.plain_of(Recorded(HEADER_OF_DRIVER, np.array([i, 50_000]), np.array([1, 2]))))
        for i in (1, 2, 3)
    ]
    many = [encoded([value]) for value in range(packedhistograms.MOST + 10)]
    documents = in_documents(far + many)
    packer = packedhistograms.Packer()
    added = [packer.add(document["latency_hdr_v2"].encode()) for document in documents]
    assert sum(added) == packedhistograms.MOST and not any(added[packedhistograms.MOST :])
    assert all(
        len(group) * max(one.end for one in group) <= packedhistograms.LARGEST_MATRIX for group in packer.groups()
    )
    assert contents(list(packing.unpack(packing.pack(documents)))) == contents(documents)


def test_histograms_are_the_same_whoever_compressed_them() -> None:
    plain = histogram.inflate(TEXTS[0])
    ours, theirs, another = ([{"h": text}] for text in (text_of(plain, 1), text_of(plain, 9), TEXTS[1]))
    assert ours != theirs
    assert packing.canonical(ours) == packing.canonical(theirs) == packing.canonical(packing.canonical(ours))
    assert packing.canonical(ours) != packing.canonical(another)


def test_the_recipe_of_the_first_document_is_read_without_histograms() -> None:
    documents = [{"trial": n, "reproduce": random.Random(n).random(), "h": TEXTS[n % 2]} for n in range(3000)]
    packed = packing.pack(documents)
    begun = packed[: len(packed) // 4]
    assert next(packing.unpack(begun, histograms=None)) == documents[0] | {"h": None}


@pytest.mark.parametrize("at", [1, 9, 200, -1000, -1])
def test_a_changed_byte_is_an_error(at: int) -> None:
    packed = bytearray(packing.pack(in_documents(TEXTS)))
    packed[at] ^= 0x10
    for read in (packing.unpack, packing.trial_numbers):
        with pytest.raises((ValueError, zlib.error)):
            list(read(bytes(packed)))


ONE_TEXT = "HISTFAAAACl42pNpmSzMwMDAyQABzFCakYGB/T8I2H+ACBxnZPppyHLaiwkAxwEKlA=="  # of 100, 5000, 5000 and 123,456 ns
ROWS = {
    "lines alone": (
        "eLuW7Vs+q0bq6SHaTTiKXliizUgpii8zAgp7eAaHuDkCgXOOiVGBX0FucJVvua+LY2Wgo1OVm3NidqS7k36IhaeRh7ajs1NFXlRA"
        "QUGlh09iZnm2Y0W5q3eOo62tEsgZXHB3GA6sOwCHSlkm"
    ),
    "histograms apart": (
        "AgAAACrzTsF8eLuW7Vs+q0bq6SHaTTiKXliizUgpii8zUrLSNQAZwQU3w5B8MwAcAy00eJxjYGBgZmBgYGKAAGYozcjAwP4fBOw/"
        "MCADnPJMKXXLGXiEGAC1MQ4ZeAFjZGRiYmQEAAAiAAk="
    ),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_rows_of_all_times_are_read(row: str) -> None:
    packed = base64.b64decode(row)
    tests = [document["driver"]["tests"][0] for document in packing.unpack(packed)]
    values = [100, 5000, 123_456]
    for test in tests:
        found = histogram.decode(test["latency_hdr_v2"])
        assert found.counts.tolist() == [1, 2, 1] and found.values.tolist() == pytest.approx(values, rel=0.001)
    canonical = histogram.encode(histogram.parse(histogram.inflate(ONE_TEXT)))
    assert packing.canonical(packing.unpack(packed)) == [
        {"trial": number, "driver": {"tests": [{"name": "get", "latency_hdr_v2": canonical}]}}
        for number in packing.trial_numbers(packed)
    ]
    assert histogram.inflate(ONE_TEXT) == histogram.inflate(tests[0]["latency_hdr_v2"])
