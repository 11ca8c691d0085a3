"""Read what a measured server answers: within a time and a size, however it sends."""

import socket
import time
from collections.abc import Callable

ANSWER_S = 5.0


def receive(connection: socket.socket, is_whole: Callable[[bytes], bool], most_bytes: int) -> bytes:
    """What a server sends until it is whole, has ``most_bytes`` or more, or ends.

    Raises OSError, and TimeoutError after ANSWER_S seconds in all: a server may send a byte a second.
    """
    deadline, answer = time.monotonic() + ANSWER_S, b""
    while not is_whole(answer) and len(answer) < most_bytes:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"its answer takes longer than {ANSWER_S:g} s")
        connection.settimeout(left_s)
        part = connection.recv(min(most_bytes, 1 << 16))
        if not part:
            break
        answer += part
    return answer
