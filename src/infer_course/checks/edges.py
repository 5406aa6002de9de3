"""No orphan, no one-way edge, no link to nothing: whatever stands in the course can be reached from both of its ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from infer_course.frontmatter import Text
from infer_course.graph import Graph, texts_of
from infer_course.markdown import links, scan
from infer_course.nodes import Card, Lab, Lesson, Page
from infer_course.problems import Problem, Rule, did_you_mean

_LISTS = {Card: ("lessons", "labs", "follow_ups", "measurements", "tags"), Lesson: ("prerequisites",), Lab: ("lessons", "measurements")}

_FILE_DIRECTIVES = ("literalinclude", "include", "figure", "image")


def check_edges(graph: Graph) -> Iterator[Problem]:
    yield from _orphans(graph)
    yield from _one_way(graph)
    yield from _prerequisite_cycles(graph)
    paths = {node.path: node for node in (*graph.lessons.values(), *graph.cards.values(), *graph.labs.values())}
    for node in paths.values():
        yield from _repeated(node)
        for text in texts_of(node):
            yield from _links(graph, node, text, paths)
    for page in graph.pages.values():
        yield from _links(graph, page, page.text, paths)


def _problem(node: Card | Lesson | Lab, field: str, message: str, fix: str, rule: Rule) -> Problem:
    return Problem("error", node.path, node.document.meta_line(field), message, fix, rule)


def _orphans(graph: Graph) -> Iterator[Problem]:
    written = graph.unreadable | set(graph.lessons)
    for card in graph.cards.values():
        if not set(card.lessons) & written and set(card.lessons) <= set(graph.planned):
            message = f"orphan: the card's lessons ({', '.join(card.lessons)}) are not written, so no page leads to it."
            yield _problem(card, "lessons", message, "name at least one written lesson in `lessons`, or write one of these", "orphan")
        if not card.labs and not card.lab_waiver:
            fix = "name a lab in `labs`, or say in `lab_waiver` why none can prove it"
            yield _problem(card, "labs", "orphan: the card has no lab and no waiver.", fix, "orphan")
        if card.labs and card.lab_waiver:
            yield _problem(card, "lab_waiver", "the card has a lab and a waiver.", "delete `lab_waiver`", "orphan")
    for lesson in graph.lessons.values():
        if not graph.cards_of_lesson(lesson.id):
            fix = f"write a card with `lessons: [{lesson.id}]`"
            yield _problem(lesson, "id", "orphan: no card belongs to the lesson.", fix, "orphan")
    for lab in graph.labs.values():
        if not set(lab.lessons) & written and set(lab.lessons) <= set(graph.planned):
            message = f"orphan: the lab's lessons ({', '.join(lab.lessons)}) are not written, so no page leads to it."
            yield _problem(lab, "lessons", message, "name at least one written lesson in `lessons`", "orphan")
        if not graph.cards_of_lab(lab.id):
            fix = f"name it in the `labs` of the card that it proves: `labs: [{lab.id}]`"
            yield _problem(lab, "id", "orphan: no card names the lab.", fix, "orphan")
    shown = {record.id for record in graph.measurements.values() if _is_shown(graph, record.id)}
    names = {record_id.rpartition("/")[2] for record_id in shown}
    for record in graph.measurements.values():
        if record.id.rpartition("/")[2] not in names:  # the same record of another machine is a reader's own: it stands beside ours
            fix = "cite it with {measured} or a measured-figure, list it in a card's `measurements`, or delete it"
            yield Problem("error", record.path, 1, f"orphan: nothing shows the record `{record.id}`.", fix, "orphan")


def _is_shown(graph: Graph, record: str) -> bool:
    return bool(graph.cards_of_measurement(record) or graph.lessons_of_measurement(record) or graph.pages_of_measurement(record))


def _one_way(graph: Graph) -> Iterator[Problem]:
    for card in graph.cards.values():
        if card.id in card.follow_ups:
            yield _problem(card, "follow_ups", "the card is its own follow-up.", f"remove `{card.id}`", "one-way")
        for lab in graph.labs_of_card(card.id):
            if not set(card.lessons) & set(lab.lessons) and graph.lessons_of_card(card.id):
                message = f"one-way edge: the card names the lab `{lab.id}`, but they share no lesson, so no lesson shows both."
                fix = f"add one of {', '.join(card.lessons)} to the lab's `lessons`, or one of {', '.join(lab.lessons)} to the card's"
                yield _problem(card, "labs", message, fix, "one-way")
        for index, record in enumerate(card.measurements):
            writers = graph.labs_of_measurement(record)
            if writers and not {lab.id for lab in writers} & set(card.labs):
                message = f"one-way edge: the card shows `{record}` but does not name the lab that writes it."
                fix = f"add {' or '.join(f'`{lab.id}`' for lab in writers)} to `labs`"
                yield _problem(card, f"measurements.{index}", message, fix, "one-way")
    for lesson in graph.lessons.values():
        if lesson.id in lesson.prerequisites:
            yield _problem(lesson, "prerequisites", "the lesson is its own prerequisite.", f"remove `{lesson.id}`", "one-way")


def _prerequisite_cycles(graph: Graph) -> Iterator[Problem]:
    reported: set[frozenset[str]] = set()
    for start in graph.lessons:
        for cycle in _cycles_from(graph, start):
            if frozenset(cycle) not in reported and len(cycle) > 1:
                reported.add(frozenset(cycle))
                message = f"prerequisites go round in a circle: {' → '.join([*cycle, start])}."
                yield _problem(graph.lessons[start], "prerequisites", message, "remove one of these prerequisites", "cycle")


def _cycles_from(graph: Graph, start: str) -> Iterator[list[str]]:
    """Shortest way back from `start` to itself along prerequisites, if there is one."""
    ways, seen = [[start]], {start}
    while ways:
        way = ways.pop(0)
        for target in graph.lessons[way[-1]].prerequisites if way[-1] in graph.lessons else ():
            if target == start:
                yield way
                return
            if target not in seen:
                seen.add(target)
                ways.append([*way, target])


def _repeated(node: Card | Lesson | Lab) -> Iterator[Problem]:
    for field in _LISTS[type(node)]:
        values = getattr(node, field)
        for index, value in enumerate(values):
            if value in values[:index]:
                yield _problem(node, f"{field}.{index}", f"`{field}` names `{value}` twice.", "remove one", "repeated")


def _links(graph: Graph, node: Card | Lesson | Lab | Page, text: Text, paths: dict[str, Card | Lesson | Lab]) -> Iterator[Problem]:
    for target, index in links(text.body):
        line, path = text.line(index), _file(target)
        if path is None:
            continue
        found = _resolve(graph.root, node.path, path)
        if found is None:
            fix = f"correct the path; it is read from {PurePosixPath(node.path).parent}/"
            yield Problem("error", node.path, line, f"the link leads to no file: `{target}`.", fix, "broken-link")
        elif found in paths and not isinstance(node, Page) and not _edge(graph, node, paths[found]):
            other = paths[found]
            message = f"one-way edge: the text links to `{other.id}`, whose page does not lead back here."
            yield Problem("error", node.path, line, message, _edge_fix(node, other), "one-way")
    for fence in scan(text.body).fences:
        line = text.line(fence.line)
        if fence.directive == "card" and isinstance(node, Lesson):
            yield from _embedded(graph, node, fence.argument, line)
        path = _file(fence.argument) if fence.directive in _FILE_DIRECTIVES else None
        if path and _resolve(graph.root, node.path, path) is None:
            message = f"`{{{fence.directive}}}` names a file that does not exist: `{fence.argument}`."
            yield Problem("error", node.path, line, message, "correct the path", "broken-link")


def _embedded(graph: Graph, lesson: Lesson, card_id: str, line: int) -> Iterator[Problem]:
    """A card shown inside a lesson exists and belongs to it."""
    if card_id not in graph.cards:
        if card_id not in graph.unreadable:
            message = f"`{{card}}` shows `{card_id}`: no written card has this id.{did_you_mean(card_id, graph.cards)}"
            yield Problem("error", lesson.path, line, message, "name a written card", "unknown-id")
    elif lesson.id not in graph.cards[card_id].lessons:
        message = f"one-way edge: the lesson shows the card `{card_id}`, which does not name it."
        yield Problem("error", lesson.path, line, message, _edge_fix(lesson, graph.cards[card_id]), "one-way")


def _file(target: str) -> str | None:
    """The path part of a link, or None when it is no file of ours."""
    if "://" in target or target.startswith(("#", "mailto:", "data:")) or "{" in target:
        return None
    return unquote(target.partition("#")[0].partition("?")[0]) or None


def _resolve(root: Path, origin: str, target: str) -> str | None:
    """Path relative to the root of the file that `target`, read from `origin`, names; pages may be named without their suffix."""
    base = root.resolve()
    start = base if target.startswith("/") else (base / origin).parent
    for suffix in ("", ".md", ".ipynb"):
        path = (start / (target.lstrip("/") + suffix)).resolve()
        if path.exists() and path.is_relative_to(base):
            return path.relative_to(base).as_posix()
    return None


def _edge(graph: Graph, a: Card | Lesson | Lab, b: Card | Lesson | Lab) -> bool:
    """Whether the graph shows a and b on each other's pages. Things of one kind may link freely."""
    match (a, b):
        case (Card(), Lesson()):
            return b.id in a.lessons
        case (Lesson(), Card()):
            return a.id in b.lessons
        case (Card(), Lab()):
            return b.id in a.labs
        case (Lab(), Card()):
            return a.id in b.labs
        case (Lab(), Lesson()):
            return b.id in a.lessons
        case (Lesson(), Lab()):
            return a.id in b.lessons
        case _:
            return True


def _edge_fix(a: Card | Lesson | Lab, b: Card | Lesson | Lab) -> str:
    match (a, b):
        case (Card(), Lesson()) | (Lab(), Lesson()):
            return f"add `{b.id}` to the `lessons` of this file"
        case (Lesson(), Card() | Lab()):
            return f"add `{a.id}` to the `lessons` of {b.path}"
        case (Card(), Lab()):
            return f"add `{b.id}` to the `labs` of this file"
        case _:
            return f"add `{a.id}` to the `labs` of {b.path}"
