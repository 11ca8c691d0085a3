"""When a person may be notified: functions of clock times, in the person's time zone."""

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

MONDAY = 0


@dataclass(frozen=True)
class Hours:
    """``quiet`` is a span of local time, which may cross midnight."""

    zone: ZoneInfo
    quiet: tuple[time, time] | None
    digest_hour: int

    def after_quiet(self, at: datetime) -> datetime:
        """The moment ``at``, or the end of the quiet hours if it lies in them."""
        if self.quiet is None:
            return at
        local = at.astimezone(self.zone)
        begin, end = self.quiet
        clock = local.time()
        is_quiet = begin <= clock < end if begin < end else clock >= begin or clock < end
        if not is_quiet:
            return at
        until = local.replace(hour=end.hour, minute=end.minute, second=0, microsecond=0)
        return until if clock < end else until + timedelta(days=1)

    def midnight(self, at: datetime) -> datetime:
        """The moment at which the local day of ``at`` began."""
        return at.astimezone(self.zone).replace(hour=0, minute=0, second=0, microsecond=0)

    def digest(self, after: datetime, weekly: bool = False) -> datetime:
        """When the next digest is sent: at the digest hour of each day, or of each Monday if ``weekly``."""
        due = self.midnight(after).replace(hour=self.digest_hour)
        while due <= after or (weekly and due.weekday() != MONDAY):
            due += timedelta(days=1)
        return self.after_quiet(due)
