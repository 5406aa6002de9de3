"""Sets that nobody writes because they follow from the course: the questions of each part, and of each stage of a request's path.

They hold planned cards too, in the order of the content map, so that they are right from the first day and stay right by themselves.
Curated sets are `questions/sets/*.yaml`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from infer_course.content_map import Part, content_map
from infer_course.frontmatter import Document, Text
from infer_course.nodes import Card, Lesson, SetOfCards
from infer_course.schema import Title
from infer_course.stages import STAGES, Stage


def sets_of_the_course(cards: Mapping[str, Card], lessons: Mapping[str, Lesson]) -> dict[str, SetOfCards]:
    """`part-0` … and `stage-arrive` …, each with the written and planned cards that it has; a set without any is left out."""
    known = content_map()
    places = {card.id: (card.part, card.order) for card in known.cards.values()} | {c.id: (c.part, c.order) for c in cards.values()}
    order = sorted(places, key=lambda card: (*places[card], card))
    found = [_part(part, [card for card in order if places[card][0] == part.part]) for part in known.parts]
    found += [_stage(stage, [card for card in order if _is_of_stage(stage, _lessons_of(card, cards), lessons)]) for stage in STAGES]
    return {chosen.id: chosen for chosen in found if chosen is not None}


def _lessons_of(card: str, cards: Mapping[str, Card]) -> tuple[str, ...]:
    return cards[card].lessons if card in cards else (content_map().cards[card].lesson,)


def _is_of_stage(stage: Stage, named: Iterable[str], lessons: Mapping[str, Lesson]) -> bool:
    """A written lesson says itself which stages it is about; for the others the stage does."""
    return any(stage.id in lessons[lesson].stages if lesson in lessons else lesson in stage.planned for lesson in named)


def _part(part: Part, cards: list[str]) -> SetOfCards | None:
    about = Title(en="Every question of the part, in the order of its lessons.", zh="这一部分的全部问题，按课程顺序。")
    return _set(
        f"part-{part.part}", Title(en=f"Part {part.part} · {part.title_en}", zh=f"第 {part.part} 部分 · {part.title_zh}"), about, cards
    )


def _stage(stage: Stage, cards: list[str]) -> SetOfCards | None:
    about = Title(en="What is asked about this stage of a request’s path.", zh="请求走到这一步时会被问到的问题。")
    return _set(f"stage-{stage.id}", Title(en=f"{stage.name}: {stage.does}", zh=stage.zh), about, cards)


def _set(set_id: str, title: Title, about: Title, cards: list[str]) -> SetOfCards | None:
    if not cards:
        return None
    document = Document("", {}, {}, (Text("", (1,)),))
    return SetOfCards(id=set_id, title=title, about=about, cards=tuple(cards), path="", document=document)
