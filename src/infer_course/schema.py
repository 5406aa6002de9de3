"""The shape of everything the course is made of: card, lesson, lab, measurement record, question set.

These models are what a front matter may say (an unknown field is an error, never ignored); `questions/schema.json` is exported from
them so that editors can complete and check while one writes. Text, lines and links are not here: see `frontmatter` and `graph`.
"""

from __future__ import annotations

import datetime
import json
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.json_schema import models_json_schema

SLUG = r"^[a-z0-9]+(-[a-z0-9]+)*$"
Slug = Annotated[str, Field(pattern=SLUG, max_length=64, description="lower-case words joined by hyphens")]
RecordId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*/[a-z0-9][a-z0-9-]*$", description="<device>/<name>")]
Line = Annotated[str, Field(min_length=1)]
PartNumber = Annotated[int, Field(ge=0, le=8)]
Minutes = Annotated[float, Field(gt=0, le=240)]
Kind = Literal["concept", "calculation", "coding", "debugging", "system-design", "behavioral"]
Level = Literal["junior", "mid", "senior"]
Stage = Literal["arrive", "tokenize", "schedule", "prefill", "attention-kv", "ffn-moe", "decode", "sample", "stream"]

CARD_SECTIONS = (
    "Direct answer",
    "中文回答",
    "Going deeper",
    "Worked numbers",
    "Code",
    "Follow-ups",
    "Common mistakes",
    "Rubric",
)


class Model(BaseModel):
    """Frozen, and strict about fields: a misspelt field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Title(Model):
    """A title in the two languages of the course."""

    en: Line
    zh: Line


class Source(Model):
    """Where a fact comes from, and the day on which somebody last looked."""

    title: Line
    url: Annotated[str, Field(pattern=r"^https?://[^\s]+$")]
    checked: datetime.date


class Estimate(Model):
    """What the drill asks for before it shows the answer: a number within `tolerance` (0.1 = ±10 %) of `expr` in `unit`."""

    expr: Line
    unit: Line
    tolerance: Annotated[float, Field(gt=0, le=1)]


class RubricItem(Model):
    """One thing that an answer of this level contains (or a red flag), and what an interviewer asks when it is missing."""

    id: Slug
    level: Literal["junior", "mid", "senior", "red_flag"]
    text: Line
    follow_up: Line | None = None


class CardMeta(Model):
    """Front matter of `questions/partN/<id>.md`. The card names its lessons, labs and follow-ups; the other direction is rendered."""

    id: Slug
    part: PartNumber
    order: Annotated[int, Field(ge=0)]
    title: Title
    kind: Kind
    level: Level
    minutes: Minutes
    lessons: Annotated[tuple[Slug, ...], Field(min_length=1)]
    labs: tuple[Slug, ...] = ()
    lab_waiver: Line | None = Field(default=None, description="why no lab proves this card")
    measurements: tuple[RecordId, ...] = Field(default=(), description="records shown as the card's measured proof")
    follow_ups: tuple[Slug, ...] = Field(default=(), description="cards that an interviewer asks next; may be planned ones")
    tags: tuple[Slug, ...] = ()
    sources: Annotated[tuple[Source, ...], Field(min_length=1)]
    estimate: Estimate | None = None
    rubric: Annotated[tuple[RubricItem, ...], Field(min_length=1)]


class LessonMeta(Model):
    """Front matter of `book/partN/<id>.md`. Its cards and labs are rendered from theirs."""

    id: Slug
    part: PartNumber
    order: Annotated[int, Field(ge=0)]
    title: Title
    minutes: Minutes
    objectives: Annotated[tuple[Line, ...], Field(min_length=1)]
    prerequisites: tuple[Slug, ...] = Field(default=(), description="lessons to read first; may be planned ones")
    stages: tuple[Stage, ...] = Field(default=(), description="stages of a request's path that the lesson is about")
    sources: Annotated[tuple[Source, ...], Field(min_length=1)]


class LabRun(Model):
    """Where the stored outputs of a lab come from; written by `make labs-gpu`."""

    device: Line
    date: datetime.datetime
    seconds: Annotated[float, Field(gt=0)]
    commit: Line
    software: dict[str, str]


class LabMeta(Model):
    """`infer_course` in the metadata of `labs/partN/<id>.ipynb`. The lab names its lessons and the records that it writes."""

    id: Slug
    part: PartNumber
    order: Annotated[int, Field(ge=0)] = 0
    title: Title
    lessons: Annotated[tuple[Slug, ...], Field(min_length=1)]
    measurements: tuple[RecordId, ...] = ()
    minutes: Minutes
    needs: Literal["cpu", "gpu"] = "cpu"
    run: LabRun | None = Field(default=None, description="where the stored outputs come from; written by the program that runs the labs")


class SetSection(Model):
    """A stretch of a set under a heading of its own, e.g. one question of an interview and the cards that prepare for it."""

    title: Title
    asks: Line | None = Field(default=None, description="the collected question (id in the content map) that these cards answer")
    cards: Annotated[tuple[Slug, ...], Field(min_length=1)]


class QuestionSet(Model):
    """`questions/sets/<id>.yaml`: a curated choice of cards, e.g. one evening before the interview.

    Written as `cards`, or as `sections` with cards of their own; `cards` then holds those of all sections in order.
    """

    id: Slug
    order: Annotated[int, Field(ge=0)] = Field(default=0, description="place among the sets")
    title: Title
    about: Title | None = None
    cards: tuple[Slug, ...] = Field(default=(), description="cards in the order in which they are asked; may be planned ones")
    sections: tuple[SetSection, ...] = Field(default=(), description="instead of `cards`: the set cut under headings")

    @model_validator(mode="before")
    @classmethod
    def _cards_of_sections(cls, raw: Any) -> Any:
        if not isinstance(raw, dict) or not raw.get("sections"):
            return raw
        if raw.get("cards"):
            raise ValueError("a set is written as `cards` or as `sections`, not as both")
        try:
            return {**raw, "cards": [card for section in raw["sections"] for card in section["cards"]]}
        except (TypeError, KeyError):
            return raw  # what is wrong with the sections is said by their own model

    @model_validator(mode="after")
    def _not_empty(self) -> QuestionSet:
        if not self.cards:
            raise ValueError("a set names at least one card, in `cards` or in `sections`")
        return self


class Open(BaseModel):
    """Frozen, but what a program recorded beyond the required fields is kept."""

    model_config = ConfigDict(frozen=True, extra="allow")


class Device(Open):
    """The machine that a record comes from."""

    slug: Slug
    name: Line
    kind: Line


class Git(Open):
    """The commit of the code that measured, and whether the tree had uncommitted changes."""

    commit: Line
    dirty: bool = False


class RecordedValue(Open):
    """One measured number with its unit; p10/p90 and n describe its spread, `predicted` (same unit) is what was put down before."""

    value: float | int
    unit: Line
    predicted: float | int | None = None
    median: float | int | None = None
    p10: float | int | None = None
    p90: float | int | None = None
    n: int | None = None
    note: str | None = None


class Axis(Open):
    """One coordinate of a series."""

    label: str
    unit: str
    values: tuple[float | int, ...]
    p10: tuple[float | int, ...] | None = None
    p90: tuple[float | int, ...] | None = None


class Series(Open):
    """A curve: y against x, and whether it was measured or is a prediction, a limit, or a peer's."""

    title: str
    x: Axis
    y: Axis
    kind: Literal["measured", "predicted", "limit", "peer"]

    @model_validator(mode="after")
    def _same_length(self) -> Series:
        for name, values in (("y.values", self.y.values), ("y.p10", self.y.p10), ("y.p90", self.y.p90)):
            if values is not None and len(values) != len(self.x.values):
                raise ValueError(f"{name} has {len(values)} entries for {len(self.x.values)} of x.values")
        return self


