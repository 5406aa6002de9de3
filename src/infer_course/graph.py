"""The course as one graph: lesson, card, lab, measurement, linked both ways. The only source of links.

Authors write one side of each edge (a card names its lessons and labs; a lab its lessons and records; text cites records); the site,
the drill and the checks ask here for either side. Ids of the content map that nobody has written yet are *planned*: they may be
named in follow-ups, prerequisites, lessons and sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from infer_course.citations import Citation, citations
from infer_course.content_map import content_map
from infer_course.errors import UnknownIdError
from infer_course.frontmatter import Text
from infer_course.loader import Loaded, read_all
from infer_course.nodes import Card, Lab, Lesson, Measurement, Page, SetOfCards
from infer_course.problems import Problem, did_you_mean, in_reading_order
from infer_course.question_sets import sets_of_the_course

_N = TypeVar("_N", Lesson, Card, Lab)
Node = Lesson | Card | Lab | Measurement | SetOfCards


@dataclass(frozen=True)
class Graph:
    """Everything that is written, what is planned, what is wrong, and the edges in both directions.

    `planned` maps ids of the content map (cards and lessons) that have no file yet to their English titles.
    `citations` maps the id of a lesson, card or lab, and the path of any other page of the book, to the records that its text names.
    """

    root: Path
    lessons: Mapping[str, Lesson]
    cards: Mapping[str, Card]
    labs: Mapping[str, Lab]
    measurements: Mapping[str, Measurement]
    sets: Mapping[str, SetOfCards]
    pages: Mapping[str, Page]
    planned: Mapping[str, str]
    unreadable: frozenset[str]
    citations: Mapping[str, tuple[Citation, ...]]
    problems: tuple[Problem, ...]

    def cards_of_lesson(self, lesson_id: str) -> tuple[Card, ...]:
        return _ordered(card for card in self.cards.values() if lesson_id in card.lessons)

    def labs_of_lesson(self, lesson_id: str) -> tuple[Lab, ...]:
        return _ordered(lab for lab in self.labs.values() if lesson_id in lab.lessons)

    def lessons_of_card(self, card_id: str) -> tuple[Lesson, ...]:
        return tuple(self.lessons[i] for i in self.cards[card_id].lessons if i in self.lessons)

    def lessons_of_lab(self, lab_id: str) -> tuple[Lesson, ...]:
        return tuple(self.lessons[i] for i in self.labs[lab_id].lessons if i in self.lessons)

    def lessons_after(self, lesson_id: str) -> tuple[Lesson, ...]:
        """Lessons that name this one as a prerequisite."""
        return _ordered(lesson for lesson in self.lessons.values() if lesson_id in lesson.prerequisites)

    def labs_of_card(self, card_id: str) -> tuple[Lab, ...]:
        return tuple(self.labs[i] for i in self.cards[card_id].labs if i in self.labs)

    def cards_of_lab(self, lab_id: str) -> tuple[Card, ...]:
        return _ordered(card for card in self.cards.values() if lab_id in card.labs)

    def asked_before(self, card_id: str) -> tuple[Card, ...]:
        """Cards whose follow-ups name this one: what an interviewer asked just before."""
        return _ordered(card for card in self.cards.values() if card_id in card.follow_ups)

    def sets_of_card(self, card_id: str) -> tuple[SetOfCards, ...]:
        return tuple(chosen for chosen in self.sets.values() if card_id in chosen.cards)

    def measurements_of_card(self, card_id: str) -> tuple[Measurement, ...]:
        """The card's declared proof first, then the other records that its text cites."""
        return self._records([*self.cards[card_id].measurements, *self._cited(card_id)])

    def measurements_of_lesson(self, lesson_id: str) -> tuple[Measurement, ...]:
        return self._records(self._cited(lesson_id))

    def measurements_of_lab(self, lab_id: str) -> tuple[Measurement, ...]:
        return self._records(self.labs[lab_id].measurements)

    def cards_of_measurement(self, record_id: str) -> tuple[Card, ...]:
        return _ordered(c for c in self.cards.values() if record_id in c.measurements or record_id in self._cited(c.id))

    def lessons_of_measurement(self, record_id: str) -> tuple[Lesson, ...]:
        return _ordered(lesson for lesson in self.lessons.values() if record_id in self._cited(lesson.id))

    def labs_of_measurement(self, record_id: str) -> tuple[Lab, ...]:
        """Labs that write the record."""
        return _ordered(lab for lab in self.labs.values() if record_id in lab.measurements)

    def node(self, node_id: str) -> Node:
        """Whatever is written under that id; UnknownIdError when nothing is."""
        for group in (self.cards, self.lessons, self.labs, self.measurements, self.sets):
            if node_id in group:
                return group[node_id]
        if node_id in self.planned:
            raise UnknownIdError(f"`{node_id}` ({self.planned[node_id]}) is planned but not written yet")
        raise UnknownIdError(f"nothing in the course has the id `{node_id}`.{did_you_mean(node_id, self.ids())}")

    def ids(self) -> frozenset[str]:
        """Every id that is written or planned."""
        return frozenset().union(self.cards, self.lessons, self.labs, self.measurements, self.sets, self.planned)

    def pages_of_measurement(self, record_id: str) -> tuple[Page, ...]:
        """Other pages of the book (home, landing pages) that show the record."""
        return tuple(page for page in self.pages.values() if record_id in self._cited(page.path))

    def _cited(self, node_id: str) -> tuple[str, ...]:
        return tuple(citation.record for citation in self.citations.get(node_id, ()))

    def _records(self, ids: Iterable[str]) -> tuple[Measurement, ...]:
        return tuple(self.measurements[i] for i in dict.fromkeys(ids) if i in self.measurements)


