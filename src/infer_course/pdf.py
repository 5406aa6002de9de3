"""The book and the question bank as PDF, printed by a browser from the built site: no TeX, the same formulas, figures and numbers.

Why one long page for each: printed page by page, every lesson would begin a new file, links between them would be lost, and it takes far
longer. So the articles of the built pages are joined into one document, their ids made unique, links among them made internal and
all others absolute. What unfolds on the site is open on paper.

    python -m infer_course.pdf [--root CHECKOUT] [--html BUILT] [--out FOLDER] [book|questions …]
"""

from __future__ import annotations

import argparse
import posixpath
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bs4 import BeautifulSoup, Tag

from infer_course import chromium
from infer_course.content_map import content_map
from infer_course.errors import CourseError
from infer_course.graph import Graph, load
from infer_course.web_server import open_server

FOLDER = "pdf"
NAMES = ("book", "questions")
PARTS_TO_DROP = ".il-onward, .il-crumbs, .headerlink, script, .il-js, .copybtn, button, form, dialog, .il-tip"
REFERENCES = ("aria-labelledby", "aria-describedby", "aria-controls", "for")


class PdfError(CourseError):
    """The PDF could not be printed; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Document:
    """name: of the file. chapters: (heading, docnames in order)."""

    name: str
    title: str
    about: str
    chapters: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def pages(self) -> list[str]:
        return [page for _, pages in self.chapters for page in pages]


def documents(graph: Graph) -> dict[str, Document]:
    """What can be printed: the book (lessons with their labs, part by part) and the question bank."""
    book, bank = [], []
    for part in content_map().parts:
        lessons = [_docname(lesson.path) for lesson in graph.lessons.values() if lesson.part == part.part]
        labs = [_docname(lab.path) for lab in graph.labs.values() if lab.part == part.part]
        cards = [_docname(card.path) for card in graph.cards.values() if card.part == part.part]
        heading = f"Part {part.part} · {part.title_en}"
        book += [(heading, tuple(lessons + labs))] if lessons or labs else []
        bank += [(heading, tuple(cards))] if cards else []
    return {
        "book": Document("book", "Inference Lab: the book", "Lessons and labs, with what they computed and measured.", tuple(book)),
        "questions": Document("questions", "Inference Lab: the questions", "Every question with its answer and rubric.", tuple(bank)),
    }


def make(root: Path, html: Path, out: Path | None = None, wanted: Sequence[str] = ()) -> list[Path]:
    """Prints the documents from the built site into `out` (default: `html`/pdf) and returns their paths.

    PdfError without a browser, without a built site, or when printing failed; what was printed before stays then.
    """
    browser = chromium.find()
    if browser is None:
        raise PdfError(
            "there is no Chromium to print with: install one (Debian, Ubuntu: apt install chromium), or set CHROMIUM to its path"
        )
    if not (html / "index.html").is_file():
        raise PdfError(f"there is no built site in {html}; run `make build` first")
    if unknown := set(wanted) - set(NAMES):
        raise PdfError(f"there is no document {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    known = documents(load(root))
    folder = out or html / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for document in known.values():
        if not wanted or document.name in wanted:
            source = html / FOLDER / f"{document.name}-print.htm"  # for a moment only, and no .html: nobody takes it for a page of the site
            source.parent.mkdir(exist_ok=True)
            source.write_text(joined(document, html), encoding="utf-8")
            try:
                made.append(_print(browser, html, source, folder / f"{document.name}.pdf"))
            finally:
                source.unlink()
    return made


def on_demand(root: Path, html: Path) -> Callable[[str], None]:
    """For the local server: makes `pdf/<name>.pdf` when it is asked for and is missing, or older than the last build."""
    printing = threading.Lock()

    def make_missing(path: str) -> None:
        name = path.removeprefix(f"/{FOLDER}/").removesuffix(".pdf")
        if path != f"/{FOLDER}/{name}.pdf" or name not in NAMES:
            return
        with printing:
            target, built = html / FOLDER / f"{name}.pdf", html.parent / ".stamp.json"
            if not target.is_file() or (built.is_file() and target.stat().st_mtime < built.stat().st_mtime):
                make(root, html, wanted=[name])

    return make_missing


def _print(browser: str, html: Path, source: Path, target: Path) -> Path:
    part = target.with_suffix(".part")
    with open_server(html, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/{source.relative_to(html).as_posix()}"
        command = [
            browser, "--headless", *chromium.FLAGS, "--no-pdf-header-footer", "--generate-pdf-document-outline",
            "--virtual-time-budget=120000", f"--print-to-pdf={part}", address,
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
        server.shutdown()
    if done.returncode or not part.is_file() or not part.read_bytes().startswith(b"%PDF"):
        part.unlink(missing_ok=True)
        raise PdfError(f"{Path(browser).name} did not print {target.name}: {done.stderr.strip()[-400:]}")
    part.replace(target)
    return target


def joined(document: Document, html: Path) -> str:
    """One HTML page, to stand in `html`/pdf/, of all pages of the document."""
    first = BeautifulSoup((html / f"{document.pages[0]}.html").read_text(encoding="utf-8"), "html.parser") if document.pages else None
    if first is None:
        raise PdfError(f"there is nothing to print in {document.name} yet")
    canonical = first.find("link", rel="canonical")
    base = str(canonical["href"]).removesuffix(f"{document.pages[0]}.html") if isinstance(canonical, Tag) else ""
    inside = {page: _slug(page) for page in document.pages}
    body, contents = [], []
    for heading, pages in document.chapters:
        titles = []
        body.append(f'<section class="il-part"><h1 class="il-part-title">{heading}</h1></section>')
        for page in pages:
            article = _article(html, page, inside, base)
            title = article.find("h1")
            titles.append(f'<li><a href="#{inside[page]}">{title.get_text().strip() if title else page}</a></li>')
            body.append(f'<article class="il-article il-printed" id="{inside[page]}">{article.decode_contents()}</article>')
        contents.append(f"<h2>{heading}</h2><ol>{''.join(titles)}</ol>")
    styles = "".join(str(tag) for tag in _styles(first, document.pages[0]))
    scripts = "".join(f"<script>{tag.string}</script>" for tag in first.find_all("script") if "window.MathJax" in (tag.string or ""))
    return (
        f'<!DOCTYPE html><html lang="en" data-js data-theme="light" data-lang="en" data-print><head><meta charset="utf-8">'
        f"<title>{document.title}</title>{styles}{scripts}"
        '<script defer src="../vendor/mathjax/tex-mml-chtml.js"></script></head>'
        f'<body class="il-paper"><section class="il-cover"><h1>{document.title}</h1><p>{document.about}</p></section>'
        f'<nav class="il-paper-toc">{"".join(contents)}</nav>{"".join(body)}</body></html>'
    )


def _article(html: Path, page: str, inside: Mapping[str, str], base: str) -> Tag:
    """The page's article, everything open, ids prefixed, links internal or absolute, files seen from `html`/pdf/."""
    soup = BeautifulSoup((html / f"{page}.html").read_text(encoding="utf-8"), "html.parser")
    article = soup.select_one("article.il-article")
    if article is None:
        raise PdfError(f"{page}.html has no article")
    prefix, folder = inside[page], posixpath.dirname(page)
    for tag in article.select(PARTS_TO_DROP):
        tag.decompose()
    for tag in article.select("summary:has(.il-when-closed)"):
        tag.decompose()  # a mere button; others are headings of what they unfold
    for tag in article.find_all(True):
        if tag.name in ("details", "summary"):
            tag["class"] = " ".join([*map(str, tag.get_attribute_list("class")), f"il-open-{tag.name}"])
            tag.name = "div"
        tag.attrs.pop("hidden", None)
        if "id" in tag.attrs:
            tag["id"] = f"{prefix}--{tag['id']}"
        for name in REFERENCES:
            if name in tag.attrs:
                tag[name] = " ".join(f"{prefix}--{word}" for word in str(tag[name]).split())
        for name in ("href", "src"):
            if name in tag.attrs:
                tag[name] = _address(str(tag[name]), name, folder, prefix, inside, base)
    return article


