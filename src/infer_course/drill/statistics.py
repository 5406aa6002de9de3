"""What the log says about what is remembered: due, retention, coverage by part, weak spots. No streaks and no scores.

Everything is a count, so that the reader can check it, and deterministic, so that browser and terminal agree
(`tests/fixtures/drill_statistics.json`):
- *retention*: of the reviews at least one whole day after the card's review before, those that were not graded "again"; over all time and
  over the last 30 days. It is measured, not what the model hopes for.
- a card is *solid* when its stability has reached 21 days.
- a tag is weak where the last grade of its cards was "again" or "hard"; a rubric item where it stayed unticked (a red flag: was ticked) in
  reviews whose rubric was used, that is, has any tick.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from infer_course.drill.memory import AGAIN, DAY_MS, HARD, Memory, replay
from infer_course.drill.queue import DrillCard

SOLID_DAYS, RECENT_DAYS, FORECAST_DAYS, MOST_WEAK = 21, 30, 7, 10


def statistics(cards: Sequence[DrillCard], reviews: Sequence[Mapping[str, Any]], day_start: int) -> dict[str, Any]:
    """Counts over `cards` and the whole log; `day_start` is the beginning of the reader's day in ms since 1970.

    Reviews of cards that are not among `cards` (removed, or not yet written here) count as time and reviews and in no other place.
    """
    log = sorted(reviews, key=lambda review: (review["at"], review["card"]))
    memories = replay(log)
    here = [card for card in cards if card.id in memories]
    day_end = day_start + DAY_MS
    return {
        "cards": len(cards),
        "seen": len(here),
        "solid": sum(memories[card.id].stability >= SOLID_DAYS for card in here),
        "due": sum(memories[card.id].due < day_end for card in here),
        "forecast": _forecast(here, memories, day_start),
        "reviews": len(log),
        "reviews_today": sum(day_start <= review["at"] < day_end for review in log),
        "seconds": sum(_seconds(review) for review in log),
        "seconds_last_7_days": sum(_seconds(review) for review in log if day_end - 7 * DAY_MS <= review["at"] < day_end),
        "retention": _retention(log, 0),
        "retention_30_days": _retention(log, day_end - RECENT_DAYS * DAY_MS),
        "parts": _parts(cards, memories, day_end),
        "estimates": _estimates(log, cards),
        "weak_tags": _weak_tags(here, memories),
        "weak_items": _weak_items(log, cards),
    }


def _seconds(review: Mapping[str, Any]) -> int:
    spent = review.get("seconds", 0)
    return int(spent + 0.5) if isinstance(spent, (int, float)) and spent > 0 else 0


def _forecast(here: Sequence[DrillCard], memories: Mapping[str, Memory], day_start: int) -> list[int]:
    """How many cards come due today (what is overdue included) and on each of the six days after."""
    days = Counter(max(0, (memories[card.id].due - day_start) // DAY_MS) for card in here)
    return [days[day] for day in range(FORECAST_DAYS)]


def _retention(log: Sequence[Mapping[str, Any]], since: int) -> dict[str, int]:
    last: dict[str, int] = {}
    remembered = asked = 0
    for review in log:
        before = last.get(review["card"])
        last[review["card"]] = review["at"]
        if before is not None and review["at"] - before >= DAY_MS and review["at"] >= since:
            asked += 1
            remembered += review["rating"] > AGAIN
    return {"remembered": remembered, "asked": asked}


def _parts(cards: Sequence[DrillCard], memories: Mapping[str, Memory], day_end: int) -> list[dict[str, int]]:
    found = []
    for part in sorted({card.part for card in cards}):
        inside = [card for card in cards if card.part == part]
        known = [memories[card.id] for card in inside if card.id in memories]
        found.append(
            {
                "part": part,
                "cards": len(inside),
                "seen": len(known),
                "solid": sum(memory.stability >= SOLID_DAYS for memory in known),
                "due": sum(memory.due < day_end for memory in known),
            }
        )
    return found


def _estimates(log: Sequence[Mapping[str, Any]], cards: Sequence[DrillCard]) -> dict[str, int]:
    """Numbers that were put down before the answer, and how many of them were within the card's tolerance."""
    asked = {card.id: card.estimate for card in cards if card.estimate}
    given = [(review["estimate"], *asked[review["card"]]) for review in log if review["card"] in asked and _number(review.get("estimate"))]
    return {"right": sum(abs(mine / value - 1) <= tolerance + 1e-9 for mine, value, tolerance in given), "given": len(given)}


def _weak_tags(here: Sequence[DrillCard], memories: Mapping[str, Memory]) -> list[dict[str, Any]]:
    seen: Counter[str] = Counter()
    weak: Counter[str] = Counter()
    for card in here:
        for tag in card.tags:
            seen[tag] += 1
            weak[tag] += memories[card.id].rating <= HARD
    found = [{"tag": tag, "weak": weak[tag], "seen": seen[tag]} for tag in seen if weak[tag]]
    return sorted(found, key=lambda row: (-(row["weak"] * 1000 // row["seen"]), -row["weak"], row["tag"]))[:MOST_WEAK]


def _weak_items(log: Sequence[Mapping[str, Any]], cards: Sequence[DrillCard]) -> list[dict[str, Any]]:
    rubrics = {card.id: card.rubric for card in cards}
    missed: Counter[tuple[str, str, str]] = Counter()
    asked: Counter[str] = Counter()
    for review in log:
        card, ticked = review["card"], review.get("rubric") or ()
        if not ticked or card not in rubrics:
            continue
        asked[card] += 1
        for item, level in rubrics[card]:
            missed[(card, item, level)] += (item in ticked) == (level == "red_flag")
    found = [
        {"card": card, "item": item, "level": level, "missed": times, "asked": asked[card]}
        for (card, item, level), times in missed.items()
        if times
    ]
    return sorted(found, key=lambda row: (-row["missed"], row["asked"], row["card"], row["item"]))[:MOST_WEAK]


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
