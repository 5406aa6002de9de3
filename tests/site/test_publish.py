"""What is made for the world outside: PDFs, pictures for shared links, the addresses that others see, the *Status* page."""

from __future__ import annotations

import re
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError
from xml.etree import ElementTree

import pytest
from bs4 import BeautifulSoup
from PIL import Image
from playwright.sync_api import Page

from infer_course import chromium, pdf
from infer_course.errors import CourseError
from infer_course.graph import Graph
from infer_course.sphinx_ext.social import SIZE, Words, draw, plain
from infer_course.web_server import open_server
from tests.site import browser as browsers

Open = Callable[..., Page]


@pytest.fixture(scope="module", params=pdf.NAMES)
def document(request: pytest.FixtureRequest, graph: Graph) -> pdf.Document:
    return pdf.documents(graph)[request.param]


def test_the_printed_page_holds_every_article_once_and_all_its_links_lead_somewhere(document: pdf.Document, html: Path) -> None:
    soup = BeautifulSoup(pdf.joined(document, html), "html.parser")
    ids = [str(tag["id"]) for tag in soup.find_all(id=True)]
    assert len(ids) == len(set(ids))
    assert len(soup.select("article.il-printed")) == len(document.pages) > 0
    for link in soup.select("article [href], nav [href]"):
        address = str(link["href"])
        assert re.match(r"(https?:|mailto:)", address) or address.removeprefix("#") in ids, address
    for picture in soup.select("[src]"):
        assert (html / "pdf" / str(picture["src"]).partition("?")[0]).resolve().is_file()


def test_on_paper_everything_is_open_and_nothing_is_a_button(document: pdf.Document, html: Path) -> None:
    soup = BeautifulSoup(pdf.joined(document, html), "html.parser")
    assert not soup.select("details, summary, button, form, [hidden], article script")
    assert "Reveal the answer" not in soup.get_text()


def test_the_questions_are_printed_by_a_browser(root: Path, html: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = browsers.find()
    assert found is not None
    monkeypatch.setenv("CHROMIUM", found)
    (made,) = pdf.make(root, html, tmp_path, ["questions"])
    assert made == tmp_path / "questions.pdf" and made.read_bytes().startswith(b"%PDF") and made.stat().st_size > 100_000
    assert not list((html / "pdf").glob("*-print*"))


def test_while_it_is_printed_the_site_has_no_page_more(root: Path, html: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever lists the pages meanwhile (another test, a search index, an upload) must not find a document that is all pages at once."""
    before = set(html.rglob("*.html"))
    monkeypatch.setenv("CHROMIUM", str(browsers.find()))
    pages: list[set[Path]] = []
    monkeypatch.setattr(pdf, "_print", lambda browser, site, source, target: (pages.append(set(site.rglob("*.html"))), target)[1])
    pdf.make(root, html, tmp_path, ["questions"])
    assert pages == [before]


def test_without_a_browser_or_a_site_it_says_what_to_do(root: Path, html: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chromium, "find", lambda: "/bin/true")
    with pytest.raises(pdf.PdfError, match="make build"):
        pdf.make(root, tmp_path)
    with pytest.raises(pdf.PdfError, match="there is no document poster; there are book, questions"):
        pdf.make(root, html, tmp_path, ["poster"])
    with pytest.raises(pdf.PdfError, match="did not print"):
        pdf.make(root, html, tmp_path, ["questions"])
    monkeypatch.setattr(chromium, "find", lambda: None)
    with pytest.raises(pdf.PdfError, match="install one"):
        pdf.make(root, html)


def test_the_local_server_makes_a_file_that_is_asked_for_and_shows_why_it_cannot(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("home")

    def make(path: str) -> None:
        if path == "/pdf/book.pdf":
            (tmp_path / "pdf").mkdir(exist_ok=True)
            (tmp_path / "pdf" / "book.pdf").write_bytes(b"%PDF made")
        elif path == "/pdf/questions.pdf":
            raise CourseError("no browser here")

    with open_server(tmp_path, 0) as server:
        server.make_missing = make
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        with urllib.request.urlopen(f"{address}/pdf/book.pdf") as answer:
            assert answer.read() == b"%PDF made"
        with pytest.raises(HTTPError) as refused:
            urllib.request.urlopen(f"{address}/pdf/questions.pdf")
        assert refused.value.code == 503 and refused.value.read() == b"no browser here"
        server.shutdown()


def test_every_page_has_its_own_title_description_address_and_picture(html: Path) -> None:
    titles: dict[str, str] = {}
    for path in sorted(html.rglob("*.html")):
        name = path.relative_to(html).as_posix()
        if name.startswith(("_static", "vendor", "_sphinx")) or name in ("404.html", "search.html"):
            continue
        head = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser").head
        assert head is not None and head.title is not None, name
        title = head.title.get_text()
        assert title not in titles, f"{name} and {titles[title]} have one title"
        titles[title] = name
        described = head.find("meta", attrs={"name": "description"})
        assert described is not None and len(str(described["content"])) >= 20, name
        canonical = head.find("link", rel="canonical")
        assert canonical is not None and str(canonical["href"]).endswith(f"/{name}"), name
        picture = head.find("meta", attrs={"property": "og:image"})
        assert picture is not None, name
        with Image.open(html / str(picture["content"]).split("/", 3)[3]) as image:
            assert image.size == SIZE


def test_the_site_map_lists_every_page_by_its_canonical_address(html: Path) -> None:
    listed = {tag.text for tag in ElementTree.parse(html / "sitemap.xml").iter() if tag.tag.endswith("loc")}
    for address in listed:
        path = html / str(address).split("/", 3)[3]
        assert f'rel="canonical" href="{address}"' in path.read_text(encoding="utf-8")


def test_a_picture_is_drawn_again_only_when_its_words_change(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    words = Words("Lesson", "A “very” long title – " + "words and more words " * 20, "10 min")
    draw(words, path)
    first = path.stat().st_mtime_ns
    draw(words, path)
    assert path.stat().st_mtime_ns == first
    draw(Words("Lesson", "Other", "10 min"), path)
    assert path.stat().st_mtime_ns != first
    assert plain("“O(n²)” × 8 — 中文 é") == '"O(n2)" x 8 - e'


def test_status_says_what_ran_where_with_which_versions_and_the_oldest_source(visit: Open, graph: Graph) -> None:
    page = visit("book/status.html")
    assert all(code.bounding_box()["height"] < 30 for code in page.locator("td > code.il-one-line").all()), "a commit stands in one line"
    rows = page.locator("[aria-label='Runs of labs and benchmarks'] tbody tr")
    assert rows.count() == len(graph.measurements) + sum(lab.run is not None for lab in graph.labs.values())
    for record in graph.measurements.values():
        row = (
            rows.filter(has_text=record.device.name).filter(has_text=record.date.date().isoformat()).filter(has_text=record.git.commit[:7])
        )
        assert row.count() >= 1
    oldest = min(source.checked for node in (*graph.lessons.values(), *graph.cards.values()) for source in node.sources)
    assert oldest.isoformat() in page.locator("#sources + p").inner_text()


def test_the_foot_of_every_page_leads_to_the_pdfs(visit: Open) -> None:
    page = visit("questions/part0/kv-cache-principle.html")
    links = page.locator(".il-foot a[href$='.pdf']")
    assert [link.get_attribute("href") for link in links.all()] == ["../../pdf/book.pdf", "../../pdf/questions.pdf"]
