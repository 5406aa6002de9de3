"""The question bank as an Anki deck, made from the cards of the built site, so that it says the same, number for number.

What makes a deck updatable (each was tried with Anki's own backend, see tests/course/test_anki.py): the ids of note type and decks never
change; a note's id comes from the card's id; the list of fields is frozen, since one field more would make a second note type and update
nothing; and the timestamp grows with the content, since Anki ignores a note that is not newer than the one it has. Scheduling stays.
"""

from __future__ import annotations

import hashlib
import html
import json
import posixpath
import re
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import genanki
from bs4 import BeautifulSoup, Tag

from infer_course.content_map import content_map
from infer_course.errors import CourseError

MODEL_ID, FIRST_DECK_ID = 1_764_460_801, 1_764_460_900  # frozen for ever: people's decks hang on them
FIELDS = (
    "ID", "Question", "QuestionZh", "Meta", "Estimate", "Answer", "AnswerZh", "EstimateAnswer", "FollowUps", "Deeper", "Mistakes", "Rubric",
    "Source", "Extra",
)  # fmt: skip
"""Frozen: Anki takes a changed list for another note type. `Extra` is kept for what comes later."""
DECK = "Inference Lab"
LEVELS = {"junior": "A junior answer", "mid": "A mid-level answer adds", "senior": "A senior answer adds", "red_flag": "Red flags"}


class AnkiError(CourseError):
    """The deck could not be made."""


@dataclass(frozen=True, slots=True)
class Made:
    """path of the .apkg; cards by part; timestamp: seconds since 1970 that all notes carry."""

    path: Path
    cards: dict[int, int]
    timestamp: float


def make(root: Path, built: Path, out: Path, site: str = "", parts: tuple[int, ...] = (), timestamp: float | None = None) -> Made:
    """Writes the deck of the cards in `built` (a built site's html folder) to `out`.

    site: the address that links lead to; without one they are plain text, so that no link is dead. parts: only these.
    The same content and timestamp give the same bytes.
    """
    static = built / "_static"
    if not (static / "cards.json").is_file():
        raise AnkiError(f"there is no built site in {built}; run `make build` first")
    index = json.loads((static / "cards.json").read_text(encoding="utf-8"))
    chosen = [card for card in index["cards"].values() if not card["planned"] and (not parts or card["part"] in parts)]
    if not chosen:
        raise AnkiError(f"no card is written in part {', '.join(map(str, parts))}" if parts else "no card is written yet")
    model, media = _model(), {}
    decks = {
        part.part: genanki.Deck(FIRST_DECK_ID + part.part, f"{DECK}::Part {part.part} · {part.title_en}") for part in content_map().parts
    }
    for card in chosen:
        text = json.loads((static / "cards" / f"{card['id']}.json").read_text(encoding="utf-8"))
        fields = _fields(card, text, _Rewriter(built, site, media))
        tags = [f"part::{card['part']}", f"kind::{card['kind']}", f"level::{card['level']}", *(f"topic::{tag}" for tag in card["tags"])]
        guid = genanki.guid_for("inference-lab", card["id"])
        note = genanki.Note(model=model, fields=[fields[name] for name in FIELDS], guid=guid, tags=tags, due=card["order"])
        decks[card["part"]].add_note(note)
    used = [deck for deck in decks.values() if deck.notes]
    stamp = content_time(root) if timestamp is None else timestamp
    _write(genanki.Package(used), media, out, stamp)
    return Made(out, {part: len(deck.notes) for part, deck in decks.items() if deck.notes}, stamp)


def content_time(root: Path) -> float:
    """When the content last changed: the time of the last commit, or now while something is not committed (or there is no repository)."""

    def git(*arguments: str) -> str | None:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    committed = git("log", "-1", "--format=%ct")
    return float(committed) if committed and git("status", "--porcelain") == "" else time.time()


def _model() -> genanki.Model:
    files = resources.files("infer_course") / "data" / "anki"
    front, back, style = ((files / name).read_text(encoding="utf-8") for name in ("front.html", "back.html", "style.css"))
    return genanki.Model(
        MODEL_ID,
        "Inference Lab question",
        fields=[{"name": name} for name in FIELDS],
        templates=[{"name": "Question", "qfmt": front, "afmt": back}],
        css=style + _code_style(),
        sort_field_index=0,
    )


