"""A sitting in the terminal, played with given keys and clocks: what is asked, what is kept, and that leaving loses nothing."""

import io
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from course.tree import Tree, card, record
from infer_course.drill import queue
from infer_course.drill.choices import cards_of
from infer_course.drill.progress import ProgressError, loads
from infer_course.drill.progress_file import ProgressFile
from infer_course.drill.queue import Mode
from infer_course.drill.terminal import Sitting
from infer_course.graph import Graph, load

FIRST, SECOND = "kv-cache-principle", "kv-cache-size-calculation"
ESTIMATE = "estimate: {expr: kv_bytes_per_token(llama_3_8b), unit: KiB, tolerance: 0.03}\nsources:"


class Script:
    """Keys in the order of a list. `^C` interrupts; an Exception or a function in the list happens there."""

    def __init__(self, *keys: Any) -> None:
        self.keys: Iterator[Any] = iter(keys)

    def key(self, seconds: float | None = None) -> str | None:
        for pressed in self.keys:
            if callable(pressed):
                pressed()
                continue
            if pressed == "^C":
                raise KeyboardInterrupt
            return pressed
        raise AssertionError("the drill waits for a key that the script does not have")


@dataclass
class Played:
    said: str
    sitting: Sitting

    @property
    def kept(self) -> list[dict[str, Any]]:
        return [dict(review) for review in loads(self.sitting.file.path.read_text(encoding="utf-8")).reviews]


def course(tree: Tree, *more: str) -> Graph:
    for number, card_id in enumerate(more, 3):
        tree.write(f"questions/part0/{card_id}.md", card(card_id, number, FIRST))
    return load(tree.root)


def play(graph: Graph, path: Path, *keys: Any, todo: tuple[str, ...] = (FIRST, SECOND), mode: Mode = "recall", height: int = 80) -> Played:
    out, moment, tick = io.StringIO(), iter(range(1_800_000_000_000, 1_900_000_000_000, 60_000)), iter(range(0, 1_000_000, 10))
    console = Console(file=out, width=100, height=height, highlight=False)
    sitting = Sitting(
        graph, cards_of(graph), todo, mode, ProgressFile(path), Script(*keys), console, lambda: next(moment), lambda: float(next(tick))
    )
    sitting.run()
    return Played(out.getvalue(), sitting)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mine" / "progress.json"


def test_the_answer_is_kept_back_until_it_is_asked_for(tree: Tree, path: Path) -> None:
    played = play(course(tree), path, "q")
    assert "Why is the cache 1 big?" in played.said and "cache 为什么大？" in played.said
    assert "128 KiB" not in played.said
    assert not path.exists()


def test_a_graded_question_is_on_the_disk_with_its_rubric(tree: Tree, path: Path) -> None:
    played = play(course(tree), path, "space", "a", "c", "a", "b", "2", "q")
    assert "128 KiB" in played.said and "States the formula." in played.said
    (kept,) = played.kept
    assert (kept["card"], kept["rating"], kept["mode"], kept["rubric"], kept["estimate"]) == (
        FIRST,
        2,
        "recall",
        ["meaning", "limits"],
        None,
    )
    assert kept["at"] >= 1_800_000_000_000 and kept["seconds"] > 0


def test_the_ticks_suggest_a_grade_and_enter_takes_it(tree: Tree, path: Path) -> None:
    played = play(course(tree), path, "space", "enter", "a", "enter", "q", "q")
    assert "Your ticks say: good" in played.said
    assert [(review["rating"], review["rubric"]) for review in played.kept] == [(3, ["formula"])]


def test_leaving_with_ctrl_c_loses_nothing_and_restores_nothing_half_done(tree: Tree, path: Path) -> None:
    played = play(course(tree), path, "enter", "2", "enter", "a", "^C")
    assert [review["card"] for review in played.kept] == [FIRST]
    assert played.sitting.todo[0] == SECOND


def test_a_forgotten_card_returns_before_the_end(tree: Tree, path: Path) -> None:
    graph = course(tree)
    played = play(graph, path, "space", "1", "space", "2", "space", "2")
    assert [(review["card"], review["rating"]) for review in played.kept] == [(FIRST, 1), (SECOND, 2), (FIRST, 2)]
    assert not played.sitting.todo


