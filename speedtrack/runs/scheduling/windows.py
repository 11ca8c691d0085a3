"""When a machine takes work by itself: windows such as `mon-fri 22:00-06:00`, in the machine's time zone.

The days are those on which a window begins; without days it begins every day. A machine without windows takes work at
any time. Clock changes are those of the zone: a window may be an hour longer or shorter then.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
WINDOW = re.compile(r"(?:([a-z]{3}(?:-[a-z]{3})?(?:,[a-z]{3}(?:-[a-z]{3})?)*) )?(\d\d):(\d\d)-(\d\d):(\d\d)", re.ASCII)
MOST = 20  # of a machine


class BadWindow(ValueError):
    """The text is not a window or a time zone; the message says how one is written."""


class WorkWindow(NamedTuple):
    """A weekly window.

    ``begin`` and ``end``: minutes of the day; an end that is not later than the begin is on the next day.
    """

    days: tuple[int, ...]
    begin: int
    end: int


def parse(text: str) -> WorkWindow:
    """The window written as in ``mon-fri 22:00-06:00``. Raises BadWindow."""
    match = WINDOW.fullmatch(" ".join(text.lower().split()))
    if match is None:
        raise BadWindow(f"{text[:40]!r} is not a window: write one such as `mon-fri 22:00-06:00` or `08:00-12:30`")
    begin, end = (int(match[at]) * 60 + int(match[at + 1]) for at in (2, 4))
    if begin >= 24 * 60 or end > 24 * 60 or int(match[3]) > 59 or int(match[5]) > 59:
        raise BadWindow(f"{text[:40]!r} has no such time of day: from 00:00 to 24:00")
    if begin == end:
        raise BadWindow(f"{text[:40]!r} begins when it ends: write 00:00-24:00 for a whole day")
    return WorkWindow(tuple(sorted(set(days_of(match[1] or "mon-sun")))), begin, end)


def days_of(text: str) -> Iterator[int]:
    for span_text in text.split(","):
        first, _, last = span_text.partition("-")
        for day in (first, last or first):
            if day not in DAYS:
                raise BadWindow(f"there is no day {day!r}: there are {', '.join(DAYS)}")
        span = (DAYS.index(last or first) - DAYS.index(first)) % 7
        yield from ((DAYS.index(first) + offset) % 7 for offset in range(span + 1))


def checked_windows(texts: Iterable[str], zone: str) -> list[str]:
    """The windows in the form in which they are stored.

    Raises BadWindow for one that is wrong, or that the other ones make needless.
    """
    if zone not in available_timezones():
        raise BadWindow(f"there is no time zone {zone[:40]!r}: give one such as UTC or Europe/Rome")
    windows = [" ".join(text.lower().split()) for text in texts if text.strip()]
    if len(windows) > MOST:
        raise BadWindow(f"{len(windows)} windows are too many: give at most {MOST}")
    minutes = {index: set(minutes_of(parse(text))) for index, text in enumerate(windows)}
    for index, text in enumerate(windows):
        if minutes[index] <= set().union(
            *(covered for other_index, covered in minutes.items() if other_index != index)
        ):
            raise BadWindow(f"{text!r} lies within the other windows: leave it out")
    return windows


def minutes_of(window: WorkWindow) -> Iterator[int]:
    """The minutes of the week, from 0, that lie in a window."""
    length = (window.end - window.begin) % (24 * 60) or 24 * 60
    for day in window.days:
        yield from ((day * 24 * 60 + window.begin + minute) % (7 * 24 * 60) for minute in range(length))


def is_open(windows: Sequence[str], zone: str, now: datetime) -> bool:
    """Return whether a machine with these windows takes work by itself now."""
    return not windows or any(begin <= now < end for begin, end in openings(windows, zone, now))


def open_since(windows: Sequence[str], zone: str, now: datetime) -> datetime | None:
    """Since when the present window is open; None if none is, or the machine has no windows."""
    return max((begin for begin, end in openings(windows, zone, now) if begin <= now < end), default=None)


def opens_at(windows: Sequence[str], zone: str, now: datetime) -> datetime | None:
    """When the next window opens; None if one is open."""
    if is_open(windows, zone, now):
        return None
    return min(begin for begin, _ in openings(windows, zone, now) if begin > now)


def openings(windows: Sequence[str], zone: str, now: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The (opening, closing) times of the windows, from yesterday until a week from now."""
    timezone = ZoneInfo(zone)
    today = now.astimezone(timezone).date()
    for window in map(parse, windows):
        for distance in range(-1, 8):
            day = today + timedelta(days=distance)
            if day.weekday() in window.days:
                last = day + timedelta(days=window.end <= window.begin)
                yield moment(day, window.begin, timezone), moment(last, window.end, timezone)


def moment(day: date, minute: int, timezone: ZoneInfo) -> datetime:
    """The moment of a day at this minute; minute 1440 is the beginning of the next day."""
    if minute == 24 * 60:
        day, minute = day + timedelta(days=1), 0
    return datetime.combine(day, time(minute // 60, minute % 60), timezone)
