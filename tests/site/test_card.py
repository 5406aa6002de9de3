"""The card: answer behind one action, follow-ups one by one, a rubric that remembers, two languages; by keyboard, and without script."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

CARD = "questions/part0/kv-cache-principle.html"


def test_the_answer_hides_until_space(visit):
    page = visit(CARD)
    answer = page.locator("#direct-answer p").first
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(answer).to_be_hidden()
    page.keyboard.press("Space")
    expect(answer).to_be_visible()
    expect(page.locator("details.il-answer > summary")).to_be_focused()


def test_everything_on_a_card_works_by_keyboard_alone(visit):
    page = visit(CARD)
    focused = page.locator("*:focus")
    for _ in range(40):
        page.keyboard.press("Tab")
        if focused.evaluate("node => node.matches('details.il-answer > summary')"):
            break
    page.keyboard.press("Enter")
    expect(page.locator("#direct-answer")).to_be_visible()
    first, second = page.locator(".il-chain summary").nth(0), page.locator(".il-chain summary").nth(1)
    first.focus()
    page.keyboard.press("Enter")
    expect(second).to_be_visible()
    page.keyboard.press("Tab")
    box = page.locator(".il-rubric input").first
    box.focus()
    page.keyboard.press("Space")
    expect(box).to_be_checked()


def test_follow_ups_unfold_one_by_one(visit, graph):
    page = visit(CARD)
    page.keyboard.press("Space")
    links = page.locator(".il-chain > li")
    count = len(graph.cards["kv-cache-principle"].follow_up_questions)
    expect(links).to_have_count(count)
    for shown in range(1, count + 1):
        expect(page.locator(".il-chain > li:visible")).to_have_count(shown)
        links.nth(shown - 1).locator("summary").click()
        expect(links.nth(shown - 1).locator(".il-chain-answer")).to_be_visible()
    links.nth(0).locator("summary").click()
    expect(page.locator(".il-chain > li:visible")).to_have_count(count)


def test_the_rubric_is_remembered_per_card(visit):
    page = visit(CARD)
    page.keyboard.press("Space")
    junior = page.locator(".il-rubric-level[data-level=junior] input")
    junior.nth(0).check()
    page.locator(".il-rubric-level[data-level=senior] input").first.check()
    score = page.locator(".il-rubric-score")
    expect(score).to_contain_text(re.compile(r"junior 1/\d"))
    page.reload()
    page.keyboard.press("Space")
    expect(junior.nth(0)).to_be_checked()
    expect(score).to_contain_text(re.compile(r"senior 1/\d"))
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile("kv-cache-size-calculation"))
    expect(page.locator(".il-rubric input:checked")).to_have_count(0)
    page.go_back()
    page.keyboard.press("Space")
    page.locator(".il-rubric-reset").click()
    page.reload()
    expect(page.locator(".il-rubric input:checked")).to_have_count(0)


def test_j_and_k_walk_through_the_cards(visit, graph):
    order = list(graph.cards)
    page = visit(f"questions/part0/{order[0]}.html")
    for name in order[1:]:
        page.keyboard.press("j")
        expect(page.locator("body")).to_have_attribute("data-card", name)
        page.wait_for_load_state("load")  # the text is there before the script that listens
    page.keyboard.press("k")
    expect(page.locator("body")).to_have_attribute("data-card", order[-2])


def test_the_language_is_switched_and_remembered(visit, graph):
    page = visit(CARD)
    page.keyboard.press("Space")
    chinese = page.locator(".il-zh .il-flow")
    expect(chinese).to_be_hidden()
    page.get_by_role("button", name="中文").click()
    expect(chinese).to_be_visible()
    expect(chinese).to_have_attribute("lang", re.compile("^zh"))
    expect(page.locator("#direct-answer")).to_be_hidden()
    expect(page.locator(".il-q-zh")).to_have_text(graph.cards["kv-cache-principle"].title.zh)
    page.keyboard.press("j")
    expect(page.locator(".il-q-zh")).to_be_visible()
    expect(page.get_by_role("button", name="中文")).to_have_attribute("aria-pressed", "true")


def test_a_link_into_the_answer_opens_it(visit):
    page = visit(CARD + "#common-mistakes")
    expect(page.locator("#common-mistakes h2")).to_be_in_viewport()


def test_without_script_the_card_is_whole(visit, graph):
    page = visit(CARD, script=False)
    page.locator("details.il-answer > summary").click()
    expect(page.locator("#direct-answer")).to_be_visible()
    expect(page.locator(".il-zh .il-flow")).to_be_visible()
    expect(page.locator(".il-chain > li:visible")).to_have_count(len(graph.cards["kv-cache-principle"].follow_up_questions))
    expect(page.locator(".il-js:visible")).to_have_count(0)


def test_on_paper_everything_is_open(visit):
    page = visit(CARD)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    expect(page.locator("#direct-answer")).to_be_visible()
    expect(page.locator(".il-zh .il-flow")).to_be_visible()
    expect(page.locator(".il-chain-answer").last).to_be_visible()
    expect(page.locator(".il-top")).to_be_hidden()


def test_a_page_read_dark_prints_black_on_white(visit):
    page = visit(CARD, dark=True)
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 29, 32)"


def test_f_goes_from_follow_up_to_follow_up(visit):
    page = visit(CARD)
    page.keyboard.press("f")
    expect(page.locator("#direct-answer")).to_be_visible()
    for number in (0, 1, 2):
        summary = page.locator(".il-chain summary").nth(number)
        expect(summary).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator(".il-chain-answer").nth(number)).to_be_visible()
        page.keyboard.press("f")


class TestEstimate:
    """A card with an estimate asks for the number first, and judges it within the card's tolerance."""

    PAGE = "questions/part0/kv-cache-size-calculation.html"

    def test_it_is_judged_by_keyboard_alone_before_the_answer(self, visit):
        page = visit(self.PAGE)
        said = page.locator(".il-estimate-said")
        page.keyboard.press("e")
        page.keyboard.type("512 KiB")
        page.keyboard.press("Enter")
        expect(said).to_contain_text("4 times too large")
        expect(page.locator(".il-estimate input")).to_be_focused()
        page.keyboard.type("130 KiB")
        page.keyboard.press("Enter")
        expect(said).to_contain_text("Right: 128 KiB")
        expect(page.locator("details.il-answer")).not_to_have_attribute("open", "")

    @pytest.mark.parametrize(
        ("number", "unit", "says"),
        [
            ("131,072", "B", "Right"),
            ("128", "KiB", "Right"),
            ("0.128", "MB", "Right"),
            ("128", "MB", "977 times too large"),
            ("64", "KiB", "2 times too small"),
            ("100", "KiB", "22 % too small"),
            ("-128", "KiB", "positive"),
            ("0", "KiB", "positive"),
            ("128", "unit", "In which unit?"),
            ("a lot", "KiB", "Write a number"),
            ("", "KiB", "Write a number"),
            ("128 apples", "unit", "none of the units"),
        ],
    )
    def test_number_and_unit_are_judged_together(self, visit, number, unit, says):
        page = visit(self.PAGE)
        page.locator(".il-estimate input").fill(number)
        page.locator(".il-estimate select").select_option(label=unit)
        page.locator(".il-estimate button").click()
        expect(page.locator(".il-estimate-said")).to_contain_text(says)

    def test_it_may_be_skipped_and_is_gone_when_the_answer_is_there(self, visit):
        page = visit(self.PAGE)
        page.keyboard.press("Space")
        expect(page.locator("#direct-answer")).to_be_visible()
        expect(page.locator(".il-estimate")).to_be_hidden()

    def test_without_script_and_without_an_estimate_nobody_asks(self, visit):
        expect(visit(self.PAGE, script=False).locator(".il-estimate")).to_be_hidden()
        page = visit(CARD)
        expect(page.locator(".il-estimate")).to_have_count(0)
        page.keyboard.press("?")
        expect(page.locator("#il-help dt", has_text=re.compile("^e$"))).to_have_count(0)


def test_a_card_on_another_page_shows_its_answer_with_the_numbers_alive(visit):
    page = visit("book/part0/kv-cache.html")
    face = page.locator("#interview-connection .il-face").nth(0)
    number = face.locator(".il-face-answer .il-val").first
    expect(number).to_be_hidden()
    face.locator("summary").click()
    expect(number).to_be_visible()
    number.focus()
    expect(face.get_by_role("tooltip")).to_be_visible()
