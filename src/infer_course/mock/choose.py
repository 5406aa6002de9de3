"""Which questions an interview asks: by role, level and length, and by a seed, so that the same link gives the same interview.

Deterministic and without a random number generator, so that the page chooses alike (`tests/fixtures/mock_cases.json`): a card's draw is
a hash of the seed and its id, divided by its weight. The smallest draw comes first, so a card of twice the weight is twice as likely to.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from infer_course.drill.queue import DrillCard

LEVELS = ("junior", "mid", "senior")
LENGTHS = (15, 30, 45, 60)
LEVEL_WEIGHTS: Mapping[str, Mapping[str, float]] = {
    "junior": {"junior": 4, "mid": 1, "senior": 0},
    "mid": {"junior": 1, "mid": 4, "senior": 1},
    "senior": {"junior": 0, "mid": 2, "senior": 4},
}
CLARIFY_MINUTES, ESTIMATE_MINUTES, FOLLOW_UP_MINUTES, MOST_FOLLOW_UPS = 1, 2, 2, 2


@dataclass(frozen=True, slots=True)
class Role:
    """What an interviewer of this role asks more of."""

    id: str
    title: Mapping[str, str]
    about: Mapping[str, str]
    parts: Mapping[str, float]
    kinds: Mapping[str, float]


@lru_cache(maxsize=1)
def roles() -> Mapping[str, Role]:
    """The roles by id, in the order in which they are shown."""
    raw = json.loads(resources.files("infer_course").joinpath("data/mock_roles.json").read_text(encoding="utf-8"))
    return {row["id"]: Role(**row) for row in raw["roles"]}


@dataclass(frozen=True, slots=True)
class Interview:
    """Ids in the order in which they are asked, and the minutes that they take. `wanted`: the length that was asked for."""

    cards: tuple[str, ...]
    minutes: float
    wanted: int


def minutes_of(card: DrillCard, follow_ups: int) -> float:
    """What a question takes: to clarify, to estimate where there is a number, to explain, and its follow-ups (at most two)."""
    estimate = ESTIMATE_MINUTES if card.estimate else 0
    return CLARIFY_MINUTES + estimate + card.minutes + FOLLOW_UP_MINUTES * min(follow_ups, MOST_FOLLOW_UPS)


def choose(rows: Sequence[Mapping[str, Any]], role: Role, level: str, minutes: int, seed: int) -> Interview:
    """rows: the written cards of `cards.json`. Nothing beyond the length is chosen, but always one question if there is any.

    Lessons do not repeat while others are left, and a question with an estimate is among them if there is one.
    """
    drawn = sorted(
        ((draw, row["id"], row) for row in rows if (draw := _draw(row, role, level, seed)) < math.inf), key=lambda entry: entry[:2]
    )
    left = [row for _, _, row in drawn]
    taken: list[Mapping[str, Any]] = []
    spent, lessons = 0.0, set()

    def fits(row: Mapping[str, Any]) -> bool:
        return not taken or spent + _minutes(row) <= minutes

    def take(row: Mapping[str, Any]) -> None:
        nonlocal spent
        left.remove(row)
        taken.append(row)
        spent += _minutes(row)
        lessons.update(_lessons(row))

    if numbered := next((row for row in left if row["estimate"] and _minutes(row) <= minutes), None):
        take(numbered)
    while left:
        fresh = [row for row in left if not lessons & _lessons(row)]
        found = next((row for row in fresh or left if fits(row)), None)
        if found is None:
            break
        take(found)
    order = sorted(
        taken, key=lambda row: (row["kind"] == "system-design", LEVELS.index(row["level"]), row["part"], row["order"], row["id"])
    )
    return Interview(tuple(row["id"] for row in order), spent, minutes)


def fnv1a(text: str) -> int:
    """The 32-bit FNV-1a hash of the text's UTF-8 bytes (Fowler, Noll, Vo)."""
    found = 0x811C9DC5
    for byte in text.encode():
        found = ((found ^ byte) * 0x01000193) & 0xFFFFFFFF
    return found


def _draw(row: Mapping[str, Any], role: Role, level: str, seed: int) -> float:
    weight = role.parts.get(str(row["part"]), 1) * role.kinds.get(row["kind"], 1) * LEVEL_WEIGHTS[level][row["level"]]
    return fnv1a(f"{seed}:{row['id']}") / weight if weight else math.inf


def _minutes(row: Mapping[str, Any]) -> float:
    return minutes_of(DrillCard.of(row), row["follow_ups"])


def _lessons(row: Mapping[str, Any]) -> set[str]:
    return {lesson["id"] for lesson in row["lessons"]}
