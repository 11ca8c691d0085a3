"""Histograms of latencies as the driver writes them, for tests."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from speedtrack.stats.histogram import HEADER, Recorded, encode

HALF = 10  # bits of a half of a bucket, with three significant digits


def encoded(latencies_ns: Iterable[float]) -> str:
    """``latency_hdr_v2`` of these latencies."""
    counts = sorted(Counter(place_of(int(value)) for value in latencies_ns).items())
    places, numbers = np.array(counts, np.int64).reshape(-1, 2).T
    return encode(Recorded(HEADER.pack(0, 3, 1, 2**43 - 1, 1.0), places, numbers))


def place_of(value: int) -> int:
    """The place of a value in the array of counts."""
    bucket = max(0, value.bit_length() - HALF - 1)
    return (bucket << HALF) + (value >> bucket)
