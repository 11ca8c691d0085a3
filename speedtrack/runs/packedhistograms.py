"""Latency histograms of one result in about 60% of the bytes that their texts take, with all that they contain.

Trials of a result have counts in about the same buckets, so the counts are a matrix: a row for each bucket with counts,
a column for each histogram. Neighbours in it are alike, in no way that repeats. So its lowest bytes are compressed by
Huffman codes alone, and these fit as each is used for a few hundred bytes only.

Packed are two zlib streams, the second with the lowest bytes of the matrices. The first has for each matrix: numbers of
rows and columns (SIZES), the headers, the differences of the buckets' indices, and the matrix without its lowest bytes.
"""

import struct
import zlib
from collections.abc import Iterator
from io import BytesIO

import numpy as np

from speedtrack.stats import histogram
from speedtrack.stats.histogram import HEADER, Recorded, Whole

SIZES = struct.Struct(">II")
FEW_SYMBOLS = 3  # zlib's memLevel: a Huffman code for 512 of them
# Bounds for the time and memory of what no driver sends; beyond them a histogram stays as it came.
LARGEST_MATRIX = 1 << 19  # cells, also of empty buckets
MOST_BUCKETS = 1 << 16  # of one histogram; three digits of any number of 64 bits take 56,320
LONGEST = 1 << 16  # bytes of an uncompressed histogram; the driver's have up to 50,000
LONGEST_IN_ALL = 1 << 22
MOST = 2000


class Packer:
    """Collects histograms and packs them."""

    def __init__(self) -> None:
        self.histograms: list[Recorded] = []
        self.offered = 0
        self.length = 0

    def add(self, text: bytes) -> bool:
        """Take the histogram that a text contains, if it is a whole one within the bounds."""
        self.offered += 1
        if self.offered > MOST or self.length > LONGEST_IN_ALL:
            return False
        try:
            plain = histogram.inflate(text, LONGEST)
            self.length += len(plain)
            recorded = histogram.parse(plain)
        except ValueError:
            return False
        if recorded.end > MOST_BUCKETS or not histogram.is_whole(plain):
            return False
        self.histograms.append(recorded)
        return True

    def packed(self) -> bytes:
        if not self.histograms:
            return b""
        outer, lowest = zip(*map(matrix_of, self.groups()), strict=True)
        by_codes = zlib.compressobj(memLevel=FEW_SYMBOLS, strategy=zlib.Z_HUFFMAN_ONLY)
        return zlib.compress(b"".join(outer)) + by_codes.compress(b"".join(lowest)) + by_codes.flush()

    def groups(self) -> Iterator[list[Recorded]]:
        """Histograms that follow each other, as many as have a matrix within the bound."""
        group: list[Recorded] = []
        end = 0
        for recorded in self.histograms:
            end = max(end, recorded.end)
            if group and end * (len(group) + 1) > LARGEST_MATRIX:
                yield group
                group, end = [], recorded.end
            group.append(recorded)
        yield group


def matrix_of(group: list[Recorded]) -> tuple[bytes, bytes]:
    """What the two streams have of some histograms."""
    columns = np.zeros((len(group), max(recorded.end for recorded in group)), np.int64)
    for counts, recorded in zip(columns, group, strict=True):
        counts[recorded.buckets] = recorded.counts
    buckets = np.flatnonzero(columns.any(axis=0))
    matrix = columns.T[buckets]
    headers = b"".join([recorded.header for recorded in group])
    outer = SIZES.pack(*matrix.shape) + headers + octets_of(np.diff(buckets, prepend=0)) + octets_of(matrix >> 8)
    return outer, matrix.astype(np.uint8).tobytes()


def octets_of(numbers: Whole) -> bytes:
    """How many bytes each number takes; then the lowest byte of all, and so on to the highest."""
    size = (int(numbers.max(initial=0)).bit_length() + 7) // 8
    return bytes([size]) + numbers.astype("<i8").view(np.uint8).reshape(-1, 8).T[:size].tobytes()


def unpack(packed: bytes) -> Iterator[Recorded]:
    """Yield the histograms in order."""
    if not packed:
        return
    stream = zlib.decompressobj()
    outer, lowest = BytesIO(stream.decompress(packed)), BytesIO(zlib.decompress(stream.unused_data))
    while sizes := outer.read(SIZES.size):
        rows, columns = SIZES.unpack(sizes)
        headers = [outer.read(HEADER.size) for _ in range(columns)]
        buckets = np.cumsum(read_numbers(outer, rows))
        cells = read_numbers(outer, rows * columns) << 8 | np.frombuffer(lowest.read(rows * columns), np.uint8)
        for header, counts in zip(headers, cells.reshape(rows, columns).T, strict=True):
            nonzero = np.flatnonzero(counts)
            yield Recorded(header, buckets[nonzero], counts[nonzero])


def read_numbers(file: BytesIO, count: int) -> Whole:
    """The inverse of ``octets_of``."""
    (size,) = file.read(1)
    octets = np.zeros((count, 8), np.uint8)
    octets[:, :size] = np.frombuffer(file.read(size * count), np.uint8).reshape(size, count).T
    return octets.view("<i8").ravel()
