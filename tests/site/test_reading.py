"""A reader finds their way: doors, links in both directions, search, colours, narrow screens, numbers that explain themselves."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

KINDS = {
    "home": "",
    "learn": "book/index.html",
    "drill": "book/drill.html",
    "run": "book/run.html",
    "measured": "book/measured.html",
    "status": "book/status.html",
    "part": "book/part0/index.html",
    "questions": "questions/part0/index.html",
    "lesson": "book/part0/kv-cache.html",
    "card": "questions/part0/kv-cache-size-calculation.html",
    "lab": "labs/part0/kv-cache-by-hand.html",
    "search": "search.html",
    "lost": "404.html",
}


def test_home_has_three_doors_and_the_path_of_a_request(visit):
    page = visit()
    expect(page).to_have_title(re.compile("Inference Lab"))
    assert page.locator(".il-door .il-door-name").all_inner_texts() == ["Learn", "Drill", "Run"]
    stages = page.locator(".il-path--wide a.il-stage")
    expect(stages).to_have_count(9)
    page.locator(".il-path--wide a[data-stage=decode]").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"book/index\.html#stage-decode$"))
    expect(page.locator("#stage-decode")).to_be_in_viewport()


def test_the_path_is_legible_on_a_phone(visit):
    page = visit(narrow=True)
    expect(page.locator(".il-path--wide")).to_be_hidden()
    name = page.locator(".il-path--tall .p-name").first
    expect(name).to_be_visible()
    assert name.bounding_box()["height"] >= 14


def test_lesson_to_card_to_lab_and_back(visit):
    page = visit("book/part0/kv-cache.html")
    page.locator("#interview-connection .il-face-q a").first.click()
    expect(page).to_have_url(re.compile(r"questions/part0/kv-cache-principle\.html$"))
    page.locator(".il-card-foot").get_by_role("link", name=re.compile("KV cache by hand", re.I)).first.click()
    expect(page).to_have_url(re.compile(r"labs/part0/kv-cache-by-hand\.html$"))
    page.locator("#what-it-proves .il-face-q a").nth(1).click()
    expect(page).to_have_url(re.compile(r"questions/part0/kv-cache-size-calculation\.html$"))
    page.go_back()
    page.locator(".il-lab-head").get_by_role("link", name=re.compile("why, how big")).click()
    expect(page.locator("h1")).to_contain_text("The KV cache")


def test_every_edge_of_the_graph_is_a_link_in_both_directions(visit, graph):
    """Lesson, card, lab and record: each page leads to all its neighbours."""

    def leads_to(page: Page, path: str) -> bool:
        return page.locator(f"main a[href*='{path.rpartition('/')[2].rpartition('.')[0]}.html']").count() > 0

    def address_of(node) -> str:
        return f"{node.path.rpartition('.')[0]}.html"

    for lesson in graph.lessons.values():
        page = visit(address_of(lesson))
        for node in (*graph.cards_of_lesson(lesson.id), *graph.labs_of_lesson(lesson.id)):
            assert leads_to(page, node.path), (lesson.id, node.id)
    for lab in graph.labs.values():
        page = visit(address_of(lab))
        for node in (*graph.cards_of_lab(lab.id), *graph.lessons_of_lab(lab.id)):
            assert leads_to(page, node.path), (lab.id, node.id)
    page = visit("book/measured.html")
    for record in graph.measurements.values():
        section = page.locator(f"#{record.id.replace('/', '-')}")
        expect(section).to_contain_text(record.device.name)
        for node in (
            *graph.cards_of_measurement(record.id),
            *graph.lessons_of_measurement(record.id),
            *graph.labs_of_measurement(record.id),
        ):
            assert section.locator(f"a[href$='/{node.id}.html']").count() == 1, (record.id, node.id)


def test_planned_cards_are_shown_as_planned_and_lead_nowhere(visit, graph):
    card = graph.cards["kv-cache-principle"]
    planned = [name for name in card.follow_ups if name in graph.planned]
    page = visit("questions/part0/kv-cache-principle.html")
    for name in planned:
        mark = page.locator(f".il-planned[data-id='{name}']")
        expect(mark).to_have_text(graph.planned[name])
        assert mark.locator("xpath=ancestor::a").count() == 0


def test_search_finds_a_lesson_and_a_card(visit):
    page = visit()
    page.keyboard.press("/")
    expect(page.locator("input[type=search]")).to_be_focused()
    page.keyboard.type("crossover")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"search\.html\?q=crossover"))
    results = page.locator("#search-results li a")
    expect(results.first).to_be_visible()
    expect(page.locator("#search-results a[href*='part0/kv-cache.html']").first).to_be_visible()
    expect(page.locator("#search-results a[href*='kv-cache-throughput-ceiling.html']").first).to_be_visible()
    expect(page.locator("input[type=search]:visible")).to_have_count(1)


def test_keys_are_left_to_whoever_types(visit):
    page = visit("questions/part0/kv-cache-principle.html")
    here = page.url
    page.keyboard.press("/")
    page.keyboard.type("j k? ")
    expect(page.locator("input[type=search]")).to_have_value("j k? ")
    expect(page.locator("#il-help")).to_be_hidden()
    expect(page.locator("details.il-answer")).not_to_have_attribute("open", "")
    assert page.url == here


def test_the_colour_theme_follows_the_system_and_then_the_reader(visit):
    page = visit(dark=True)
    root = page.locator("html")
    expect(root).to_have_attribute("data-theme", "dark")
    switch = page.locator("#il-theme")
    switch.click()
    expect(root).to_have_attribute("data-theme", "light")
    expect(switch).to_have_accessible_name("Colour theme: light")
    page.goto(page.url + "book/drill.html")
    expect(root).to_have_attribute("data-theme", "light")


def test_help_lists_the_keys_and_escape_closes_it(visit):
    page = visit("questions/part0/kv-cache-principle.html")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_be_visible()
    expect(dialog.locator("dt")).to_have_text(["/", "Space", "f", "l", "j", "k", "r", "?", "Esc"])
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_a_number_explains_itself_on_focus_and_escape_closes(visit):
    page = visit("book/part0/kv-cache.html")
    mark = page.locator(".il-val.il-calc", has_text="128 KiB").first
    tip = page.locator(f"[id='{mark.get_attribute('aria-describedby')}']")
    expect(tip).to_be_hidden()
    mark.focus()
    expect(tip).to_be_visible()
    expect(tip).to_have_role("tooltip")
    expect(tip).to_contain_text("2 · layers · kv_heads · head_dim · bytes")
    expect(tip).to_contain_text("2 · 32 · 8 · 128 · 2")
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    expect(mark).to_be_focused()


def test_a_number_explains_itself_on_tap_inside_the_window(visit):
    page = visit("book/part0/kv-cache.html", narrow=True)
    for mark in page.locator("table .il-val").all()[:4]:
        mark.scroll_into_view_if_needed()
        mark.tap()
        box = page.locator(f"[id='{mark.get_attribute('aria-describedby')}']").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390, box
        mark.tap()
        expect(page.locator(f"[id='{mark.get_attribute('aria-describedby')}']")).to_be_hidden()


def test_a_measured_number_names_its_device_and_day(visit, graph):
    page = visit("book/part0/kv-cache.html")
    record = graph.measurements_of_lesson("kv-cache")[0]
    mark = page.locator(".il-val.il-measured").first
    mark.focus()
    tip = page.locator(f"[id='{mark.get_attribute('aria-describedby')}']")
    expect(tip).to_contain_text(record.device.name)
    expect(tip).to_contain_text(record.date.date().isoformat())
    expect(tip).to_contain_text(record.git.commit[:7])


def test_a_measured_figure_has_its_numbers_units_and_provenance(visit, graph):
    page = visit("book/part0/kv-cache.html")
    figure = page.locator("figure.il-fig:has(.il-plot)").first
    expect(figure.locator(".il-plot--wide .il-axis-name")).to_have_text([re.compile(r", \S+"), re.compile(r", \S+")])
    expect(figure.locator("figcaption")).to_contain_text("What to see")
    expect(figure.locator(".il-fig-foot")).to_contain_text("commit")
    figure.get_by_text("Show the numbers").click()
    expect(figure.locator("table tbody tr").first).to_be_visible()


def test_a_model_name_never_breaks_after_a_hyphen(visit):
    page = visit("questions/part0/kv-cache-size-calculation.html", narrow=True)
    page.evaluate("document.querySelectorAll('main details').forEach(node => { node.open = true })")
    names = page.locator("main .il-one-line", has_text=re.compile("^Llama-3-8B$"))
    assert names.count() > 5
    lines = page.evaluate("[...document.querySelectorAll('main .il-one-line')].map(node => node.getClientRects().length)")
    assert set(lines) <= {0, 1}


def test_formulas_are_rendered_from_our_own_copy(visit):
    page = visit("book/part0/kv-cache.html")
    expect(page.locator("mjx-container").first).to_be_visible()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_scrolls_sideways_on_a_phone(visit, kind):
    page = visit(KINDS[kind], narrow=True)
    for answer in page.locator("main details").all():
        answer.evaluate("node => { node.open = true }")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    expect(page.locator("h1")).to_have_count(1)


def test_the_menu_of_a_phone_leads_everywhere(visit):
    page = visit("book/part0/kv-cache.html", narrow=True)
    page.locator(".il-menu > summary").click()
    menu = page.get_by_role("navigation", name="Menu")
    expect(menu.get_by_role("link", name="Drill").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(menu).to_be_hidden()
    page.locator(".il-menu > summary").click()
    menu.get_by_role("link", name="Drill").first.click()
    expect(page.locator("h1")).to_contain_text("Drill")


def test_a_missing_page_says_so_at_any_depth(visit, address):
    page = visit()
    answer = page.goto(address + "book/part9/nothing/here.html")
    assert answer is not None and answer.status == 404
    expect(page.locator("h1")).to_have_text("Cache miss")
    page.get_by_role("link", name="all questions").click()
    expect(page.locator("h1")).to_contain_text("Questions")
    visit.complaints[:] = [said for said in visit.complaints if "404" not in said]


@pytest.mark.parametrize("words", ["显存", "吞吐", "KV cache 容量", "层"])
def test_search_finds_chinese_words_inside_sentences(visit, words):
    page = visit(f"search.html?q={words}")
    expect(page.locator("#search-results a[href*='questions/part0/kv-cache']").first).to_be_visible()


def test_search_puts_what_explains_before_what_lists(visit):
    page = visit("search.html?q=GQA")
    expect(page.locator("#search-results")).to_contain_text("Pages with all of these words")
    order = [str(link.get_attribute("href")) for link in page.locator("#search-results li > a").all()]
    records = [address for address in order if address.startswith("book/measured.html#")]
    explains = [not re.search(r"index\.html|^book/[a-z]+\.html", address) for address in order if address not in records]
    assert explains and explains == sorted(explains, reverse=True), order
    assert not set(records) & set(order[:3]), "a measurement is found, but after what explains it"


def test_a_search_result_quotes_none_of_the_frame(visit):
    page = visit("search.html?q=kv+cache")
    expect(page.locator("#search-results p.context").nth(4)).to_be_visible()
    quoted = page.locator("#search-results").inner_text()
    for frame in ("Reveal the answer", "中文 ", "tokenize schedule prefill", "Part 0 questions"):
        assert frame not in quoted


def test_a_search_result_says_what_kind_of_page_it_is(visit):
    for words, start, kind in (
        ("kv cache", "book/part0/kv-cache", "lesson"),
        ("kv cache", "questions/part0/kv-cache", "question"),
        ("kv cache", "labs/part0", "lab"),
        ("the mental model", "book/part0/index", "part"),
    ):
        page = visit(f"search.html?q={words.replace(' ', '+')}")
        result = page.locator(f"#search-results li:has(> a[href^='{start}'])").first
        expect(result.locator("> .il-label")).to_have_text(kind)
        page.context.close()


def test_a_search_without_result_says_what_to_do(visit):
    page = visit("search.html?q=zzzz")
    expect(page.locator("#search-results")).to_contain_text("Try fewer or shorter ones")


def test_letters_twice_as_large_fit(visit):
    """With text of 200 % on every kind of page: as wide as the window, on a phone the bar on top too."""
    for where in KINDS.values():
        page = visit(where)
        page.add_style_tag(content="html { font-size: 200% }")
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280, where
        page.context.close()
    for where in ("book/drill.html", "book/calculators/kv-cache.html"):
        page = visit(where, narrow=True)
        page.add_style_tag(content="html { font-size: 200% }")
        page.locator("main h1").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, where
        expect(page.get_by_role("link", name="Inference Lab").first).to_be_visible()


def test_a_long_note_stays_in_the_window_and_below_the_bar(visit):
    page = visit("book/part0/kv-cache.html", narrow=True)
    mark = page.locator(".il-val.il-calc", has_text="5,028").first
    for block in ("start", "center", "end"):
        mark.evaluate("(node, block) => node.scrollIntoView({ block, behavior: 'instant' })", block)
        mark.focus()
        tip = page.locator(f"[id='{mark.get_attribute('aria-describedby')}']")
        expect(tip).to_contain_text("decode_throughput_ceiling")
        box = tip.bounding_box()
        assert box["y"] >= 56 and box["y"] + box["height"] <= 844, (block, box)


def test_names_of_lines_stay_inside_a_narrow_picture(visit):
    page = visit("book/part0/kv-cache.html", narrow=True)
    for name in page.locator(".il-plot--narrow .il-name").all():
        box = name.bounding_box()
        assert box["x"] + box["width"] <= 390


def test_what_a_lab_printed_is_not_cut_off(visit):
    page = visit("labs/part0/kv-cache-by-hand.html")
    assert page.evaluate("[...document.querySelectorAll('.cell_output pre')].every(box => box.scrollWidth <= box.clientWidth + 1)")


def test_a_search_result_quotes_the_text_and_not_the_notes_on_numbers(visit):
    page = visit("search.html?q=ridge")
    quote = page.locator("#search-results p.context").first
    expect(quote).to_be_visible()
    expect(page.locator("#search-results")).not_to_contain_text("computed:")


def test_without_script_a_number_still_says_where_it_is_from(visit):
    page = visit("book/part0/kv-cache.html", script=False)
    mark = page.locator(".il-val.il-calc", has_text="128 KiB").first
    expect(mark).to_have_attribute("title", re.compile("layers · kv_heads"))
