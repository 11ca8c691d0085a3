"""Histograms of latencies as the driver writes them, for tests."""

import base64
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator

from speedtrack.stats.histogram import COMPRESSED_COOKIE, COOKIE, HEAD

HALF = 10  # bits of a half of a bucket, with three significant digits


def encoded(latencies_ns: Iterable[float]) -> str:
    """``latency_hdr_v2`` of these latencies."""
    return encoded_counts(Counter(place_of(int(value)) for value in latencies_ns))


def encoded_counts(counts: Counter[int]) -> str:
    """``latency_hdr_v2`` of so many latencies at each place."""
    numbers: list[int] = []
    after = 0
    for index in sorted(counts):
        if index > after:
            numbers.append(after - index)
        numbers.append(counts[index])
        after = index + 1
    content = b"".join(bytes(zigzag(number)) for number in numbers)
    plain = HEAD.pack(COOKIE, len(content), 0, 3, 1, 2**43 - 1, 1.0) + content
    packed = zlib.compress(plain)
    return base64.b64encode(struct.pack(">ii", COMPRESSED_COOKIE, len(packed)) + packed).decode()


def place_of(value: int) -> int:
    """The place of a value in the array of counts."""
    bucket = max(0, value.bit_length() - HALF - 1)
    return (bucket << HALF) + (value >> bucket)


def zigzag(number: int) -> Iterator[int]:
    remaining = number << 1 if number >= 0 else ~(number << 1)
    while remaining > 0x7F:
        yield remaining & 0x7F | 0x80
        remaining >>= 7
    yield remaining
