"""Answers of a measured server, which is foreign code: an answer may come byte by byte, never end, or hold anything."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from runners.servers.address import Address

PIECE_BYTES = 1 << 16


@dataclass(frozen=True)
class ServerRequest:
    """A request to a measured server, with the limits of its answer.

    `is_whole` decides whether the bytes received so far are the complete answer. `within_s` limits the total time and
    `most_bytes` the total size.
    """

    request: bytes
    is_whole: Callable[[bytes], bool]
    within_s: float
    most_bytes: int


def ask(address: Address, question: ServerRequest) -> bytes:
    """The bytes of the answer until it is whole, the server hangs up, or `most_bytes` have come.

    Raises OSError, and TimeoutError if that takes longer than `within_s` in all, including the time to connect.
    """
    deadline = time.monotonic() + question.within_s
    answer = b""
    with address.connect(question.within_s) as connection:
        connection.settimeout(seconds_until(deadline))
        connection.sendall(question.request)
        while not question.is_whole(answer) and (room := question.most_bytes - len(answer)) > 0:
            connection.settimeout(seconds_until(deadline))
            piece = connection.recv(min(PIECE_BYTES, room))
            if not piece:
                break
            answer += piece
    return answer


def seconds_until(deadline: float) -> float:
    """The seconds that are left. Raises TimeoutError if there are none."""
    remaining_s = deadline - time.monotonic()
    if remaining_s <= 0:
        raise TimeoutError("timed out")
    return remaining_s
