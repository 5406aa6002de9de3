"""Every card as data: what the drill, the card browser and the mock interview read instead of the pages.

The site has these files, written by `sphinx_ext/card_files.py` and loaded by no ordinary page:

`_static/cards.json`, the index (about 1.5 kB a card), is `card_data()`:

    {"format": "inference-lab-cards", "version": 1,
     "parts": [{"part", "title": {"en", "zh"}}],
     "sets": [{"id", "title": {"en", "zh"}, "about": {"en", "zh"} | null, "cards": [id, …],        cards may be planned ones
               "sections": [{"title", "cards"}]}],                  the same cards under headings, if the set has them
     "lessons": {id: {"title": {"en", "zh"}, "part", "order", "url" | null, "planned"}},
     "cards": {id: card}}                                        in the order of the course: part, order, id; planned ones among them
    card = {"id", "part", "order", "kind", "level", "planned",
            "title": {"en", "zh"}, "minutes", "url", "tags": [], "sets": [set id], "stages": [stage of a request's path],
            "estimate": {"value", "unit", "tolerance", "expr", "answer", "choices": [[unit as shown, the right value in it], …]} | null,
            "rubric": [{"id", "level"}],                         level: junior, mid, senior or red_flag
            "follow_up_cards": [id],                             may be planned ones
            "follow_ups": number of follow-up questions,
            "lessons": [{"id", "title": {"en", "zh"}, "url" | null}], "labs": [the same, without null],
            "measurements": [{"id", "title", "url", "device", "date"}]}
    A planned card has id, part, order, kind, level, title (zh ""), planned: true, lessons, and nothing else.

`_static/cards/<id>.json`, one file a card (20 to 60 kB, most of it notes on numbers), fetched when the card is shown:

    {"id", "direct_html": {"en", "zh"},
     "rubric": [{"id", "level", "html", "follow_up_html" | null}],            in the order of the index
     "follow_ups": [{"question_html", "answer_html"}],
     "mistakes_html", "sections": [{"id", "title", "html"}],                  going deeper, worked numbers, code
     "measured": [{"record", "name", "lab" | null, "device", "date", "rows": [row]}]}      see `measured_pairs.py`

`_static/records.json`: {record id: the same as an entry of "measured", with all its rows}, for lessons and landing pages.

Addresses (`url`, and `href`/`src` in the HTML) are relative to the root of the site: put `document.documentElement.dataset.content_root`
before those that begin with neither a scheme nor `#` nor `/`. Formulas are `<span class="math">\\(…\\)</span>` and need MathJax.
Everything is derived from the checkout alone, so the same checkout gives the same bytes.
"""

from __future__ import annotations

from typing import Any

from infer_course.asked import asked_of
from infer_course.content_map import MappedCard, content_map
from infer_course.graph import Graph
from infer_course.nodes import Card
from infer_course.schema import Title

FORMAT, VERSION = "inference-lab-cards", 1


def card_data(graph: Graph) -> dict[str, Any]:
    """The index of all cards, written and planned; see the module."""
    known = content_map()
    planned = [card for card in known.cards.values() if card.id in graph.planned and card.id not in graph.unreadable]
    order = sorted([*graph.cards.values(), *planned], key=lambda card: (card.part, card.order, card.id))
    return {
        "format": FORMAT,
        "version": VERSION,
        "parts": [{"part": part.part, "title": {"en": part.title_en, "zh": part.title_zh}} for part in known.parts],
        "sets": [
            {
                "id": chosen.id,
                "title": _title(chosen.title),
                "about": _title(chosen.about) if chosen.about else None,
                "cards": list(chosen.cards),
                "sections": [{"title": _title(section.title), "cards": list(section.cards)} for section in chosen.sections],
            }
            for chosen in graph.sets.values()
        ],
        "lessons": _lessons(graph),
        "cards": {card.id: _written(graph, card) if isinstance(card, Card) else _planned(graph, card) for card in order},
    }


def page_url(path: str) -> str:
    """`questions/part0/x.md` → `questions/part0/x.html`, from the root of the site."""
    return path.rpartition(".")[0] + ".html"


def record_url(record_id: str) -> str:
    """Where the site shows a measurement record."""
    return f"book/measured.html#{record_id.replace('/', '-')}"


def _written(graph: Graph, card: Card) -> dict[str, Any]:
    return {
        "id": card.id,
        "part": card.part,
        "order": card.order,
        "kind": card.kind,
        "level": card.level,
        "planned": False,
        "title": _title(card.title),
        "minutes": card.minutes,
        "url": page_url(card.path),
        "tags": list(card.tags),
        "sets": [chosen.id for chosen in graph.sets_of_card(card.id)],
        "stages": sorted({stage for lesson in graph.lessons_of_card(card.id) for stage in lesson.stages}),
        "estimate": _estimate(graph, card),
        "rubric": [{"id": item.id, "level": item.level} for item in card.rubric],
        "follow_up_cards": list(card.follow_ups),
        "follow_ups": len(card.follow_up_questions),
        "lessons": [_lesson_link(graph, lesson_id) for lesson_id in card.lessons],
        "labs": [{"id": lab.id, "title": _title(lab.title), "url": page_url(lab.path)} for lab in graph.labs_of_card(card.id)],
        "measurements": [
            {
                "id": record.id,
                "title": record.title,
                "url": record_url(record.id),
                "device": record.device.name,
                "date": record.date.date().isoformat(),
            }
            for record in graph.measurements_of_card(card.id)
        ],
    }


def _planned(graph: Graph, card: MappedCard) -> dict[str, Any]:
    return {
        "id": card.id,
        "part": card.part,
        "order": card.order,
        "kind": card.kind,
        "level": card.level,
        "planned": True,
        "title": {"en": card.title, "zh": ""},
        "lessons": [_lesson_link(graph, card.lesson)],
    }


def _lessons(graph: Graph) -> dict[str, Any]:
    found = {
        lesson.id: {
            "title": _title(lesson.title),
            "part": lesson.part,
            "order": lesson.order,
            "url": page_url(lesson.path),
            "planned": False,
        }
        for lesson in graph.lessons.values()
    }
    for lesson in content_map().lessons.values():
        if lesson.id in graph.planned:
            title = {"en": lesson.title_en, "zh": lesson.title_zh}
            found[lesson.id] = {"title": title, "part": lesson.part, "order": lesson.order, "url": None, "planned": True}
    return dict(sorted(found.items(), key=lambda item: (item[1]["part"], item[1]["order"], item[0])))


def _lesson_link(graph: Graph, lesson_id: str) -> dict[str, Any]:
    if lesson_id in graph.lessons:
        lesson = graph.lessons[lesson_id]
        return {"id": lesson_id, "title": _title(lesson.title), "url": page_url(lesson.path)}
    planned = content_map().lessons[lesson_id]
    return {"id": lesson_id, "title": {"en": planned.title_en, "zh": planned.title_zh}, "url": None}


def _estimate(graph: Graph, card: Card) -> dict[str, Any] | None:
    asked = asked_of(card, graph)
    if asked is None or card.estimate is None:
        return None
    return {
        "value": asked.value,
        "unit": card.estimate.unit,
        "tolerance": card.estimate.tolerance,
        "expr": card.estimate.expr,
        "answer": asked.answer,
        "choices": [list(choice) for choice in asked.choices],
    }


def _title(title: Title) -> dict[str, str]:
    return {"en": title.en, "zh": title.zh}
