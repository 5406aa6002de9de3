"""The progress file: one JSON for the terminal, the browser and every export. The log of reviews is the truth; the rest is replayed.

    {"format": "inference-lab-progress", "version": 1,
     "settings": {"interview_date": "2026-12-20" | null, "minutes_per_day": 30}, "settings_at": <ms>,
     "reviews": [{"card", "at": <ms since 1970>, "rating": 1..4, "mode", "seconds", "rubric": [ids ticked], "estimate": number | null}],
     "measurements": [<the reader's own measurement record>, …]}

Merging is a union, so it does not matter which copy is merged into which, or how often:
- reviews are one by (card, at), measurements by (id, date); of two that differ, the one with more fields stays, then the higher rating,
  then the one whose canonical text (sorted keys, no spaces) comes last;
- settings are one value: the newer `settings_at` wins, then the canonical text that comes last;
- any other field of the file stays, of two values the one whose canonical text comes last.
Nothing unknown is dropped: ids of cards and rubric items that no longer exist, and fields of later minor versions, are kept.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from infer_course.errors import CourseError

FORMAT, VERSION = "inference-lab-progress", 1
DEFAULT_SETTINGS: Mapping[str, Any] = {"interview_date": None, "minutes_per_day": 30}
MAX_MINUTES_PER_DAY = 24 * 60
_OWN = ("format", "version", "settings", "settings_at", "reviews", "measurements")


class ProgressError(CourseError):
    """A progress file cannot be read or written; the message says where, and what to do."""


class NewerProgressError(ProgressError):
    """The file was written by a later version, which may keep things that this one would lose."""


@dataclass(frozen=True)
class Progress:
    """Everything that a reader did. Reviews are in the order of (at, card), measurements of (id, date)."""

    settings: Mapping[str, Any] = field(default_factory=lambda: dict(DEFAULT_SETTINGS))
    settings_at: int = 0
    reviews: tuple[Mapping[str, Any], ...] = ()
    measurements: tuple[Mapping[str, Any], ...] = ()
    other: Mapping[str, Any] = field(default_factory=dict)

    @property
    def interview_date(self) -> datetime.date | None:
        day = self.settings.get("interview_date")
        return datetime.date.fromisoformat(day) if day else None

    @property
    def minutes_per_day(self) -> int:
        return int(self.settings.get("minutes_per_day", DEFAULT_SETTINGS["minutes_per_day"]))

    def with_reviews(self, reviews: Iterable[Mapping[str, Any]]) -> Progress:
        return replace(self, reviews=_union((*self.reviews, *reviews), _review_key))

    def with_measurements(self, records: Iterable[Mapping[str, Any]]) -> Progress:
        return replace(self, measurements=_union((*self.measurements, *records), _measurement_key))

    def with_settings(self, at: int, **changed: Any) -> Progress:
        """Newer settings; those that are not named stay."""
        return replace(self, settings={**self.settings, **changed}, settings_at=max(at, self.settings_at + 1))

    def as_dict(self) -> dict[str, Any]:
        own = (FORMAT, VERSION, dict(self.settings), self.settings_at, list(self.reviews), list(self.measurements))
        return {**dict(zip(_OWN, own, strict=True)), **self.other}


def merge(one: Progress, other: Progress) -> Progress:
    """What is in either."""
    newer = max(one, other, key=lambda side: (side.settings_at, canonical(side.settings)))
    rest = {
        name: max((side.other[name] for side in (one, other) if name in side.other), key=canonical)
        for name in sorted({*one.other, *other.other})
    }
    return Progress(
        settings=newer.settings,
        settings_at=newer.settings_at,
        reviews=_union((*one.reviews, *other.reviews), _review_key),
        measurements=_union((*one.measurements, *other.measurements), _measurement_key),
        other=rest,
    )


def dumps(progress: Progress) -> str:
    """The text of the file: the same progress gives the same text."""
    return json.dumps(progress.as_dict(), ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def loads(text: str, where: str = "the file") -> Progress:
    """Reads a progress file. ProgressError says what is wrong with it; nothing is repaired silently."""
    try:
        raw = json.loads(text, parse_constant=_no_constant)
        canonical(raw).encode()  # numbers and text that could not be written again
    except (ValueError, RecursionError) as error:
        raise ProgressError(f"{where} is not a progress file: it is no JSON ({error})") from None
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise ProgressError(f'{where} is not a progress file: it has no `"format": "{FORMAT}"`')
    version = raw.get("version")
    if not isinstance(version, (int, float)) or not _whole(version) or version < 1:
        raise ProgressError(f"{where}: `version` must be a whole number from 1, not {version!r}")
    if version > VERSION:
        raise NewerProgressError(f"{where} has version {version}, and this program knows versions up to {VERSION}: update it first")
    settings = raw.get("settings", dict(DEFAULT_SETTINGS))
    _check_settings(settings, where)
    settings_at = raw.get("settings_at", 0)
    if not _whole(settings_at) or settings_at < 0:
        raise ProgressError(f"{where}: `settings_at` must be milliseconds since 1970, not {settings_at!r}")
    reviews = [_checked_review(review, f"{where}: review {number}") for number, review in enumerate(_list(raw, "reviews", where), 1)]
    records = [_checked_record(record, f"{where}: measurement {n}") for n, record in enumerate(_list(raw, "measurements", where), 1)]
    return Progress(
        settings=_plain({**DEFAULT_SETTINGS, **settings}),
        settings_at=int(settings_at),
        reviews=_union(reviews, _review_key),
        measurements=_union(records, _measurement_key),
        other={name: _plain(value) for name, value in raw.items() if name not in _OWN},
    )


def canonical(value: Any) -> str:
    """Text that is the same for the same value in Python and in JavaScript: sorted keys, no spaces, whole numbers without a point."""
    return json.dumps(_plain(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _union(items: Iterable[Mapping[str, Any]], key: Any) -> tuple[Mapping[str, Any], ...]:
    found: dict[tuple[Any, Any], Mapping[str, Any]] = {}
    for item in items:
        kept = found.get(key(item))
        found[key(item)] = item if kept is None else max(kept, item, key=_weight)
    return tuple(found[place] for place in sorted(found))


def _review_key(review: Mapping[str, Any]) -> tuple[int, str]:
    return review["at"], review["card"]


def _measurement_key(record: Mapping[str, Any]) -> tuple[str, str]:
    return record["id"], record["date"]


def _weight(item: Mapping[str, Any]) -> tuple[int, int, str]:
    return len(item), item.get("rating", 0), canonical(item)


def _checked_review(review: Any, where: str) -> dict[str, Any]:
    if not isinstance(review, dict) or not isinstance(review.get("card"), str) or not review["card"]:
        raise ProgressError(f"{where} names no card")
    if not _whole(review.get("at")) or not 0 <= review["at"] < 10**14:
        raise ProgressError(f"{where} ({review['card']}): `at` must be milliseconds since 1970, not {review.get('at')!r}")
    if review.get("rating") not in (1, 2, 3, 4) or isinstance(review["rating"], bool):
        raise ProgressError(f"{where} ({review['card']}): `rating` must be 1, 2, 3 or 4, not {review.get('rating')!r}")
    return _plain(review)


def _checked_record(record: Any, where: str) -> dict[str, Any]:
    if not isinstance(record, dict) or not isinstance(record.get("id"), str) or not isinstance(record.get("date"), str):
        raise ProgressError(f"{where} is no measurement record: it needs `id` and `date`")
    return _plain(record)


def _check_settings(settings: Any, where: str) -> None:
    if not isinstance(settings, dict):
        raise ProgressError(f"{where}: `settings` must be an object, not {settings!r}")
    day, minutes = settings.get("interview_date"), settings.get("minutes_per_day", 30)
    if day is not None:
        try:
            if not re.fullmatch(r"\d{4}-\d\d-\d\d", day, re.ASCII):
                raise ValueError
            datetime.date.fromisoformat(day)
        except (TypeError, ValueError):
            raise ProgressError(f"{where}: `interview_date` must be a day such as 2026-12-20, not {day!r}") from None
    if isinstance(minutes, bool) or not isinstance(minutes, (int, float)) or not 1 <= minutes <= MAX_MINUTES_PER_DAY:
        raise ProgressError(f"{where}: `minutes_per_day` must be from 1 to {MAX_MINUTES_PER_DAY}, not {minutes!r}")


def _list(raw: Mapping[str, Any], name: str, where: str) -> list[Any]:
    found = raw.get(name, [])
    if not isinstance(found, list):
        raise ProgressError(f"{where}: `{name}` must be a list, not {type(found).__name__}")
    return found


def _whole(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())


def _plain(value: Any) -> Any:
    """The value with whole floats as integers: JSON from a browser and from Python then are the same."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")
