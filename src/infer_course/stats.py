"""Counts what the course has and what it lacks: by part, kind and level, against the content map and the collected questions."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from infer_course.content_map import content_map
from infer_course.graph import Graph
from infer_course.measure import changed_sources


@dataclass(frozen=True, slots=True)
class OldestSource:
    """The cited page that nobody has looked at for longest, and where it is cited."""

    checked: datetime.date
    title: str
    url: str
    cited_by: str


@dataclass(frozen=True, slots=True)
class Stats:
    """Everything `infer-course stats` reports. Counts are of written things unless the name says planned."""

    lessons: int
    cards: int
    labs: int
    measurements: int
    sets: int
    cards_by_part: dict[str, int]
    cards_by_kind: dict[str, int]
    cards_by_level: dict[str, int]
    questions: int
    questions_answered: int
    questions_planned: tuple[str, ...]
    planned_lessons: tuple[str, ...]
    planned_cards: tuple[str, ...]
    stale_records: dict[str, tuple[str, ...]]
    cards_without_measured_proof: tuple[str, ...]
    oldest_source: OldestSource | None
    errors: int
    warnings: int

    def as_dict(self) -> dict[str, Any]:
        found = asdict(self)
        if self.oldest_source is not None:
            found["oldest_source"]["checked"] = self.oldest_source.checked.isoformat()
        return found


def stats(graph: Graph) -> Stats:
    """Counts over the graph. A collected question is answered when some written card covers it, else planned.

    `errors` and `warnings` are those of loading; the full rules are `infer-course check`.
    """
    known = content_map()
    cards = graph.cards.values()
    answered = {question for card in known.cards.values() if card.id in graph.cards for question in card.questions}
    stale = {record.id: changed_sources(graph.root, record) for record in graph.measurements.values()}
    return Stats(
        lessons=len(graph.lessons),
        cards=len(graph.cards),
        labs=len(graph.labs),
        measurements=len(graph.measurements),
        sets=sum(chosen.curated for chosen in graph.sets.values()),
        cards_by_part=_count(f"part{card.part}" for card in cards),
        cards_by_kind=_count(card.kind for card in cards),
        cards_by_level=_count(card.level for card in cards),
        questions=len(known.questions),
        questions_answered=len(answered),
        questions_planned=tuple(question for question in known.questions if question not in answered),
        planned_lessons=tuple(lesson for lesson in known.lessons if lesson in graph.planned),
        planned_cards=tuple(card for card in known.cards if card in graph.planned),
        stale_records={record: changed for record, changed in stale.items() if changed},
        cards_without_measured_proof=tuple(card.id for card in cards if not graph.measurements_of_card(card.id)),
        oldest_source=_oldest_source(graph),
        errors=sum(problem.severity == "error" for problem in graph.problems),
        warnings=sum(problem.severity == "warning" for problem in graph.problems),
    )


def _oldest_source(graph: Graph) -> OldestSource | None:
    cited = [
        OldestSource(source.checked, source.title, source.url, node.id)
        for node in (*graph.lessons.values(), *graph.cards.values())
        for source in node.sources
    ]
    return min(cited, key=lambda source: (source.checked, source.cited_by, source.url), default=None)


def _count(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))
