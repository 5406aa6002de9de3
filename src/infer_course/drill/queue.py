"""What a sitting asks, and in which order: due cards first, then new ones; planned cards never.

Deterministic, so that the browser builds the same queue from the same log (`tests/fixtures/drill_queue.json`):
- a card is *due* when its due time is before the end of the reader's day: who drilled late yesterday may drill early today;
- due cards come by due time, then by the order of the course;
- new cards come in the order of the chosen set, else of the course, at most `new` a day less those that were begun today;
- with `minutes`, cards are taken from the front while their seconds fit (at least one card).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from infer_course.drill.memory import DAY_MS, Memory

Mode = Literal["recall", "explain"]
RECALL_SECONDS = 90
READING_SECONDS = 60
NEW_A_DAY = 10
RETURNS_AFTER = 4


@dataclass(frozen=True, slots=True)
class DrillCard:
    """What scheduling knows of a card; a row of `cards.json`."""

    id: str
    part: int
    order: int
    kind: str
    level: str
    minutes: float
    tags: tuple[str, ...]
    sets: tuple[str, ...]
    follow_up_cards: tuple[str, ...] = ()
    rubric: tuple[tuple[str, str], ...] = ()
    """(item id, level), level being junior, mid, senior or red_flag"""
    estimate: tuple[float, float] | None = None
    """(right value in the card's unit, tolerance as a fraction)"""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> DrillCard:
        asked = row.get("estimate")
        return cls(
            id=row["id"],
            part=row["part"],
            order=row["order"],
            kind=row["kind"],
            level=row["level"],
            minutes=row["minutes"],
            tags=tuple(row.get("tags", ())),
            sets=tuple(row.get("sets", ())),
            follow_up_cards=tuple(row.get("follow_up_cards", ())),
            rubric=tuple((item["id"], item["level"]) for item in row.get("rubric", ())),
            estimate=(asked["value"], asked["tolerance"]) if asked else None,
        )

    def seconds(self, mode: Mode) -> int:
        """What one review takes: a minute and a half to recall; to explain, the card's own minutes and one to read and grade."""
        return RECALL_SECONDS if mode == "recall" else math.floor(self.minutes * 60 + 0.5) + READING_SECONDS

    @property
    def place(self) -> tuple[int, int, str]:
        return self.part, self.order, self.id


@dataclass(frozen=True, slots=True)
class Filter:
    """Which cards; empty means all. `cards` is the order of a chosen set (None: no set is chosen)."""

    parts: frozenset[int] = frozenset()
    kinds: frozenset[str] = frozenset()
    levels: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    cards: tuple[str, ...] | None = None

    def matches(self, card: DrillCard) -> bool:
        return (
            (not self.parts or card.part in self.parts)
            and (not self.kinds or card.kind in self.kinds)
            and (not self.levels or card.level in self.levels)
            and (not self.tags or not self.tags.isdisjoint(card.tags))
            and (self.cards is None or card.id in self.cards)
        )


@dataclass(frozen=True, slots=True)
class Queue:
    """Ids in the order in which they are asked, and how many there would have been of each without the limits."""

    due: tuple[str, ...]
    new: tuple[str, ...]
    all_due: int
    all_new: int
    seconds: int

    @property
    def cards(self) -> tuple[str, ...]:
        return (*self.due, *self.new)


def written(rows: Iterable[Mapping[str, Any]]) -> tuple[DrillCard, ...]:
    """The cards of `cards.json` that can be asked, in the order of the course."""
    return tuple(sorted((DrillCard.of(row) for row in rows if not row["planned"]), key=lambda card: card.place))


def build(
    cards: Sequence[DrillCard],
    memories: Mapping[str, Memory],
    day_start: int,
    *,
    chosen: Filter | None = None,
    mode: Mode = "recall",
    new: int = NEW_A_DAY,
    minutes: float | None = None,
) -> Queue:
    """The queue of a sitting. `day_start` is the beginning of the reader's day in ms since 1970; the day is 24 hours long."""
    chosen = chosen or Filter()
    day_end = day_start + DAY_MS
    inside = [card for card in cards if chosen.matches(card)]
    due = sorted(
        (card for card in inside if card.id in memories and memories[card.id].due < day_end),
        key=lambda card: (memories[card.id].due, card.place),
    )
    unseen = [card for card in inside if card.id not in memories]
    if chosen.cards is not None:
        at = {card_id: place for place, card_id in reversed([*enumerate(chosen.cards)])}
        unseen.sort(key=lambda card: at[card.id])
    else:
        unseen.sort(key=lambda card: card.place)
    begun = sum(1 for memory in memories.values() if day_start <= memory.first < day_end)
    wanted = [*due, *unseen[: max(0, new - begun)]]
    taken, seconds = 0, 0
    for card in wanted:
        more = seconds + card.seconds(mode)
        if minutes is not None and taken and more > minutes * 60:
            break
        taken, seconds = taken + 1, more
    ids = [card.id for card in wanted[:taken]]
    seen = min(taken, len(due))
    return Queue(tuple(ids[:seen]), tuple(ids[seen:]), len(due), len(unseen), seconds)


def after_grade(rest: Sequence[str], card: DrillCard, rating: int) -> tuple[str, ...]:
    """What is left to ask after `card` was graded: forgotten, it returns after four others or at the end; answered well (3 or 4), the first
    of its follow-up cards that is still to come is asked next."""
    if rating == 1:
        at = min(RETURNS_AFTER, len(rest))
        return (*rest[:at], card.id, *rest[at:])
    deeper = next((other for other in card.follow_up_cards if other in rest), None) if rating >= 3 else None
    return tuple(rest) if deeper is None else (deeper, *(other for other in rest if other != deeper))
