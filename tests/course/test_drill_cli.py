"""`infer-course drill` and `progress` as a user calls them: JSON on request, one clear message and exit code 2 for a mistake."""

import datetime
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from course.tree import Tree, record
from infer_course import cli
from infer_course.drill import commands, lab_records, progress_commands
from infer_course.drill.progress_file import ProgressFile
from infer_course.drill.today import days_until, start_of_day
from infer_course.errors import CourseError

FIRST, SECOND = "kv-cache-principle", "kv-cache-size-calculation"
NOON = int(datetime.datetime(2026, 12, 1, 12, 0).timestamp() * 1000)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The reader's own place, and a clock that stands still."""
    path = tmp_path / "home" / "progress.json"
    monkeypatch.setenv("INFER_COURSE_PROGRESS", str(path))
    monkeypatch.delenv("INFER_LAB_MEASUREMENTS", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    for module in (commands, progress_commands):
        monkeypatch.setattr(module, "now_ms", lambda: NOON)
    return path


def run(*arguments: str) -> str:
    done = CliRunner().invoke(cli.app, list(arguments))
    assert done.exit_code == 0, done.output
    return done.output


def refused(*arguments: str) -> str:
    done = CliRunner().invoke(cli.app, list(arguments))
    assert isinstance(done.exception, CourseError), done.output
    return str(done.exception)


def reviewed(home: Path, card: str = FIRST, days_ago: int = 10, rating: int = 3, **more: Any) -> None:
    one = {"card": card, "at": NOON - days_ago * 86_400_000, "rating": rating, "seconds": 30, "rubric": [], **more}
    ProgressFile(home).update(lambda progress: progress.with_reviews([one]))


def test_json_says_what_is_due_and_what_is_new_and_writes_nothing(tree: Tree, home: Path) -> None:
    reviewed(home)
    before = home.read_text()
    found = json.loads(run("drill", "--json", "--root", str(tree.root)))
    assert [row["id"] for row in found["due"]] == [FIRST] and [row["id"] for row in found["new"]] == [SECOND]
    assert found["day"] == "2026-12-01" and home.read_text() == before


def test_options_choose_cards(tree: Tree) -> None:
    tree.write("questions/sets/evening.yaml", "id: evening\ntitle: {en: Evening, zh: 晚上}\ncards: [kv-cache-size-calculation]\n")
    root = ("--json", "--root", str(tree.root))
    assert [row["id"] for row in json.loads(run("drill", "--kind", "calculation", *root))["new"]] == [SECOND]
    assert [row["id"] for row in json.loads(run("drill", "--set", "evening", *root))["new"]] == [SECOND]
    assert len(json.loads(run("drill", "--part", "0", "--level", "junior", "--tag", "kv-cache", *root))["new"]) == 2
    assert json.loads(run("drill", "--part", "3", *root))["new"] == []
    assert len(json.loads(run("drill", "--new", "1", *root))["new"]) == 1


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (("--kind", "calculaton"), "Did you mean 'calculation'?"),
        (("--set", "nope"), "no question set is called `nope`"),
        (("--level", "expert"), "junior, mid, senior"),
        (("--tag", "nope"), "no tag is called `nope`"),
        (("--part", "9"), "no part is called `9`"),
        (("--mode", "shout"), "recall or explain"),
    ],
)
def test_a_choice_that_does_not_exist_is_named(tree: Tree, option: tuple[str, str], says: str) -> None:
    assert says in refused("drill", *option, "--root", str(tree.root))


def test_without_a_terminal_the_drill_says_what_to_do(tree: Tree) -> None:
    assert "--json" in refused("drill", "--root", str(tree.root))


def test_when_nothing_is_due_it_says_when_something_is(tree: Tree, home: Path) -> None:
    for card in (FIRST, SECOND):
        reviewed(home, card, days_ago=0, rating=4)
    said = run("drill", "--root", str(tree.root))
    assert "Nothing is due. The next comes back on Wednesday, 09 December." in said
    assert "No question that is written matches" in run("drill", "--part", "5", "--root", str(tree.root))