def load(root: Path | str) -> Graph:
    """Reads the checkout at `root`. Files that cannot be read are in `problems`; NotACheckoutError if it is not a checkout."""
    root = Path(root)
    found = read_all(root)
    known = content_map()
    planned = {lesson.id: lesson.title_en for lesson in known.lessons.values() if lesson.id not in found.lessons}
    planned |= {card.id: card.title for card in known.cards.values() if card.id not in found.cards}
    written = (*found.lessons.values(), *found.cards.values(), *found.labs.values())
    cited = {node.id: tuple(citation for text in texts_of(node) for citation in citations(text)) for node in written}
    cited |= {page.path: citations(page.text) for page in found.pages}
    return Graph(
        root=root,
        lessons={lesson.id: lesson for lesson in _ordered(found.lessons.values())},
        cards={card.id: card for card in _ordered(found.cards.values())},
        labs={lab.id: lab for lab in _ordered(found.labs.values())},
        measurements=dict(sorted(found.measurements.items())),
        sets={chosen.id: chosen for chosen in sorted(found.sets.values(), key=lambda chosen: (chosen.order, chosen.id))}
        | sets_of_the_course(found.cards, found.lessons),
        pages={page.path: page for page in found.pages},
        planned=planned,
        unreadable=frozenset(found.unreadable),
        citations=cited,
        problems=in_reading_order([*found.problems, *_unresolved(found, set(planned))]),
    )


def texts_of(node: Lesson | Card | Lab) -> tuple[Text, ...]:
    """All markdown of a node with its lines: the body, and the front matter's strings that pages show as markdown."""
    document = node.document
    front: list[tuple[str, str]] = []
    if isinstance(node, Card):
        for index, item in enumerate(node.rubric):
            front.append((item.text, f"rubric.{index}.text"))
            front.append((item.follow_up or "", f"rubric.{index}.follow_up"))
        front.append((node.lab_waiver or "", "lab_waiver"))
    elif isinstance(node, Lesson):
        front.extend((objective, f"objectives.{index}") for index, objective in enumerate(node.objectives))
    return (*document.texts, *(Text(body, (document.meta_line(where),), front=True) for body, where in front if body))


def _unresolved(found: Loaded, planned: set[str]) -> list[Problem]:
    """References that lead nowhere."""
    problems: list[Problem] = []

    def names(
        node: Lesson | Card | Lab | SetOfCards, field: str, wanted: str, group: Mapping[str, object], planned_ok: bool = True
    ) -> None:
        for index, target in enumerate(getattr(node, field)):
            line = node.document.meta_line(node.field_of_card(index) if isinstance(node, SetOfCards) else f"{field}.{index}")
            allowed = planned & _mapped(wanted) if planned_ok else set()
            if target in group or target in allowed or target in found.unreadable:
                continue
            hint = did_you_mean(target, {*group, *allowed})
            fix = f"name a {wanted} that exists" + (" or is in the content map" if planned_ok else "")
            if wanted == "measurement":
                fix = "run the lab or benchmark that writes it (`make labs-gpu`), or remove the id"
            problems.append(
                Problem("error", node.path, line, f"`{field}` names `{target}`: no {wanted} has this id.{hint}", fix, "unknown-id")
            )

    for card in found.cards.values():
        names(card, "lessons", "lesson", found.lessons)
        names(card, "labs", "lab", found.labs, planned_ok=False)
        names(card, "follow_ups", "card", found.cards)
        names(card, "measurements", "measurement", found.measurements, planned_ok=False)
    for lesson in found.lessons.values():
        names(lesson, "prerequisites", "lesson", found.lessons)
    for lab in found.labs.values():
        names(lab, "lessons", "lesson", found.lessons)
        names(lab, "measurements", "measurement", found.measurements, planned_ok=False)
    for chosen in found.sets.values():
        names(chosen, "cards", "card", found.cards)
    return problems


def _mapped(kind: str) -> set[str]:
    if kind == "lesson":
        return set(content_map().lessons)
    return set(content_map().cards) if kind == "card" else set()


def _ordered(nodes: Iterable[_N]) -> tuple[_N, ...]:
    return tuple(sorted(nodes, key=lambda node: (node.part, node.order, node.id)))
