"""Progress is a union of logs: it does not matter which copy is merged into which, nothing is lost, and a damaged file is left alone."""

import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infer_course.drill.progress import NewerProgressError, Progress, ProgressError, canonical, dumps, loads, merge
from infer_course.drill.progress_file import ProgressFile, data_dir, default_path

SHARED = json.loads((Path(__file__).resolve().parents[1] / "fixtures/drill_progress.json").read_text(encoding="utf-8"))
MINE: dict[str, Any] = {"card": "a", "at": 1000, "rating": 3, "mode": "recall", "seconds": 20, "rubric": ["x"], "estimate": None}

words = st.sampled_from(["a", "b", "c"])
values = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.floats(0, 2, allow_nan=False), words, st.lists(words, max_size=2))
fields = st.dictionaries(st.sampled_from(["mode", "seconds", "rubric", "estimate", "later", "other"]), values, max_size=3)
reviews = st.builds(
    lambda card, at, rating, more: {**more, "card": card, "at": at, "rating": rating}, words, st.integers(0, 3), st.integers(1, 4), fields
)
records = st.builds(lambda name, date, more: {**more, "id": name, "date": date}, words, words, fields)
chosen = st.builds(lambda minutes, more: {**more, "interview_date": None, "minutes_per_day": minutes}, st.integers(1, 3), fields)
files = st.builds(
    lambda own, at, log, found, more: {
        **more, "format": "inference-lab-progress", "version": 1, "settings": own, "settings_at": at, "reviews": log, "measurements": found,
    },
    chosen, st.integers(0, 2), st.lists(reviews, max_size=5), st.lists(records, max_size=3), fields,
)  # fmt: skip
progresses = files.map(lambda raw: loads(json.dumps(raw)))


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(progresses, progresses, progresses)
def test_merge_is_commutative_associative_and_idempotent(one: Progress, two: Progress, three: Progress) -> None:
    assert merge(one, two) == merge(two, one)
    assert merge(merge(one, two), three) == merge(one, merge(two, three))
    assert merge(one, one) == one
    assert merge(merge(one, two), two) == merge(one, two)


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(progresses, progresses)
def test_merge_loses_nothing(one: Progress, two: Progress) -> None:
    both = merge(one, two)
    for side in (one, two):
        assert {(r["card"], r["at"]) for r in side.reviews} <= {(r["card"], r["at"]) for r in both.reviews}
        assert {(r["id"], r["date"]) for r in side.measurements} <= {(r["id"], r["date"]) for r in both.measurements}
        assert set(side.other) <= set(both.other)
    for kept in both.reviews:
        assert kept in one.reviews or kept in two.reviews


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(progresses)
def test_what_is_written_is_read_back_and_written_alike(progress: Progress) -> None:
    assert loads(dumps(progress)) == progress
    assert dumps(loads(dumps(progress))) == dumps(progress)


@pytest.mark.parametrize("case", SHARED["merges"], ids=lambda case: case["name"])
def test_shared_merges(case: dict[str, Any]) -> None:
    for one, other in ((case["one"], case["other"]), (case["other"], case["one"])):
        merged = merge(loads(json.dumps(one)), loads(json.dumps(other)))
        assert json.loads(dumps(merged)) == case["merged"]


@pytest.mark.parametrize("case", SHARED["refused"], ids=lambda case: case["name"])
def test_what_is_no_progress_file_is_refused_by_name(case: dict[str, Any]) -> None:
    with pytest.raises(ProgressError) as refused:
        loads(case["text"], "my.json")
    assert "my.json" in str(refused.value)


def test_a_later_version_is_refused_with_what_to_do() -> None:
    with pytest.raises(NewerProgressError, match="update"):
        loads('{"format": "inference-lab-progress", "version": 2, "reviews": []}')


@pytest.mark.parametrize("text", ['{"format": "inference-lab-progress", "version": 1, "x": 1e999}', "[" * 100_000, '"\\ud800"', "NaN", ""])
def test_json_that_could_not_be_written_again_is_refused(text: str) -> None:
    with pytest.raises(ProgressError):
        loads(text)


def test_canonical_text_does_not_depend_on_order_or_on_how_a_whole_number_is_written() -> None:
    assert canonical({"b": 2.0, "a": [1, 0.5]}) == canonical({"a": [1.0, 0.5], "b": 2}) == '{"a":[1,0.5],"b":2}'


def test_a_new_reader_has_an_empty_file_that_the_first_review_creates(tmp_path: Path) -> None:
    file = ProgressFile(tmp_path / "new" / "progress.json")
    assert file.load() == Progress() and not file.path.exists()
    file.update(lambda progress: progress.with_reviews([MINE]))
    assert file.load().reviews == (MINE,)
    assert not file.backup.exists()


def test_the_file_as_it_was_before_the_session_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    ProgressFile(path).update(lambda progress: progress.with_reviews([MINE]))
    before = path.read_text(encoding="utf-8")
    file = ProgressFile(path)
    for at in (2000, 3000):
        file.update(lambda progress, at=at: progress.with_reviews([{**MINE, "at": at}]))
    assert file.backup.read_text(encoding="utf-8") == before
    assert len(file.load().reviews) == 3
    assert sorted(p.name for p in tmp_path.iterdir() if not p.name.startswith(".")) == ["progress.backup.json", "progress.json"]


@pytest.mark.parametrize("damage", ["", "{", '{"format": "inference-lab-progress", "version": 7}', "\x00\x01"])
def test_a_file_that_cannot_be_read_is_never_overwritten(tmp_path: Path, damage: str) -> None:
    file = ProgressFile(tmp_path / "progress.json")
    file.path.write_text(damage, encoding="utf-8")
    with pytest.raises(ProgressError, match="left as it is"):
        file.load()
    with pytest.raises(ProgressError):
        file.update(lambda progress: progress.with_reviews([MINE]))
    assert file.path.read_text(encoding="utf-8") == damage
    saved = file.rescue(Progress().with_reviews([MINE]))
    assert loads(saved.read_text(encoding="utf-8")).reviews == (MINE,) and saved != file.path


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = ProgressFile(tmp_path / "progress.json")
    file.update(lambda progress: progress.with_reviews([MINE]))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ProgressError, match="No space left"):
        file.update(lambda progress: progress.with_reviews([{**MINE, "at": 2}]))
    assert file.load().reviews == (MINE,)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".progress.json.") and path.suffix != ".lock"]


def _drill(path: str, card: str) -> None:
    file = ProgressFile(Path(path))
    for at in range(20):
        file.update(lambda progress, at=at: progress.with_reviews([{**MINE, "card": card, "at": at}]))


def test_two_drills_at_once_lose_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "progress.json")
    running = [multiprocessing.get_context("spawn").Process(target=_drill, args=(path, card)) for card in ("a", "b")]
    for process in running:
        process.start()
    for process in running:
        process.join()
        assert process.exitcode == 0
    assert len(ProgressFile(Path(path)).load().reviews) == 40


def test_the_place_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("INFER_COURSE_PROGRESS", raising=False)
    assert default_path() == data_dir() / "progress.json"
    monkeypatch.setenv("INFER_COURSE_PROGRESS", str(tmp_path / "own.json"))
    assert ProgressFile().path == (tmp_path / "own.json").resolve()
