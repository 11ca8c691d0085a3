"""The documents of trials in a few bytes: one line of JSON each, compressed together, as they repeat each other.

Most of what is left are latency histograms, which are compressed already and stay exact. The compression begins with
a typical document in mind (``typical_trial.json``), so that the first trial costs little more than the others. Never
change that file: what was packed with it could no longer be read.
"""

import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

TYPICAL = Path(__file__).with_name("typical_trial.json").read_bytes().strip()
LEVEL = 6
FIRST_KEY = re.compile(rb'\{"trial":(\d+)[,}]')
PIECE = 64 * 1024  # bytes that are unpacked at once


def pack(documents: Iterable[Mapping[str, Any]]) -> bytes:
    packer = zlib.compressobj(LEVEL, zdict=TYPICAL)
    lines = (json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for document in documents)
    return b"".join([packer.compress(line) for line in lines]) + packer.flush()


def unpack(packed: bytes) -> Iterator[dict[str, Any]]:
    """Yield the documents in order, unpacking only as far as they are asked for."""
    return map(json.loads, lines_of(packed))


def trial_numbers(packed: bytes) -> list[int]:
    """The numbers of the trials. The documents are unpacked but not parsed: the check sum vouches for the rest."""
    keys = map(FIRST_KEY.match, lines_of(packed))
    return [int(key[1]) for key in keys if key]


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
