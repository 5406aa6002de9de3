"""The reader's progress in a real browser: files out and in, two tabs, full storage, records of their own, plan and figures, no server."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from infer_course.web_server import open_server
from tests.site import drill_cards
from tests.site.drill_cards import PAGE, RECORD, progress, review

DAY = 86_400_000
NOON = 1_796_126_400_000  # 2026-12-01 12:00 UTC
FULL = "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError') }"
FORBIDDEN = "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('no', 'SecurityError') } })"
SEEN = [
    review("question-01", NOON - 9 * DAY),
    review("question-01", NOON - 5 * DAY, 1, rubric=["names-it"]),
    review("question-02", NOON - DAY),
]


def stored(text: str) -> str:
    """A script that puts a progress file where the page keeps it, unless something is there."""
    return f"localStorage.getItem('il:progress') ?? localStorage.setItem('il:progress', {json.dumps(text)})"


def kept(page: Page) -> dict:
    return json.loads(page.evaluate("localStorage.getItem('il:progress')"))


def give(page: Page, name: str, text: str) -> None:
    page.locator("#dr-file").set_input_files({"name": name, "mimeType": "application/json", "buffer": text.encode()})


def drop(page: Page, name: str, text: str) -> None:
    page.evaluate(
        """([name, text]) => {
          const held = new DataTransfer();
          held.items.add(new File([text], name, { type: "application/json" }));
          const about = { dataTransfer: held, bubbles: true, cancelable: true };
          for (const kind of ["dragover", "drop"]) document.body.dispatchEvent(new DragEvent(kind, about));
        }""",
        [name, text],
    )


def export(page: Page) -> str:
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    assert download.value.suggested_filename.startswith("inference-lab-progress-20")
    return Path(download.value.path()).read_text(encoding="utf-8")


def test_export_clear_import_gives_the_same_progress(drill):
    page = drill("#settings", before=stored(progress(SEEN, notes={"mine": 1})))
    before = kept(page)
    text = export(page)
    page.get_by_role("button", name="Delete all progress").click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save a file, then delete").click()
    assert Path(saved.value.path()).read_text(encoding="utf-8") == text
    expect(page.locator(".dr-notice")).to_contain_text("All progress is deleted here")
    assert kept(page)["reviews"] == []
    give(page, "progress.json", text)
    expect(page.locator(".dr-notice")).to_contain_text("Merged: 3 new reviews")
    after = kept(page)
    assert after["reviews"] == before["reviews"]
    assert after["notes"] == {"mine": 1}


def test_two_files_merge_and_nothing_is_lost(drill):
    page = drill("#settings", before=stored(progress(SEEN[:2])))
    give(page, "other.json", progress([SEEN[1], SEEN[2], review("question-gone", NOON - 3 * DAY)]))
    said = page.locator(".dr-notice")
    expect(said).to_contain_text("2 new reviews, 1 known before")
    expect(said).to_contain_text("1 review of cards that this site does not have")
    assert [(done["card"], done["at"]) for done in kept(page)["reviews"]] == [
        ("question-01", NOON - 9 * DAY),
        ("question-01", NOON - 5 * DAY),
        ("question-gone", NOON - 3 * DAY),
        ("question-02", NOON - DAY),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "it is no JSON"),
        ('{"some": "file"}', "not a progress file"),
        (progress([], version=2), "has version 2"),
        (progress([review("question-01", NOON, 7)]), "rating must be 1, 2, 3 or 4"),
    ],
    ids=["broken", "another", "newer", "wrong"],
)
def test_a_file_that_cannot_be_read_changes_nothing(drill, text, says):
    page = drill("#settings", before=stored(progress(SEEN)))
    before = kept(page)
    give(page, "mine.json", text)
    expect(page.locator(".dr-notice")).to_contain_text(says)
    expect(page.locator(".dr-notice")).to_contain_text("mine.json")
    assert kept(page) == before


def test_a_dropped_record_puts_your_numbers_beside_ours(drill):
    page = drill()
    drop(page, "kv-cache-by-hand.json", json.dumps(RECORD))
    expect(page.locator(".dr-notice")).to_contain_text("your numbers stand beside ours on 12 questions")
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    table = page.locator(".il-yours table")
    expect(table.locator("thead th")).to_have_text(["What", "predicted", "yours", "ours"])
    row = table.locator("tbody tr").first
    expect(row.locator("td")).to_contain_text(["40 ms", "50 ms", "4 ms"])
    expect(table.locator("caption")).to_contain_text("My laptop, 2026-12-01")
    assert kept(page)["measurements"] == [RECORD]


def test_a_lesson_shows_your_numbers_too(visit, address, graph):
    page = visit()
    own = {**RECORD, "values": {"kv_bytes_per_token": {"value": 23040, "unit": "B"}, "speedup_512": {"value": 3.25, "unit": "x"}}}
    page.evaluate("text => localStorage.setItem('il:progress', text)", progress([], measurements=[own]))
    for where in ("book/part0/kv-cache.html", "questions/part0/kv-cache-size-calculation.html"):
        page.goto(address + where)
        box = page.locator("details.il-yours").first
        box.locator("summary").click()
        expect(box.locator("tr", has_text="kv bytes per token").locator("td")).to_contain_text(["", "23,040 B", "23,040 B"])
    page.evaluate("localStorage.clear()")
    page.reload()
    expect(page.locator("h1")).to_be_visible()
    expect(page.locator("details.il-yours")).to_have_count(0)


def test_two_tabs_keep_each_others_reviews(drill, address):
    one = drill("?card=question-01")
    other = one.context.new_page()
    other.goto(address + PAGE + "?card=question-02")
    for page in (one, other):
        expect(page.locator(".dr-q")).to_be_visible()
        page.keyboard.press("Space")
        expect(page.locator(".dr-direct")).to_be_visible()
    one.keyboard.press("3")
    expect(one.locator(".dr-end-title")).to_be_visible()
    other.keyboard.press("4")
    expect(other.locator(".dr-end-title")).to_be_visible()
    assert sorted(done["card"] for done in kept(one)["reviews"]) == ["question-01", "question-02"]
    one.goto(address + PAGE + "#progress")
    other.evaluate("localStorage.removeItem('il:progress')")
    expect(one.locator(".dr-progress")).to_contain_text("Nothing yet")


@pytest.mark.parametrize(
    ("script", "says"), [(FULL, "storage for this site is full"), (FORBIDDEN, "keeps nothing for this page")], ids=["full", "forbidden"]
)
def test_storage_that_is_full_or_forbidden_is_said_and_the_drill_goes_on(drill, visit, script, says):
    page = drill("?set=evening", before=script)
    page.keyboard.press("Enter")
    for _ in range(3):
        page.keyboard.press("Space")
        expect(page.locator(".dr-direct")).to_be_visible()
        page.keyboard.press("3")
        expect(page.locator(".dr-direct")).to_have_count(0)
    expect(page.locator(".dr-end-title")).to_have_text("3 questions answered")
    expect(page.get_by_role("alert")).to_contain_text(says)
    page.get_by_role("link", name="Settings").click()
    assert len(json.loads(export(page))["reviews"]) == 3
    visit.complaints[:] = [
        said for said in visit.complaints if said != "error: no"
    ]  # the builder's own highlighter does not mind its errors


def test_progress_of_a_newer_version_is_left_as_it_is(drill):
    newer = progress(SEEN, version=9)
    page = drill("?card=question-03", before=stored(newer))
    page.keyboard.press("Space")
    page.keyboard.press("3")
    expect(page.get_by_role("alert")).to_contain_text("newer version")
    assert page.evaluate("localStorage.getItem('il:progress')") == newer


def test_what_cannot_be_read_is_set_aside_and_can_be_saved(drill):
    page = drill(before="localStorage.setItem('il:progress', localStorage.getItem('il:progress') ?? '{broken')")
    expect(page.get_by_role("alert")).to_contain_text("set aside")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save it").click()
    assert Path(download.value.path()).read_text(encoding="utf-8") == "{broken"


def test_an_interview_date_becomes_a_plan_that_says_when_it_does_not_fit(drill):
    page = drill(timezone_id="UTC")
    page.clock.set_fixed_time("2026-12-01T12:00:00Z")
    page.reload()
    page.get_by_label("When is your interview?").fill("2026-12-20")
    line = page.locator(".dr-plan-line")
    expect(line).to_contain_text("Interview on 2026-12-20. 19 days, 30 minutes a day: all 12 new questions fit")
    page.get_by_role("link", name="Change").click()
    page.get_by_label("Day of the interview").fill("2026-12-03")
    page.get_by_label("Minutes a day").fill("10")
    page.get_by_label("Minutes a day").press("Tab")
    expect(line).to_contain_text("it does not all fit")
    expect(line).to_contain_text("minutes a day would fit it all")
    assert kept(page)["settings"] == {"interview_date": "2026-12-03", "minutes_per_day": 10}


def test_the_figures_are_counts_that_can_be_checked(drill):
    page = drill(before=stored(progress(SEEN)), timezone_id="UTC")
    page.clock.set_fixed_time("2026-12-01T12:00:00Z")
    page.goto(page.url + "#progress")
    page.reload()
    screen = page.locator(".dr-progress")
    expect(screen).to_contain_text("2 of 12 written questions seen, 0 solid")
    expect(screen).to_contain_text("0 of 1 (0 %) over all time")
    expect(screen).to_contain_text("Below thirty answers this says little")
    expect(screen.locator(".dr-weak > li")).to_have_count(1)
    expect(screen.locator(".dr-weak > li")).to_contain_text("says why missing in 1 of 1")
    expect(screen.locator(".dr-forecast li").first).to_contain_text("1")
    screen.get_by_role("link", name="odd 1/1").click()
    expect(page).to_have_url(re.compile("tag=odd"))
    expect(page.locator(".dr-figure").first).to_have_text("1 due")


def test_due_questions_come_first_and_tomorrow_is_said(drill):
    page = drill("?part=0", before=stored(progress(SEEN)), timezone_id="UTC")
    page.clock.set_fixed_time("2026-12-01T12:00:00Z")
    page.reload()
    expect(page.locator(".dr-figure").first).to_have_text("1 due")
    page.keyboard.press("Enter")
    expect(page.locator(".dr-q .dr-en")).to_have_text("What is question 1?")
    page.get_by_role("button", name="End").click()
    expect(page.locator(".dr-today")).to_be_visible()


def test_the_drill_works_without_the_server_after_the_first_visit(browser, html):
    server = open_server(html, 0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    context = browser.new_context()
    page = context.new_page()
    try:
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/{PAGE}")
        page.evaluate("navigator.serviceWorker.ready.then(() => true)")
        page.wait_for_function("navigator.serviceWorker.controller !== null")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    page.goto(f"{page.url}?card=kv-cache-size-calculation")
    expect(page.locator(".dr-q")).to_be_visible()
    page.keyboard.press("Space")
    expect(page.locator(".dr-direct")).to_contain_text("Bytes per token")
    page.keyboard.press("3")
    expect(page.locator(".dr-end-title")).to_be_visible()
    context.close()


def screens(page: Page):
    """Every screen of the drill, one after the other."""
    page.get_by_text("Which questions").click()
    yield "today"
    page.locator(".dr-start").click()
    expect(page.locator(".dr-q")).to_be_visible()
    yield "question"
    page.keyboard.press("Space")
    expect(page.locator(".dr-direct")).to_be_visible()
    page.keyboard.press("f")
    page.keyboard.press("f")
    for fold in page.locator(".dr-fold").all():
        fold.evaluate("node => { node.open = true }")
    yield "answer"
    for _ in range(12):
        if not page.locator(".dr-q").count():
            break
        page.keyboard.press("Space")
        expect(page.locator(".dr-direct")).to_be_visible()
        page.keyboard.press("2")
        expect(page.locator(".dr-direct")).to_have_count(0)
    expect(page.locator(".dr-end-title")).to_be_visible()
    yield "end"
    for name in ("Progress", "Settings"):
        page.get_by_role("link", name=name, exact=True).click()
        expect(page.locator(f".dr-{name.lower()}")).to_be_visible()
        yield name


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_is_content_with_every_screen_and_none_scrolls_sideways(drill, axe, dark):
    page = drill("?set=evening", before=stored(progress(SEEN, measurements=[RECORD])), dark=dark, narrow=True, reduced_motion="reduce")
    for screen in screens(page):
        page.evaluate(axe)
        found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
        assert not found, (screen, [(rule["id"], node["target"], node["failureSummary"]) for rule in found for node in rule["nodes"][:3]])
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, screen


def test_letters_half_as_large_again_fit_the_session(drill):
    page = drill("?card=question-02", narrow=True)
    page.keyboard.press("Space")
    expect(page.locator(".dr-direct")).to_be_visible()
    page.add_style_tag(content="html { font-size: 150% }")
    wide = "[...document.querySelectorAll('#il-drill *')].filter(node => node.getBoundingClientRect().right > 390).length"
    assert page.evaluate(wide) == 0


def test_the_test_data_looks_like_the_data_of_the_site(html, graph):
    """Otherwise these tests say nothing about the site."""
    index = json.loads((html / "_static/cards.json").read_text(encoding="utf-8"))
    real = json.loads((html / "_static/cards/kv-cache-size-calculation.json").read_text(encoding="utf-8"))
    assert set(drill_cards.INDEX) == set(index)
    assert set(drill_cards.card(2)) == set(index["cards"]["kv-cache-size-calculation"])
    assert set(drill_cards.ESTIMATE) == set(index["cards"]["kv-cache-size-calculation"]["estimate"])
    fake = drill_cards.text("question-02")
    assert set(fake) == set(real)
    for name in ("rubric", "follow_ups", "sections", "measured"):
        assert set(fake[name][0]) == set(real[name][0]), name
    assert set(fake["measured"][0]["rows"][0]) == set(real["measured"][0]["rows"][0])
