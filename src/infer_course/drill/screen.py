"""What the terminal drill shows: question, answer, rubric, the reader's own figures, the summary. No keys are read here."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.markdown import Markdown
from rich.markup import escape
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from infer_course import measured_pairs
from infer_course.drill import memory
from infer_course.drill.estimate import Judged
from infer_course.drill.lab_records import newest
from infer_course.drill.memory import DAY_MS, Memory
from infer_course.evaluated import readable
from infer_course.graph import Graph
from infer_course.nodes import Card
from infer_course.schema import RubricItem

RUBRIC_KEYS = "abcdefghilnoprtvwxy"
LEVELS = (("junior", "junior"), ("mid", "mid"), ("senior", "senior"), ("red_flag", "red flag"))
GRADES = ((1, "forgot"), (2, "hard"), (3, "good"), (4, "easy"))
HELP = (
    ("Space, Enter", "show the answer; in the chain, the follow-up's answer"),
    ("a digit", "where a number is asked: begins yours; Enter ends it, Esc forgets it"),
    ("1 2 3 4", "grade yourself: forgot (it returns before the end), hard, good, easy"),
    ("a b c …", "tick what your answer had on the rubric; Enter then takes the grade that the ticks speak for"),
    ("m", "more: going deeper, worked numbers, code, common mistakes"),
    ("z", "the answer in Chinese, and back"),
    ("j, s", "skip the question to the end of the sitting"),
    ("k, u", "take the last grade back"),
    ("y, n", "after a follow-up: answered, or not (which ends the chain)"),
    ("q", "leave; everything that you graded is kept"),
)


def question(console: Console, card: Card, place: str, memory_of: Memory | None, now: int, led_here: str = "") -> None:
    """Where we are, the chips, and the question in both languages; `led_here` is the question that this one goes deeper than."""
    console.print()
    console.print(Rule(f"[dim]{place}[/dim]", align="left", style="dim"))
    seen = "new" if memory_of is None else f"seen {ago(now - memory_of.last)}"
    console.print(f"[dim]part {card.part} · {card.kind} · {card.level} · {card.minutes:g} min · {seen}[/dim]", highlight=False)
    if led_here:
        console.print(Text(f"Deeper, after: {led_here}", style="dim italic"))
    console.print(Text(card.title.en, style="bold"))
    console.print(Text(card.title.zh, style="dim"))


def answer(console: Console, graph: Graph, card: Card, chinese: bool) -> None:
    title = "中文回答" if chinese else "Direct answer"
    _section(console, graph, card, title)


def more(console: Console, graph: Graph, card: Card) -> None:
    for section in card.sections:
        if section.title not in ("Direct answer", "中文回答", "Follow-ups", "Rubric"):
            _section(console, graph, card, section.title)


def said_of(judged: Judged, answer_text: str, tolerance: float) -> str:
    """What to say of a number, with the right one: the answer is shown in the same moment."""
    match judged.state:
        case "right":
            return f"[green]Right:[/green] {answer_text}, and yours is within {tolerance * 100:g} %."
        case "off":
            ratio = judged.ratio or 0.0
            far = ratio if ratio > 1 else 1 / ratio
            size = f"{abs(ratio - 1) * 100:.0f} %" if far < 2 else f"{far:.2g} times" if far < 10 else f"{far:,.0f} times"
            return f"[yellow]Off:[/yellow] it is {answer_text}; yours is {size} too {'large' if ratio > 1 else 'small'}."
        case "not-positive":
            return "It is more than nothing: write a positive number."
        case "unit-missing":
            return "In which unit? GB is not GiB."
        case "unit-unknown":
            return f"“{escape(judged.unit)}” is none of the units here."
    return "Write a number, such as 12.5 or 4,096."


def suggested(grade: int | None) -> str:
    return "" if grade is None else f"\n[dim]Your ticks say:[/dim] {dict(GRADES)[grade]} [dim](Enter)[/dim]"


def checklist(graph: Graph, card: Card, ticked: Collection[str]) -> RenderableType:
    """The rubric's items by level, with their keys."""
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column()
    keys = dict(zip((item.id for item in in_order(card)), RUBRIC_KEYS, strict=False))
    for level, name in LEVELS:
        items = [item for item in card.rubric if item.level == level]
        if items:
            table.add_row("", Text(name, style="dim"))
        for item in items:
            mark = "[x]" if item.id in ticked else "[ ]"
            colour = ("red" if level == "red_flag" else "green") if item.id in ticked else ""
            table.add_row(Text(f"{keys.get(item.id, ' ')} {mark}", style=colour), Markdown(readable(item.text, graph)))
    return table


