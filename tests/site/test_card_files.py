"""The data files beside the pages: every card has its HTML, every address in them leads somewhere, nothing else came along."""

import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from infer_course.graph import Graph

PAGE_ONLY = ("<script", "thebe", "headerlink", "il-rubric-item")


@pytest.fixture(scope="session")
def index(html: Path) -> dict:
    return json.loads((html / "_static/cards.json").read_text(encoding="utf-8"))


def fragments(html: Path, card_id: str) -> dict:
    return json.loads((html / f"_static/cards/{card_id}.json").read_text(encoding="utf-8"))


def leads_somewhere(html: Path, address: str) -> bool:
    if address.startswith(("https://", "http://")):
        return True
    parts = urlsplit(address)
    path, anchor = parts.path, parts.fragment
    file = html / path
    return file.is_file() and (not anchor or f'id="{anchor}"' in file.read_text(encoding="utf-8"))


def test_every_written_card_has_its_own_file_and_no_other_is_there(html: Path, graph: Graph) -> None:
    assert {path.stem for path in (html / "_static/cards").glob("*.json")} == set(graph.cards)


def test_addresses_lead_somewhere_from_the_root_of_the_site(html: Path, index: dict, graph: Graph) -> None:
    found = set(re.findall(r'"url":\s*"([^"]+)"', json.dumps(index)))
    for card_id in graph.cards:
        text = json.dumps(fragments(html, card_id), ensure_ascii=False)
        found |= set(re.findall(r'(?:href|src)=\\"([^"\\]+)\\"', text))
    assert len(found) > 5
    assert [address for address in sorted(found) if not leads_somewhere(html, address)] == []


def test_a_fragment_is_what_the_page_shows_without_what_belongs_to_the_page(html: Path, graph: Graph) -> None:
    for card in graph.cards.values():
        data = fragments(html, card.id)
        page = (html / "questions" / f"part{card.part}" / f"{card.id}.html").read_text(encoding="utf-8")
        assert data["direct_html"]["en"] in page
        assert [item["id"] for item in data["rubric"]] == [item.id for item in card.rubric]
        assert [bool(item["follow_up_html"]) for item in data["rubric"]] == [bool(item.follow_up) for item in card.rubric]
        assert len(data["follow_ups"]) == len(card.follow_up_questions)
        assert all(asked["question_html"] and asked["answer_html"] for asked in data["follow_ups"])
        assert all(item["html"] in page for item in data["rubric"])
        said = json.dumps(data)
        assert [mark for mark in PAGE_ONLY if json.dumps(mark)[1:-1] in said] == []


def test_records_stand_with_prediction_and_measurement(html: Path, graph: Graph) -> None:
    records = json.loads((html / "_static/records.json").read_text(encoding="utf-8"))
    assert set(records) == set(graph.measurements)
    cached = next(row for row in records["h200/kv-cache-by-hand"]["rows"] if row["name"] == "cached")
    assert cached["predicted"] and cached["measured"] and cached["ratio"] > 0
