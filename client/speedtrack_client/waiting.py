"""Ask repeatedly until something has ended.

If the server is away for some minutes, as during an upgrade, keep waiting.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from speedtrack_client.failures import Exit, Failure, ServerAway

FIRST_S, LONGEST_S, GROWTH = 1.0, 15.0, 1.3
PATIENCE_S = 300.0  # with a server that does not answer

T = TypeVar("T")


def until(
    ask: Callable[[], T], is_ended: Callable[[T], bool], show: Callable[[T], object], most_s: float, again: str
) -> T:
    """The answer for which ``is_ended`` is true. Raises Failure after ``most_s`` seconds.

    ``show`` is called with each answer. ``again``: for the message, the command that shows the answer later.
    """
    deadline, pause_s, away_since = time.monotonic() + most_s, FIRST_S, None
    while True:
        try:
            answer = ask()
        except ServerAway:
            away_since = away_since or time.monotonic()
            if time.monotonic() - away_since > PATIENCE_S:
                raise
        else:
            away_since = None
            show(answer)
            if is_ended(answer):
                return answer
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise Failure(f"not finished within --timeout; it goes on. To wait again: {again}", Exit.TIMED_OUT)
        time.sleep(min(pause_s, left_s))
        pause_s = min(pause_s * GROWTH, LONGEST_S)
