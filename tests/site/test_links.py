"""The built files, read without a browser: every link and anchor leads somewhere, nothing is fetched from elsewhere, no page is lost."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import pytest

from infer_course import pdf

VOID = {"a": "href", "link": "href", "img": "src", "script": "src", "source": "src", "iframe": "src", "image": "href", "use": "href"}
FETCHED = {"link", "img", "script", "source", "iframe", "image", "use"}


@dataclass
class Page(HTMLParser):
    """Ids, links and head of one page."""

    text: str
    ids: list[str] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    headings: int = 0
    described: bool = False

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if found.get("id"):
            self.ids.append(str(found["id"]))
        self.headings += tag == "h1"
        self.described |= tag == "meta" and found.get("name") == "description"
        relation = found.get("rel") or ""
        if tag in VOID and (target := found.get(VOID[tag])) and "canonical" not in relation:
            self.links.append((tag, target))


MADE_WHEN_ASKED_FOR = {f"{pdf.FOLDER}/{name}.pdf" for name in pdf.NAMES}  # by the local server, or by the recipe that publishes


@pytest.fixture(scope="module")
def pages(html: Path) -> dict[str, Page]:
    files = (path for path in html.rglob("*.html") if "_static" not in path.parts)
    return {path.relative_to(html).as_posix(): Page(path.read_text(encoding="utf-8")) for path in files}


def _target(page: str, link: str) -> tuple[str, str]:
    parts = urlsplit(link)
    base = "" if page == "404.html" else posixpath.dirname(page)
    path = posixpath.normpath(posixpath.join(base, unquote(parts.path))) if parts.path else page
    return path, unquote(parts.fragment)


def test_every_link_and_anchor_leads_somewhere(pages, html):
    broken = []
    for name, page in pages.items():
        for _, link in page.links:
            if urlsplit(link).scheme or link.startswith("//"):
                continue
            path, anchor = _target(name, link)
            if path in pages:
                if anchor and anchor not in pages[path].ids:
                    broken.append(f"{name}: {link}: no such anchor")
            elif path not in MADE_WHEN_ASKED_FOR and not (html / path).is_file():
                broken.append(f"{name}: {link}: no such page")
    assert not broken, "\n".join(broken)


def test_nothing_is_fetched_from_elsewhere(pages, html):
    fetched = [f"{name}: {link}" for name, page in pages.items() for tag, link in page.links if tag in FETCHED and urlsplit(link).netloc]
    styles = [path.name for path in html.rglob("*.css") if "vendor" not in path.parts and "url(http" in path.read_text(encoding="utf-8")]
    assert not fetched and not styles


def test_every_page_can_be_reached_from_the_home_page(pages):
    reached, open_ = set(), ["index.html"]
    while open_:
        name = open_.pop()
        if name in reached or name not in pages:
            continue
        reached.add(name)
        open_ += [_target(name, link)[0] for tag, link in pages[name].links if tag == "a" and not urlsplit(link).scheme]
    assert set(pages) - reached == {"404.html"}


def test_every_page_has_one_title_one_heading_and_unique_ids(pages):
    for name, page in pages.items():
        assert page.text.partition("</head>")[0].count("<title>") == 1, name
        assert page.headings == 1, name
        repeated = {found for found in page.ids if page.ids.count(found) > 1}
        assert not repeated, (name, repeated)


def test_lessons_cards_and_labs_describe_themselves(pages, graph):
    assert {name for name, page in pages.items() if not page.described} == {"404.html", "search.html"}
    for node in (*graph.lessons.values(), *graph.cards.values(), *graph.labs.values()):
        page = pages[f"{node.path.rpartition('.')[0]}.html"]
        assert page.text.count('property="og:description"') == 1, node.id
        assert node.title.en.split()[0] in page.text


def test_the_sitemap_lists_every_page_of_the_course(html, graph):
    listed = ElementTree.parse(html / "sitemap.xml").getroot()
    found = {element.text or "" for element in listed.iter() if element.tag.endswith("}loc")}
    for node in (*graph.lessons.values(), *graph.cards.values(), *graph.labs.values()):
        assert any(where.endswith(f"/{node.path.rpartition('.')[0]}.html") for where in found), node.id


def test_the_home_page_is_light(html, pages):
    """What the first visit transfers, before compression: page, styles and scripts."""
    wanted = [html / _target("index.html", link)[0] for tag, link in pages["index.html"].links if tag in ("link", "script")]
    files = {path for path in wanted if path.suffix in (".css", ".js", ".mjs")}
    assert sum(path.stat().st_size for path in files) + len(pages["index.html"].text) < 300_000


def test_no_page_names_the_machine_it_was_built_on(pages, root):
    for name, page in pages.items():
        assert str(root) not in page.text, name
