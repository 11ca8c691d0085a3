"""Latency histograms in the drivers' form (HdrHistogram V2, compressed, in base64), and their percentiles."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from speedtrack.stats.arrays import Array

Whole = np.ndarray[Any, np.dtype[np.int64]]

# https://github.com/HdrHistogram/HdrHistogram, "encoding version 2".
COMPRESSED_COOKIE, COOKIE = 0x1C849314, 0x1C849313
HEADER = struct.Struct(">iiqqd")  # offset, digits, lowest, highest, ratio
HEAD = struct.Struct(">ii" + HEADER.format[1:])  # cookie and length before them
BEFORE = HEAD.size - HEADER.size
LARGEST_BUCKET = 48  # its values are 78 hours in ns
MOST_BUCKETS = 1 << 31  # of an array of counts
LONGEST = 1 << 22  # bytes of an unpacked histogram: more than any driver writes


class Histogram(NamedTuple):
    """Ascending values in their recorded unit, and the count of each."""

    values: Array
    counts: Array

    @property
    def total(self) -> float:
        return float(self.counts.sum())

    def quantiles(self, shares: Sequence[float]) -> Array:
        """For each share: the smallest value that so many of all values do not exceed. ValueError if it is empty."""
        if not len(self.values):
            raise ValueError("an empty histogram has no quantiles")
        ranks = np.clip(np.ceil(np.asarray(shares) * self.total), 1, self.total)
        bounds: Array = self.values[np.searchsorted(np.cumsum(self.counts), ranks)]
        return bounds

    @classmethod
    def merged(cls, histograms: Iterable[Histogram]) -> Histogram:
        several = list(histograms)
        values = np.concatenate([np.zeros(0), *(histogram.values for histogram in several)])
        counts = np.concatenate([np.zeros(0), *(histogram.counts for histogram in several)])
        order = np.argsort(values, kind="stable")
        return cls(values[order], counts[order])


class Recorded(NamedTuple):
    """What a driver recorded: how many values, in which buckets (ascending indices of the array of counts).

    ``header``: offset, digits, lowest, highest and ratio, packed as HEAD has them.
    """

    header: bytes
    buckets: Whole
    counts: Whole

    @property
    def end(self) -> int:
        """The index after that of the last bucket; 0 if it is empty."""
        return 1 + int(self.buckets[-1]) if len(self.buckets) else 0


def decode(histogram: str | Recorded) -> Histogram:
    """The histogram in ``latency_hdr_v2``, each value the middle of its bucket, at least 1. Raises ValueError."""
    recorded = histogram if isinstance(histogram, Recorded) else parse(inflate(histogram))
    _, digits, lowest, _, _ = HEADER.unpack(recorded.header)
    return Histogram(_middles(recorded.buckets, digits, lowest), recorded.counts.astype(np.float64))


def encode(recorded: Recorded) -> str:
    """``latency_hdr_v2`` of what was recorded: always the same text, as deflate is told not to compress it."""
    packed = zlib.compress(plain_of(recorded), 0)
    return base64.b64encode(struct.pack(">ii", COMPRESSED_COOKIE, len(packed)) + packed).decode()


def inflate(text: str | bytes, longest: int = LONGEST) -> bytes:
    """The histogram without base64 and deflate, cut after ``longest`` bytes. Raises ValueError."""
    try:
        packed = base64.b64decode(text, validate=True)
        cookie, length = struct.unpack_from(">ii", packed)
        plain = zlib.decompressobj().decompress(packed[8 : 8 + length], longest)
    except (ValueError, struct.error, zlib.error) as e:
        raise ValueError(f"not a compressed HdrHistogram: {e}") from e
    if cookie != COMPRESSED_COOKIE:
        raise ValueError("not a compressed HdrHistogram of version 2")
    return plain


def parse(plain: bytes) -> Recorded:
    """What an uncompressed histogram stands for. Raises ValueError."""
    if len(plain) < HEAD.size:
        raise ValueError("not a compressed HdrHistogram: too short")
    cookie, length, _, digits, lowest, _, _ = HEAD.unpack_from(plain)
    if cookie != COOKIE or not 0 <= digits <= 5 or lowest < 1:
        raise ValueError("not a compressed HdrHistogram of version 2")
    encoded = _leb128_numbers(plain[HEAD.size : HEAD.size + length])
    numbers = (encoded >> 1) ^ -(encoded & 1)  # ZigZag
    steps = np.where(numbers < 0, -numbers, 1)  # a negative number stands for so many zeros
    if steps.sum(dtype=np.float64) > MOST_BUCKETS:
        raise ValueError("a histogram with more buckets than any driver has")
    nonzero = np.flatnonzero(numbers > 0)
    return Recorded(plain[BEFORE : HEAD.size], np.cumsum(steps)[nonzero] - 1, numbers[nonzero])


def is_whole(plain: bytes) -> bool:
    """Whether an uncompressed histogram has all bytes that it should have, and no others."""
    _, length = struct.unpack_from(">ii", plain)
    return bool(len(plain) == HEAD.size + length and plain[-1:] < b"\x80")


def plain_of(recorded: Recorded) -> bytes:
    """The uncompressed histogram, as HdrHistogram writes it: no number of it stands for less than it could."""
    encoded = np.empty((len(recorded.buckets), 2), np.int64)  # ZigZag of -zeros, if there are any, and of each count
    encoded[:, 0] = 2 * np.diff(recorded.buckets, prepend=-1) - 3
    encoded[:, 1] = 2 * recorded.counts
    content = _leb128(encoded[encoded > 0])
    return struct.pack(">ii", COOKIE, len(content)) + recorded.header + content


def _leb128_numbers(content: bytes) -> Whole:
    """The numbers of a LEB128 encoding. Raises ValueError if one of them is longer than eight bytes."""
    octets = np.frombuffer(content, np.uint8)
    ends = np.flatnonzero(octets < 0x80)
    lengths = np.diff(ends, prepend=-1)
    longest = int(lengths.max(initial=1))
    if longest > 8:
        raise ValueError("a histogram with a number that is too large")
    numbers: Whole = octets[ends].astype(np.int64)
    for earlier in range(1, longest):  # bytes before the last, which has the highest bits
        longer = np.flatnonzero(lengths > earlier)
        numbers[longer] = numbers[longer] << 7 | octets[ends[longer] - earlier] & 0x7F
    return numbers


def _leb128(numbers: Whole) -> bytes:
    """The LEB128 encoding of numbers, none of them below 0."""
    longest = (int(numbers.max(initial=0)).bit_length() + 6) // 7
    sizes = np.ones(len(numbers), np.int64)
    for septets in range(1, longest):
        sizes += numbers >> 7 * septets > 0
    octets = np.empty(int(sizes.sum()), np.uint8)
    at = np.cumsum(sizes) - sizes
    while len(numbers):
        octets[at] = numbers & 0x7F | (numbers > 0x7F) << 7
        longer = np.flatnonzero(numbers > 0x7F)
        numbers, at = numbers[longer] >> 7, at[longer] + 1
    return octets.tobytes()


def _middles(indices: Whole, digits: int, lowest: int) -> Array:
    """The middles of the buckets at these indices of an array of counts."""
    unit = int(math.log2(lowest))
    half = max(0, math.ceil(math.log2(2 * 10**digits)) - 1)
    bucket = (indices >> half) - 1
    if len(bucket) and int(bucket.max()) + unit > LARGEST_BUCKET:
        raise ValueError("not a compressed HdrHistogram of latencies: a value is too large")
    within = (indices & ((1 << half) - 1)) + np.where(bucket < 0, 0, 1 << half)
    shift = np.maximum(bucket, 0) + unit
    middles: Array = (within << shift) + ((1 << shift) >> 1)
    return np.maximum(middles, 1).astype(np.float64)
