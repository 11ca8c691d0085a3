"""A port that a test gives to a server is nobody else's before the server listens."""

import random
import socket

import pytest

from runners.tests import ports


def given_by_the_kernel() -> range:
    first, last = map(int, ports.RANGE.read_text().split())
    return range(first, last + 1)


def test_the_kernel_gives_it_to_nobody() -> None:
    assert not {ports.free_port() for _ in range(200)} & set(given_by_the_kernel())


def test_what_listens_already_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", ports.free_port())) as listener:
        taken, free = listener.getsockname()[1], ports.free_port()
        asked = iter([taken, free])
        monkeypatch.setattr(random, "choice", lambda range: next(asked))
        assert ports.free_port() == free
