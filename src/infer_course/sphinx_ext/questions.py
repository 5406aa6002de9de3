"""What lists and sets say of a question, written or planned, and where the pages of the sets are."""

from __future__ import annotations

from dataclasses import dataclass

from infer_course.content_map import content_map
from infer_course.graph import Graph
from infer_course.nodes import Card, SetOfCards


@dataclass(frozen=True, slots=True)
class Question:
    """A row of a list. `card` is None while the card is planned; the content map then knows the rest, in English."""

    id: str
    part: int
    title: str
    kind: str
    level: str
    tags: tuple[str, ...]
    card: Card | None


@dataclass(frozen=True, slots=True)
class Counted:
    """How much of a set there is: written and planned questions, and minutes to say the written ones."""

    written: int
    planned: int
    minutes: float


def question(graph: Graph, card_id: str) -> Question:
    card = graph.cards.get(card_id)
    if card is not None:
        return Question(card.id, card.part, card.title.en, card.kind, card.level, card.tags, card)
    known = content_map().cards[card_id]
    return Question(known.id, known.part, known.title, known.kind, known.level, (), None)


def questions(graph: Graph) -> tuple[Question, ...]:
    """All of the course, part by part."""
    return tuple(question(graph, card) for part in content_map().parts for card in _cards_of(graph, f"part-{part.part}"))


def _cards_of(graph: Graph, set_id: str) -> tuple[str, ...]:
    return graph.sets[set_id].cards if set_id in graph.sets else ()


def counted(graph: Graph, chosen: SetOfCards) -> Counted:
    written = [graph.cards[card] for card in chosen.cards if card in graph.cards]
    return Counted(len(written), len(chosen.cards) - len(written), sum(card.minutes for card in written))


def tags(graph: Graph) -> tuple[str, ...]:
    """Every tag of a written card, in alphabetical order."""
    return tuple(sorted({tag for card in graph.cards.values() for tag in card.tags}))


def page_of_set(set_id: str) -> str:
    """The docname of a set's page, which the builder's own list of documents does not have: a set has no source to read as text."""
    return f"questions/sets/{set_id}"


def set_pages(graph: Graph) -> set[str]:
    return {page_of_set(set_id) for set_id in graph.sets}
