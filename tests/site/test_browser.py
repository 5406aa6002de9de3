"""The card browser: filters and words narrow the list, keys walk it, the address keeps it, and without script it is a plain list."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from infer_course.content_map import content_map

CARDS = "book/cards.html"


def shown(page: Page) -> list[str]:
    return [str(row.get_attribute("data-id")) for row in page.locator(".il-browser .il-card-row[data-id]:visible").all()]


def search(page: Page, words: str) -> None:
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type(words)


def test_written_questions_come_first_and_planned_ones_on_demand(visit, graph):
    page = visit(CARDS)
    expect(page.locator(".il-found")).to_have_text(f"{len(graph.cards)} questions.")
    assert shown(page) == list(graph.cards)
    page.locator("label", has_text="planned too").click()
    known = len(graph.cards) + len([card for card in graph.planned if card in content_map().cards])
    expect(page.locator(".il-found")).to_contain_text(f"{known} of {known} questions")
    expect(page.locator(".il-planned:visible").first).to_be_visible()
    expect(page).to_have_url(re.compile(r"\?planned=1$"))


def test_filters_narrow_the_list_and_stay_in_the_address(visit, graph):
    page = visit(CARDS)
    page.locator("label", has_text="calculation").click()
    wanted = [card.id for card in graph.cards.values() if card.kind == "calculation"]
    expect(page.locator(".il-found")).to_contain_text(f"{len(wanted)} of {len(graph.cards)} question")
    assert shown(page) == wanted
    page.get_by_role("combobox", name="Set").select_option("last-hour")
    expect(page).to_have_url(re.compile(r"\?kind=calculation&set=last-hour$"))
    page.reload()
    expect(page.get_by_role("combobox", name="Set")).to_have_value("last-hour")
    expect(page.locator("input[value=calculation]")).to_be_checked()
    assert shown(page) == [card for card in graph.sets["last-hour"].cards if card in wanted]
    page.get_by_role("button", name="Clear all").click()
    expect(page.locator(".il-found")).to_have_text(f"{len(graph.cards)} questions.")
    expect(page).to_have_url(re.compile(r"cards\.html$"))


def test_a_choice_says_how_many_it_would_leave(visit, graph):
    page = visit(CARDS)
    for level in ("junior", "mid", "senior"):
        count = len([card for card in graph.cards.values() if card.level == level])
        expect(page.locator(f"label:has(input[value={level}]) .il-facet-n")).to_have_text(str(count))
    page.get_by_role("combobox", name="Part").select_option("8")
    expect(page.locator("label:has(input[value=planned], input[name=planned]) .il-facet-n")).not_to_have_text("0")


@pytest.mark.parametrize(
    ("words", "card", "marked"),
    [
        ("kv cache bytes", "kv-cache-size-calculation", "bytes"),
        ("througput ceiling", "kv-cache-throughput-ceiling", "throughput"),
        ("kvcache", "kv-cache-throughput-ceiling", "cache"),
        ("quantize", "kv-cache-principle", "quantized"),
        ("显存", "kv-cache-principle", "显存"),
        ("占多少字节", "kv-cache-size-calculation", "占多少字节"),
        ("80gb", "kv-cache-size-calculation", "80"),
        ("131072", "kv-cache-size-calculation", "131,072"),
    ],
)
def test_words_find_questions_in_both_languages_despite_errors(visit, words, card, marked):
    page = visit(CARDS)
    search(page, words)
    row = page.locator(f".il-hits > li[data-id={card}]")
    expect(row).to_be_visible()
    expect(row.locator("mark", has_text=re.compile(f"^{marked}$", re.IGNORECASE)).first).to_be_visible()


def test_a_typing_error_is_read_and_said(visit):
    page = visit(CARDS)
    search(page, "througput")
    expect(page.locator(".il-found")).to_contain_text("Nothing says “througput”; this is “throughput”.")
    expect(page.locator(".il-found")).to_have_attribute("aria-live", "polite")


def test_the_best_question_stands_first_and_lessons_below(visit):
    page = visit(CARDS)
    search(page, "Why cache K and V")
    expect(page.locator(".il-hits > li").first).to_have_attribute("data-id", "kv-cache-principle")
    elsewhere = page.locator(".il-elsewhere")
    expect(elsewhere.locator("a[href$='book/part0/kv-cache.html']")).to_be_visible()


def test_a_follow_up_that_was_found_can_be_opened_directly(visit, graph):
    asked = graph.cards["kv-cache-principle"].follow_up_questions[-1].question
    page = visit(CARDS)
    search(page, asked)
    link = page.locator(".il-hits > li[data-id=kv-cache-principle] .il-row-found a").first
    expect(link).to_have_text(asked)
    link.click()
    expect(page).to_have_url(re.compile(r"kv-cache-principle\.html#"))
    expect(page.locator(".il-chain > li").last.locator(".il-chain-answer")).to_be_visible()
    expect(page.locator(".il-chain > li").last.get_by_role("link", name="Link to this follow-up")).to_be_visible()


def test_everything_goes_by_keyboard(visit, graph):
    page = visit(CARDS)
    first, second = page.locator(".il-card-row:visible > a").nth(0), page.locator(".il-card-row:visible > a").nth(1)
    page.keyboard.press("j")
    expect(first).to_be_focused()
    page.keyboard.press("j")
    expect(second).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("k")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("jk")  # letters, not keys
    expect(page.get_by_role("searchbox")).to_have_value("jk")
    page.keyboard.press("Escape")
    expect(page.get_by_role("searchbox")).to_have_value("")
    expect(page.locator(".il-found")).to_have_text(f"{len(graph.cards)} questions.")
    page.keyboard.press("Escape")
    expect(page.get_by_role("searchbox")).not_to_be_focused()
    search(page, "by hand")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"kv-cache-size-calculation\.html$"))
    page.go_back()
    expect(page.get_by_role("searchbox")).to_have_value("by hand")


def test_nothing_found_says_why_and_leads_on(visit, graph):
    page = visit(CARDS)
    search(page, "zzzzzz")
    expect(page.locator(".il-found")).to_contain_text("No question fits.")
    expect(page.locator(".il-nothing")).to_contain_text("Nothing says “zzzzzz”")
    page.get_by_role("button", name="see all questions").click()
    assert shown(page) == list(graph.cards)
    page = visit(f"{CARDS}?q=bytes&kind=behavioral")
    page.get_by_role("button", name="Search all questions").click()
    expect(page.locator(".il-hits > li:visible").first).to_be_visible()
    waiting = next(card for card in content_map().cards.values() if card.id in graph.planned and card.kind == "behavioral")
    page = visit(f"{CARDS}?kind=behavioral")
    if not any(card.kind == "behavioral" for card in graph.cards.values()):
        page.get_by_role("button", name="Show what is planned").click()
        expect(page.locator(f".il-card-row[data-id={waiting.id}]")).to_be_visible()


def test_the_data_of_search_is_fetched_only_when_asked_for(visit):
    page = visit()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(page.url.split("/index")[0].rstrip("/") + "/" + CARDS)
    expect(page.locator(".il-found")).to_contain_text("questions.")
    assert not [url for url in asked if url.endswith("find.json")]
    with page.expect_response(re.compile(r"_static/find\.json$")):
        page.keyboard.press("/")


def test_a_random_question_is_one_of_those_that_fit_and_back_leads_past_the_draw(visit, graph):
    page = visit(f"{CARDS}?kind=calculation")
    page.keyboard.press("r")
    expect(page.locator("body")).to_have_attribute("data-kind", "card")
    assert graph.cards[str(page.locator("body").get_attribute("data-card"))].kind == "calculation"
    page.wait_for_load_state()  # the address and the text are there before the keys are
    here = page.url
    page.keyboard.press("r")
    expect(page).not_to_have_url(here)
    expect(page.locator("body")).to_have_attribute("data-kind", "card")
    page.go_back()
    expect(page).to_have_url(here)


def test_the_language_is_remembered_and_leads(visit, graph):
    page = visit(CARDS)
    page.get_by_role("button", name="中文").click()
    row = page.locator(".il-card-row[data-id=kv-cache-principle]")
    zh, en = row.locator(".il-card-zh").bounding_box(), row.locator(".il-card-en").bounding_box()
    assert zh["y"] < en["y"]
    page.reload()
    expect(page.get_by_role("button", name="中文")).to_have_attribute("aria-pressed", "true")


def test_on_a_phone_the_filters_fold_and_nothing_scrolls_sideways(visit):
    page = visit(CARDS, narrow=True)
    expect(page.get_by_role("searchbox")).to_be_visible()
    expect(page.get_by_role("combobox", name="Set")).to_be_hidden()
    page.get_by_text("Filters", exact=True).click()
    page.get_by_role("combobox", name="Set").select_option("last-hour")
    expect(page.get_by_text("Filters (1)", exact=True)).to_be_visible()
    page.get_by_role("searchbox").fill("cache")
    expect(page.locator(".il-hits > li:visible").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_without_script_the_list_is_whole(visit, graph):
    page = visit(CARDS, script=False)
    expect(page.get_by_role("searchbox")).to_be_hidden()
    assert set(shown(page)) == set(graph.cards) | {card for card in graph.planned if card in content_map().cards}
    expect(page.get_by_text("Search and filters need JavaScript.")).to_be_visible()