def test_a_good_answer_goes_deeper_one_follow_up_at_a_time(tree: Tree, path: Path) -> None:
    played = play(course(tree), path, "space", "3", "space", "y", "space", "n", "q")
    assert "Why is Q not cached?" in played.said and "No later token reads it." in played.said
    assert "What does GQA change?" in played.said and "How would you prove it?" not in played.said
    assert (played.kept[0]["follow_ups_asked"], played.kept[0]["follow_ups_answered"]) == (2, 1)
    assert len(played.kept) == 1


def test_a_good_answer_brings_its_follow_up_card_forward(tree: Tree, path: Path) -> None:
    graph = course(tree, "another-card", "one-more-card")
    played = play(graph, path, "space", "4", "j", "q", todo=(FIRST, "another-card", SECOND, "one-more-card"))
    assert played.sitting.todo == (SECOND, "another-card", "one-more-card")
    assert "Deeper, after: Why is the cache 1 big?" in played.said


def test_a_bad_answer_asks_no_follow_up(tree: Tree, path: Path) -> None:
    played = play(course(tree), path, "space", "2", "q")
    assert "The interviewer goes on" not in played.said


def typed(text: str) -> list[str]:
    return [*("space" if sign == " " else sign for sign in text), "enter"]


def test_a_number_is_asked_first_and_judged_with_the_answer(tree: Tree, path: Path) -> None:
    tree.edit(f"questions/part0/{SECOND}.md", "sources:", ESTIMATE)
    played = play(course(tree), path, *typed("128"), *typed("1 apple"), *typed("131,072 B"), "space", "2", todo=(SECOND,))
    assert "Your number first, in B, kB, KiB" in played.said
    assert "128? In which unit?" in played.said and "“apple” is none of the units here." in played.said
    assert played.said.index("Your number: 131,072 B") < played.said.index("Right: 128 KiB") < played.said.index("Each token costs")
    assert played.kept[0]["estimate"] == 128


def test_a_number_can_be_mended_while_it_is_typed_and_forgotten(tree: Tree, path: Path) -> None:
    tree.edit(f"questions/part0/{SECOND}.md", "sources:", ESTIMATE)
    keys = ["9", "esc", "1", "backspace", *"513", "backspace", *typed("2 KiB"), "space", "2"]
    played = play(course(tree), path, *keys, todo=(SECOND,))
    assert played.kept[0]["estimate"] == 512 and "it is 128 KiB; yours is 4 times too large" in played.said


def test_going_without_a_number_keeps_none(tree: Tree, path: Path) -> None:
    tree.edit(f"questions/part0/{SECOND}.md", "sources:", ESTIMATE)
    played = play(course(tree), path, "space", "2", todo=(SECOND,))
    assert played.kept[0]["estimate"] is None and "Right" not in played.said


def test_where_a_number_is_asked_the_keys_are_the_same(tree: Tree, path: Path) -> None:
    tree.edit(f"questions/part0/{SECOND}.md", "sources:", ESTIMATE)
    played = play(course(tree), path, "?", "j", "q", todo=(SECOND, FIRST))
    assert "grade yourself" in played.said and played.sitting.todo == (FIRST, SECOND)


def test_explaining_shows_a_clock_and_counts_the_seconds(tree: Tree, path: Path) -> None:
    played = play(course(tree), path, None, None, "space", "2", "q", mode="explain")
    assert played.kept[0]["mode"] == "explain" and played.kept[0]["seconds"] >= 30


def test_skipping_asks_the_card_last(tree: Tree, path: Path) -> None:
    played = play(course(tree), path, "j", "space", "2", "q")
    assert [review["card"] for review in played.kept] == [SECOND] and played.sitting.todo == (FIRST,)


def test_the_last_grade_can_be_taken_back(tree: Tree, path: Path) -> None:
    played = play(course(tree), path, "space", "1", "k", "space", "2", "q")
    assert [(review["card"], review["rating"]) for review in played.kept] == [(FIRST, 2)]
    assert played.sitting.todo == (SECOND,)
    nothing = play(course(tree), path, "u", "q")
    assert "There is no grade to take back." in nothing.said and len(nothing.kept) == 1


def test_more_and_chinese_are_there_on_request(tree: Tree, path: Path) -> None:
    played = play(course(tree), path, "space", "m", "z", "z", "2", "q")
    assert "1.23 ms" in played.said and "Using query heads" in played.said and "KV cache 随长度线性增长" in played.said


