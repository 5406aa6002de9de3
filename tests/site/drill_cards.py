"""Twelve questions that exist in tests only, as the site's data files: more than the course may have, and always the same."""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Page, Route

PAGE = "book/drill.html"
RUBRIC = [("names-it", "junior"), ("says-why", "junior"), ("gives-number", "mid"), ("knows-limits", "senior"), ("mixes-up", "red_flag")]


def card(number: int) -> dict[str, Any]:
    """Three parts of four; the second of each part asks for a number; question 1 leads to question 4."""
    asks = number % 4 == 2
    return {
        "id": f"question-{number:02d}",
        "part": (number - 1) // 4,
        "order": number,
        "kind": "calculation" if asks else "concept",
        "level": ("junior", "mid", "senior")[number % 3],
        "planned": False,
        "title": {"en": f"What is question {number}?", "zh": f"第 {number} 题是什么？"},
        "minutes": 3,
        "url": "questions/part0/kv-cache-principle.html",
        "tags": ["even" if number % 2 == 0 else "odd"],
        "sets": ["evening"] if number in (3, 5, 7) else [],
        "stages": [],
        "estimate": ESTIMATE if asks else None,
        "rubric": [{"id": item, "level": level} for item, level in RUBRIC],
        "follow_up_cards": ["question-04"] if number == 1 else [],
        "follow_ups": 3,
        "lessons": [{"id": "kv-cache", "title": {"en": "The KV cache", "zh": ""}, "url": "book/part0/kv-cache.html"}],
        "labs": [],
        "measurements": [
            {"id": "h200/kv-cache-by-hand", "title": "By hand", "url": "book/measured.html", "device": "NVIDIA H200", "date": "2026-11-29"}
        ],
    }  # fmt: skip


ESTIMATE = {
    "value": 128,
    "unit": "KiB",
    "tolerance": 0.05,
    "expr": "128",
    "answer": "128 KiB",
    "choices": [["B", 131072], ["kB", 131.072], ["KiB", 128], ["MiB", 0.125]],
}
PLANNED = {
    "id": "not-written",
    "part": 0,
    "order": 99,
    "kind": "concept",
    "level": "mid",
    "planned": True,
    "title": {"en": "Not written", "zh": ""},
    "lessons": [],
}
INDEX = {
    "format": "inference-lab-cards",
    "version": 1,
    "parts": [{"part": part, "title": {"en": f"Part {part}: a part", "zh": ""}} for part in range(9)],
    "sets": [
        {"id": "evening", "title": {"en": "One evening", "zh": ""}, "about": {"en": "Three of them.", "zh": ""},
         "cards": ["question-07", "not-written", "question-03", "question-05"]}
    ],
    "lessons": {},
    "cards": {**{row["id"]: row for row in map(card, range(1, 13))}, "not-written": PLANNED},
}  # fmt: skip


def text(card_id: str) -> dict[str, Any]:
    row = {"name": "step", "label": "time per step", "at": "context 8,192 tokens", "measured": "4 ms", "predicted": "2 ms", "ratio": 2}
    return {
        "id": card_id,
        "direct_html": {"en": f"<p>The answer of {card_id}.</p>", "zh": f"<p>{card_id} 的答案。</p>"},
        "rubric": [{"id": item, "level": level, "html": item.replace("-", " "), "follow_up_html": None} for item, level in RUBRIC],
        "follow_ups": [{"question_html": f"Deeper {n}?", "answer_html": f"<p>Because of {n}.</p>"} for n in (1, 2, 3)],
        "mistakes_html": "<p>A mistake.</p>",
        "sections": [{"id": "going-deeper", "title": "Going deeper", "html": "<p>Depth.</p>"}],
        "measured": [
            {"record": "h200/kv-cache-by-hand", "name": "kv-cache-by-hand", "lab": "kv-cache-by-hand", "device": "NVIDIA H200",
             "date": "2026-11-29", "rows": [row]}
        ],
    }  # fmt: skip


RECORD = {
    "schema": 1,
    "id": "my-laptop/kv-cache-by-hand",
    "title": "By hand",
    "device": {"slug": "my-laptop", "name": "My laptop", "kind": "cpu"},
    "software": {"python": "3.12"},
    "git": {"commit": "0" * 40},
    "date": "2026-12-01T10:00:00+00:00",
    "command": "make labs",
    "values": {"step": {"value": 50, "unit": "ms", "predicted": 40}},
}


def serve(page: Page) -> None:
    """Answers the page's requests for cards with these."""

    def index(route: Route) -> None:
        route.fulfill(json=INDEX)

    def one(route: Route) -> None:
        route.fulfill(json=text(route.request.url.rpartition("/")[2].partition(".")[0]))

    page.context.route("**/_static/cards.json*", index)
    page.context.route("**/_static/cards/*.json*", one)


def progress(reviews: list[dict[str, Any]], **more: Any) -> str:
    """A progress file."""
    whole = {"settings": {"interview_date": None, "minutes_per_day": 30}, "settings_at": 0, "reviews": reviews, "measurements": []}
    return json.dumps({"format": "inference-lab-progress", "version": 1, **whole, **more})


def review(card_id: str, at: int, rating: int = 3, **more: Any) -> dict[str, Any]:
    return {"card": card_id, "at": at, "rating": rating, "mode": "recall", "seconds": 20, "rubric": [], "estimate": None, **more}
