"""Signs of life of processes that run only once, such as the dispatcher."""

import time

from django.db.models.functions import Now

from speedtrack.monitoring.models import Heartbeat

DISPATCHER = "dispatcher"
LATE_S = 30.0  # a process without a sign of life for longer counts as dead: six ticks of the dispatcher


class Beating:
    """Stores signs of life of this process, at most every few seconds."""

    def __init__(self, process: str, every_s: float) -> None:
        self.process, self.every_s = process, every_s
        self.last = -every_s  # on time.monotonic's clock

    def beat(self) -> None:
        now = time.monotonic()
        if now - self.last >= self.every_s:
            sign = Heartbeat(process=self.process, at=Now())
            Heartbeat.objects.bulk_create(
                [sign], update_conflicts=True, update_fields=["at"], unique_fields=["process"]
            )
            self.last = now


def age_s(process: str) -> float | None:
    """Seconds since the last sign of life, by the database's clock. None: there never was one."""
    times = Heartbeat.objects.filter(process=process).annotate(now=Now()).values_list("now", "at").first()
    return (times[0] - times[1]).total_seconds() if times else None
