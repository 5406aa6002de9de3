"""The report of an interview as Markdown, for the terminal, a file or a mail. The page shows the same findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from infer_course.drill.screen import clock
from infer_course.evaluated import readable
from infer_course.graph import Graph
from infer_course.mock.choose import LEVELS, Interview
from infer_course.mock.score import Asked, Item, Score, advice, overall, score

REPLIES = {"yes": "answered", "partly": "partly answered", "no": "not answered"}


@dataclass
class Answered:
    """One question: what the reader said and ticked. `seconds`: of the explanation; `verdict`: on the estimate, in words."""

    card: str
    clarified: str = ""
    estimate: float | None = None
    verdict: str = ""
    seconds: float = 0.0
    ticked: set[str] = field(default_factory=set)
    asked: list[Asked] = field(default_factory=list)


def items_of(rubric: Sequence[object]) -> list[Item]:
    """Rubric items of a card as the rules take them."""
    return [Item(item.id, item.level, item.follow_up is not None) for item in rubric]  # type: ignore[attr-defined]


def scores_of(graph: Graph, answers: Sequence[Answered], level: str) -> dict[str, Score]:
    return {
        answer.card: score(items_of(graph.cards[answer.card].rubric), frozenset(answer.ticked), answer.asked, level) for answer in answers
    }


def said(points: Score) -> str:
    """`6.5 of 8 items, 1 red flag`: counts that the reader can check, not a grade out of nowhere."""
    flags = f", {points.flags} red flag{'s' if points.flags > 1 else ''}" if points.flags else ""
    return f"{points.had:g} of {points.of} items{flags}"


def reached(level: str | None) -> str:
    return f"{level} level" if level else "below junior level"


def markdown(
    graph: Graph,
    interview: Interview,
    answers: Sequence[Answered],
    *,
    role: str,
    level: str,
    seed: int,
    day: str,
    rows: Mapping[str, Mapping[str, object]],
) -> str:
    """Everything that was found, worst advice first. rows: `cards.json` by id."""
    points = scores_of(graph, answers, level)
    found = overall(list(points.values()))
    left = [card for card in interview.cards if card not in points]
    lines = [
        f"# Mock interview, {day}",
        "",
        f"{role}, asked at {level} level, {interview.wanted} minutes, seed {seed}."
        f" {len(answers)} of {len(interview.cards)} questions answered.",
        "",
    ]
    if answers:
        middle = "the median question; a level counts when two thirds of its items, and of those below, were had"
        lines += [f"**Overall: {reached(found)}** ({middle}).", ""]
    for number, answer in enumerate(answers, 1):
        lines += _question(graph, number, answer, points[answer.card], level)
    if left:
        lines += ["## Not reached", "", *(f"- {graph.cards[card].title.en}" for card in left), ""]
    advised = advice([rows[answer.card] for answer in answers], points)
    if advised["read"]:
        lines += ["## Read", "", *(f"- {_lesson(graph, lesson)}" for lesson in advised["read"]), ""]
    if written := [card for card in advised["drill"] if card in graph.cards]:
        lines += ["## Drill next", "", *(f"- {graph.cards[card].title.en} (`infer-course show {card}`)" for card in written), ""]
    if answers and not advised["read"]:
        lines += ["Nothing was missed at this level. Ask for the next one.", ""]
    return "\n".join(lines)


def _question(graph: Graph, number: int, answer: Answered, points: Score, level: str) -> list[str]:
    card = graph.cards[answer.card]
    lines = [
        f"## {number}. {card.title.en}",
        "",
        f"{said(points)}; {reached(points.reached)}. Explained in {clock(answer.seconds)} of {clock(card.minutes * 60)}.",
        "",
    ]
    if answer.clarified:
        lines += [f"- You asked first: {answer.clarified}"]
    if answer.verdict:
        lines += [f"- Your number: {answer.verdict}"]
    counted = [item for item in card.rubric if item.level in LEVELS and LEVELS.index(item.level) <= LEVELS.index(level)]
    recovered = {one.item for one in answer.asked if one.reply == "yes"}
    for item in (item for item in counted if item.id not in answer.ticked):
        level_said = f"{item.level}, recovered" if item.id in recovered else item.level
        lines.append(f"- Missing ({level_said}): {readable(item.text, graph)}")
    lines += [f"- Red flag: {readable(item.text, graph)}" for item in card.rubric if item.level == "red_flag" and item.id in answer.ticked]
    for asked in answer.asked:
        lines.append(f"- Asked: {question_of(graph, answer.card, asked.item, asked.chain)} ({REPLIES[asked.reply]})")
    return [*lines, ""] if lines[-1] else lines


def question_of(graph: Graph, card_id: str, item: str | None, chain: int | None) -> str:
    """The words of a follow-up."""
    card = graph.cards[card_id]
    if chain is not None:
        return readable(card.follow_up_questions[chain].question, graph)
    return readable(next(i.follow_up or "" for i in card.rubric if i.id == item), graph)


def answer_of(graph: Graph, card_id: str, item: str | None, chain: int | None) -> str | None:
    """The card's answer to a follow-up; None where the rubric asks something that the card answers in its text only."""
    card = graph.cards[card_id]
    if chain is not None:
        return card.follow_up_questions[chain].answer
    wanted = next(i.follow_up for i in card.rubric if i.id == item)
    return next((asked.answer for asked in card.follow_up_questions if asked.question == wanted), None)


def _lesson(graph: Graph, lesson: str) -> str:
    return f"{graph.lessons[lesson].title.en} ({graph.lessons[lesson].path})" if lesson in graph.lessons else f"{lesson} (planned)"
