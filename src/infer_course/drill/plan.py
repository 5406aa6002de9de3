"""The days left until the interview, filled with what fits, and an honest word about what does not.

A simulation with the drill's own memory model: every new card costs its minutes and one to read (the *explain* way), comes back after the
interval that a "good" gives it, and then costs a recall. Reviews come before new cards. The last day brings nothing new. New cards come
breadth first: junior, then mid, then senior questions, each in the order of the course (a chosen set keeps its own order), so that what is
left out is the last of that order. Seconds are whole, days are counted from the reader's today, so both sides of the project agree
(`tests/fixtures/drill_plan.json`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infer_course.drill import memory
from infer_course.drill.memory import DAY_MS, GOOD, Memory
from infer_course.drill.queue import DrillCard, Filter

LEVELS = ("junior", "mid", "senior")
STEP_MINUTES, MOST_MINUTES = 5, 480


@dataclass(frozen=True, slots=True)
class Day:
    """`day` is 0 for today. `new` and `reviews` are ids in the order in which they fit; `late` could not be reviewed when they were due."""

    day: int
    new: tuple[str, ...]
    reviews: tuple[str, ...]
    late: int
    seconds: int


@dataclass(frozen=True, slots=True)
class Plan:
    """`left_out` are new cards that no day has room for, the first to drop being the last. `minutes_that_fit` is the least time a day, in
    steps of five minutes, at which everything fits (None: not even eight hours)."""

    days: tuple[Day, ...]
    left_out: tuple[str, ...]
    late: int
    minutes_per_day: int
    minutes_that_fit: int | None

    @property
    def fits(self) -> bool:
        return not self.left_out and not self.late

    @property
    def seconds(self) -> int:
        return sum(day.seconds for day in self.days)


def make(
    cards: Sequence[DrillCard],
    memories: Mapping[str, Memory],
    day_start: int,
    days: int,
    minutes_per_day: int,
    chosen: Filter | None = None,
) -> Plan:
    """The plan for `days` days from today (the interview's own day is not one of them)."""
    chosen = chosen or Filter()
    inside = [card for card in cards if chosen.matches(card)]
    filled, left_out, late = _fill(inside, memories, day_start, days, minutes_per_day, chosen)
    enough: int | None = minutes_per_day
    if left_out or late:
        first = minutes_per_day // STEP_MINUTES * STEP_MINUTES + STEP_MINUTES
        enough = next(
            (m for m in range(first, MOST_MINUTES + 1, STEP_MINUTES) if _all_fits(inside, memories, day_start, days, m, chosen)), None
        )
    return Plan(filled, left_out, late, minutes_per_day, enough)


def in_order(cards: Sequence[DrillCard], chosen: Filter) -> list[DrillCard]:
    """Breadth first, or the order of the chosen set."""
    if chosen.cards is not None:
        at = {card_id: place for place, card_id in reversed([*enumerate(chosen.cards)])}
        return sorted(cards, key=lambda card: at[card.id])
    return sorted(cards, key=lambda card: (LEVELS.index(card.level), card.place))


def _all_fits(cards: Sequence[DrillCard], memories: Mapping[str, Memory], day_start: int, days: int, minutes: int, chosen: Filter) -> bool:
    _, left_out, late = _fill(cards, memories, day_start, days, minutes, chosen)
    return not left_out and not late


def _fill(
    cards: Sequence[DrillCard], memories: Mapping[str, Memory], day_start: int, days: int, minutes: int, chosen: Filter
) -> tuple[tuple[Day, ...], tuple[str, ...], int]:
    by_id = {card.id: card for card in cards}
    now = {card.id: memories[card.id] for card in cards if card.id in memories}
    due = {card_id: max(0, (known.due - day_start) // DAY_MS) for card_id, known in now.items()}
    unseen = [card for card in in_order(cards, chosen) if card.id not in memories]
    filled, budget, waiting = [], minutes * 60, 0
    for day in range(days):
        at, spent = day_start + day * DAY_MS + DAY_MS // 2, 0
        wanted = sorted((when, by_id[card_id].place) for card_id, when in due.items() if when <= day)
        reviewed: list[str] = []
        for _, (_, _, card_id) in wanted:
            cost = by_id[card_id].seconds("recall")
            if spent + cost > budget:
                break
            spent += cost
            reviewed.append(card_id)
        begun: list[str] = []
        while unseen and len(reviewed) == len(wanted) and (day < days - 1 or days == 1) and spent + unseen[0].seconds("explain") <= budget:
            spent += unseen[0].seconds("explain")
            begun.append(unseen.pop(0).id)
        for card_id in (*reviewed, *begun):
            known = now.get(card_id)
            now[card_id] = memory.after(known, max(at, known.due) if known else at, GOOD)
            due[card_id] = max(day + 1, (now[card_id].due - day_start) // DAY_MS)
        waiting = len(wanted) - len(reviewed)
        filled.append(Day(day, tuple(begun), tuple(reviewed), waiting, spent))
    return tuple(filled), tuple(card.id for card in unseen), waiting
