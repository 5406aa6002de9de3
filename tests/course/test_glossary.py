"""Terms of the glossary are linked at their first use in a lesson, and only there."""

from __future__ import annotations

import pytest
from docutils import nodes

from infer_course.sphinx_ext import glossary

ITEMS = {
    ("arithmetic intensity", "算术强度"): "Operations per byte. More of it.",
    ("intensity ladder",): "Steps.",
    ("KV cache",): "Keys and values.",
    ("time to first token", "TTFT", "首 token 延迟"): "Arrival to first token.",
}


@pytest.fixture(scope="module")
def entries() -> list[glossary.Entry]:
    page = nodes.paragraph()
    for names, meaning in ITEMS.items():
        terms = [nodes.term("", name, ids=[f"term-{names[0]}-{n}"]) for n, name in enumerate(names)]
        page += nodes.definition_list("", nodes.definition_list_item("", *terms, nodes.definition("", nodes.paragraph("", meaning))))
    return glossary.entries(page)  # type: ignore[arg-type]


def linked(text: str, entries: list[glossary.Entry]) -> list[str]:
    return [piece for piece, entry in glossary.first_uses(text, *glossary.pattern(entries), used=set()) if entry]


def test_an_entry_has_all_names_and_a_note_that_begins_with_the_chinese_one(entries: list[glossary.Entry]) -> None:
    assert entries[0].names == ("arithmetic intensity", "算术强度")
    assert entries[0].note == "算术强度 · Operations per byte"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Arithmetic intensity, and arithmetic intensity again", ["Arithmetic intensity"]),
        ("KV caches, not the kv cache", ["KV caches"]),
        ("the KV cache-like thing", []),
        ("TTFT is the time to first token", ["TTFT"]),
        ("the intensity ladder and its intensity", ["intensity ladder"]),
    ],
)
def test_first_uses(text: str, found: list[str], entries: list[glossary.Entry]) -> None:
    assert linked(text, entries) == found


def test_code_titles_and_links_stay_and_the_text_is_the_same(entries: list[glossary.Entry]) -> None:
    words = nodes.paragraph("", "", nodes.literal("", "KV cache"), nodes.Text(" holds; a KV cache grows"))
    title = nodes.title("", "KV cache")
    document = nodes.section("", title, words)
    before = document.astext()
    glossary.link_terms(document, "../glossary.html", *glossary.pattern(entries))  # type: ignore[arg-type]
    (link,) = document.findall(nodes.reference)
    assert document.astext() == before
    assert (link.astext(), link["refuri"], link.parent) == ("KV cache", "../glossary.html#term-KV cache-0", words)
