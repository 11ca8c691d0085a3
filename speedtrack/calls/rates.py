"""The rate limit of a caller: a bucket of requests that fills steadily, shared by all processes.

One statement takes a request out of it. The table is unlogged, so the statement waits for no disk. The table has the
time when the bucket will be full again (the generic cell rate algorithm of ATM), so nothing has to fill it.
"""

import math
from dataclasses import dataclass
from typing import Any

from django.db import connection

MINUTE = 60

# If the bucket is empty, nothing is updated and no row returned; then the last SELECT returns the time that is owed.
TAKE = """
      WITH taken AS (
        INSERT INTO calls_allowance AS a (caller, whole_at)
        VALUES (%(caller)s, clock_timestamp() + %(interval)s * interval '1 second')
            ON CONFLICT (caller) DO UPDATE
           SET whole_at = greatest(a.whole_at, clock_timestamp()) + %(interval)s * interval '1 second'
         WHERE a.whole_at <= clock_timestamp() + %(room)s * interval '1 second'
        RETURNING whole_at)
    SELECT true, extract(epoch FROM whole_at - clock_timestamp())::float FROM taken
 UNION ALL
    SELECT false, extract(epoch FROM whole_at - clock_timestamp())::float FROM calls_allowance
     WHERE caller = %(caller)s AND NOT EXISTS (SELECT FROM taken)
"""


@dataclass(frozen=True)
class RateStanding:
    """``remaining``: further requests allowed now. ``wait_s``: until the next one is; ``whole_s``: until all are."""

    per_minute: int
    is_allowed: bool
    remaining: int
    wait_s: int
    whole_s: int

    @property
    def headers(self) -> dict[str, str]:
        """The headers of draft-ietf-httpapi-ratelimit-headers."""
        limits = {
            "RateLimit-Policy": f'"default";q={self.per_minute};w={MINUTE}',
            "RateLimit": f'"default";r={self.remaining};t={self.whole_s}',
        }
        return limits if self.is_allowed else limits | {"Retry-After": str(self.wait_s)}


def take(caller: str, per_minute: int) -> RateStanding:
    """Take one request from a caller's allowance, which holds at most one minute's requests."""
    interval = MINUTE / per_minute
    parameters: dict[str, Any] = {"caller": caller, "interval": interval, "room": MINUTE - interval}
    row = None
    with connection.cursor() as cursor:
        while row is None:  # another process has inserted the caller's row, which only the next statement sees
            cursor.execute(TAKE, parameters)
            row = cursor.fetchone()
    is_allowed, owed_s = row
    remaining = max(0, math.floor((MINUTE - owed_s) / interval + 1e-6))
    wait_s = max(1, math.ceil(owed_s + interval - MINUTE))
    return RateStanding(per_minute, is_allowed, remaining, wait_s, max(0, math.ceil(owed_s)))
