"""axe finds nothing on the kinds of page that people use most, in light and dark, answers opened."""

from __future__ import annotations

import pytest

PAGES = {
    "home": "",
    "lesson": "book/part0/kv-cache.html",
    "card": "questions/part0/kv-cache-size-calculation.html",
    "lab": "labs/part0/kv-cache-by-hand.html",
    "drill": "book/drill.html",
    "measured": "book/measured.html",
    "browser": "book/cards.html?planned=1",
    "browser, searched": "book/cards.html?q=cahce&planned=1",
    "browser, nothing found": "book/cards.html?q=zzzzzz",
    "sets": "book/sets.html",
    "set": "questions/sets/first-round-ai-infra.html",
    "sheet": "book/print.html?set=last-hour&planned=1&more=1&lang=both",
    "search": "search.html?q=cahce",
}
# What a page puts there by itself, and what tells that it is there.
READY = {
    "browser": ".il-planned:visible",
    "browser, searched": ".il-hits mark",
    "browser, nothing found": ".il-nothing button",
    "sheet": ".il-sheet-answers",
    "search": "#search-results mark",
}
# Rules that are not ours to mend, with the reason. Empty: the frame of the pages is our own.
ALLOWED: dict[str, str] = {}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("kind", PAGES)
def test_axe_is_content(visit, axe, kind, dark):
    page = visit(PAGES[kind], dark=dark, reduced_motion="reduce")
    if kind in READY:
        page.locator(READY[kind]).first.wait_for()
    page.evaluate("document.querySelectorAll('main details').forEach(node => { node.open = true })")
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    violations = [
        f"{rule['id']}: {node['target']}: {node['failureSummary']}"
        for rule in found["violations"]
        if rule["id"] not in ALLOWED
        for node in rule["nodes"][:3]
    ]
    assert not violations, "\n".join(violations)
