"""What the options of the drill's commands mean: a filter over the cards of this course. A value that nothing has is an error by name."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Annotated, get_args

import typer

from infer_course.card_data import card_data
from infer_course.drill.queue import DrillCard, Filter, written
from infer_course.errors import UnknownIdError
from infer_course.graph import Graph
from infer_course.problems import did_you_mean
from infer_course.schema import Kind, Level

PartOption = Annotated[list[int] | None, typer.Option("--part", help="Only this part; may be given several times, as may the next three.")]
KindOption = Annotated[list[str] | None, typer.Option("--kind", help=f"Only this kind: {', '.join(get_args(Kind))}.")]
LevelOption = Annotated[list[str] | None, typer.Option("--level", help=f"Only this level: {', '.join(get_args(Level))}.")]
TagOption = Annotated[list[str] | None, typer.Option("--tag", help="Only cards with this tag.")]
SetOption = Annotated[str | None, typer.Option("--set", help="Only the cards of this question set, new ones in its order.")]


def cards_of(graph: Graph) -> tuple[DrillCard, ...]:
    """The written cards, in the order of the course."""
    return written(card_data(graph)["cards"].values())


def as_filter(
    graph: Graph,
    cards: Iterable[DrillCard],
    part: list[int] | None,
    kind: list[str] | None,
    level: list[str] | None,
    tag: list[str] | None,
    chosen_set: str | None,
) -> Filter:
    """UnknownIdError names the value that does not exist and the ones that do."""
    cards = tuple(cards)
    _known("part", map(str, part or ()), {str(number) for number in range(9)})
    _known("kind", kind or (), get_args(Kind))
    _known("level", level or (), get_args(Level))
    _known("tag", tag or (), {name for card in cards for name in card.tags})
    _known("question set", [chosen_set] if chosen_set else (), graph.sets)
    return Filter(
        parts=frozenset(part or ()),
        kinds=frozenset(kind or ()),
        levels=frozenset(level or ()),
        tags=frozenset(tag or ()),
        cards=tuple(graph.sets[chosen_set].cards) if chosen_set else None,
    )


def _known(what: str, wanted: Iterable[str], known: Collection[str]) -> None:
    for value in wanted:
        if value not in known:
            names = ", ".join(known if isinstance(known, tuple) else sorted(known)) or "none yet"
            raise UnknownIdError(f"no {what} is called `{value}`; there is {names}.{did_you_mean(value, known)}")
