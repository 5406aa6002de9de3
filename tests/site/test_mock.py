"""The mock interview in a real browser: held by key alone, kept over a reload, reported, printed, on a phone, in the dark."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from infer_course.web_server import open_server
from tests.site import drill_cards

Open = Callable[..., Page]
PAGE = "book/mock.html"
SEED = "?role=serving&level=mid&minutes=30&seed=7"


@pytest.fixture
def mock(visit: Open, address: str) -> Iterator[Open]:
    """`mock("?role=kernel&level=mid&minutes=15&seed=1")` opens the interview with the cards of `drill_cards`; their rubric asks back."""

    def open_mock(query: str = SEED, before: str = "", **options: Any) -> Page:
        page = visit("404.html", service_workers="block", **options)
        drill_cards.serve(page)
        page.context.route("**/_static/cards/*.json*", lambda route: route.fulfill(json=text(route.request.url)))
        if before:
            page.add_init_script(before)
        page.goto(address + PAGE + query)
        page.locator(".mk-start, .mk-session, .mk-report-in").first.wait_for()
        return page

    yield open_mock
    said = visit.complaints  # type: ignore[attr-defined]
    said[:] = [one for one in said if "Service Worker registration blocked" not in one]


def text(url: str) -> dict[str, Any]:
    """Missing the number, the first follow-up of the chain is asked; missing the name, something that only the rubric answers."""
    found = drill_cards.text(url.rpartition("/")[2].partition(".")[0])
    asks = {"names-it": "What is it called?", "gives-number": "Deeper 1?"}
    return {**found, "rubric": [{**item, "follow_up_html": asks.get(item["id"])} for item in found["rubric"]]}


def phase(page: Page, name: str) -> None:
    expect(page.locator(".mk-session")).to_have_attribute("data-phase", name)
    expect(page.locator(".mk-phases [aria-current=step]")).to_have_count(1)


def begin(page: Page) -> None:
    page.locator(".dr-start").click()
    phase(page, "clarify")


def to_answer(page: Page, clarified: str = "") -> None:
    """From the question to our answer, by key."""
    phase(page, "clarify")
    expect(page.locator("#mk-clarify")).to_be_focused()
    page.keyboard.type(clarified)
    page.keyboard.press("Enter")
    if page.locator(".mk-phases").get_by_text("Estimate").count():
        phase(page, "estimate")
        page.keyboard.press("Tab")  # to the unit,
        page.keyboard.press("Tab")  # the check,
        page.keyboard.press("Tab")  # and on
        page.keyboard.press("Enter")
    phase(page, "explain")
    page.keyboard.press("Space")
    phase(page, "compare")
    expect(page.locator(".dr-direct h3")).to_be_focused()


def log(page: Page) -> list[dict[str, Any]]:
    return json.loads(page.evaluate("localStorage.getItem('il:progress')") or '{"reviews": []}')["reviews"]


def where(page: Page) -> str:
    return page.locator(".dr-q .dr-en").inner_text()


def test_a_whole_interview_by_keyboard_alone(mock: Open) -> None:
    page = mock()
    expect(page.locator(".mk-start [role=status]").last).to_contain_text("of 30 minutes")
    page.locator(".dr-start").focus()
    page.keyboard.press("Enter")
    total = int(page.locator(".dr-where").inner_text().split(" ")[2])
    assert total > 1
    asked_back, numbers = 0, 0
    for place in range(1, total + 1):
        expect(page.locator(".dr-where")).to_contain_text(f"{place} of {total}")
        if place == 1:  # one that asks for a number is always among them; the first to come gets one that is half of it
            to_answer(page, "Which model?")
            page.keyboard.press("1")
            page.keyboard.press("2")
            expect(page.locator(".mk-bar [role=status]")).to_have_text("You had 2 of 3 items at mid level")
            page.keyboard.press("Space")
            phase(page, "follow-up")
            expect(page.locator(".mk-back")).to_have_text("Deeper 1?")
            expect(page.locator(".mk-back")).to_be_focused()
            page.keyboard.press("y")  # not before the answer was seen
            page.keyboard.press("Space")
            expect(page.locator(".mk-below .dr-direct")).to_contain_text("Because of 1.")
            page.keyboard.press("y")
            asked_back += 1
        else:
            to_answer(page)
            for key in "123":
                page.keyboard.press(key)
            page.keyboard.press("Space")
            for deeper in ("Deeper 1?", "Deeper 2?"):
                expect(page.locator(".mk-back")).to_have_text(deeper)
                page.keyboard.press("Space")
                page.keyboard.press("p")
            numbers += 1
    expect(page.locator(".mk-title")).to_have_text("Mid level")
    expect(page.locator(".mk-title")).to_be_focused()
    first = page.locator(".mk-question").first
    expect(first.locator(".mk-points")).to_contain_text("2.5 of 3 items, junior level")
    expect(first.locator(".is-half")).to_contain_text("gives number")
    expect(first.locator(".mk-facts")).to_contain_text("Which model?")
    expect(first.locator(".mk-facts")).to_contain_text("Deeper 1? answered")
    done = log(page)
    assert len(done) == total == asked_back + numbers
    assert {one["mode"] for one in done} == {"explain"} and all(one["mock"] for one in done)
    assert (done[0]["rating"], done[0]["rubric"]) == (3, ["names-it", "says-why"]) and {one["rating"] for one in done[1:]} == {4}


def test_the_first_number_counts_and_the_report_says_by_which_factor(mock: Open) -> None:
    page = mock()
    begin(page)
    while page.locator(".mk-phases").get_by_text("Estimate").count() == 0:
        before = where(page)
        page.get_by_role("button", name="Leave it out").click()
        expect(page.locator(".dr-q .dr-en")).not_to_have_text(before)
    page.keyboard.press("Enter")
    phase(page, "estimate")
    expect(page.locator("#dr-number")).to_be_focused()
    for typed, says in (("64 KiB", "2 times too small"), ("128 KiB", "Right: 128 KiB")):
        page.locator("#dr-number").fill(typed)
        page.keyboard.press("Enter")
        expect(page.locator(".il-estimate-said")).to_contain_text(says)
    expect(page.locator(".dr-reveal")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    phase(page, "compare")
    page.get_by_role("button", name="End").click()
    expect(page.locator(".mk-off")).to_have_text("64 KiB, 2 times too small: it is 128 KiB")
    assert log(page)[0]["estimate"] == 64 and log(page)[0]["rating"] == 1


def test_a_reload_in_the_middle_loses_nothing(mock: Open) -> None:
    page = mock()
    begin(page)
    page.locator("#mk-clarify").fill("Which load?")
    asked = where(page)
    page.reload()
    phase(page, "clarify")
    assert where(page) == asked
    expect(page.locator("#mk-clarify")).to_have_value("Which load?")
    to_answer(page)
    page.get_by_label("says why").check()
    page.reload()
    phase(page, "compare")
    expect(page.get_by_label("says why")).to_be_checked()
    page.keyboard.press("Space")
    expect(page.locator(".mk-back")).to_have_text("What is it called?")
    page.keyboard.press("Space")
    expect(page.locator(".mk-below .dr-direct")).to_contain_text("names it")  # what the rubric wants: the card has no answer of its own
    page.reload()
    expect(page.locator(".mk-below .dr-direct")).to_contain_text("names it")
    page.keyboard.press("n")
    expect(page.locator(".mk-back")).to_have_text("Deeper 1?")
    page.keyboard.press("q")
    expect(page.locator(".mk-question")).to_have_count(1)
    page.reload()
    expect(page.locator(".mk-question")).to_have_count(1)
    expect(page.locator(".mk-items--missed li")).to_have_text(["names it junior", "gives number mid"])
    assert len(log(page)) == 1


def test_leaving_early_can_be_taken_back_and_the_drill_can_be_left_out(mock: Open) -> None:
    page = mock()
    begin(page)
    to_answer(page)
    page.get_by_role("button", name="End").click()
    expect(page.locator(".mk-logged")).to_contain_text("1 question went into your drill")
    page.get_by_role("button", name="Take them out").click()
    expect(page.locator(".mk-logged")).to_contain_text("not in your drill")
    assert log(page) == []
    page.get_by_role("button", name="Add them").click()
    assert len(log(page)) == 1
    page.get_by_role("button", name="Go back to the interview").click()
    phase(page, "compare")
    assert log(page) == []
    page.keyboard.press("q")
    expect(page.locator(".mk-title")).to_have_text("Below junior level")
    assert len(log(page)) == 1


def test_the_report_can_be_copied_and_says_what_to_read_and_drill(mock: Open) -> None:
    page = mock(permissions=["clipboard-read", "clipboard-write"])
    begin(page)
    to_answer(page, "Which GPU?")
    page.keyboard.press("5")  # the red flag
    page.get_by_role("button", name="End").click()
    expect(page.locator(".mk-items--flag li")).to_have_text(["mixes up"])
    expect(page.locator(".mk-section", has_text="Not answered").locator("li").first).to_be_visible()
    page.keyboard.press("c")
    expect(page.get_by_text("Copied.")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    for says in (
        *("# Mock interview, ", "seed 7. 1 of ", "Overall: below junior level", "0 of 3 items, 1 red flag", "Which GPU?"),
        *("- Missing (mid): gives number", "- Red flag: mixes up", "## Read", "book/part0/kv-cache.html)"),
        *("## Drill next", "drill.html?card="),
    ):
        assert says in copied, f"{says}\n\n{copied}"
    link = page.locator(".mk-section", has_text="Drill next").locator("a").first
    assert (link.get_attribute("href") or "").startswith("../book/drill.html?card=question-")


def test_the_report_is_what_is_printed(mock: Open) -> None:
    page = mock()
    begin(page)
    to_answer(page)
    page.keyboard.press("q")
    page.emulate_media(media="print")
    expect(page.locator(".mk-title")).to_be_visible()
    expect(page.locator(".mk-question .mk-items").first).to_be_visible()
    for hidden in (".mk-actions", ".mk-logged", ".mk-elsewhere", ".il-lang"):
        expect(page.locator(hidden).first).to_be_hidden()


def test_the_same_address_asks_the_same_questions_and_a_seed_can_be_drawn_anew(mock: Open) -> None:
    page = mock("?role=platform&level=mid&minutes=15&seed=42")
    expect(page.get_by_label("AI platform engineer")).to_be_checked()
    expect(page.locator("#mk-seed")).to_have_value("42")
    begin(page)
    first = where(page)
    page.get_by_role("button", name="End").click()
    page.get_by_role("button", name="The same again").click()
    begin(page)
    expect(page.locator(".dr-q .dr-en")).to_have_text(first)
    page.get_by_role("button", name="End").click()
    expect(page.locator(".mk-title")).to_have_text("Nothing was answered")
    page.get_by_role("button", name="Another interview").click()
    page.locator("#mk-seed").fill("9")
    page.get_by_label("senior").check()
    assert "seed=9" in page.url and "level=senior" in page.url and "role=platform" in page.url


def test_an_interview_with_another_address_is_offered_not_lost(mock: Open, address: str) -> None:
    page = mock()
    begin(page)
    asked = where(page)
    page.goto(f"{address}{PAGE}?role=kernel&level=mid&minutes=15&seed=1")
    expect(page.locator(".dr-notice")).to_contain_text("left in the middle: Inference serving engineer")
    page.get_by_role("button", name="Go on with it").click()
    expect(page.locator(".dr-q .dr-en")).to_have_text(asked)
    assert "seed=7" in page.url


def test_a_link_begins_anew_and_the_last_report_is_still_there(mock: Open, address: str) -> None:
    page = mock()
    begin(page)
    to_answer(page)
    page.keyboard.press("q")
    expect(page.locator(".mk-question")).to_have_count(1)
    page.goto(f"{address}{PAGE}")
    expect(page.locator(".dr-notice")).to_contain_text("The report of your last interview is still here")
    page.get_by_role("button", name="Show it").click()
    expect(page.locator(".mk-question")).to_have_count(1)
    assert len(log(page)) == 1  # showing it again logs nothing twice


def test_the_interview_works_without_the_server_after_the_first_visit(browser: Browser, html: Path) -> None:
    server = open_server(html, 0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    context = browser.new_context()
    page = context.new_page()
    try:
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/{PAGE}{SEED}")
        page.evaluate("navigator.serviceWorker.ready.then(() => true)")
        page.wait_for_function("navigator.serviceWorker.controller !== null")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    page.reload()
    begin(page)
    to_answer(page)
    page.keyboard.press("q")
    expect(page.locator(".mk-points")).to_contain_text("0 of ")
    context.close()


def test_the_clock_of_the_explanation_says_when_it_is_over(mock: Open) -> None:
    page = mock(before="sessionStorage.clear()")
    page.clock.install()
    page.reload()
    begin(page)
    page.keyboard.press("Enter")
    if page.locator(".mk-session").get_attribute("data-phase") == "estimate":
        page.locator(".dr-reveal").click()
    phase(page, "explain")
    expect(page.locator(".dr-time")).not_to_have_class("dr-time is-over")
    page.clock.run_for(200_000)
    expect(page.locator(".dr-time")).to_have_class("dr-time is-over")
    page.keyboard.press("Space")
    phase(page, "compare")
    page.keyboard.press("q")
    expect(page.locator(".mk-points .is-over")).to_have_text(re.compile(r"^3:\d\d$"))
    assert log(page)[0]["seconds"] >= 199


def test_it_says_when_little_is_written(mock: Open, visit: Open) -> None:
    page = mock()
    page.context.route(
        "**/_static/cards.json*", lambda route: route.fulfill(json={**drill_cards.INDEX, "cards": {"question-02": drill_cards.card(2)}})
    )
    page.reload()
    expect(page.locator(".mk-start .dr-begin [role=status]")).to_contain_text("1 question, about 10 of 30 minutes. More is not written yet")
    page.context.route("**/_static/cards.json*", lambda route: route.fulfill(json={**drill_cards.INDEX, "cards": {}}))
    page.reload()
    expect(page.locator(".mk-start .dr-begin [role=status]")).to_contain_text("No question of this level is written yet")
    expect(page.locator(".dr-start")).to_be_disabled()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_is_content_with_every_screen_and_none_scrolls_sideways(mock: Open, axe: str, dark: bool) -> None:
    page = mock(narrow=dark, dark=dark, reduced_motion="reduce")

    def content(name: str) -> None:
        page.evaluate(axe)
        found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        assert not found["violations"], name + json.dumps(
            [[rule["id"], [node["failureSummary"] for node in rule["nodes"]]] for rule in found["violations"]]
        )
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name

    content("start")
    begin(page)
    content("clarify")
    while page.locator(".mk-phases").get_by_text("Estimate").count() == 0:
        before = where(page)
        page.get_by_role("button", name="Leave it out").click()
        expect(page.locator(".dr-q .dr-en")).not_to_have_text(before)
    page.locator(".dr-reveal").click()
    phase(page, "estimate")
    page.locator("#dr-number").fill("64 KiB")
    page.locator("#dr-number").press("Enter")
    expect(page.locator(".il-estimate-said")).to_contain_text("too small")
    content("estimate")
    page.locator(".dr-reveal").click()
    content("explain")
    page.locator(".dr-reveal").click()
    page.get_by_label("says why").check()
    page.get_by_label("mixes up").check()
    content("compare")
    page.locator(".mk-on").click()
    content("follow-up")
    page.locator(".dr-reveal").click()
    expect(page.locator(".mk-replies")).to_be_visible()
    content("its answer")
    page.get_by_role("button", name="Yes").click()
    page.get_by_role("button", name="End").click()
    expect(page.locator(".mk-question")).to_have_count(1)
    content("report")


def test_without_script_it_says_what_it_is_and_where_else_to_go(visit: Open) -> None:
    page = visit(PAGE, script=False)
    expect(page.get_by_text("The interview needs JavaScript")).to_be_visible()
    expect(page.locator(".mk-elsewhere")).to_contain_text("infer-course mock")
    expect(page.locator(".mk-elsewhere a")).to_have_attribute("href", "drill.html")
    expect(page.locator("#il-mock")).to_be_hidden()


def test_drill_and_home_lead_here(visit: Open) -> None:
    for where_from in ("", "book/drill.html"):
        page = visit(where_from)
        page.locator("article").get_by_role("link", name="mock interview").first.click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("Mock interview")