def test_when_todays_new_questions_are_done_it_says_how_to_get_more(tree: Tree, home: Path) -> None:
    reviewed(home, days_ago=0)
    done = run("drill", "--new", "1", "--root", str(tree.root))
    assert "1 are new: `--new 2` asks some of them today." in done


def test_a_set_says_how_much_of_it_is_not_written(tree: Tree, home: Path) -> None:
    tree.write("questions/sets/evening.yaml", "id: evening\ntitle: {en: E, zh: 晚}\ncards: [kv-cache-principle, kv-cache-quantization]\n")
    reviewed(home, days_ago=0)
    assert "1 of the 2 questions of this set are not written yet." in run("drill", "--set", "evening", "--root", str(tree.root))


def test_a_mistake_exits_with_2_and_one_line(tree: Tree, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    home.parent.mkdir(parents=True)
    home.write_text("{")
    monkeypatch.setattr("sys.argv", ["infer-course", "drill", "--json", "--root", str(tree.root)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    said = capsys.readouterr().err
    assert stopped.value.code == 2 and str(home) in said and "left as it is" in said and said.count("\n") == 1
    assert home.read_text() == "{"


def test_show_counts_and_names_weak_spots(tree: Tree, home: Path) -> None:
    reviewed(home, days_ago=10, rating=1, rubric=["formula"])
    reviewed(home, days_ago=5, rating=2, rubric=["formula"])
    said = run("progress", "show", "--root", str(tree.root))
    assert "1 due today" in said and "1 of 2 questions seen, 0 solid" in said and "1 of 1 (100 %)" in said
    assert "kv-cache (1 of 1)" in said and "2 of 2: Says what each factor is." in said
    found = json.loads(run("progress", "show", "--json", "--root", str(tree.root)))
    assert (found["due"], found["retention"]) == (1, {"remembered": 1, "asked": 1})


def test_an_export_imported_elsewhere_is_the_same_progress(tmp_path: Path, home: Path) -> None:
    reviewed(home)
    reviewed(home, SECOND)
    there, file = tmp_path / "there.json", tmp_path / "export.json"
    assert "2 reviews and 0 measurements" in run("progress", "export", str(file))
    assert "2 new reviews" in run("progress", "import", str(file), "--file", str(there))
    assert "0 new reviews" in run("progress", "import", str(file), "--file", str(there))
    assert there.read_text() == home.read_text() == run("progress", "export", "-")
    assert "exists" in refused("progress", "export", str(file))
    run("progress", "export", str(file), "--force")


def test_what_cannot_be_imported_changes_nothing(tmp_path: Path, home: Path) -> None:
    reviewed(home)
    before, bad = home.read_text(), tmp_path / "bad.json"
    for text in ("{", '{"format": "inference-lab-progress", "version": 9}', '{"schema": 1, "id": "x/y"}', "[]"):
        bad.write_text(text)
        assert str(bad) in refused("progress", "import", str(bad))
    assert "cannot be read" in refused("progress", "import", str(tmp_path / "absent.json"))
    assert home.read_text() == before


def test_a_measurement_record_can_be_imported(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "record.json"
    file.write_text(json.dumps(record()))
    assert "1 new measurement" in run("progress", "import", str(file))
    assert json.loads(home.read_text())["measurements"] == [record()]


def test_labs_that_the_reader_ran_are_found(tree: Tree, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tree.write(".infer-lab/measurements/laptop/kv-cache-by-hand.json", json.dumps(record(id="laptop/kv-cache-by-hand")))
    tree.write(".infer-lab/measurements/laptop/half-written.json", "{")
    assert [found["id"] for found in lab_records.find(tree.root)] == ["laptop/kv-cache-by-hand"]
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "desk").mkdir(parents=True)
    (elsewhere / "desk" / "lab.json").write_text(json.dumps(record(id="desk/lab")))
    monkeypatch.setenv("INFER_LAB_MEASUREMENTS", str(elsewhere))
    assert {found["id"] for found in lab_records.find(tree.root)} == {"laptop/kv-cache-by-hand", "desk/lab"}


def test_a_gpu_run_beside_the_courses_own_records_is_found(tree: Tree) -> None:
    git = ["git", "-C", str(tree.root), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "the course"]):
        subprocess.run([*git, *command], check=True, capture_output=True)
    assert lab_records.find(tree.root) == []
    tree.write("measurements/rtx/kv-cache-by-hand.json", json.dumps(record(id="rtx/kv-cache-by-hand")))
    tree.write("measurements/h200/kv-cache-by-hand.json", json.dumps(record(date="2026-01-01T00:00:00Z")))
    assert {(found["id"], found["date"][:4]) for found in lab_records.find(tree.root)} == {
        ("rtx/kv-cache-by-hand", "2025"),
        ("h200/kv-cache-by-hand", "2026"),
    }


def test_a_plan_is_kept_and_steers_the_new_questions_of_the_day(tree: Tree, home: Path) -> None:
    root = ("--root", str(tree.root))
    said = run("progress", "plan", "--interview-date", "2026-12-11", "--minutes-per-day", "5", *root)
    assert "10 days until Friday, 11 December 2026, 5 minutes each." in said and "It fits" in said
    kept = json.loads(home.read_text())["settings"]
    assert kept == {"interview_date": "2026-12-11", "minutes_per_day": 5}
    assert len(json.loads(run("drill", "--json", *root))["new"]) == 1
    assert len(json.loads(run("drill", "--json", "--new", "2", *root))["new"]) == 2
    assert "nothing to do" in said and "Sat 05 Dec" not in said, "days without work are not listed"
    found = json.loads(run("progress", "plan", "--json", *root))
    assert found["days"][0]["date"] == "2026-12-01" and len(found["days"]) == 10 and found["fits"]


def test_a_plan_that_does_not_fit_says_so_and_what_would(tree: Tree) -> None:
    said = run("progress", "plan", "--interview-date", "2026-12-02", "--minutes-per-day", "4", "--root", str(tree.root))
    assert "It does not fit: 1 of 2 new questions find a place. To drop first:" in said
    assert "Why is the cache 2 big?" in said and "Everything fits with 10 minutes a day." in said


def test_on_the_day_nothing_is_new(tree: Tree) -> None:
    assert "The interview is today." in run("progress", "plan", "--interview-date", "2026-12-01", "--root", str(tree.root))
    assert json.loads(run("drill", "--json", "--root", str(tree.root)))["new"] == []


def test_a_date_can_be_forgotten_and_must_be_a_day_to_come(tree: Tree, home: Path) -> None:
    root = ("--root", str(tree.root))
    assert "no interview date is known" in refused("progress", "plan", *root)
    assert "is no day" in refused("progress", "plan", "--interview-date", "soon", *root)
    assert "has passed" in refused("progress", "plan", "--interview-date", "2026-11-30", *root)
    run("progress", "plan", "--interview-date", "2026-12-11", *root)
    assert "No interview date" in run("progress", "plan", "--interview-date", "none", *root)
    assert json.loads(home.read_text())["settings"]["interview_date"] is None


def test_help_names_every_option() -> None:
    said = run("drill", "--help") + run("progress", "--help") + run("progress", "plan", "--help")
    for word in ("--part", "--set", "--mode", "--new", "--minutes", "--json", "export", "import", "show", "--interview-date"):
        assert word in said


def test_a_day_begins_at_local_midnight() -> None:
    start = start_of_day(NOON)
    assert datetime.datetime.fromtimestamp(start / 1000) == datetime.datetime(2026, 12, 1)
    assert start_of_day(start) == start and days_until(datetime.date(2026, 12, 3), NOON) == 2
