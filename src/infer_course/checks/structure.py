"""Cards, lessons and labs have the parts that a reader counts on, in order, within length.

The word limits are the point of a card: an answer that does not fit sixty seconds is not one that can be said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from infer_course.graph import Graph
from infer_course.markdown import count_words, scan, words_only
from infer_course.nodes import Card, Lab, Lesson, paragraphs
from infer_course.problems import Problem, Rule, did_you_mean
from infer_course.schema import CARD_SECTIONS

DIRECT_ANSWER_WORDS = 120
CHINESE_CHARACTERS = 200
LESSON_WORDS = (1200, 2500)
FOLLOW_UPS = (3, 6)
LAB_SECTIONS = ("Setup", "Predict", "Measure", "Explain", "Break it", "Check", "In the interview")
_RENDERED_HEADINGS = ("Interview connection", "Run it", "Sources")
CHINESE = re.compile(r"[㐀-鿿豈-﫿]")
_LATIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9.,'’+/_-]*")


def check_structure(graph: Graph) -> Iterator[Problem]:
    for card in graph.cards.values():
        yield from _sections(card)
        yield from _direct_answer(card)
        yield from _chinese_answer(card)
        yield from _follow_ups(card)
        yield from _mistakes(card)
        yield from _rubric(card)
        yield from _no_page_title(card)
        yield from _unfinished(card)
    for lesson in graph.lessons.values():
        yield from _lesson(lesson)
        yield from _no_page_title(lesson)
        yield from _unfinished(lesson)
    for lab in graph.labs.values():
        yield from _lab(lab)
        yield from _unfinished(lab)


def _error(node: Card | Lesson | Lab, line: int, message: str, fix: str, rule: Rule) -> Problem:
    return Problem("error", node.path, line, message, fix, rule)


def _sections(card: Card) -> Iterator[Problem]:
    required = [name for name in CARD_SECTIONS if name not in ("Worked numbers", "Code")]
    if card.kind in ("calculation", "system-design"):
        required.append("Worked numbers")
    if card.kind == "coding":
        required.append("Code")
    present = [section.title for section in card.sections]
    last = card.sections[-1].line if card.sections else card.document.texts[0].line(0)
    for name in CARD_SECTIONS:
        if name in required and name not in present:
            before = CARD_SECTIONS[CARD_SECTIONS.index(name) - 1] if name != CARD_SECTIONS[0] else ""
            where = f" after `## {before}`" if before else " as the first section"
            why = f" (a {card.kind} card needs it)" if name in ("Worked numbers", "Code") else ""
            yield _error(card, last, f"the section `## {name}` is missing{why}.", f"write `## {name}`{where}", "missing-section")
    expected = [name for name in CARD_SECTIONS if name in present]
    known = [section for section in card.sections if section.title in CARD_SECTIONS]
    for section, wanted in zip(known, expected, strict=False):
        if section.title != wanted:
            fix = f"the order is {', '.join(expected)}"
            yield _error(card, section.line, f"`## {section.title}` stands where `## {wanted}` belongs.", fix, "section-order")
            break
    seen: set[str] = set()
    for section in card.sections:
        if section.title not in CARD_SECTIONS:
            hint = did_you_mean(section.title, CARD_SECTIONS)
            fix = f"use one of {', '.join(CARD_SECTIONS)}, or `###` inside one of them"
            yield _error(card, section.line, f"a card has no section `## {section.title}`.{hint}", fix, "unknown-section")
        elif section.title in seen:
            yield _error(card, section.line, f"`## {section.title}` stands twice.", "merge the two", "section-order")
        elif section.title != "Rubric" and not section.body.strip():
            yield _error(card, section.line, f"`## {section.title}` is empty.", "write it, or delete the heading", "empty-section")
        seen.add(section.title)
    head = card.document.texts[0].body.split("\n## ", 1)[0]
    if card.sections and head.strip() and not head.startswith("## "):
        line = card.document.texts[0].line(next(i for i, text in enumerate(head.split("\n")) if text.strip()))
        yield _error(card, line, "text before the first section belongs to none.", "move it into `## Direct answer`", "unknown-section")


def _direct_answer(card: Card) -> Iterator[Problem]:
    section = card.section("Direct answer")
    if section and (words := count_words(section.body)) > DIRECT_ANSWER_WORDS:
        message = f"the direct answer has {words} words; sixty seconds hold {DIRECT_ANSWER_WORDS}."
        yield _error(card, section.line, message, f"cut {words - DIRECT_ANSWER_WORDS}, or move depth to `## Going deeper`", "word-limit")


def _chinese_answer(card: Card) -> Iterator[Problem]:
    section = card.section("中文回答")
    if not section:
        return
    if section.body.strip() and not CHINESE.search(section.body):
        yield _error(card, section.line, "`## 中文回答` holds no Chinese.", "write the spoken answer in Chinese", "chinese")
    for paragraph, line in paragraphs(section):
        if (count := chinese_length(paragraph)) > CHINESE_CHARACTERS:
            message = f"a paragraph of the Chinese answer has {count} characters; one idea has at most {CHINESE_CHARACTERS}."
            yield _error(card, line, message, "split it in two ideas, or say it shorter", "word-limit")


def chinese_length(text: str) -> int:
    """Characters as spoken: each Chinese character 1, each Latin word, number or role 1, punctuation 0."""
    plain = words_only(text, " x ")
    return len(CHINESE.findall(plain)) + len(_LATIN.findall(plain))


def _follow_ups(card: Card) -> Iterator[Problem]:
    section = card.section("Follow-ups")
    if not section:
        return
    questions = card.follow_up_questions
    low, high = FOLLOW_UPS
    if not low <= len(questions) <= high:
        fix = f"write {low} to {high}, each `### <question>` and its short answer"
        yield _error(card, section.line, f"the card has {len(questions)} follow-ups.", fix, "follow-ups")
    for asked in questions:
        if not asked.answer:
            yield _error(
                card, asked.line, f"the follow-up “{asked.question}” has no answer.", "answer it in one to four sentences", "follow-ups"
            )


def _mistakes(card: Card) -> Iterator[Problem]:
    section = card.section("Common mistakes")
    if not section or not section.body.strip():
        return
    form = "write each as `**Pitfall.** why it tempts; what it costs`"
    if not card.mistakes:
        yield _error(card, section.line, "no paragraph of `## Common mistakes` begins with a bold pitfall.", form, "mistakes")
    for paragraph, line in paragraphs(section):
        if not paragraph.startswith("**"):
            yield _error(card, line, "a common mistake begins with its pitfall in bold.", form, "mistakes")
        break
    for mistake in card.mistakes:
        if not mistake.text:
            yield _error(
                card, mistake.line, f"the mistake “{mistake.pitfall}” says neither why it tempts nor what it costs.", form, "mistakes"
            )


def _rubric(card: Card) -> Iterator[Problem]:
    section = card.section("Rubric")
    items = "the items live in `rubric:` of the front matter, and the list is rendered from there"
    if section and (re.search(r"^\s*([-*+]|\d+\.)\s", section.body, re.MULTILINE) or len(paragraphs(section)) > 1):
        yield _error(card, section.line, "`## Rubric` holds more than one introductory paragraph.", f"delete it: {items}", "rubric")
    levels = {item.level for item in card.rubric}
    for level in ("junior", "mid", "senior", "red_flag"):
        if level not in levels:
            line = card.document.meta_line("rubric")
            yield _error(
                card, line, f"the rubric has no item of level `{level}`.", "add at least one of each level and a red_flag", "rubric"
            )
    seen: set[str] = set()
    for index, item in enumerate(card.rubric):
        if item.id in seen:
            line = card.document.meta_line(f"rubric.{index}.id")
            yield _error(card, line, f"the rubric has two items `{item.id}`.", "give each its own id", "rubric")
        seen.add(item.id)


def _lesson(lesson: Lesson) -> Iterator[Problem]:
    words = sum(count_words(text.body) for text in lesson.document.texts)
    low, high = LESSON_WORDS
    if not low <= words <= high:
        fix = f"cut {words - high} words" if words > high else f"write {low - words} words more"
        line = lesson.document.texts[0].line(0)
        yield _error(lesson, line, f"the lesson has {words} words; {low:,} to {high:,} are asked.", fix, "word-limit")
    for section in lesson.sections:
        if not section.body.strip():
            yield _error(lesson, section.line, f"`## {section.title}` is empty.", "write it, or delete the heading", "empty-section")
        if section.title in _RENDERED_HEADINGS:
            yield _error(lesson, section.line, f"`## {section.title}` is rendered from the graph.", "delete the section", "unknown-section")
    last = lesson.sections[-1] if lesson.sections else None
    if last is None or not re.match(r"self-check|check yourself", last.title, re.IGNORECASE):
        line = last.line if last else lesson.document.texts[0].line(0)
        yield _error(
            lesson, line, "the lesson does not end with a self-check.", "write `## Self-check` as its last section", "missing-section"
        )


def _lab(lab: Lab) -> Iterator[Problem]:
    headings = [(h.title, text.line(h.line)) for text in lab.document.texts for h in scan(text.body).headings]
    position = 0
    for name in LAB_SECTIONS:
        found = next((i for i, (title, _) in enumerate(headings) if title.lower().startswith(name.lower())), None)
        if found is None:
            line = headings[-1][1] if headings else 1
            fix = f"add a markdown cell `## {name}`; the order is {' → '.join(LAB_SECTIONS)}"
            yield _error(lab, line, f"the lab has no part `{name}`.", fix, "missing-section")
        elif found < position:
            fix = f"the order is {' → '.join(LAB_SECTIONS)}"
            yield _error(lab, headings[found][1], f"`{name}` stands too early in the lab.", fix, "section-order")
        else:
            position = found


def _no_page_title(node: Card | Lesson) -> Iterator[Problem]:
    for text in node.document.texts:
        for heading in scan(text.body).headings:
            if heading.level == 1:
                fix = "delete the line; sections begin with `##`"
                yield _error(node, text.line(heading.line), "the page's title comes from `title.en`, so no `#` heading.", fix, "page-title")


def _unfinished(node: Card | Lesson | Lab) -> Iterator[Problem]:
    """What `infer-course new` leaves to be written is marked TODO."""
    for path, line in node.document.meta_lines.items():
        if isinstance(value := _entry(node.document.meta, path), str) and "TODO" in value:
            yield _error(node, line, f"`{path}` is still to be written.", "write it", "unfinished")
    for text in node.document.texts:
        for index, content in enumerate(text.body.split("\n")):
            if "TODO" in content:
                yield _error(node, text.line(index), f"unfinished: “{content.strip()[:60]}”.", "write it", "unfinished")


def _entry(meta: Any, path: str) -> Any:
    for key in path.split("."):
        meta = meta[int(key)] if isinstance(meta, (list, tuple)) else meta.get(key)
    return meta
