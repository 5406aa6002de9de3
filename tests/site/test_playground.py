"""The scheduler playground as a reader uses it: step, play, scrub, compare, change, share; what runs in the page is what runs here."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, expect

from infer_lab.sim.playground import play
from infer_lab.sim.prepared import DEFAULT, PREPARED

PLACE = "book/playground.html"
A_RUN_MS = 60_000
"""Python may have to start first, on a busy machine."""


@pytest.fixture
def playground(visit):
    """`playground("?scenario=thrash")` opens it and waits for the run."""

    def open_it(query: str = "", **options) -> Page:
        page = visit(PLACE + query, **options)
        expect(page.locator("#pg")).to_have_attribute("data-hash", re.compile("."))
        return page

    return open_it


def slider(page: Page):
    return page.get_by_role("slider", name="Step")


def where(page: Page) -> str:
    return slider(page).get_attribute("aria-valuetext") or ""


def test_without_script_one_run_is_drawn_with_its_figures(visit):
    page = visit(PLACE, script=False)
    expect(page.locator("#pg-title")).to_have_text(PREPARED[DEFAULT].title)
    assert page.locator(".pg-lane path").count() > 20
    row = next(row for row in play(PREPARED[DEFAULT].spec)["figures"] if row["key"] == "itl_max")
    expect(page.locator("#pg-figures tr", has_text=row["label"])).to_contain_text(row["values"][0])
    expect(page.locator("#pg-watch")).to_contain_text(row["change"])


@pytest.mark.parametrize("scenario_id", PREPARED)
def test_the_file_of_a_scenario_is_what_python_gives(html, scenario_id):
    kept = json.loads((html / "_static" / "playground" / f"{scenario_id}.json").read_text(encoding="utf-8"))
    assert kept["hash"] == play(PREPARED[scenario_id].spec)["hash"] and kept["title"] == PREPARED[scenario_id].title


def test_every_scenario_opens_at_its_moment_and_says_what_to_see(playground):
    page = playground()
    for scenario in PREPARED.values():
        page.locator(f".pg-pick a[data-scenario='{scenario.id}']").click()
        expect(page.locator("#pg-title")).to_have_text(scenario.title)
        expect(page.locator("#pg-see")).to_have_text(scenario.see)
        expect(page.locator(".pg-panel")).to_have_count(2)
        assert page.locator(".pg-now").first.inner_text().startswith("At ")
    page.go_back()
    expect(page.locator("#pg-title")).to_have_text(list(PREPARED.values())[-2].title)


def test_the_cursor_moves_by_keyboard_alone(playground):
    page = playground("?scenario=thrash&at=0")
    slider(page).focus()
    assert "A step 1 of" in where(page)
    page.keyboard.press("ArrowRight")
    assert "A step 2 of" in where(page) or "B step 2 of" in where(page)
    page.keyboard.press("End")
    assert where(page).endswith("A done, B done")
    page.keyboard.press("Home")
    assert "A step 1 of" in where(page)
    page.get_by_role("button", name="Step forward").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Step back").focus()
    page.keyboard.press("Enter")
    assert where(page).startswith(page.locator(".pg-clock").inner_text())


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_playing_goes_on_until_it_is_paused(playground, motion):
    page = playground("?scenario=four-answers-one-prompt&at=0", reduced_motion=motion)
    before = where(page)
    page.get_by_role("button", name="Play").click()
    expect(slider(page)).not_to_have_attribute("aria-valuetext", before)
    page.get_by_role("button", name="Pause").click()
    held = where(page)
    page.get_by_role("button", name="Step forward").click()
    assert where(page) != held
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_a_click_on_the_run_goes_there_and_the_step_is_told(playground):
    page = playground("?scenario=long-prefill-stalls-decode")
    panel = page.locator(".pg-panel").first
    expect(panel).to_contain_text("I computes prompt positions 0 to 5,999")
    expect(panel).to_contain_text("236 of 255 blocks held")
    assert panel.locator(".pg-block--prefill", has_text="I").count() == 188
    lane = page.locator(".pg-side").first.locator(".pg-lane").first
    box = lane.bounding_box()
    assert box is not None
    lane.click(position={"x": 4, "y": box["height"] / 2})
    expect(panel).to_contain_text("A computes prompt positions 0 to 149")
    lane.hover(position={"x": box["width"] / 2, "y": box["height"] / 2})
    expect(page.locator(".pg-now").first).to_contain_text("A, chat 1, step")


def test_a_picked_request_is_followed_in_both_engines(playground):
    page = playground("?scenario=shared-system-prompt")
    name = page.get_by_role("button", name="C chat 3").first
    name.focus()
    page.keyboard.press("Enter")
    expect(name).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".pg-picked:visible")).to_have_count(2)
    expect(page.locator(".pg-picked").last).to_contain_text("C, chat 3: 1,120 prompt and 30 output tokens")
    assert page.locator(".pg-block.is-picked").count() > 30
    page.keyboard.press("Enter")
    expect(page.locator(".pg-picked:visible")).to_have_count(0)


def test_tables_say_the_same_as_the_drawing(playground):
    page = playground("?scenario=thrash")
    spec = play(PREPARED["thrash"].spec)
    page.get_by_text("All 8 requests as a table").click()
    rows = page.get_by_role("group", name="Every request").locator("tbody tr")
    expect(rows).to_have_count(16)
    page.locator("summary", has_text="steps of A").click()
    expect(page.get_by_role("group", name="Every step of A, admit by chunk").locator("tbody tr")).to_have_count(
        len(spec["sides"][0]["steps"]) - 1
    )


def test_a_link_with_settings_runs_them_in_the_page_as_they_run_here(playground):
    page = playground("?scenario=swap-or-recompute&t0.count=7&rows=2&t1.name=late&t1.start_ms=50&m.gpu=l4&o.ttft_ms=900&at=1500")
    expect(page.locator("#pg-status")).to_contain_text("Ran in this page", timeout=A_RUN_MS)
    (row,) = PREPARED["swap-or-recompute"].spec["traffic"]
    here = {
        **PREPARED["swap-or-recompute"].spec,
        "traffic": [{**row, "count": 7}, {"name": "late", "start_ms": 50}],
        "machine": {"gpu": "l4"},
        "objective": {"ttft_ms": 900, "tpot_ms": 8},
    }
    expect(page.locator("#pg")).to_have_attribute("data-hash", play(here)["hash"])
    expect(page.locator("#pg-title")).to_contain_text("with your settings")
    expect(page.get_by_label("Name, row 2")).to_have_value("late")
    expect(page.locator("#pg-cost")).to_contain_text("L4 24 GB")
    for said in ("t0.count=7", "rows=2", "t1.name=late", "m.gpu=l4", "o.ttft_ms=900"):
        assert said in page.url
    assert "a." not in page.url.partition("?")[2]

    page.get_by_role("button", name="Back to the scenario").click()
    expect(page.locator("#pg-title")).to_have_text(PREPARED["swap-or-recompute"].title)
    assert page.url.partition("?")[2].startswith("scenario=swap-or-recompute") and "rows" not in page.url
    page.get_by_role("button", name="Run it here").click()
    expect(page.locator("#pg-status")).to_contain_text("Equal to the run that was made with the site.", timeout=A_RUN_MS)
    expect(page.locator("#pg")).to_have_attribute("data-hash", play(PREPARED["swap-or-recompute"].spec)["hash"])
    expect(page.locator("#pg-title")).to_be_in_viewport()

    page.get_by_label("KV pool, B").fill("40")
    page.keyboard.press("Enter")
    expect(page.locator(".pg-refused").first).to_have_text("refused", timeout=A_RUN_MS)
    expect(page).to_have_url(re.compile(r"b\.num_blocks=40"))
    page.get_by_label("Token budget, A").fill("2")
    page.keyboard.press("Enter")
    expect(page.locator("#pg-status")).to_contain_text("max_num_batched_tokens (2) must be at least max_num_seqs (8)", timeout=A_RUN_MS)
    expect(page.locator(".pg-said")).to_be_in_viewport()

    page.get_by_label("compare two").uncheck()
    page.get_by_label("Token budget, A").fill("512")
    page.keyboard.press("Enter")
    expect(page.locator(".pg-side")).to_have_count(1, timeout=A_RUN_MS)
    expect(page).to_have_url(re.compile("sides=1"))


def test_an_unknown_scenario_says_so_and_shows_another(playground):
    page = playground("?scenario=trash")
    expect(page.locator("#pg-status")).to_have_text("There is no scenario “trash”; this is the first one.")


def test_an_address_with_a_mistyped_setting_says_so(playground):
    page = playground("?scenario=watermark&a.num_block=40")
    expect(page.locator("#pg-status")).to_have_text("The address names what does not exist here: a.num_block.")
    expect(page.locator("#pg-title")).to_have_text(PREPARED["watermark"].title)


def test_a_run_that_cannot_be_loaded_says_what_to_do(visit):
    page = visit(PLACE)
    page.route("**/playground/thrash.json", lambda route: route.abort())
    page.locator(".pg-pick a[data-scenario='thrash']").click()
    expect(page.locator("#pg-status")).to_contain_text("no connection to the site. Choose the run again")
    page.unroute("**/playground/thrash.json")
    page.locator(".pg-pick a[data-scenario='thrash']").click()
    expect(page.locator("#pg-title")).to_have_text(PREPARED["thrash"].title)
    visit.complaints[:] = [said for said in visit.complaints if "ERR_FAILED" not in said]


def test_it_fits_a_narrow_window_and_can_be_made_wider_inside(playground):
    page = playground("?scenario=priority-and-aging", narrow=True)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.get_by_label("Zoom").select_option("4")
    first, second = page.locator(".pg-scroll").all()
    slider(page).focus()
    page.keyboard.press("End")
    expect(page.locator(".pg-clock")).not_to_have_text("0.0 ms")
    assert first.evaluate("node => node.scrollLeft") > 100
    page.wait_for_function("[...document.querySelectorAll('.pg-scroll')].every((node, _, all) => node.scrollLeft === all[0].scrollLeft)")
    assert second.is_visible() and page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("options", [{}, {"dark": True}, {"narrow": True}], ids=["light", "dark", "narrow"])
def test_axe_finds_nothing(playground, root, options):
    page = playground("?scenario=four-answers-one-prompt", reduced_motion="reduce", **options)
    page.locator(".pg-name[data-request='2']").first.click()
    page.get_by_label("Zoom").select_option("4")
    page.evaluate("document.querySelectorAll('main details').forEach(node => { node.open = true })")
    page.evaluate((root / "web" / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    assert not [f"{rule['id']}: {node['target']}: {node['failureSummary']}" for rule in found["violations"] for node in rule["nodes"][:3]]


def test_the_engine_page_links_to_a_scenario(visit):
    page = visit("book/engine.html")
    page.get_by_role("link", name=PREPARED["token-budget"].title).click()
    expect(page.locator("#pg-title")).to_have_text(PREPARED["token-budget"].title)
