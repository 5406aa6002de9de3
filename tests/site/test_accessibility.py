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
}
# Rules that are not ours to mend, with the reason. Empty: the frame of the pages is our own.
ALLOWED: dict[str, str] = {}


@pytest.fixture(scope="session")
def axe(root, html) -> str:
    return (root / "web" / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("kind", PAGES)
def test_axe_is_content(visit, axe, kind, dark):
    page = visit(PAGES[kind], dark=dark, reduced_motion="reduce")
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
