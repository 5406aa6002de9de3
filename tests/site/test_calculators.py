"""Calculators in a real browser: the page computes what the build computed, keeps its state in the address, and says what is wrong."""

from __future__ import annotations

import json
import random
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from infer_course.calculators import CALCULATORS, calculator, view
from infer_course.calculators.machines import slim

HOME = "book/calculators/"


@pytest.fixture(scope="session")
def records(graph) -> list[dict]:
    documents = [record.model_dump(mode="json") for record in graph.measurements.values()]
    return [slim(d) for d in documents if d["id"].endswith("/limits") or d.get("cases")]


@pytest.fixture(scope="session")
def axe(root, html) -> str:
    return (root / "web" / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def opened(visit, name: str, query: str = "", **options):
    page = visit(f"{HOME}{name}.html{'?' + query if query else ''}", **options)
    page.set_default_timeout(90_000)  # Python starts in seconds, in more where much else runs
    return page


def settled(page) -> None:
    page.wait_for_function("() => !document.querySelector('.il-calc-out[aria-busy]')")


def fill(page, field: str, text: str, wrong: bool = False) -> None:
    """Types into a field and waits for what the page makes of it: the value in the address, or a message at the field."""
    control = page.locator(f"[data-field={field}] :is(input, select)")
    if control.evaluate("node => node.tagName") == "SELECT":
        control.select_option(text)
    else:
        control.fill(text)
    page.wait_for_function(
        """([field, text, wrong]) => wrong ? document.querySelector(`[data-field="${field}"] [aria-invalid]`)
          : new URLSearchParams(location.search).get(field) === text""",
        arg=[field, text, wrong],
    )
    settled(page)


def plain(html: str) -> str:
    """Without what opening and closing a fold leaves behind."""
    return re.sub(r"\s+", " ", html.replace(' open=""', "")).strip()


def in_page(page) -> str:
    return plain(page.locator(".il-calc-out").inner_html())


def parsed(page, html: str) -> str:
    """What the browser makes of our HTML, so that two ways of writing one thing do not count as a difference."""
    return plain(page.evaluate("html => { const box = document.createElement('div'); box.innerHTML = html; return box.innerHTML }", html))


@pytest.mark.parametrize("name", CALCULATORS)
def test_the_page_shows_the_default_state_without_script_and_without_python(visit, name):
    page = opened(visit, name, script=False)
    assert page.locator(".il-calc-answers b").first.inner_text()
    assert page.locator(".il-calc-formula").count() >= 2
    assert page.locator(".il-calculator :is(input, select)").first.is_disabled() and page.get_by_text("needs JavaScript").is_visible()


def random_texts(name: str, seed: int) -> dict[str, str]:
    rng, texts = random.Random(f"{name}{seed}"), {}
    for field in calculator(name).fields:
        if field.kind == "choice":
            texts[field.name] = rng.choice(field.options)[0]
        elif field.kind == "count":
            texts[field.name] = str(max(int(field.low), min(int(field.high), int(float(field.default) * rng.choice([0.5, 1, 2, 3]) + 0.5))))
    return texts


def test_the_page_computes_what_the_build_computes_and_the_readers_own_machine_is_on_the_roofline(visit, records, root):
    """One page, one Python, every calculator: HTML, messages and query are equal, character by character."""
    page = opened(visit, "roofline")
    assert in_page(page) == parsed(page, view("roofline", {}, records, "roofline")["html"])
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

    limits = json.loads((root / "measurements" / "h200" / "limits.json").read_text())
    mine = {**limits, "id": "mine/limits", "device": {**limits["device"], "slug": "mine", "name": "My card"}}
    kept = {"format": "inference-lab-progress", "version": 1, "settings": {}, "reviews": [], "measurements": [mine, {"broken": True}]}
    page.evaluate("text => localStorage.setItem('il:progress', text)", json.dumps(kept))
    fill(page, "batch", "64")
    assert "yours" in page.locator(".il-calc-plot .il-plot--wide").text_content()
    assert "My card" in page.locator(".il-calc-plot figcaption").inner_text()
    assert len(page.workers) == 1


def test_python_starts_at_the_first_touch_and_a_change_is_in_results_and_address(visit):
    page = opened(visit, "kv-cache")
    assert not page.workers and page.locator("[data-do=reset]").is_hidden()
    fill(page, "model", "llama-2-7b")
    assert len(page.workers) == 1
    assert page.locator(".il-calc-answers b").nth(1).inner_text() == "512 KiB"
    assert parse_qs(urlsplit(page.url).query) == {"model": ["llama-2-7b"]}

    fill(page, "tokens", "128K")
    assert page.locator("[data-field=tokens] .il-calc-said").inner_text() == "= 131,072"
    for place in (".il-calc-refused", "#il-live"):
        assert "Not even one request" in page.locator(place).inner_text()

    fill(page, "tokens", "many", wrong=True)
    entry, said = page.locator("[data-field=tokens] input"), page.locator("[data-field=tokens] .il-calc-said")
    assert entry.get_attribute("aria-invalid") == "true" and "write a number" in said.inner_text()
    assert said.get_attribute("id") in entry.get_attribute("aria-describedby").split()
    assert page.locator(".il-calc-out.is-old .il-calc-answers").is_visible(), "the last results stay, marked as such"
    assert "many" not in page.url

    page.locator("[data-field=model] select").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "tokens", "fields follow each other, those not asked for left out"
    page.keyboard.press("Control+a")
    page.keyboard.type("1000")
    page.keyboard.press("Enter")
    page.wait_for_function("() => new URLSearchParams(location.search).get('tokens') === '1000'")
    settled(page)
    assert entry.get_attribute("aria-invalid") is None and page.locator(".il-calc-out.is-old").count() == 0
    assert page.evaluate("document.activeElement.name") == "tokens", "the focus stays where one types"

    page.locator("[data-do=reset]").click()
    page.wait_for_function("() => location.search === ''")
    assert page.locator(".il-calc-answers b").first.inner_text() == "116"
    assert page.evaluate("document.activeElement.name") == "model"


def test_an_address_brings_its_state_back_and_a_strangers_no_markup(visit):
    own = "model=custom&layers=2&heads=4&kv_heads=2&head_dim=64&tokens=1000"
    page = opened(visit, "kv-cache", f"{own}&gpu=%3Cb%3E&util=%3Cimg+src%3Dx+onerror%3D%22document.title%3D1%22%3E&no-such-field=1")
    page.wait_for_function("() => document.querySelector('[data-field=util] [aria-invalid]')")
    assert page.locator("[data-field=util] .il-calc-said").inner_text().startswith("write a number")
    assert page.locator("[data-field=util]").is_visible(), "a marked field is unfolded"
    assert page.locator("[data-field=gpu] select").input_value() == "h100_80gb"
    assert page.locator(".il-calculator img").count() == 0 and page.title() != "1"
    fill(page, "util", "0.5")
    assert page.locator(".il-calc-status").inner_text() == ""
    assert page.locator("[data-field=kv_heads] input").input_value() == "2" and page.locator("[data-field=kv_heads]").is_visible()
    assert page.locator(".il-calc-answers b").nth(1).inner_text() == "1 KiB"
    assert parse_qs(urlsplit(page.url).query) == parse_qs(f"{own}&util=0.5")


def test_an_address_that_asks_for_a_choice_that_is_not_there_is_told_so(visit):
    page = opened(visit, "kv-cache", "model=llama-9&tokens=1000")
    expect(page.locator(".il-calc-status")).to_contain_text("model “llama-9”", timeout=90_000)
    assert parse_qs(urlsplit(page.url).query) == {"tokens": ["1000"]}


def test_without_python_the_page_says_so_and_trying_again_works(visit):
    page = opened(visit, "capacity")
    page.route("**/gen/python-worker.mjs", lambda route: route.abort())
    page.locator("[data-field=rate] input").fill("50")
    again = page.get_by_role("button", name="Try again")
    again.wait_for()
    assert "could not be started" in page.locator(".il-calc-status").inner_text()
    assert page.locator(".il-calc-answers").is_visible()
    page.unroute("**/gen/python-worker.mjs")
    again.click()
    page.wait_for_function("() => location.search === '?rate=50'")
    visit.complaints[:] = [said for said in visit.complaints if "ERR_FAILED" not in said]


def test_a_lesson_has_it_inside_with_a_link_that_carries_the_state(visit):
    page = visit("book/part0/kv-cache.html")
    page.set_default_timeout(90_000)
    address = page.url
    page.locator(".il-calculator [data-field=tokens] input").fill("1024")
    page.wait_for_function("() => document.querySelector('.il-calc-title a').href.endsWith('/calculators/kv-cache.html?tokens=1024')")
    assert page.url == address, "the lesson keeps its own address"


def test_the_list_leads_to_each(visit):
    page = visit(f"{HOME}index.html")
    links = page.locator(".il-calc-index a").evaluate_all("nodes => nodes.map(node => node.getAttribute('href'))")
    assert links == [f"{name}.html" for name in CALCULATORS]


@pytest.mark.parametrize("name", CALCULATORS)
def test_nothing_is_wider_than_a_phone(visit, name):
    page = opened(visit, name, narrow=True)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator(".il-calc-bar").is_visible(), "the first result stays in sight beside the fields"


@pytest.mark.parametrize(
    ("name", "dark"), [*((name, False) for name in ("index", *CALCULATORS)), ("roofline", True), ("quantization", True)]
)
def test_axe_is_content(visit, axe, name, dark):
    page = visit(f"{HOME}{name}.html", dark=dark, reduced_motion="reduce")
    page.evaluate("document.querySelectorAll('main details').forEach(node => { node.open = true })")
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    assert not [f"{rule['id']}: {node['target']}: {node['failureSummary']}" for rule in found["violations"] for node in rule["nodes"][:3]]
