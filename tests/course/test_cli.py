"""What a user of `infer-course` sees: one clear message and exit code 2 for a mistake, JSON on request, an answer only when asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from course.tree import Tree
from infer_course import cli
from infer_course.check import SCHEMA_FILE
from infer_course.evaluated import with_numbers
from infer_course.graph import load
from infer_course.schema import json_schema
from infer_course.stats import stats

CARD = "questions/part0/kv-cache-principle.md"


def run(*arguments: str) -> Any:
    return CliRunner().invoke(cli.app, list(arguments))


def fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Runs the real entry point, which must exit with 2; returns what it wrote to stderr."""
    monkeypatch.setattr("sys.argv", ["infer-course", *arguments])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_a_right_course_passes(tree: Tree) -> None:
    done = run("check", "--root", str(tree.root), "--no-code")
    assert done.exit_code == 0 and "1 lesson, 2 cards, 1 lab, 1 record: 0 errors" in done.output


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("## Going deeper", "### Going deeper", "the section `## Going deeper` is missing"),
        ("lessons: [kv-cache]", "lessons: [kv-cache, kv-cash]", "no lesson has this id"),
        ("minutes: 3", "minutes: [", "not YAML"),
    ],
)
def test_an_error_in_a_card_is_named_and_exits_with_2(tree: Tree, old: str, new: str, says: str) -> None:
    tree.edit(CARD, old, new)
    done = run("check", "--root", str(tree.root), "--no-code")
    assert done.exit_code == 2 and says in done.output and f"{CARD}:" in done.output and "fix:" in done.output
    assert "Traceback" not in done.output


def test_warnings_fail_only_when_strict(tree: Tree) -> None:
    tree.write("src/infer_lab/thing.py", "x = 2\n")
    arguments = ("check", "--root", str(tree.root), "--no-code", "--json")
    done = run(*arguments)
    report = json.loads(done.output)
    assert done.exit_code == 0 and report["errors"] == 0
    assert "stale-record" in {problem["rule"] for problem in report["problems"]}
    assert set(report["problems"][0]) == {"severity", "file", "line", "message", "fix", "rule"}
    assert run(*arguments, "--strict").exit_code == 2


@pytest.mark.parametrize("command", [("check",), ("stats",), ("show", "kv-cache"), ("schema", "--write")])
def test_outside_a_checkout_one_message_says_what_to_do(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    error = fails(monkeypatch, capsys, *command)
    assert error.count("\n") == 1 and "--root" in error and "Traceback" not in error


def test_the_checkout_is_found_from_inside_it(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree.root / "book" / "part0")
    assert json.loads(run("stats", "--json").output)["cards"] == 2


def test_an_unknown_id_is_one_message_with_the_nearest(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = fails(monkeypatch, capsys, "show", "kv-cache-principal", "--root", str(tree.root))
    assert "Did you mean 'kv-cache-principle'" in error and error.count("\n") == 1


def test_a_card_keeps_its_answer_until_asked(tree: Tree) -> None:
    hidden = run("show", "kv-cache-principle", "--root", str(tree.root)).output
    assert "Why is the cache 1 big?" in hidden and "128 KiB" not in hidden and "--answer" in hidden
    shown = run("show", "kv-cache-principle", "--root", str(tree.root), "--answer").output
    for wanted in ("128 KiB", "1.23 ms", "Why is Q not cached?", "No later token reads it.", "red flag", "h200/kv-cache-by-hand"):
        assert wanted in shown


@pytest.mark.parametrize(
    ("node", "wanted"),
    [("kv-cache", "Derive the bytes"), ("kv-cache-by-hand", "kv-cache-principle"), ("h200/kv-cache-by-hand", "131,072 B")],
)
def test_lessons_labs_and_records_are_shown(tree: Tree, node: str, wanted: str) -> None:
    done = run("show", node, "--root", str(tree.root))
    assert done.exit_code == 0 and wanted in done.output


def test_numbers_in_text_are_evaluated_for_the_terminal(tree: Tree) -> None:
    graph = load(tree.root)
    assert with_numbers("{calc}`1 + 1`, {measured}`h200/kv-cache-by-hand:speedup`, {given}`80 GB`", graph) == "2, 3.5×, 80 GB"


def test_stats_count_what_is_written_and_what_is_planned(tree: Tree) -> None:
    found = stats(load(tree.root))
    assert (found.lessons, found.cards, found.labs, found.measurements) == (1, 2, 1, 1)
    assert found.cards_by_part == {"part0": 2}
    assert found.cards_by_kind == {"calculation": 1, "concept": 1} and found.cards_by_level == {"junior": 2}
    assert found.questions == 141 and found.questions_answered == 4 and len(found.questions_planned) == 137
    assert len(found.planned_cards) == 122 and len(found.planned_lessons) == 64
    assert found.stale_records == {} and found.cards_without_measured_proof == ()
    tree.write("src/infer_lab/thing.py", "x = 2\n")
    assert stats(load(tree.root)).stale_records == {"h200/kv-cache-by-hand": ("src/infer_lab/thing.py",)}


def test_stats_are_printed_for_people_and_for_programs(tree: Tree) -> None:
    assert "collected questions" in run("stats", "--root", str(tree.root)).output
    report = json.loads(run("stats", "--root", str(tree.root), "--json").output)
    assert report["questions_answered"] == 4 and report["cards_by_level"] == {"junior": 2}


def test_the_schema_is_written_where_check_reads_it(tree: Tree) -> None:
    tree.path(SCHEMA_FILE).unlink()
    assert run("schema", "--root", str(tree.root), "--write").exit_code == 0
    assert tree.read(SCHEMA_FILE) == json_schema() == run("schema").output
    assert {"CardMeta", "LessonMeta", "LabMeta", "MeasurementMeta", "QuestionSet"} <= set(json.loads(json_schema())["$defs"])


def test_the_exported_schema_of_this_repository_is_current() -> None:
    path = Path(__file__).parents[2] / SCHEMA_FILE
    assert path.read_text(encoding="utf-8") == json_schema(), "run `infer-course schema --write`"