def _code_style() -> str:
    from pygments.formatters.html import HtmlFormatter

    return "\n" + HtmlFormatter(style="default").get_style_defs(".highlight") + "\n.highlight { background: none; }\n"


def _fields(card: Mapping[str, Any], text: Mapping[str, Any], rewrite: _Rewriter) -> dict[str, str]:
    said = f"{card['kind']} · {card['level']} · {card['minutes']:g} min · part {card['part']}"
    estimate = card["estimate"]
    follow_ups = "".join(f"<details><summary>{q['question_html']}</summary>{q['answer_html']}</details>" for q in text["follow_ups"])
    deeper = "".join(f"<details><summary>{html.escape(s['title'])}</summary>{s['html']}</details>" for s in text["sections"])
    rubric = ""
    for level, label in LEVELS.items():
        items = [f'<li class="{level}">{item["html"]}</li>' for item in text["rubric"] if item["level"] == level]
        rubric += f"<h2>{label}</h2><ul>{''.join(items)}</ul>" if items else ""
    link = f'<a href="{card["url"]}">The card, its lesson and its lab</a>' if rewrite.site else "inference-lab: " + card["id"]
    fields = {
        "ID": html.escape(card["id"]), "Question": html.escape(card["title"]["en"]), "QuestionZh": html.escape(card["title"]["zh"]),
        "Meta": html.escape(said), "Answer": text["direct_html"]["en"], "AnswerZh": text["direct_html"]["zh"],
        "Estimate": f"Say the number first, in {html.escape(estimate['unit'])}." if estimate else "",
        "EstimateAnswer": f"{html.escape(estimate['answer'])}, within {estimate['tolerance']:.0%} either way" if estimate else "",
        "FollowUps": follow_ups, "Deeper": deeper, "Mistakes": text["mistakes_html"] or "", "Rubric": rubric, "Source": link, "Extra": "",
    }  # fmt: skip
    return {name: value if name in ("ID", "Meta") else rewrite(value) for name, value in fields.items()}


class _Rewriter:
    """HTML of the site as HTML of a note: no notes on hover, no ids, wide things scroll, pictures become media, links lead to the site."""

    def __init__(self, built: Path, site: str, media: dict[str, Path]) -> None:
        self.built, self.site, self.media = built, site.rstrip("/") + "/" if site else "", media

    def __call__(self, text: str) -> str:
        if "<" not in text:
            return text
        soup = BeautifulSoup(text, "html.parser")
        for tag in soup.find_all(True):
            tag.attrs.pop("title", None)
            if tag.name not in ("linearGradient", "clipPath", "marker", "symbol", "path", "g", "use", "title"):
                tag.attrs.pop("id", None)
            if tag.name == "a":
                self._link(tag)
            elif tag.name == "img":
                self._picture(tag)
            elif tag.name == "table":
                tag.wrap(soup.new_tag("div", attrs={"class": "wide"}))
        for box in soup.select(".pst-scrollable-table-container, .il-one-line, .il-mark-num"):
            box.unwrap()
        return str(soup)

    def _link(self, tag: Tag) -> None:
        address = str(tag.get("href", ""))
        if re.match(r"[a-z]+:", address):
            return
        if not self.site or address.startswith("#") or not address:
            tag.unwrap()
        else:
            tag["href"] = self.site + address.lstrip("/")

    def _picture(self, tag: Tag) -> None:
        address = str(tag.get("src", ""))
        if re.match(r"[a-z]+:", address):
            return
        path = self.built / address
        if not path.is_file():
            raise AnkiError(f"the picture {address} is not in the built site; build it again")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
        name = f"inference-lab-{digest}{posixpath.splitext(address)[1]}"
        self.media[name] = path
        tag["src"] = name


def _write(package: genanki.Package, media: Mapping[str, Path], out: Path, timestamp: float) -> None:
    """As genanki writes it, but with media under their own names, and with no clock in the archive."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, path in sorted(media.items()):
            copy = Path(folder, name)
            copy.write_bytes(path.read_bytes())
            files.append(str(copy))
        package.media_files = files
        raw = Path(folder, "raw.apkg")
        package.write_to_file(str(raw), timestamp=timestamp)
        part = out.with_name(f".{out.name}.part")
        with zipfile.ZipFile(raw) as source, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as target:
            for name in sorted(source.namelist()):
                target.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), source.read(name), zipfile.ZIP_DEFLATED)
        part.replace(out)
