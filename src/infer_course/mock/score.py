"""What is asked after an answer, what the answer was worth, and what the report advises. Pure rules; the page has the same ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from infer_course.mock.choose import LEVELS, MOST_FOLLOW_UPS

Reply = Literal["yes", "partly", "no"]
REACHED = 2 / 3
"""Share of the items of a level, and of each level below, that makes the level reached."""


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a rubric; `follow_up`: whether an interviewer asks something when it is missing."""

    id: str
    level: str
    follow_up: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """A follow-up that was asked: for a missing item, or as the `chain` number of the card's own follow-ups."""

    item: str | None
    chain: int | None
    reply: Reply


@dataclass(frozen=True, slots=True)
class Score:
    """had and of: items at or below the level (a missed one that its follow-up recovered counts half, as 0.5). flags: red flags ticked."""

    had: float
    of: int
    flags: int
    reached: str | None
    rating: int

    @property
    def share(self) -> float:
        return max(0.0, self.had - self.flags) / self.of if self.of else 1.0


def follow_ups(items: Sequence[Item], ticked: frozenset[str], level: str, chain: int) -> Sequence[tuple[str | None, int | None]]:
    """What the interviewer asks next, at most two: after missing items of the level or below, lowest level first; if none is missing, the
    first questions of the card's own chain, which go deeper. Pairs of (item id, None) or (None, place in the chain)."""
    missing = [item for item in _by_level(items) if _counts(item, level) and item.id not in ticked]
    if missing:
        return [(item.id, None) for item in missing if item.follow_up][:MOST_FOLLOW_UPS]
    return [(None, number) for number in range(min(chain, MOST_FOLLOW_UPS))]


def score(items: Sequence[Item], ticked: frozenset[str], asked: Sequence[Asked], level: str) -> Score:
    """What an answer was worth at the level that was asked."""
    worth = {item.id: 1.0 if item.id in ticked else 0.0 for item in items}
    for follow_up in asked:
        if follow_up.item in worth and follow_up.item not in ticked and follow_up.reply == "yes":
            worth[follow_up.item] = 0.5
    counted = [item for item in items if _counts(item, level)]
    had = sum(worth[item.id] for item in counted)
    flags = sum(item.level == "red_flag" and item.id in ticked for item in items)
    reached = None
    for name in LEVELS:
        of_level = [worth[item.id] for item in items if item.level == name]
        if of_level and sum(of_level) < REACHED * len(of_level) - 1e-9:
            break
        reached = name if of_level else reached
    if flags and reached is not None:
        at = LEVELS.index(reached) - flags
        reached = LEVELS[at] if at >= 0 else None
    share = max(0.0, had - flags) / len(counted) if counted else 1.0
    return Score(had, len(counted), flags, reached, 1 if share < 0.4 else 2 if share < 0.65 else 3 if share < 0.9 else 4)


def overall(scores: Sequence[Score]) -> str | None:
    """The level of the median question; of two middle ones the lower."""
    if not scores:
        return None
    places = sorted(-1 if s.reached is None else LEVELS.index(s.reached) for s in scores)
    middle = places[(len(places) - 1) // 2]
    return None if middle < 0 else LEVELS[middle]


def advice(cards: Sequence[Mapping[str, object]], scores: Mapping[str, Score]) -> dict[str, list[str]]:
    """What to read and what to drill, worst question first. cards: rows of `cards.json` that were asked, in their order.

    read: lessons of questions that missed anything. drill: those questions, then the cards that an interviewer asks after them.
    """
    weak = [card for card in cards if str(card["id"]) in scores and scores[str(card["id"])].share < 1]
    weak.sort(key=lambda card: scores[str(card["id"])].share)
    lessons = [lesson["id"] for card in weak for lesson in card["lessons"]]  # type: ignore[attr-defined]
    first = [str(card["id"]) for card in weak]
    after = [str(other) for card in weak for other in card["follow_up_cards"]]  # type: ignore[attr-defined]
    return {"read": list(dict.fromkeys(lessons)), "drill": list(dict.fromkeys([*first, *after]))}


def _by_level(items: Sequence[Item]) -> list[Item]:
    return [item for level in LEVELS for item in items if item.level == level]


def _counts(item: Item, level: str) -> bool:
    return item.level in LEVELS and LEVELS.index(item.level) <= LEVELS.index(level)
