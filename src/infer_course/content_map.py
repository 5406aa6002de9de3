"""What the course is to contain: parts, lessons and cards with stable ids, and the collected questions that each card answers.

It exists so that an id can be linked to before its page is written (it is then *planned*), and so that coverage can be counted.
The data is `data/content_map.json`; it is a floor, not a ceiling: content may have ids that the map lacks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the book; `id` is also its folder name (`part0`)."""

    part: int
    id: str
    title_en: str
    title_zh: str


@dataclass(frozen=True, slots=True)
class MappedLesson:
    """A lesson that the course has or is to have; `number` is its place in the book ("0.3")."""

    id: str
    number: str
    part: int
    order: int
    title_en: str
    title_zh: str


@dataclass(frozen=True, slots=True)
class MappedCard:
    """A card that the course has or is to have, its lesson's id, and the ids of the collected questions that it answers."""

    id: str
    part: int
    order: int
    lesson: str
    title: str
    kind: str
    level: str
    questions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ContentMap:
    """The whole map. `questions` maps the id of a collected question to what it asks."""

    parts: tuple[Part, ...]
    lessons: Mapping[str, MappedLesson]
    cards: Mapping[str, MappedCard]
    questions: Mapping[str, str]

    def cards_of_lesson(self, lesson_id: str) -> tuple[MappedCard, ...]:
        return tuple(card for card in self.cards.values() if card.lesson == lesson_id)

    def cards_answering(self, question_id: str) -> tuple[MappedCard, ...]:
        return tuple(card for card in self.cards.values() if question_id in card.questions)


@lru_cache(maxsize=1)
def content_map() -> ContentMap:
    """The map that ships with the package."""
    raw = json.loads(resources.files("infer_course").joinpath("data/content_map.json").read_text(encoding="utf-8"))
    lessons = [
        MappedLesson(row["id"], row["number"], row["part"], row["order"], row["title"]["en"], row["title"]["zh"]) for row in raw["lessons"]
    ]
    cards = [
        MappedCard(r["id"], r["part"], r["order"], r["lesson"], r["title"], r["kind"], r["level"], tuple(r["questions"]))
        for r in raw["cards"]
    ]
    return ContentMap(
        parts=tuple(Part(row["part"], row["id"], row["title"]["en"], row["title"]["zh"]) for row in raw["parts"]),
        lessons={lesson.id: lesson for lesson in lessons},
        cards={card.id: card for card in cards},
        questions=raw["questions"],
    )
