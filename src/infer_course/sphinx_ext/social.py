"""The picture that a shared link shows: 1200 × 630, the page's title, what kind of page it is, in the colours of the site.

Drawn from the graph with the font that comes with the drawing library, so that it needs neither a browser nor fonts of the machine. That
font knows Latin letters only, so Chinese titles stay in the page's own metadata. A picture is drawn again only when its words change.
"""

from __future__ import annotations

import hashlib
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docutils import nodes
from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo
from sphinx.application import Sphinx

from infer_course.nodes import Card, Lab, Lesson, SetOfCards
from infer_course.sphinx_ext.course import of
from infer_course.sphinx_ext.questions import page_of_set

FOLDER = "_images/social"
SIZE = (1200, 630)
PAPER, INK, QUIET, PREDICTED, MEASURED = "#fbfaf6", "#1b1e22", "#5c6167", "#E69F00", "#009E73"
MOTTO = "Predict it. Measure it. Say it."
SPELLED = str.maketrans(
    {"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "→": "to", "×": "x", "·": "-", "…": "...", "≤": "<=", "µ": "u"}
)


@dataclass(frozen=True, slots=True)
class Words:
    kind: str
    title: str
    foot: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(repr((self.kind, self.title, self.foot, PAPER, SIZE)).encode()).hexdigest()[:16]


def attach(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Event `html-page-context`: draws the page's picture and names it in the metadata. Needs an address to publish at."""
    base = app.config.html_baseurl
    if not base or (doctree is None and pagename not in _set_pages(app)):
        return
    words = _words(app, pagename)
    name = f"{FOLDER}/{pagename.replace('/', '-')}.png"
    draw(words, Path(app.outdir) / name)
    address = f"{base.rstrip('/')}/{name}"
    context["metatags"] += (
        f'<meta property="og:image" content="{address}" />\n<meta property="og:image:width" content="{SIZE[0]}" />\n'
        f'<meta property="og:image:height" content="{SIZE[1]}" />\n<meta property="og:image:alt" content="{_attribute(words.title)}" />\n'
        '<meta name="twitter:card" content="summary_large_image" />\n'
    )


def _words(app: Sphinx, pagename: str) -> Words:
    page = of(app).pages.get(pagename) or _set_pages(app).get(pagename)
    match page:
        case SetOfCards():
            return Words("Question set", page.title.en, f"{len(page.cards)} questions")
        case Card():
            return Words("Interview question", page.title.en, f"{page.kind}, {page.level}, {page.minutes:g} min, part {page.part}")
        case Lesson():
            return Words("Lesson", page.title.en, f"{page.minutes:g} min, part {page.part}")
        case Lab():
            return Words("Lab", page.title.en, f"runs on your machine in about {page.minutes:g} min, part {page.part}")
        case _:
            title = app.config.html_title if pagename == "index" else app.env.titles[pagename].astext()
            return Words(str(app.config.project), title, MOTTO)


def _set_pages(app: Sphinx) -> dict[str, SetOfCards]:
    return {page_of_set(chosen.id): chosen for chosen in of(app).graph.sets.values()}


def draw(words: Words, path: Path) -> None:
    """Writes the PNG unless the one there says the same."""
    if path.is_file() and _said_by(path) == words.digest:
        return
    image = Image.new("RGB", SIZE, PAPER)
    pen = ImageDraw.Draw(image)
    pen.text((80, 70), plain(words.kind), fill=MEASURED, font=_font(34))
    lines, font = _fitted(pen, plain(words.title.replace("`", "")), SIZE[0] - 160, 300)
    pen.multiline_text((80, 140), "\n".join(lines), fill=INK, font=font, spacing=14)
    pen.text((80, 500), plain(words.foot), fill=QUIET, font=_font(30))
    pen.text((80, 556), "Inference Lab", fill=INK, font=_font(30))
    _mark(pen, 1000, 470)
    path.parent.mkdir(parents=True, exist_ok=True)
    said = PngInfo()
    said.add_text("words", words.digest)
    image.save(path, optimize=True, pnginfo=said)


def plain(text: str) -> str:
    """The text in letters that the font has: typographic signs spelled out, accents dropped, anything else left out."""
    text = unicodedata.normalize("NFKD", text.translate(SPELLED))
    return " ".join("".join(letter for letter in text if " " <= letter <= "~").split())


def _font(size: int) -> Any:
    return ImageFont.load_default(size)


def _fitted(pen: ImageDraw.ImageDraw, text: str, width: int, height: int) -> tuple[list[str], Any]:
    """The largest type in which the text fits, and its lines; the smallest is cut."""
    for size in (72, 64, 56, 48, 42):
        font = _font(size)
        lines = _wrapped(pen, text, font, width)
        if len(lines) * (size + 14) <= height and all(pen.textlength(line, font=font) <= width for line in lines):
            return lines, font
    return [*lines[:4], lines[4].rstrip(" ,.;:") + " ..."] if len(lines) > 5 else lines, font


def _wrapped(pen: ImageDraw.ImageDraw, text: str, font: Any, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and pen.textlength(longer, font=font) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _mark(pen: ImageDraw.ImageDraw, x: int, y: int) -> None:
    """The site's mark: a predicted and a measured line over two axes."""
    pen.line([(x, y), (x, y + 100), (x + 120, y + 100)], fill=INK, width=5)
    pen.line([(x + 10, y + 88), (x + 50, y + 72), (x + 84, y + 40), (x + 112, y + 4)], fill=PREDICTED, width=7, joint="curve")
    pen.line([(x + 10, y + 90), (x + 50, y + 80), (x + 86, y + 60), (x + 114, y + 34)], fill=MEASURED, width=7, joint="curve")


def _said_by(path: Path) -> str:
    try:
        with Image.open(path) as image:
            return str(image.info.get("words", ""))
    except OSError:
        return ""


def _attribute(text: str) -> str:
    return text.replace("`", "").replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