def _address(address: str, name: str, folder: str, prefix: str, inside: Mapping[str, str], base: str) -> str:
    parts = urlsplit(address)
    if parts.scheme or address.startswith("//"):
        return address
    if not parts.path:
        return f"#{prefix}--{parts.fragment}" if parts.fragment else f"#{prefix}"
    path = posixpath.normpath(posixpath.join(folder, parts.path))
    if name == "src":
        return f"../{path}"
    page = path.removesuffix(".html")
    if page in inside:
        return f"#{inside[page]}--{parts.fragment}" if parts.fragment else f"#{inside[page]}"
    return base + path + (f"?{parts.query}" if parts.query else "") + (f"#{parts.fragment}" if parts.fragment else "")


def _styles(soup: BeautifulSoup, page: str) -> list[Tag]:
    found = [tag for tag in soup.find_all("link", rel="stylesheet") if isinstance(tag, Tag)]
    for tag in found:
        tag["href"] = f"../{posixpath.normpath(posixpath.join(posixpath.dirname(page), str(tag['href'])))}"
    return found


def _slug(page: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", page.lower())


def _docname(path: str) -> str:
    return path.rpartition(".")[0]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m infer_course.pdf", description="Print the built site as PDF.")
    parser.add_argument("wanted", nargs="*", metavar="book|questions", help="which documents (default: both)")
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="the checkout (default: here)")
    parser.add_argument("--html", type=Path, help="the built site (default: ROOT/_build/html)")
    parser.add_argument("--out", type=Path, help="where the files go (default: HTML/pdf)")
    options = parser.parse_args(arguments)
    try:
        for path in make(options.root, options.html or options.root / "_build" / "html", options.out, options.wanted):
            print(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")
    except CourseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
