"""Sets: each has a page, can be drilled and printed; what is planned is shown as planned."""

from __future__ import annotations

import re

from playwright.sync_api import expect

FIRST = "questions/sets/first-round-ai-infra.html"


def test_every_set_is_listed_and_has_a_page(visit, graph, html):
    page = visit("book/sets.html")
    listed = [str(row.get_attribute("id")) for row in page.locator(".il-set-row").all()]
    assert listed == [f"set-{chosen}" for chosen in sorted(graph.sets, key=lambda i: (not graph.sets[i].curated, i.startswith("part-")))]
    for chosen in graph.sets:
        assert (html / "questions" / "sets" / f"{chosen}.html").is_file()


def test_the_first_round_shows_its_questions_in_order_with_what_is_planned(visit, graph):
    page = visit(FIRST)
    chosen = graph.sets["first-round-ai-infra"]
    asked = page.locator(".il-set-sections h2 .il-card-en")
    assert asked.all_inner_texts() == [section.title.en for section in chosen.sections]
    assert len(chosen.sections) == 21
    rows = [str(row.get_attribute("data-id")) for row in page.locator(".il-card-row").all()]
    assert rows == list(chosen.cards)
    for card in chosen.cards:
        row = page.locator(f".il-card-row[data-id={card}]")
        expect(row.locator("> a" if card in graph.cards else "> .il-planned")).to_be_visible()


def test_a_set_leads_to_its_drill_and_its_sheet(visit, graph):
    page = visit("questions/sets/last-hour.html")
    expect(page.get_by_role("link", name="Drill this set")).to_have_attribute("href", "../../book/drill.html?set=last-hour")
    page.get_by_role("link", name="Print, with answers").click()
    expect(page.get_by_role("combobox", name="Questions")).to_have_value("last-hour")
    expect(page.locator(".il-sheet-questions h2")).to_have_text("Last-hour revision")


def test_a_card_says_in_which_sets_it_is(visit):
    page = visit("questions/part0/kv-cache-principle.html")
    page.keyboard.press("Space")
    page.get_by_role("link", name="Last-hour revision").click()
    expect(page).to_have_url(re.compile(r"sets/last-hour\.html$"))


def test_in_chinese_a_set_is_chinese(visit, graph):
    page = visit(FIRST)
    page.get_by_role("button", name="中文").click()
    expect(page.locator(".il-q-zh")).to_be_visible()
    expect(page.locator(".il-set-about[lang]")).to_be_visible()
    expect(page.locator(".il-set-about.il-en")).to_be_hidden()


def test_a_sheet_has_questions_first_and_answers_after_them(visit, graph):
    page = visit("book/print.html?set=last-hour")
    written = [card for card in graph.sets["last-hour"].cards if card in graph.cards]
    expect(page.locator(".il-sheet-said")).to_contain_text(f"{len(written)} question")
    assert page.locator(".il-sheet-q").all_inner_texts() == [graph.cards[card].title.en for card in written]
    answers = page.locator(".il-sheet-answers .il-sheet-a")
    expect(answers).to_have_count(len(written))
    expect(answers.first).to_contain_text("1. ")
    page.emulate_media(media="print")
    expect(page.locator(".il-sheet-form")).to_be_hidden()
    expect(page.locator("h1")).to_be_hidden()
    assert page.locator(".il-sheet-answers").evaluate("node => getComputedStyle(node).breakBefore") == "page"


def test_a_sheet_as_one_likes_it_is_kept_in_the_address(visit, graph):
    page = visit("book/print.html")
    expect(page.get_by_role("button", name="Print")).to_be_enabled()
    expect(page.locator(".il-sheet-q")).to_have_count(len(graph.cards))
    page.get_by_role("combobox", name="Answers").select_option("below")
    expect(page.locator(".il-sheet-questions .il-sheet-a").first).to_be_visible()
    page.get_by_role("combobox", name="Language").select_option("both")
    expect(page.locator(".il-sheet-a [lang='zh-Hans']").first).to_be_visible()
    page.locator("label", has_text="follow-ups and rubric").click()
    expect(page.locator(".il-sheet-rubric li").first).to_be_visible()
    expect(page.locator(".il-sheet-next dt").first).to_be_visible()
    page.reload()
    expect(page.get_by_role("combobox", name="Answers")).to_have_value("below")
    expect(page.locator(".il-sheet-rubric li").first).to_be_visible()
    page.get_by_role("combobox", name="Answers").select_option("none")
    expect(page.locator(".il-sheet-a")).to_have_count(0)


def test_a_filtered_view_can_be_printed(visit, graph):
    page = visit("book/cards.html?kind=calculation")
    page.get_by_role("link", name="Print these").click()
    wanted = [card.title.en for card in graph.cards.values() if card.kind == "calculation"]
    expect(page.locator(".il-sheet-q")).to_have_text(wanted)


def test_links_on_a_sheet_lead_where_they_led(visit, html):
    page = visit("book/print.html?more=1&answers=below&lang=both")
    expect(page.locator(".il-sheet-rubric li").first).to_be_visible()
    for link in page.locator(".il-sheet-paper a").all():
        where = str(link.evaluate("node => node.pathname")).lstrip("/")
        assert (html / where).is_file() or str(link.get_attribute("href")).startswith("http"), where


def test_what_is_planned_can_be_on_the_sheet_and_has_the_numbers_of_the_set(visit, graph):
    page = visit("book/print.html?set=first-round-ai-infra&planned=1&answers=none")
    chosen = graph.sets["first-round-ai-infra"]
    expect(page.locator(".il-sheet-questions li")).to_have_count(len(chosen.cards))
    numbers = page.locator(".il-sheet-n").all_inner_texts()
    assert numbers[:3] == ["1a", "1b", "2a"] and numbers[-1] == "21"
    expect(page.locator(".il-sheet-questions li.is-planned").first).to_contain_text("planned")


def test_the_pages_of_sets_and_sheets_fit_a_phone(visit):
    for where in (FIRST, "book/sets.html", "book/print.html?set=first-round-ai-infra&planned=1&more=1&lang=both"):
        page = visit(where, narrow=True)
        expect(page.locator(".il-card-row, .il-set-row, .il-sheet-q").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, where


def test_without_script_a_set_is_whole_and_the_sheet_says_what_to_do(visit, graph):
    page = visit(FIRST, script=False)
    assert page.locator(".il-card-row:visible").count() == len(graph.sets["first-round-ai-infra"].cards)
    page = visit("book/print.html", script=False)
    expect(page.get_by_text("put together in your browser")).to_be_visible()
