"""The documents of trials in a few bytes: one line of JSON each, compressed together, as they repeat each other.

The compression begins with a typical document in mind (``typical_trial.json``), so that the first trial costs little
more than the others. Never change that file: what was packed with it could no longer be read.

Latency histograms, most of what is left, are taken out of the lines and packed together (``packedhistograms``). Then
the lines follow a HEAD, which begins as no zlib stream does; without it there are lines alone. A histogram comes back
with the same header and counts. Its text is another one, as it depends on who compressed it: compare ``canonical``
documents.
"""

import json
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from pathlib import Path
from typing import Any

from speedtrack.runs import packedhistograms
from speedtrack.stats.histogram import Recorded, encode

TYPICAL = Path(__file__).with_name("typical_trial.json").read_bytes().strip()
LEVEL = 6
FIRST_KEY = re.compile(rb'\{"trial":(\d+)[,}]')
HEAD = struct.Struct(">cII")  # BEGIN, length of the compressed lines, CRC-32 of the packed histograms
BEGIN = b"\x02"  # a zlib stream begins with 0x?8
HISTOGRAM = re.compile(rb':"(HISTFAA[A-Za-z0-9+/]+=*)"')  # as the value of a key; within a text the quote has a \
MARK = "-0"  # in the place of a histogram: an integer of JSON that json.dumps never writes
PIECE = 64 * 1024  # bytes that are unpacked at once


def pack(documents: Iterable[Mapping[str, Any]]) -> bytes:
    packer, histograms = zlib.compressobj(LEVEL, zdict=TYPICAL), packedhistograms.Packer()
    mark = f":{MARK}".encode()

    def without_histograms(document: Mapping[str, Any]) -> bytes:
        line = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        return HISTOGRAM.sub(lambda value: mark if histograms.add(value[1]) else value[0], line)

    lines = b"".join([packer.compress(without_histograms(document)) for document in documents]) + packer.flush()
    packed_histograms = histograms.packed()
    if not packed_histograms:
        return lines
    return HEAD.pack(BEGIN, len(lines), zlib.crc32(packed_histograms)) + lines + packed_histograms


def unpack(packed: bytes, histograms: Callable[[Recorded], Any] | None = encode) -> Iterator[dict[str, Any]]:
    """Yield the documents in order, unpacking only as far as they are asked for.

    ``histograms`` makes of each what stands in its place: by default its text, None if they are not to be read.
    """
    lines, packed_histograms, check = parts_of(packed)
    forms: Iterator[Any] = repeat(None)
    if histograms:
        forms = map(histograms, packedhistograms.unpack(intact(packed_histograms, check)))

    def histogram_or_int(literal: str) -> Any:
        return next(forms) if literal == MARK else int(literal)

    for line in lines_of(lines):
        yield json.loads(line, parse_int=histogram_or_int)


def canonical(documents: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The documents as they come back, with the same text for the same histogram."""
    return list(unpack(pack(documents)))


def trial_numbers(packed: bytes) -> list[int]:
    """The numbers of the trials. The documents are unpacked but not parsed: the check sums vouch for the rest."""
    lines, packed_histograms, check = parts_of(packed)
    intact(packed_histograms, check)
    keys = map(FIRST_KEY.match, lines_of(lines))
    return [int(key[1]) for key in keys if key]


def parts_of(packed: bytes) -> tuple[bytes, bytes, int]:
    """The compressed lines, the packed histograms, and the check sum of these."""
    if packed[:1] != BEGIN or len(packed) < HEAD.size:
        return packed, b"", 0
    _, length, check = HEAD.unpack_from(packed)
    end = HEAD.size + length
    return packed[HEAD.size : end], packed[end:], check


def intact(content: bytes, check: int) -> bytes:
    if zlib.crc32(content) != check:
        raise ValueError("the histograms of trials are damaged")
    return content


def lines_of(packed: bytes) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(zdict=TYPICAL)
    tail = b""
    while not unpacker.eof:
        piece = unpacker.decompress(packed, PIECE)
        packed = unpacker.unconsumed_tail
        if not (piece or packed or unpacker.eof):
            raise ValueError("the documents of trials end too early")
        *lines, tail = (tail + piece).split(b"\n")
        yield from lines
