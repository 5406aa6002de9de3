"""The search of the whole site: forgives typing errors, finds sections, walks by keys; the first visit to the site stays light."""

from __future__ import annotations

import gzip
import re

import pytest
from playwright.sync_api import expect

HOME_BUDGET = 300_000  # bytes over the wire on a first visit


@pytest.mark.parametrize("words", ["througput ceilling", "pagde kvcache", "quantised cache", "atention heads"])
def test_a_typing_error_in_the_bar_still_finds_something(visit, words):
    page = visit()
    page.keyboard.press("/")
    page.keyboard.type(words)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"search\.html\?q="))
    expect(page.locator("#search-results li > a").first).to_be_visible()
    expect(page.locator("#search-results .il-found")).to_contain_text(re.compile(r"Pages with all of these words: [1-9].*this is “"))


def test_results_follow_the_typing_and_lead_into_sections(visit):
    page = visit("search.html")
    page.get_by_role("searchbox").fill("block table")
    expect(page.locator("#search-results a[href*='#']").first).to_be_visible()
    expect(page).to_have_url(re.compile(r"q=block\+table|q=block%20table"))
    page.get_by_role("searchbox").fill("")
    expect(page.locator("#search-results li")).to_have_count(0)


def test_every_section_that_a_result_leads_to_exists(visit, html):
    page = visit("search.html?q=cache")
    links = page.locator("#search-results a[href*='#']")
    expect(links.first).to_be_visible()
    for link in links.all():
        path, _, anchor = str(link.get_attribute("href")).partition("#")
        assert f'id="{anchor}"' in (html / path).read_text(encoding="utf-8"), (path, anchor)


def test_arrows_and_keys_walk_the_results(visit):
    page = visit("search.html?q=cache")
    links = page.locator("#search-results li > a")
    expect(links.first).to_be_visible()
    page.get_by_role("searchbox").press("ArrowDown")
    expect(links.nth(0)).to_be_focused()
    page.keyboard.press("j")
    expect(links.nth(1)).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("k")
    expect(page.get_by_role("searchbox")).to_be_focused()


def test_pages_with_some_of_the_words_come_when_none_has_all(visit):
    page = visit("search.html?q=bibliography+kv+zzzzqqq")
    expect(page.locator("#search-results .il-found")).to_contain_text("No page has all of these words")
    expect(page.locator("#search-results li > a").first).to_be_visible()


def test_sets_and_records_are_found_too(visit):
    page = visit("search.html?q=first+round")
    expect(page.locator("#search-results a[href='questions/sets/first-round-ai-infra.html']")).to_be_visible()
    page.get_by_role("searchbox").fill("一面")
    expect(page.locator("#search-results a[href='questions/sets/first-round-ai-infra.html']")).to_be_visible()


def test_the_first_visit_transfers_less_than_300_kb(browser, address, html):
    """What the browser asks for on the home page until it is quiet, each file compressed as a server would."""
    context = browser.new_context()
    asked: list[str] = []
    page = context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    page.wait_for_load_state("networkidle")
    context.close()
    paths = [url.removeprefix(address).partition("?")[0] or "index.html" for url in asked]
    sizes = {path: len(gzip.compress((html / path).read_bytes(), 6)) for path in paths}
    assert sum(sizes.values()) < HOME_BUDGET, sizes
    assert not [path for path in paths if path.endswith(".json")]
