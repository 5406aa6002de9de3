"""The four things of the course as they stand in the checkout: what the front matter says, plus where and with which text.

Kept apart from `schema` because these know paths and lines, which no author writes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pydantic import InstanceOf

from infer_course.frontmatter import Document, Section, Text
from infer_course.schema import CardMeta, LabMeta, LessonMeta, MeasurementMeta, QuestionSet

_LEAD = re.compile(r"^\*\*(.+?)\*\*\s*(.*)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A question that the interviewer asks next, with its short answer in markdown."""

    question: str
    answer: str
    line: int


@dataclass(frozen=True, slots=True)
class Mistake:
    """A pitfall (bold lead) and why it tempts and what it costs, in markdown. `line` is where it begins in the file."""

    pitfall: str
    text: str
    line: int


class Lesson(LessonMeta):
    """A written lesson. `path` is relative to the checkout."""

    path: str
    document: InstanceOf[Document]

    @property
    def title_en(self) -> str:
        return self.title.en

    @property
    def sections(self) -> tuple[Section, ...]:
        return self.document.sections


class Card(CardMeta):
    """A written card. `path` is relative to the checkout."""

    path: str
    document: InstanceOf[Document]

    @property
    def title_en(self) -> str:
        return self.title.en

    @property
    def sections(self) -> tuple[Section, ...]:
        return self.document.sections

    def section(self, title: str) -> Section | None:
        return self.document.section(title)

    @property
    def follow_up_questions(self) -> tuple[FollowUp, ...]:
        """The `###` questions of `## Follow-ups`, in order."""
        section = self.section("Follow-ups")
        return tuple(FollowUp(part.title, part.body.strip(), part.line) for part in section.parts()) if section else ()

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """The paragraphs of `## Common mistakes` that begin with a bold pitfall; paragraphs without one continue the last."""
        section = self.section("Common mistakes")
        found: list[Mistake] = []
        for paragraph, line in paragraphs(section) if section else ():
            lead = _LEAD.match(paragraph)
            if lead:
                found.append(Mistake(lead[1].strip(), lead[2].strip(), line))
            elif found:
                last = found[-1]
                found[-1] = Mistake(last.pitfall, f"{last.text}\n\n{paragraph}", last.line)
        return tuple(found)


class Lab(LabMeta):
    """A lab notebook. `path` is relative to the checkout."""

    path: str
    document: InstanceOf[Document]

    @property
    def title_en(self) -> str:
        return self.title.en


class Measurement(MeasurementMeta):
    """A measurement record. `path` is relative to the checkout."""

    path: str

    @property
    def title_en(self) -> str:
        return self.title


class SetOfCards(QuestionSet):
    """A set of cards. `path` is relative to the checkout; "" for a set that nobody writes, because it follows from the course."""

    path: str
    document: InstanceOf[Document]

    @property
    def curated(self) -> bool:
        return bool(self.path)

    def field_of_card(self, index: int) -> str:
        """Where in the file the card stands that is `index`th in `cards`."""
        if not self.sections:
            return f"cards.{index}"
        for number, section in enumerate(self.sections):
            if index < len(section.cards):
                return f"sections.{number}.cards.{index}"
            index -= len(section.cards)
        raise IndexError(index)

    @property
    def title_en(self) -> str:
        return self.title.en


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the book that is no lesson: the home page, a landing page. It has no place in the graph, but its numbers count."""

    path: str
    text: Text


def paragraphs(section: Section) -> tuple[tuple[str, int], ...]:
    """(text, file line) of each stretch of the section between blank lines."""
    found: list[tuple[str, int]] = []
    start: int | None = None
    lines = [*section.body.split("\n"), ""]
    for index, line in enumerate(lines):
        if line.strip() and start is None:
            start = index
        elif not line.strip() and start is not None:
            found.append(("\n".join(lines[start:index]).strip(), section.text.line(start)))
            start = None
    return tuple(found)
