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

# https://github.com/HdrHistogram/HdrHistogram, "encoding version 2".
COMPRESSED_COOKIE, COOKIE = 0x1C849314, 0x1C849313
HEAD = struct.Struct(">iiiiqqd")  # cookie, length, offset, digits, lowest, highest, ratio
LARGEST_BUCKET = 48  # its values are 78 hours in ns
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


def decode(text: str) -> Histogram:
    """The histogram in ``latency_hdr_v2``, each value the middle of its bucket, at least 1. Raises ValueError."""
    try:
        packed = base64.b64decode(text, validate=True)
        cookie, length = struct.unpack_from(">ii", packed)
        plain = zlib.decompressobj().decompress(packed[8 : 8 + length], LONGEST)
        inner, length, _, digits, lowest, _, _ = HEAD.unpack_from(plain)
    except (ValueError, struct.error, zlib.error) as e:
        raise ValueError(f"not a compressed HdrHistogram: {e}") from e
    if (cookie, inner) != (COMPRESSED_COOKIE, COOKIE) or not 0 <= digits <= 5 or lowest < 1:
        raise ValueError("not a compressed HdrHistogram of version 2")
    counts = _zigzag_numbers(np.frombuffer(plain[HEAD.size : HEAD.size + length], np.uint8))
    steps = np.where(counts < 0, -counts, 1)  # a negative number stands for so many zeros
    indices = (np.cumsum(steps) - steps)[counts > 0]
    return Histogram(_middles(indices, digits, lowest), counts[counts > 0].astype(np.float64))


Whole = np.ndarray[Any, np.dtype[np.int64]]


def _zigzag_numbers(content: np.ndarray[Any, np.dtype[np.uint8]]) -> Whole:
    """The numbers of a ZigZag LEB128 encoding, none of them longer than eight bytes."""
    ends = np.flatnonzero(content < 0x80)
    if not len(ends):
        return np.zeros(0, np.int64)
    begins = np.concatenate([[0], ends[:-1] + 1])
    septets = content[: ends[-1] + 1].astype(np.int64)
    order = np.arange(len(septets)) - np.repeat(begins, ends - begins + 1)
    if int(order.max()) > 7:
        raise ValueError("a histogram with a number that is too large")
    encoded = np.add.reduceat((septets & 0x7F) << (7 * order), begins)
    numbers: Whole = (encoded >> 1) ^ -(encoded & 1)
    return numbers


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
