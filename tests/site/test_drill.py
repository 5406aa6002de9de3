"""A sitting of the drill in a real browser: by key alone, after a reload, forgotten questions, numbers first, chosen by address."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, expect

from tests.site import drill_cards
from tests.site.drill_cards import PAGE


def asks(page: Page, number: int) -> None:
    expect(page.locator(".dr-q .dr-en")).to_have_text(f"What is question {number}?")


def answer(page: Page, grade: int) -> None:
    """Reveals and grades, by key; back when the next screen is there."""
    before = page.locator(".dr-where").inner_text()
    page.keyboard.press("Space")
    expect(page.locator(".dr-direct")).to_be_visible()
    page.keyboard.press(str(grade))
    expect(page.locator(".dr-where", has_text=re.compile(f"^{re.escape(before)}$"))).to_have_count(0)


def log(page: Page) -> list[dict]:
    return json.loads(page.evaluate("localStorage.getItem('il:progress')") or '{"reviews": []}')["reviews"]


def test_a_whole_session_by_keyboard_alone(drill):
    page = drill("?set=evening")
    expect(page.locator(".dr-figures")).to_contain_text("0 due")
    expect(page.locator(".dr-figures")).to_contain_text("3 new")
    page.keyboard.press("Enter")
    asks(page, 7)
    expect(page.locator(".dr-q")).to_be_focused()
    expect(page.locator(".dr-grades")).to_be_hidden()
    page.keyboard.press("3")
    asks(page, 7)  # not before the answer was seen
    page.keyboard.press("Space")
    expect(page.locator(".dr-direct .dr-en")).to_have_text("The answer of question-07.")
    expect(page.locator(".dr-direct h3")).to_be_focused()
    page.keyboard.press("f")
    expect(page.locator(".dr-chain-q")).to_have_text(["Deeper 1?"])
    expect(page.locator(".dr-chain .il-chain-answer")).to_have_count(0)
    page.keyboard.press("f")
    expect(page.locator(".dr-chain .il-chain-answer")).to_have_text(["Because of 1."])
    page.keyboard.press("f")
    expect(page.locator(".dr-chain-q")).to_have_text(["Deeper 1?", "Deeper 2?"])
    page.keyboard.press("3")
    asks(page, 3)
    answer(page, 4)
    asks(page, 5)
    answer(page, 2)
    expect(page.locator(".dr-end-title")).to_have_text("3 questions answered")
    expect(page.locator(".dr-end-title")).to_be_focused()
    expect(page.locator(".dr-list tbody tr")).to_have_count(3)
    assert [(done["card"], done["rating"], done["mode"]) for done in log(page)] == [
        ("question-07", 3, "recall"),
        ("question-03", 4, "recall"),
        ("question-05", 2, "recall"),
    ]
    page.keyboard.press("Enter")
    expect(page.locator(".dr-figures")).to_contain_text("0 new")


def test_a_reload_in_the_middle_loses_nothing(drill):
    page = drill("?part=0")
    page.keyboard.press("Enter")
    answer(page, 2)
    asks(page, 2)
    page.keyboard.press("e")
    page.keyboard.type("256 KiB")
    page.keyboard.press("Enter")
    expect(page.locator(".il-estimate-said")).to_contain_text("2 times too large")
    page.locator(".dr-reveal").click()
    page.locator(".dr-fold > summary", has_text="rubric").click()
    page.get_by_label("names it").check()
    page.keyboard.press("f")
    expect(page.locator(".dr-chain-q")).to_have_count(1)
    page.reload()
    asks(page, 2)
    expect(page.locator(".dr-where")).to_contain_text("2 of 4")
    expect(page.locator(".dr-direct")).to_be_visible()
    expect(page.locator(".il-estimate-said")).to_contain_text("2 times too large")
    expect(page.locator(".dr-chain-q")).to_have_count(1)
    page.locator(".dr-fold > summary", has_text="rubric").click()
    expect(page.get_by_label("names it")).to_be_checked()
    page.keyboard.press("2")
    asks(page, 3)
    kept = log(page)
    assert len(kept) == 2
    assert (kept[1]["card"], kept[1]["estimate"], kept[1]["rubric"]) == ("question-02", 256, ["names-it"])


def test_the_first_number_counts_and_the_answer_is_not_told(drill):
    page = drill("?card=question-06")
    asks(page, 6)
    said = page.locator(".il-estimate-said")
    page.keyboard.press("e")
    for typed, says in (("many", "Write a number"), ("64", "In which unit?")):
        page.locator("#dr-number").fill(typed)
        page.locator("#dr-number").press("Enter")
        expect(said).to_contain_text(says)
    page.locator("#dr-number").fill("64")
    page.get_by_label("Unit of your number").select_option("KiB")
    page.get_by_role("button", name="Check").click()
    expect(said).to_contain_text("2 times too small")
    expect(said).not_to_contain_text("128")
    page.locator("#dr-number").fill("0.125 MiB")
    page.locator("#dr-number").press("Enter")
    expect(said).to_contain_text("Right: 128 KiB")
    expect(page.locator(".dr-reveal")).to_be_focused()
    page.keyboard.press("Space")
    expect(page.locator(".dr-direct")).to_be_visible()
    page.keyboard.press("1")
    asks(page, 6)  # alone in the session, so it returns at once
    assert log(page)[0]["estimate"] == 64


def test_a_forgotten_question_returns_before_the_end(drill):
    page = drill("?part=1,2")
    page.keyboard.press("Enter")
    order = []
    for grade in (1, 3, 3, 3, 3, 3, 3, 3, 3):
        order.append(page.locator(".dr-q .dr-en").inner_text())
        answer(page, grade)
    expect(page.locator(".dr-end-title")).to_have_text("8 questions answered")
    assert order[0] == order[5], order
    assert [done["rating"] for done in log(page) if done["card"] == "question-05"] == [1, 3]


def test_a_session_that_was_left_can_be_gone_on_with(drill, address):
    page = drill("?set=evening")
    page.keyboard.press("Enter")
    answer(page, 3)
    asks(page, 3)
    page.goto(address + PAGE)
    expect(page.locator(".dr-today")).to_contain_text("left in the middle: 2 questions to go")
    page.goto(address + PAGE + "?part=2")
    expect(page.locator(".dr-start")).to_contain_text("Start")
    page.get_by_role("button", name="Go on with that one").click()
    asks(page, 3)
    page.locator(".dr-reveal").focus()
    page.goto(address + "book/run.html")
    page.go_back()
    asks(page, 3)


def test_a_good_answer_leads_deeper(drill):
    page = drill("?part=0")
    page.keyboard.press("Enter")
    asks(page, 1)
    answer(page, 3)
    asks(page, 4)
    expect(page.locator(".dr-from")).to_contain_text("What is question 1?")


def test_later_and_undo(drill):
    page = drill("?set=evening")
    page.keyboard.press("Enter")
    page.keyboard.press("j")
    asks(page, 3)
    answer(page, 4)
    asks(page, 5)
    page.keyboard.press("k")
    asks(page, 3)
    expect(page.locator(".dr-grades")).to_be_visible()
    assert log(page) == []
    page.keyboard.press("2")
    asks(page, 5)
    answer(page, 3)
    asks(page, 7)
    assert [(done["card"], done["rating"]) for done in log(page)] == [("question-03", 2), ("question-05", 3)]


def test_ticks_on_the_rubric_suggest_a_grade(drill):
    page = drill("?card=question-03&mode=explain")  # a junior question
    expect(page.locator(".dr-time")).to_contain_text("of 3:00")
    page.keyboard.press("Space")
    suggested = page.locator(".dr-grade.is-suggested")
    expect(suggested).to_have_count(0)
    for tick, grade in (("names it", "2"), ("says why", "3"), ("gives number", "4"), ("mixes up", "2")):
        page.get_by_label(tick).check()
        expect(suggested).to_have_attribute("data-rating", grade)
    page.get_by_label("names it").focus()
    page.keyboard.press("3")
    assert log(page)[0]["rubric"] == ["names-it", "says-why", "gives-number", "mixes-up"]
    assert log(page)[0]["mode"] == "explain"


def test_each_grade_says_when_the_question_comes_again(drill):
    page = drill("?card=question-01")
    page.keyboard.press("Space")
    expect(page.locator(".dr-grade-when")).to_have_text(["again today", "1 day", "2 days", "8 days"])
    expect(page.get_by_role("button", name="3 Good 2 days")).to_be_visible()


@pytest.mark.parametrize(
    ("query", "new"),
    [
        ("?set=evening", 3),
        ("?part=1", 4),
        ("?kind=calculation", 3),
        ("?level=junior&part=0", 1),
        ("?tag=even", 6),
        ("", 10),
        ("?part=8", 0),
    ],
)
def test_the_address_chooses_the_questions(drill, query, new):
    page = drill(query)
    expect(page.locator(".dr-figure").nth(1)).to_have_text(f"{new} new")


def test_a_choice_is_in_the_address_and_survives_a_reload(drill):
    page = drill()
    page.get_by_text("Which questions").click()
    page.get_by_label("calculation").check()
    expect(page.locator(".dr-figure").nth(1)).to_have_text("3 new")
    page.get_by_label(re.compile("^Explain")).check()
    expect(page.locator(".dr-figure").nth(2)).to_have_text("12 minutes")
    page.reload()
    expect(page).to_have_url(re.compile(r"\?kind=calculation$"))
    expect(page.locator(".dr-figure").nth(1)).to_have_text("3 new")
    expect(page.get_by_label(re.compile("^Explain"))).to_be_checked()
    page.get_by_label("Set").select_option("evening")
    expect(page.locator(".dr-under").first).to_contain_text("No written question is like that.")
    page.get_by_role("button", name="Back to all questions").click()
    expect(page.locator(".dr-figure").nth(1)).to_have_text("7 new")  # in thirty minutes


def test_an_unknown_set_is_named(drill):
    page = drill("?set=no-such-set")
    expect(page.locator(".dr-notice")).to_contain_text("no set called “no-such-set”")
    expect(page.locator(".dr-figure").nth(1)).to_have_text("10 new")


def test_the_language_is_one_key_away(drill):
    page = drill("?card=question-02")
    page.keyboard.press("l")
    expect(page.locator(".dr-q .dr-zh")).to_have_text("第 2 题是什么？")
    expect(page.locator(".dr-q .dr-en")).to_be_hidden()
    page.keyboard.press("Space")
    expect(page.locator(".dr-direct .dr-zh")).to_be_visible()
    expect(page.locator(".dr-direct .dr-en")).to_be_hidden()


def test_help_lists_the_keys_of_the_session(drill):
    page = drill("?set=evening")
    page.keyboard.press("Enter")
    asks(page, 7)
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    for key in ("Space", "1", "4", "f", "j", "k", "l", "?"):
        expect(dialog.locator("dt", has_text=re.compile(f"^{re.escape(key)}$")).first).to_be_visible()
    page.keyboard.press("Space")
    expect(dialog).to_be_hidden()
    expect(page.locator(".dr-direct")).to_have_count(0)


def test_an_answer_that_does_not_come_can_be_asked_for_again(drill, visit):
    page = drill("?set=evening")
    page.context.unroute("**/_static/cards/*.json*")
    page.context.route("**/_static/cards/*.json*", lambda route: route.abort())
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    expect(page.get_by_role("alert")).to_contain_text("could not be fetched")
    drill_cards.serve(page)
    page.get_by_role("button", name="try again").click()
    expect(page.locator(".dr-direct")).to_be_visible()
    visit.complaints[:] = [said for said in visit.complaints if "ERR_FAILED" not in said]


def test_a_question_and_its_answer_can_be_printed(drill):
    page = drill("?card=question-01")
    page.keyboard.press("Space")
    expect(page.locator(".dr-direct")).to_be_visible()
    page.emulate_media(media="print")
    expect(page.locator(".dr-q")).to_be_visible()
    expect(page.locator(".dr-direct")).to_be_visible()
    expect(page.locator(".dr-grades")).to_be_hidden()


def test_without_script_the_questions_are_a_list(visit, graph):
    page = visit(PAGE, script=False)
    expect(page.locator(".il-card-row:visible")).to_have_count(len(graph.cards))
    expect(page.locator("#il-drill")).to_be_hidden()


def test_the_course_itself_can_be_drilled(visit, graph):
    """No question of the test's own: the data that the site was built with."""
    page = visit(f"{PAGE}?card=kv-cache-size-calculation")
    expect(page.locator(".dr-q .dr-en")).to_have_text(graph.cards["kv-cache-size-calculation"].title.en)
    page.keyboard.press("Space")
    number = page.locator(".dr-direct .il-val").first
    number.focus()
    expect(page.get_by_role("tooltip")).to_be_visible()
    page.locator(".dr-fold > summary", has_text="Going deeper").click()
    expect(page.locator(".dr-fold mjx-container").first).to_be_visible()
    page.locator(".dr-foot a", has_text="all of this card").click()
    expect(page.locator("body")).to_have_attribute("data-card", "kv-cache-size-calculation")