def rubric(graph: Graph, card: Card, ticked: Collection[str], intervals: Sequence[int], suggestion: int | None = None) -> RenderableType:
    """The checklist, and the line of grades with the days that each would give."""
    table = checklist(graph, card, ticked)
    grades = "   ".join(
        f"[bold]{grade}[/bold] {name} [dim]({_days(days)})[/dim]" for (grade, name), days in zip(GRADES, intervals, strict=True)
    )
    return Group(Text(""), table, Text(""), Text.from_markup(f"{grades}   [dim]m more · z 中文 · ? keys[/dim]{suggested(suggestion)}"))


def in_order(card: Card) -> list[RubricItem]:
    """The rubric's items by level, as they are shown."""
    return [item for level, _ in LEVELS for item in card.rubric if item.level == level]


def intervals(before: Memory | None, now: int) -> list[int]:
    """Days until the card returns, for each grade; 0 for a forgotten one, which returns in the same sitting."""
    return [0, *(memory.after(before, now, grade).days for grade in (2, 3, 4))]


def own_figures(console: Console, graph: Graph, card: Card, records: Sequence[Mapping[str, Any]]) -> None:
    """*Predicted · yours · ours* of the card's records, where the reader ran the lab."""
    for shown in measured_pairs.of_card(graph, card.id):
        ours = graph.measurements[shown["record"]]
        yours = newest(records, ours)
        if yours is None:
            continue
        names = {row["name"] for row in shown["rows"]}
        rows = [pair for pair in measured_pairs.side_by_side(ours, yours, names) if pair["yours"]]
        if not rows:
            continue
        table = Table(title=f"{ours.title}: your run", title_style="bold", title_justify="left")
        table.add_column("")
        for name in ("predicted", "yours", "predicted", "ours"):
            table.add_column(name, justify="right")
        for pair in rows:
            cells = [(side["predicted"] or "", _measured(side)) for side in (pair["yours"], pair["ours"])]
            table.add_row(escape(pair["label"]), *(cell for side in cells for cell in side))
        console.print(table)
        console.print(
            f"[dim]yours: {escape(yours.device.name)}, {yours.date.date()}; ours: {escape(ours.device.name)}, {ours.date.date()}[/dim]"
        )


def follow_up(console: Console, graph: Graph, text: str, number: int, of: int) -> None:
    console.print(Text(f"\nThe interviewer goes on ({number} of {of}):", style="dim"))
    console.print(Markdown(f"**{readable(text, graph)}**"))


def markdown(console: Console, graph: Graph, text: str) -> None:
    console.print(Markdown(readable(text, graph)))


def help_table(console: Console) -> None:
    table = Table.grid(padding=(0, 2))
    for keys, does in HELP:
        table.add_row(Text(keys, style="bold"), does)
    console.print(table)


def summary(console: Console, done: Sequence[tuple[str, int]], seconds: float, next_due: Sequence[int], path: str) -> None:
    """`done`: (card, grade); `next_due`: due counts of today and the six days after."""
    console.print()
    if not done:
        console.print("Nothing was graded.")
        return
    cards = len({card for card, _ in done})
    forgot = len({card for card, grade in done if grade == 1})
    console.print(
        f"[bold]{cards} question{'s' if cards != 1 else ''}[/bold] in {clock(seconds)}"
        f"{f', {forgot} of them forgotten once' if forgot else ''}. Tomorrow {next_due[1]} come{'s' if next_due[1] == 1 else ''} back, "
        f"{sum(next_due[1:])} in the next six days.",
        highlight=False,
    )
    console.print(f"[dim]Kept in {escape(path)}[/dim]", soft_wrap=True, highlight=False)


def clock(seconds: float) -> str:
    """`2:05`, or `1:02:05`."""
    whole = max(0, int(seconds))
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def ago(ms: int) -> str:
    days = ms // DAY_MS
    return "today" if days < 1 else f"{days} day{'s' if days > 1 else ''} ago"


def _section(console: Console, graph: Graph, card: Card, title: str) -> None:
    section = card.section(title)
    if section is not None:
        console.print(Markdown(f"## {title}\n\n{readable(section.body, graph)}"))


def _measured(side: Mapping[str, Any]) -> str:
    return side["measured"] + (f" [dim]{escape(side['at'])}[/dim]" if side["at"] else "")


def _days(days: int) -> str:
    return "returns" if days == 0 else f"{days} d"
