"""A curated set names each card once, says what it is in both languages, and claims to answer only what its cards answer."""

from __future__ import annotations

from collections.abc import Iterator

from infer_course.checks.structure import CHINESE
from infer_course.content_map import content_map
from infer_course.graph import Graph
from infer_course.nodes import SetOfCards
from infer_course.problems import Problem, Rule, did_you_mean
from infer_course.schema import Title


def check_sets(graph: Graph) -> Iterator[Problem]:
    for chosen in graph.sets.values():
        if chosen.curated:
            yield from _repeated(chosen)
            yield from _answers(chosen)
            yield from _chinese(chosen)


def _problem(chosen: SetOfCards, field: str, message: str, fix: str, rule: Rule) -> Problem:
    return Problem("error", chosen.path, chosen.document.meta_line(field), message, fix, rule)


def _repeated(chosen: SetOfCards) -> Iterator[Problem]:
    for index, card in enumerate(chosen.cards):
        if card in chosen.cards[:index]:
            message = f"the set names `{card}` twice, so the drill would ask it twice."
            yield _problem(chosen, chosen.field_of_card(index), message, "remove one", "repeated")


def _answers(chosen: SetOfCards) -> Iterator[Problem]:
    known = content_map()
    for number, section in enumerate(chosen.sections):
        asked = section.asks
        if asked is None:
            continue
        if asked not in known.questions:
            message = f"`asks` names `{asked}`: no collected question has this id.{did_you_mean(asked, known.questions)}"
            yield _problem(chosen, f"sections.{number}.asks", message, "name one of the content map's questions", "unknown-id")
            continue
        answers = {card.id for card in known.cards_answering(asked)}
        for index, card in enumerate(section.cards):
            if card in known.cards and card not in answers:
                message = f"`{card}` does not answer `{asked}` ({known.questions[asked]}) by the content map."
                fix = f"name some of {', '.join(sorted(answers))}, or leave `asks` out"
                yield _problem(chosen, f"sections.{number}.cards.{index}", message, fix, "one-way")


def _chinese(chosen: SetOfCards) -> Iterator[Problem]:
    titles: list[tuple[str, Title | None]] = [("title", chosen.title), ("about", chosen.about)]
    titles += [(f"sections.{number}.title", section.title) for number, section in enumerate(chosen.sections)]
    for field, title in titles:
        if title is not None and not CHINESE.search(title.zh):
            yield _problem(chosen, f"{field}.zh", f"`{field}.zh` holds no Chinese.", "write it in Chinese", "chinese")
