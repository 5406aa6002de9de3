"""CASEBOOK 28, decks that cannot be updated without duplicates: ours, through Anki's own backend: import, review, edit, import again."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anki.collection import Collection, ImportAnkiPackageOptions, ImportAnkiPackageRequest

from infer_course import anki

pytestmark = pytest.mark.filterwarnings("error::UserWarning")  # genanki warns about `<` that is no tag

T0 = 1_800_000_000.0


def card(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"card-{number}", "part": number % 3, "order": number, "kind": "concept", "level": "mid", "planned": False, "minutes": 2.0,
        "title": {"en": f"Why is vector<int> {number} & more?", "zh": f"为什么 {number}？"}, "url": f"questions/part0/card-{number}.html",
        "tags": ["kv-cache"], "estimate": None,
    } | changes  # fmt: skip


def text(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "direct_html": {
            "en": f'<p>Answer {number}: <span class="il-mark-num"><span class="il-val il-calc" title="how">{number} GB</span></span> and'
            ' <span class="math">\\(a < b\\)</span>.</p>',
            "zh": f"<p>答案 {number}</p>",
        },
        "rubric": [{"id": "a", "level": "junior", "html": "Says it."}, {"id": "b", "level": "red_flag", "html": "Denies it."}],
        "follow_ups": [{"question_html": "And then?", "answer_html": '<p><a href="book/x.html">There</a>.</p>'}],
        "mistakes_html": "<p>None.</p>",
        "sections": [{"id": "code", "title": "Code", "html": "<pre>x = {{1: 2}}</pre><table><tr><td>1</td></tr></table>"}],
    } | changes


def built(folder: Path, cards: dict[str, tuple[dict[str, Any], dict[str, Any]]]) -> Path:
    static = folder / "html" / "_static"
    (static / "cards").mkdir(parents=True, exist_ok=True)
    (static / "cards.json").write_text(json.dumps({"cards": {name: one for name, (one, _) in cards.items()}}))
    for name, (_, words) in cards.items():
        (static / "cards" / f"{name}.json").write_text(json.dumps(words))
    return folder / "html"


def some(count: int = 6) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    return {f"card-{n}": (card(n), text(n)) for n in range(count)}


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    opened = Collection(str(tmp_path / "collection.anki2"))
    yield opened
    opened.close()


def bring(collection: Collection, path: Path) -> Any:
    options = ImportAnkiPackageOptions(merge_notetypes=False, with_scheduling=False)
    return collection.import_anki_package(ImportAnkiPackageRequest(package_path=str(path), options=options)).log


def deck(tmp_path: Path, cards: dict[str, Any], timestamp: float = T0, **options: Any) -> Path:
    return anki.make(tmp_path, built(tmp_path, cards), tmp_path / "out.apkg", timestamp=timestamp, **options).path


def test_a_deck_is_updated_in_place_and_scheduling_stays(tmp_path: Path, collection: Collection) -> None:
    cards = some()
    first = bring(collection, deck(tmp_path, cards))
    assert len(first.new) == 6 and collection.note_count() == 6
    (studied,) = collection.find_cards("ID:card-2")
    before = collection.get_card(studied)
    before.start_timer()
    collection.decks.select(before.did)
    collection.sched.answerCard(before, 4)
    learned = collection.get_card(studied)
    assert learned.reps == 1
    cards["card-2"] = (card(2), text(2, direct_html={"en": "<p>Better.</p>", "zh": "<p>更好</p>"}))
    cards["card-9"] = (card(9), text(9))
    again = bring(collection, deck(tmp_path, cards, T0 + 60))
    assert len(again.new) == 1 and collection.note_count() == 7
    after = collection.get_card(studied)
    assert "Better." in after.note()["Answer"]
    assert (after.reps, after.due, after.ivl, after.queue) == (learned.reps, learned.due, learned.ivl, learned.queue)
    assert len([model for model in collection.models.all_names() if model.startswith("Inference Lab")]) == 1


def test_the_same_deck_twice_changes_nothing(tmp_path: Path, collection: Collection) -> None:
    path = deck(tmp_path, some())
    bring(collection, path)
    log = bring(collection, path)
    assert not log.new and not log.updated and collection.note_count() == 6


def test_cards_lie_in_a_deck_a_part_with_tags_by_part_kind_level_and_topic(tmp_path: Path, collection: Collection) -> None:
    bring(collection, deck(tmp_path, some(3)))
    names = [deck.name for deck in collection.decks.all_names_and_ids() if deck.name.startswith("Inference Lab::")]
    assert [name.split(" · ")[0] for name in names] == ["Inference Lab::Part 0", "Inference Lab::Part 1", "Inference Lab::Part 2"]
    (note,) = collection.find_notes("ID:card-1")
    assert sorted(collection.get_note(note).tags) == ["kind::concept", "level::mid", "part::1", "topic::kv-cache"]


def test_what_is_shown_is_the_card_with_its_math_code_and_tables(tmp_path: Path, collection: Collection) -> None:
    cards = {"card-1": (card(1, estimate={"unit": "KiB", "answer": "128 KiB", "tolerance": 0.03}), text(1))}
    bring(collection, deck(tmp_path, cards))
    shown = collection.get_card(collection.find_cards("ID:card-1")[0])
    question, answer = shown.question(), shown.answer()
    assert "vector&lt;int&gt; 1 &amp; more?" in question and "为什么 1？" in question and "in KiB" in question and "128 KiB" not in question
    assert "1 GB" in answer and "128 KiB" in answer and "{{1: 2}}" in answer and "Red flags" in answer
    assert 'class="wide"' in answer and "title=" not in answer and "\\(a &lt; b\\)" in answer


def test_links_lead_to_the_published_site_or_are_no_links(tmp_path: Path, collection: Collection) -> None:
    bring(collection, deck(tmp_path, some(1)))
    note = collection.get_note(collection.find_notes("ID:card-0")[0])
    assert "<a" not in "".join(note.fields) and "There" in note["FollowUps"]
    bring(collection, deck(tmp_path, some(1), T0 + 1, site="https://example.org/lab"))
    note.load()
    assert 'href="https://example.org/lab/book/x.html"' in note["FollowUps"]
    assert 'href="https://example.org/lab/questions/part0/card-0.html"' in note["Source"]


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    first = deck(tmp_path, some()).read_bytes()
    assert deck(tmp_path, some()).read_bytes() == first
    assert deck(tmp_path, some(), T0 + 1).read_bytes() != first


def test_the_ids_and_the_list_of_fields_are_frozen() -> None:
    assert (anki.MODEL_ID, anki.FIRST_DECK_ID) == (1_764_460_801, 1_764_460_900)
    assert anki.FIELDS == (
        "ID", "Question", "QuestionZh", "Meta", "Estimate", "Answer", "AnswerZh", "EstimateAnswer", "FollowUps", "Deeper", "Mistakes",
        "Rubric", "Source", "Extra",
    )  # fmt: skip


def test_pictures_travel_with_the_deck_under_names_of_their_content(tmp_path: Path, collection: Collection) -> None:
    cards = {"card-0": (card(0), text(0, mistakes_html='<p><img src="_images/a.png" alt="plot"></p>'))}
    html = built(tmp_path, cards)
    (html / "_images").mkdir()
    (html / "_images" / "a.png").write_bytes(b"png")
    path = anki.make(tmp_path, html, tmp_path / "out.apkg", timestamp=T0).path
    bring(collection, path)
    note = collection.get_note(collection.find_notes("ID:card-0")[0])
    name = re.search(r'src="(inference-lab-[0-9a-f]{12}\.png)"', note["Mistakes"])
    assert name and Path(collection.media.dir(), name[1]).read_bytes() == b"png"


def test_planned_cards_stay_out_and_what_is_missing_is_said(tmp_path: Path) -> None:
    cards = some(2)
    cards["card-1"] = ({**card(1), "planned": True}, text(1))
    made = anki.make(tmp_path, built(tmp_path, cards), tmp_path / "out.apkg", timestamp=T0)
    assert made.cards == {0: 1}
    with pytest.raises(anki.AnkiError, match="no card is written in part 7"):
        anki.make(tmp_path, tmp_path / "html", tmp_path / "out.apkg", parts=(7,))
    with pytest.raises(anki.AnkiError, match="make build"):
        anki.make(tmp_path, tmp_path / "nowhere", tmp_path / "out.apkg")
    cards["card-0"] = (card(0), text(0, mistakes_html='<img src="_images/gone.png">'))
    with pytest.raises(anki.AnkiError, match=r"gone\.png"):
        anki.make(tmp_path, built(tmp_path, cards), tmp_path / "out.apkg", timestamp=T0)


def test_an_archive_holds_no_clock(tmp_path: Path) -> None:
    with zipfile.ZipFile(deck(tmp_path, some(1))) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