def test_a_checklist_higher_than_the_screen_is_not_redrawn(tree: Tree, path: Path) -> None:
    small = play(course(tree), path, "space", "a", "a", "a", "2", "q", height=8)
    assert small.said.count("States the formula.") == 1 and small.said.count("a ticked") == 2
    assert small.kept[0]["rubric"] == ["formula"]


def test_the_readers_own_figures_stand_beside_ours(tree: Tree, path: Path) -> None:
    file = ProgressFile(path)
    device = {"slug": "laptop", "name": "A laptop", "kind": "cpu"}
    mine = record(id="laptop/kv-cache-by-hand", device=device, values={"step_time": {"value": 0.4, "unit": "s", "predicted": 0.2}})
    file.update(lambda progress: progress.with_measurements([mine]))
    played = play(course(tree), path, "space", "2", "q")
    assert "yours: A laptop, 2025-06-02; ours: NVIDIA H200, 2025-06-02" in played.said
    row = next(line for line in played.said.splitlines() if "step time" in line)
    assert [cell for cell in ("0.2 s", "0.4 s", "0.00123 s") if cell in row] == ["0.2 s", "0.4 s", "0.00123 s"]


def test_our_own_record_is_not_shown_as_the_readers(tree: Tree, path: Path) -> None:
    ProgressFile(path).update(lambda progress: progress.with_measurements([record()]))
    assert "your run" not in play(course(tree), path, "space", "2", "q").said


def test_what_was_done_is_rescued_when_the_file_is_damaged_meanwhile(tree: Tree, path: Path) -> None:
    def damage() -> None:
        path.write_text("{", encoding="utf-8")

    with pytest.raises(ProgressError, match="rescued"):
        play(course(tree), path, "space", "2", "space", damage, "2")
    assert path.read_text(encoding="utf-8") == "{"
    (rescued,) = path.parent.glob("*.rescued-*")
    assert [review["card"] for review in loads(rescued.read_text(encoding="utf-8")).reviews] == [FIRST, SECOND]


def test_reviews_from_another_window_are_kept(tree: Tree, path: Path) -> None:
    def elsewhere() -> None:
        ProgressFile(path).update(lambda progress: progress.with_reviews([{"card": "other", "at": 1, "rating": 3}]))

    played = play(course(tree), path, "space", "2", elsewhere, "space", "2")
    assert {review["card"] for review in played.kept} == {"other", FIRST, SECOND}


def test_every_queue_of_the_course_can_be_played_to_its_end(tree: Tree, path: Path) -> None:
    graph = course(tree, "another-card", "one-more-card")
    cards = cards_of(graph)
    built = queue.build(cards, {}, 0)
    played = play(graph, path, *["space", "2"] * len(cards), todo=built.cards)
    assert len(played.kept) == len(cards) == 4


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are a POSIX thing")
def test_in_a_real_terminal(tree: Tree, path: Path) -> None:
    """The whole program on a pseudo-terminal: a key at a time as the screen asks for it, and Ctrl-C at the end."""
    import os
    import pty
    import select
    import signal

    child, handle = pty.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored, if these tests were started in the background
        os.environ |= {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "60", "INFER_COURSE_PROGRESS": str(path)}
        os.execv(sys.executable, [sys.executable, "-m", "infer_course.cli", "drill", "--root", str(tree.root)])
    said = ""

    def until(words: str) -> None:
        nonlocal said
        seen = len(said)
        while words not in said[seen:]:
            assert select.select([handle], [], [], 120)[0], f"it says nothing more, and not {words!r}: {said}"
            try:
                said += os.read(handle, 65536).decode(errors="replace")
            except OSError:
                break
        assert words in said[seen:], said

    until("Answer aloud")
    os.write(handle, b" ")
    until("? keys")
    os.write(handle, b"a2")
    until("Answer aloud")
    os.write(handle, b"\x03")
    until("Kept in")
    _, status = os.waitpid(child, 0)
    os.close(handle)
    assert os.waitstatus_to_exitcode(status) == 0 and "Traceback" not in said
    (kept,) = json.loads(path.read_text(encoding="utf-8"))["reviews"]
    assert (kept["rating"], kept["rubric"]) == (2, ["formula"])