class MeasuredCase(Open):
    """One piece of work that was timed for us and for peers; `ours` and `peers` (by label) name values of the record."""

    operation: Line
    shape: Line
    bytes: Annotated[float, Field(gt=0, description="the fewest that the work needs")]
    flops: Annotated[float, Field(ge=0)]
    floor_us: Annotated[float, Field(gt=0, description="the shortest time that the measured limits allow")]
    ours: Line
    peers: dict[str, str] = {}


class MeasurementMeta(Open):
    """`measurements/<device>/<name>.json`, as `infer_lab.bench.record` writes it. Without provenance there is no record."""

    schema_version: Literal[1] = Field(alias="schema")
    id: RecordId
    title: Line
    device: Device
    software: Annotated[dict[str, Any], Field(min_length=1)]
    git: Git
    date: datetime.datetime
    seconds: Annotated[float, Field(ge=0, description="how long the program ran, from its start to the writing")] | None = None
    command: Line
    workload: dict[str, Any] = {}
    sources: dict[str, Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]] = {}
    values: dict[str, RecordedValue] = {}
    series: dict[str, Series] = {}
    cases: dict[str, MeasuredCase] = {}

    @model_validator(mode="after")
    def _cases_name_values(self) -> MeasurementMeta:
        for name, case in self.cases.items():
            missing = [value for value in (case.ours, *case.peers.values()) if value not in self.values]
            if missing:
                raise ValueError(f"cases.{name} names {', '.join(missing)}, which the record does not hold")
        return self


PROVENANCE = ("device", "software", "git", "date", "command")
"""Fields without which a number cannot be traced to a machine, a program and a day."""


@lru_cache(maxsize=1)
def json_schema() -> str:
    """The text of `questions/schema.json`: JSON Schema of card, lesson, lab, measurement and set."""
    models = (CardMeta, LessonMeta, LabMeta, MeasurementMeta, QuestionSet)
    _, schema = models_json_schema([(model, "validation") for model in models], title="Inference Lab course files")
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(schema, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
