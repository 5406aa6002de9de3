"""The reader's day: it begins at midnight where they are."""

from __future__ import annotations

import datetime


def start_of_day(now: int) -> int:
    """Ms since 1970 of the last local midnight before `now`."""
    return int(day_of(now).timestamp() * 1000)


def day_of(now: int) -> datetime.datetime:
    """The local midnight before `now`."""
    return datetime.datetime.fromtimestamp(now / 1000).replace(hour=0, minute=0, second=0, microsecond=0)


def days_until(day: datetime.date, now: int) -> int:
    return (day - day_of(now).date()).days
