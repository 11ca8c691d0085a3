from datetime import UTC, datetime

import pytest

from speedtrack.runs.scheduling import windows
from speedtrack.runs.scheduling.windows import BadWindow


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("window", "moment", "is_open"),
    [
        ("mon-fri 22:00-06:00", "2026-11-23 23:00", True),  # a Monday
        ("mon-fri 22:00-06:00", "2026-11-23 21:59", False),
        ("mon-fri 22:00-06:00", "2026-11-28 05:59", True),  # the night of Friday
        ("mon-fri 22:00-06:00", "2026-11-28 23:00", False),
        ("mon-fri 22:00-06:00", "2026-11-23 05:00", False),  # the night of Sunday
        ("00:00-24:00", "2026-11-23 12:00", True),
        ("SAT,sun 08:00-12:30", "2026-11-29 12:29", True),
        ("sat,sun 08:00-12:30", "2026-11-29 12:30", False),
        ("fri-mon 08:00-09:00", "2026-11-23 08:30", True),
    ],
)
def test_a_window_is_open_on_its_days_and_hours(window: str, moment: str, is_open: bool) -> None:
    assert windows.is_open([window], "UTC", at(moment)) is is_open


def test_without_windows_it_is_always_open() -> None:
    assert windows.is_open([], "UTC", at("2026-11-23 12:00"))
    assert windows.opens_at([], "UTC", at("2026-11-23 12:00")) is None


def test_the_zone_counts_and_its_summer() -> None:
    assert windows.is_open(["22:00-23:00"], "Europe/Rome", at("2026-07-01 20:30"))
    assert not windows.is_open(["22:00-23:00"], "Europe/Rome", at("2026-12-01 20:30"))
    assert windows.is_open(["22:00-23:00"], "Europe/Rome", at("2026-12-01 21:30"))


def test_when_it_opens_next() -> None:
    two = ["mon 22:00-23:00", "wed 08:00-09:00"]
    assert windows.opens_at(two, "UTC", at("2026-11-23 21:00")) == at("2026-11-23 22:00")
    assert windows.opens_at(two, "UTC", at("2026-11-23 23:30")) == at("2026-11-25 08:00")
    assert windows.opens_at(two, "UTC", at("2026-11-23 22:30")) is None
    assert windows.opens_at(["mon 22:00-23:00"], "UTC", at("2026-11-23 23:00")) == at("2026-11-30 22:00")


@pytest.mark.parametrize(
    ("texts", "zone", "why"),
    [
        (["22:00"], "UTC", "is not a window"),
        (["mon-fri 22:00-22:00"], "UTC", "begins when it ends"),
        (["day 22:00-23:00"], "UTC", "no day 'day'"),
        (["25:00-26:00"], "UTC", "no such time"),
        (["08:60-09:00"], "UTC", "no such time"),
        (["24:00-01:00"], "UTC", "no such time"),
        (["08:00-10:00", "mon 09:00-10:00"], "UTC", "'mon 09:00-10:00' lies within"),
        (["sun 22:00-06:00", "mon 05:00-06:00"], "UTC", "lies within"),
        (["08:00-10:00", "08:00-10:00"], "UTC", "lies within"),
        (["08:00-10:00"], "Mars/Base", "no time zone"),
        (["08:00-10:00"], "../../etc/passwd", "no time zone"),
        ([f"mon {hour:02}:00-{hour:02}:30" for hour in range(21)], "UTC", "too many"),
        (["0\u0663:00-04:00"], "UTC", "is not a window"),
    ],
)
def test_what_is_no_window_or_contradicts_another_is_refused(texts: list[str], zone: str, why: str) -> None:
    with pytest.raises(BadWindow, match=why):
        windows.checked_windows(texts, zone)


def test_windows_are_stored_in_one_form() -> None:
    assert windows.checked_windows(["  MON-Fri   22:00-06:00 ", ""], "UTC") == ["mon-fri 22:00-06:00"]


def test_windows_may_overlap() -> None:
    both = ["mon-fri 22:00-06:00", "sat 00:00-24:00"]
    assert windows.checked_windows(both, "UTC") == both
