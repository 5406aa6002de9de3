"""Calculators in a real browser: the page computes what the build computed, keeps its state in the address, and says what is wrong."""

from __future__ import annotations

import json
import random
import re
from urllib.parse import parse_qs, urlsplit

import pytest

from infer_course.calculators import CALCULATORS, calculator, view
from infer_course.calculators.machines import slim

HOME = "book/calculators/"
READY = "() => document.querySelector('.il-calc-out:not([aria-busy])') && document.querySelector('.il-calc-status').textContent === ''"


@pytest.fixture(scope="session")
def records(graph) -> list[dict]:
    documents = [record.model_dump(mode="json") for record in graph.measurements.values()]
    return [slim(d) for d in documents if d["id"].endswith("/limits") or d.get("cases")]


@pytest.fixture(scope="session")
def axe(root, html) -> str:
    return (root / "web" / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture
def tool(visit):
    """Opens a calculator; waits for Python where the address has a state."""

    def open_tool(name: str, query: str = "", **options):
        page = visit(f"{HOME}{name}.html{'?' + query if query else ''}", **options)
        page.set_default_timeout(60_000)
        if query and options.get("script", True):
            page.wait_for_function("() => document.querySelector('.il-calc [data-do=reset]:not([hidden]), .il-calc [aria-invalid]')")
            settled(page)
        return page

    return open_tool


def settled(page) -> None:
    page.wait_for_function("() => !document.querySelector('.il-calc-out[aria-busy]')")


def fill(page, field: str, text: str) -> None:
    """Types into a field and waits until the page has answered."""
    page.evaluate("() => document.querySelector('.il-calc-out').setAttribute('data-before', '')")
    control = page.locator(f"[data-field={field}] :is(input, select)")
    if control.evaluate("node => node.tagName") == "SELECT":
        control.select_option(text)
    else:
        control.fill(text)
    page.wait_for_function(
        """([field, text]) => !document.querySelector('.il-calc-out[aria-busy]') && (
          document.querySelector(`[data-field="${field}"] [aria-invalid]`) || new URLSearchParams(location.search).get(field) === text
          || document.querySelector(`[data-field="${field}"]`).dataset.default === text)""",
        arg=[field, text],
    )


def plain(html: str) -> str:
    return re.sub(r"\s+", " ", html).replace(' open=""', " open").replace(" open", "").strip()


def in_page(page) -> str:
    return plain(page.locator(".il-calc-out").inner_html())


def parsed(page, html: str) -> str:
    """What the browser makes of our HTML, so that two ways of writing one thing do not count as a difference."""
    return plain(page.evaluate("html => { const box = document.createElement('div'); box.innerHTML = html; return box.innerHTML }", html))


@pytest.mark.parametrize("name", CALCULATORS)
def test_the_page_shows_the_default_state_without_script_and_without_python(tool, name):
    page = tool(name, script=False)
    assert page.locator(".il-calc-answers b").first.inner_text()
    assert page.locator(".il-calc-formula").count() >= 2
    assert page.locator(".il-calc fieldset").is_disabled() and page.get_by_text("needs JavaScript").is_visible()


def random_texts(name: str, seed: int) -> dict[str, str]:
    rng, texts = random.Random(f"{name}{seed}"), {}
    for field in calculator(name).fields:
        if field.kind == "choice":
            texts[field.name] = rng.choice(field.options)[0]
        elif field.kind == "count":
            texts[field.name] = str(max(int(field.low), min(int(field.high), int(float(field.default) * rng.choice([0.5, 1, 2, 3]) + 0.5))))
    return texts


def test_the_page_computes_what_the_build_computes_in_default_and_random_states(visit, records):
    """One page, one Python, every calculator: HTML, messages and query are equal, character by character."""
    page = visit(f"{HOME}kv-cache.html")
    page.set_default_timeout(60_000)
    states = [(name, texts) for name in CALCULATORS for texts in ({}, random_texts(name, 1), random_texts(name, 2), random_texts(name, 3))]
    found = page.evaluate(
        """async ({ states, records }) => {
          const { python } = await import(document.documentElement.dataset.content_root + "_static/gen/python.mjs");
          const lab = await python();
          const views = [];
          for (const [name, texts] of states) views.push(await lab.call("infer_course.calculators", "view", { name, texts, records }));
          return views;
        }""",
        {"states": states, "records": records},
    )
    for (name, texts), got in zip(states, found, strict=True):
        assert got == json.loads(json.dumps(view(name, texts, records))), (name, texts)
    assert sum(1 for got in found if got["html"]) > len(CALCULATORS) * 2, "most states have results"


def test_the_built_page_is_the_view_of_its_default_state(tool, records):
    for name in ("kv-cache", "roofline"):
        page = tool(name)
        assert in_page(page) == parsed(page, view(name, {}, records if name == "roofline" else [], name)["html"])


def test_python_starts_at_the_first_touch_and_a_change_is_in_results_and_address(tool):
    page = tool("kv-cache")
    assert not page.workers and page.locator("[data-do=reset]").is_hidden()
    fill(page, "model", "llama-2-7b")
    assert len(page.workers) == 1
    assert page.locator(".il-calc-answers b").nth(1).inner_text() == "512 KiB"
    assert parse_qs(urlsplit(page.url).query) == {"model": ["llama-2-7b"]}
    fill(page, "tokens", "128K")
    assert page.locator("[data-field=tokens] .il-calc-said").inner_text() == "= 131,072"
    assert "Not even one request" in page.locator(".il-calc-refused").inner_text()
    assert "Not even one request" in page.locator("#il-live").inner_text()
    page.locator("[data-do=reset]").click()
    page.wait_for_function("() => location.search === '' && !document.querySelector('.il-calc-out[aria-busy]')")
    assert page.locator(".il-calc-answers b").first.inner_text() == "116"
    assert page.evaluate("document.activeElement.name") == "model"


def test_an_address_brings_its_state_back(tool):
    query = "model=custom&layers=2&heads=4&kv_heads=2&head_dim=64&tokens=1000&gpu=l4"
    page = tool("kv-cache", query)
    settled(page)
    assert page.locator("[data-field=kv_heads] input").input_value() == "2" and page.locator("[data-field=kv_heads]").is_visible()
    assert page.locator(".il-calc-answers b").nth(1).inner_text() == "1 KiB"
    assert parse_qs(urlsplit(page.url).query) == parse_qs(query)
    page.reload()
    page.wait_for_function("() => document.querySelectorAll('.il-calc-answers b')[1]?.textContent === '1 KiB'")


def test_bad_input_is_said_at_its_field_and_the_last_results_stay(tool):
    page = tool("queueing")
    fill(page, "rate", "many")
    entry = page.locator("[data-field=rate] input")
    assert entry.get_attribute("aria-invalid") == "true"
    said = page.locator("[data-field=rate] .il-calc-said")
    assert "write a number, in requests a second" in said.inner_text()
    assert said.get_attribute("id") in entry.get_attribute("aria-describedby").split()
    assert page.locator(".il-calc-out.is-old .il-calc-answers").is_visible() and "rate" not in page.url
    fill(page, "rate", "4")
    assert entry.get_attribute("aria-invalid") is None and page.locator(".il-calc-out.is-old").count() == 0
    assert page.locator(".il-calc-answers b").nth(1).inner_text() == "50%"


def test_an_address_from_a_stranger_cannot_bring_markup_in(tool):
    page = tool("kv-cache", "tokens=%3Cimg+src%3Dx+onerror%3D%22document.title%3D1%22%3E&model=%3Cb%3E&no-such-field=1")
    assert page.locator("[data-field=tokens] .il-calc-said").inner_text().startswith("write a number")
    assert page.locator("[data-field=model] select").input_value() == "llama-3-8b"
    assert page.locator(".il-calc img").count() == 0 and page.title() != "1"


def test_the_readers_own_machine_is_on_the_roofline(tool, root):
    page = tool("roofline")
    limits = json.loads((root / "measurements" / "h200" / "limits.json").read_text())
    mine = {**limits, "id": "mine/limits", "device": {**limits["device"], "slug": "mine", "name": "My card"}}
    kept = {"format": "inference-lab-progress", "version": 1, "settings": {}, "reviews": [], "measurements": [mine, {"broken": True}]}
    page.evaluate("text => localStorage.setItem('il:progress', text)", json.dumps(kept))
    fill(page, "batch", "64")
    assert "yours" in page.locator(".il-calc-plot .il-plot--wide").inner_text()
    assert "My card" in page.locator(".il-calc-plot figcaption").inner_text()


def test_everything_can_be_reached_and_changed_from_the_keyboard(tool):
    page = tool("speculation")
    page.locator("[data-field=acceptance] input").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "k"
    page.keyboard.press("Control+a")
    page.keyboard.type("2")
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.search === '?k=2'")
    settled(page)
    assert "2 drafted tokens" in page.locator(".il-calc-verdict").inner_text()
    assert page.evaluate("document.activeElement.name") == "k", "the focus stays where one types"


def test_without_python_the_page_says_so_and_trying_again_works(tool, visit):
    page = tool("capacity")
    page.route("**/vendor/python/infer.zip", lambda route: route.abort())
    page.locator("[data-field=rate] input").fill("50")
    again = page.get_by_role("button", name="Try again")
    again.wait_for()
    assert "could not be started" in page.locator(".il-calc-status").inner_text()
    assert page.locator(".il-calc-answers").is_visible()
    page.unroute("**/vendor/python/infer.zip")
    again.click()
    page.wait_for_function("() => location.search === '?rate=50'")
    visit.complaints[:] = [said for said in visit.complaints if "ERR_FAILED" not in said]


def test_a_lesson_has_it_inside_with_a_link_that_carries_the_state(visit):
    page = visit("book/part0/kv-cache.html")
    page.set_default_timeout(60_000)
    address = page.url
    page.locator(".il-calc [data-field=tokens] input").fill("1024")
    page.wait_for_function("() => document.querySelector('.il-calc-title a').href.endsWith('kv-cache.html?tokens=1024')")
    assert page.url == address, "the lesson keeps its own address"
    page.locator(".il-calc-title a").click()
    page.wait_for_url("**/calculators/kv-cache.html?tokens=1024")


def test_the_list_leads_to_each(visit):
    page = visit(f"{HOME}index.html")
    links = page.locator(".il-calc-index a").evaluate_all("nodes => nodes.map(node => node.getAttribute('href'))")
    assert links == [f"{name}.html" for name in CALCULATORS]


@pytest.mark.parametrize("name", CALCULATORS)
def test_nothing_is_wider_than_a_phone(tool, name):
    page = tool(name, narrow=True)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator(".il-calc-bar").is_visible(), "the first result stays in sight beside the fields"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["index", *CALCULATORS])
def test_axe_is_content(visit, axe, name, dark):
    page = visit(f"{HOME}{name}.html", dark=dark, reduced_motion="reduce")
    page.evaluate("document.querySelectorAll('main details').forEach(node => { node.open = true })")
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    assert not [f"{rule['id']}: {node['target']}: {node['failureSummary']}" for rule in found["violations"] for node in rule["nodes"][:3]]
