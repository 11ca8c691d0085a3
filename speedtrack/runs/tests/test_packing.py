"""Documents of trials come back as they were, a long result is unpacked no further than it is read."""

import hashlib
import random
import zlib
from typing import Any

import pytest

from speedtrack.runs import packing

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
