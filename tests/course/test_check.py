"""Each case breaks a right course in one place; the check must name that file, that line, and a way to mend it, and nothing else."""
# ruff: noqa: E501  (one case a line reads as a table)

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

import pytest

from course.tree import LAB_TEXT, Tree, card, notebook, record
from infer_course.check import check
from infer_course.graph import load
from infer_course.problems import Problem, Rule

TODAY = datetime.date(2025, 7, 1)
CARD = "questions/part0/kv-cache-principle.md"
OTHER = "questions/part0/kv-cache-size-calculation.md"
LESSON = "book/part0/kv-cache.md"
LAB = "labs/part0/kv-cache-by-hand.ipynb"
RECORD = "measurements/h200/kv-cache-by-hand.json"


def problems(tree: Tree, run_code: bool = False) -> tuple[Problem, ...]:
    return check(load(tree.root), TODAY, run_code=run_code)


@dataclass(frozen=True)
class Case:
    """`at` is text on the line that must be named (an int: the number itself); `says` and `fix` are parts of the finding."""

    name: str
    breaks: Callable[[Tree], None]
    file: str
    at: str | int
    rule: str
    says: str
    fix: str
    severity: str = "error"


def edit(file: str, old: str, new: str) -> Callable[[Tree], None]:
    return lambda tree: tree.edit(file, old, new)


def lab(text: str = LAB_TEXT, **changes: Any) -> Callable[[Tree], None]:
    return lambda tree: tree.write(LAB, json.dumps(notebook(text, **changes), indent=1))


def measured(**changes: Any) -> Callable[[Tree], None]:
    return lambda tree: tree.write(RECORD, json.dumps(record(**changes), indent=2))


def without(*fields: str) -> Callable[[Tree], None]:
    return lambda tree: tree.write(RECORD, json.dumps({k: v for k, v in record().items() if k not in fields}))


def second_card_with_same_id(tree: Tree) -> None:
    tree.write(
        "questions/part1/kv-cache-principle.md", card("kv-cache-principle", 1, "kv-cache-size-calculation").replace("part: 0", "part: 1")
    )


def lonely_lesson(tree: Tree) -> None:
    tree.write("book/part0/roofline.md", tree.read(LESSON).replace("id: kv-cache\n", "id: roofline\n"))


def lonely_lab(tree: Tree) -> None:
    tree.write("labs/part0/other.ipynb", json.dumps(notebook(id="other", measurements=[]), indent=1))


def lonely_record(tree: Tree) -> None:
    tree.write("measurements/h200/limits.json", json.dumps(record(id="h200/limits")))


def record_of_an_unnamed_lab(tree: Tree) -> None:
    tree.edit(CARD, "labs: [kv-cache-by-hand]", "labs: [other]")
    tree.edit(CARD, "Run [the lab](../../labs/part0/kv-cache-by-hand.ipynb).", "Measure it.")
    tree.write("labs/part0/other.ipynb", json.dumps(notebook(id="other", measurements=[]), indent=1))


def link_to_a_lesson_that_does_not_link_back(tree: Tree) -> None:
    lonely_lesson(tree)
    tree.edit(OTHER, "lessons: [kv-cache]", "lessons: [kv-cache, roofline]")
    tree.edit(CARD, "No later token reads it.", "See [roofline](../../book/part0/roofline.md).")


def circle_of_prerequisites(tree: Tree) -> None:
    lonely_lesson(tree)
    tree.edit(OTHER, "lessons: [kv-cache]", "lessons: [kv-cache, roofline]")
    tree.edit("book/part0/roofline.md", "prerequisites: [prefill-and-decode]", "prerequisites: [kv-cache]")
    tree.edit(LESSON, "prerequisites: [prefill-and-decode]", "prerequisites: [roofline]")


CASES = [
    # front matter
    Case("no front matter", edit(CARD, "---\nid", "id"), CARD, 1, "unreadable", "front matter", "---"),
    Case("front matter left open", edit(CARD, "---\n\n## Direct", "\n## Direct"), CARD, 1, "unreadable", "not closed", "`---`"),
    Case("a tab in the front matter", edit(CARD, "minutes: 3", "minutes:\n\t- 3"), CARD, "- 3", "unreadable", "not YAML", "spaces"),
    Case("a control character in the front matter", edit(CARD, "minutes: 3", "minutes: 3\0"), CARD, "minutes", "unreadable", "not YAML", "delete"),
    Case("a bracket left open", edit(CARD, "tags: [kv-cache]", "tags: [kv-cache"), CARD, "sources:", "unreadable", "not YAML", "close"),
    Case("a day that does not exist", edit(CARD, "checked: 2025-06-01", "checked: 2025-13-01"), CARD, "2025-13", "front-matter", "'2025-13-01'",
         "2026-11-29"),
    Case("a day in words", edit(CARD, "checked: 2025-06-01", "checked: yesterday"), CARD, "yesterday", "front-matter", "'yesterday'", "2026-11-29"),
    Case("an address without https", edit(CARD, "https://example.org", "example.org"), CARD, "example.org/paper", "front-matter", "begins with https://", "correct"),
    Case("YAML error", edit(CARD, "minutes: 3", "minutes: a: b"), CARD, "minutes", "unreadable", "not YAML", "quote"),
    Case("field given twice", edit(CARD, "minutes: 3", "minutes: 3\nminutes: 4"), CARD, "minutes: 4", "unreadable", "twice", "one"),
    Case("missing field", edit(CARD, "minutes: 3\n", ""), CARD, 1, "front-matter", "`minutes` is missing", "add `minutes:`"),
    Case("misspelt field", edit(CARD, "follow_ups:", "folow_ups:"), CARD, "folow_ups", "front-matter", "Did you mean 'follow_ups'", "rename"),
    Case("bad level", edit(CARD, "level: junior\nminutes", "level: guru\nminutes"), CARD, "level: guru", "front-matter", "guru", "level"),
    Case("bad rubric item", edit(CARD, "level: mid,", "level: middle,"), CARD, "level: middle", "front-matter", "rubric.1.level", "correct"),
    Case("source without a day", edit(CARD, ", checked: 2025-06-01", ""), CARD, "example.org", "front-matter", "checked", "add `checked:`"),
    Case("rendered side written", edit(LESSON, "minutes: 20", "minutes: 20\ncards: [x]"), LESSON, "cards: [x]", "front-matter", "rendered", "delete"),
    Case("unknown stage", edit(LESSON, "[attention-kv]", "[attention]"), LESSON, "[attention]", "front-matter", "attention", "stages"),
    Case("notebook without metadata", lambda t: t.write(LAB, '{"cells": [], "metadata": {}}'), LAB, 1, "unreadable", "infer_course", "add"),
    Case("notebook that is not JSON", edit(LAB, '"cells": [', '"cells" ['), LAB, 2, "unreadable", "not JSON", "Jupyter"),
    Case("lab field missing", edit(LAB, '"minutes": 20', '"mins": 20'), LAB, '"mins"', "front-matter", "mins", "rename"),
    # ids
    Case("id is not the file name", edit(OTHER, "id: kv-cache-size-calculation", "id: kv-cache-size"), OTHER, 2, "id-is-file-name",
         "kv-cache-size", "rename the file"),
    Case("file name that is no id", lambda t: t.path(OTHER).rename(t.path("questions/part0/KV_size.md")), "questions/part0/KV_size.md", 2,
         "id-is-file-name", "KV_size.md", "rename the file to kv-cache-size-calculation.md"),
    Case("no lesson that exists", edit(OTHER, "lessons: [kv-cache]", "lessons: [kv-cash]"), OTHER, "kv-cash", "unknown-id", "Did you mean", "lesson"),
    Case("part is not the folder", edit(CARD, "part: 0", "part: 1"), CARD, "part: 1", "part-is-folder", "part 1", "part1/"),
    Case("id used twice", second_card_with_same_id, "questions/part1/kv-cache-principle.md", 2, "duplicate-id", "taken by", "of its own"),
    Case("unknown lesson", edit(CARD, "lessons: [kv-cache]", "lessons: [kv-cache, kv-cash]"), CARD, "kv-cash", "unknown-id",
         "Did you mean 'kv-cache'", "lesson"),
    Case("unknown lab", edit(CARD, "labs: [kv-cache-by-hand]", "labs: [kv-cache-by-hand, by-foot]"), CARD, "by-foot", "unknown-id", "lab", "lab"),
    Case("unknown follow-up", edit(CARD, "follow_ups: [kv-cache-size-calculation]", "follow_ups: [kv-cache-size-calculatio]"), CARD,
         "calculatio]", "unknown-id", "Did you mean 'kv-cache-size-calculation'", "content map"),
    Case("unknown prerequisite", edit(LESSON, "[prefill-and-decode]", "[prefill]"), LESSON, "[prefill]", "unknown-id", "prefill", "content map"),
    Case("unknown record", edit(CARD, "measurements: [", "measurements: [h200/none, "), CARD, "h200/none", "unknown-id", "h200/none", "make labs-gpu"),
    # orphans and edges
    Case("card without a written lesson", edit(OTHER, "lessons: [kv-cache]", "lessons: [roofline]"), OTHER, "[roofline]", "orphan", "orphan", "written"),
    Case("card without lab or waiver", edit(OTHER, "labs: [kv-cache-by-hand]\nmeasurements: [h200/kv-cache-by-hand]", "labs: []"), OTHER, "labs: []",
         "orphan", "no lab and no waiver", "lab_waiver"),
    Case("lab and waiver", edit(CARD, "tags:", "lab_waiver: none needed\ntags:"), CARD, "lab_waiver", "orphan", "waiver", "delete"),
    Case("lesson without cards", lonely_lesson, "book/part0/roofline.md", 2, "orphan", "no card", "lessons: [roofline]"),
    Case("lab without cards", lonely_lab, "labs/part0/other.ipynb", '"id": "other"', "orphan", "no card names the lab", "labs: [other]"),
    Case("lab without a written lesson", lab(lessons=["roofline"]), LAB, '"lessons"', "orphan", "orphan", "written lesson"),
    Case("record that nothing shows", lonely_record, "measurements/h200/limits.json", 1, "orphan", "nothing shows", "delete it"),
    Case("card its own follow-up", edit(CARD, "follow_ups: [kv-cache-size-calculation]", "follow_ups: [kv-cache-principle]"), CARD, "follow_ups",
         "one-way", "its own", "remove"),
    Case("record of a lab that the card does not name", record_of_an_unnamed_lab, CARD, "measurements:", "one-way", "one-way", "kv-cache-by-hand"),
    Case("link that does not lead back", link_to_a_lesson_that_does_not_link_back, CARD, "[roofline](", "one-way", "roofline", "`lessons`"),
    Case("prerequisites in a circle", circle_of_prerequisites, LESSON, "[roofline]", "cycle", "circle", "remove"),
    Case("named twice", edit(CARD, "lessons: [kv-cache]", "lessons: [kv-cache, kv-cache]"), CARD, "lessons: [", "repeated", "twice", "remove"),
    Case("link to nothing", edit(LESSON, "Say it aloud.", "See [this](nowhere.md)."), LESSON, "nowhere", "broken-link", "nowhere.md", "path"),
    Case("include of nothing", edit(LESSON, "Say it aloud.", "```{literalinclude} ../../src/none.py\n```"), LESSON, "none.py", "broken-link",
         "none.py", "path"),
    Case("embedded card that is not there", edit(LESSON, "Say it aloud.", "```{card} kv-cache-princple\n```"), LESSON, "princple", "unknown-id",
         "Did you mean 'kv-cache-principle'", "written card"),
    # sections
    Case("section missing", edit(CARD, "## Going deeper", "### Going deeper"), CARD, "## Rubric", "missing-section", "Going deeper", "after `## 中文回答`"),
    Case("calculation without worked numbers", edit(OTHER, "## Worked numbers", "### Worked numbers"), OTHER, "## Rubric", "missing-section",
         "Worked numbers", "write"),
    Case("section empty", edit(CARD, "Each token costs {calc}`kv_bytes_per_token(llama_3_8b) | KiB` in BF16, on a card with {given}`80 GB`.", ""),
         CARD, "## Direct answer", "empty-section", "empty", "write it"),
    Case("unknown section", edit(CARD, "## Code", "## Kode"), CARD, "## Kode", "unknown-section", "Did you mean 'Code'", "use one of"),
    Case("text before the first section", edit(CARD, "## Direct answer", "Hello.\n\n## Direct answer"), CARD, "Hello.", "unknown-section", "before", "move"),
    Case("page title in the text", edit(CARD, "### Why is Q", "# Why is Q"), CARD, "# Why is Q", "page-title", "title", "delete"),
    Case("direct answer too long", edit(CARD, "Each token costs", "word " * 110 + "Each token costs"), CARD, "## Direct answer", "word-limit",
         "121 words", "cut 1"),
    Case("Chinese idea too long", edit(CARD, "每个 token 存", "长" * 200 + "每个 token 存"), CARD, "每个 token", "word-limit", "at most 200", "split"),
    Case("Chinese answer in English", edit(CARD, "每个 token 存一份 K 和 V，所以 KV cache 随长度线性增长。", "A token."), CARD, "中文回答", "chinese",
         "no Chinese", "Chinese"),
    Case("too few follow-ups", edit(CARD, "### What does GQA change?\n", ""), CARD, "## Follow-ups", "follow-ups", "2 follow-ups", "3 to 6"),
    Case("follow-ups without headings", lambda t: t.write(CARD, t.read(CARD).replace("\n### ", "\n")), CARD, "## Follow-ups", "follow-ups",
         "0 follow-ups", "3 to 6"),
    Case("follow-up without answer", edit(CARD, "Fewer KV heads, the same formula.", ""), CARD, "### What does GQA", "follow-ups", "no answer", "answer"),
    Case("mistake without cost", edit(CARD, " Tempting because both are called heads; it overstates the cache.", ""), CARD, "**Using query",
         "mistakes", "neither", "Pitfall"),
    Case("mistake without pitfall", edit(CARD, "**Using query heads.**", "Using query heads."), CARD, "Using query heads.", "mistakes", "bold", "Pitfall"),
    Case("rubric written by hand", edit(CARD, "## Rubric\n", "## Rubric\n\n- junior: knows it\n"), CARD, "## Rubric", "rubric", "more than", "front matter"),
    Case("rubric without seniors", edit(CARD, "level: senior", "level: mid"), CARD, "rubric:", "rubric", "`senior`", "at least one"),
    Case("rubric ids twice", edit(CARD, "id: meaning", "id: formula"), CARD, "text: Says what", "rubric", "two items", "own id"),
    Case("lesson too short", edit(LESSON, "word " * 500, ""), LESSON, "---\n\n", "word-limit", "1,200 to 2,500", "words more"),
    Case("lesson too long", edit(LESSON, "word word", "word " * 1500), LESSON, "---\n\n", "word-limit", "words;", "cut"),
    Case("lesson without self-check", edit(LESSON, "## Self-check", "## The end"), LESSON, "## The end", "missing-section", "self-check", "Self-check"),
    Case("rendered section by hand", edit(LESSON, "## The measurement", "## Run it"), LESSON, "## Run it", "unknown-section", "rendered", "delete"),
    Case("lab without prediction", lab(LAB_TEXT.replace("## Predict", "## Guess")), LAB, "In the interview", "missing-section", "Predict", "add"),
    # numbers
    Case("number typed in", edit(CARD, "Fewer KV heads", "With 80 GB, fewer KV heads"), CARD, "With 80 GB", "typed-number", "80 GB", "{given}"),
    Case("ratio typed into a lesson", edit(LESSON, "Say it aloud.", "It is 4× faster."), LESSON, "4×", "typed-number", "4×", "{calc}"),
    Case("unit glued to a number", edit(CARD, "{given}`80 GB`", "{given}`80GB`"), CARD, "80GB", "unit-spelling", "80GB", "space"),
    Case("bits for bytes", edit(CARD, "{given}`80 GB`", "{given}`80 Gb`"), CARD, "80 Gb", "unit-spelling", "Gb", "Gbit/s"),
    Case("KB", edit(LESSON, "Say it aloud.", "Count in KB."), LESSON, "KB", "unit-spelling", "KB", "KiB"),
    Case("FLOPS for FLOP/s", edit(LESSON, "Say it aloud.", "Peak TFLOPS."), LESSON, "TFLOPS", "unit-spelling", "TFLOPS", "FLOP/s"),
    Case("128K", edit(LESSON, "Say it aloud.", "A 128K context."), LESSON, "128K", "unit-spelling", "128K", "131,072", severity="warning"),
    Case("calculation of an unknown name", edit(CARD, "(llama_3_8b) | KiB` in", "(llama_9) | KiB` in"), CARD, "llama_9", "calc", "column 20", "correct"),
    Case("calculation in a wrong unit", edit(CARD, "(llama_3_8b) | KiB` in", "(llama_3_8b) | ms` in"), CARD, "| ms` in", "calc", "kinds", "correct"),
    Case("calculation that is code", edit(CARD, "4 * kv_bytes_per_token(llama_3_8b)", "__import__('os')"), CARD, "__import__", "calc", "__import__", "correct"),
    Case("calculation in a lab", lab(LAB_TEXT.replace("Text.", "{calc}`1 +`", 1)), LAB, "1 +", "calc", "1 +", "correct"),
    Case("calculation in a rubric", edit(CARD, "text: States the formula.", 'text: "{calc}`1 / 0`"'), CARD, "1 / 0", "calc", "zero", "correct"),
    Case("measured value missing", edit(CARD, ":step_time |", ":step_tim |"), CARD, "step_tim", "measured", "Did you mean 'step_time'", "correct"),
    Case("measured record missing", edit(CARD, "`h200/kv-cache-by-hand:step_time", "`h100/kv-cache-by-hand:step_time"), CARD, "`h100/", "measured",
         "no record", "correct"),
    Case("figure of an unknown series", edit(LESSON, ":series: step", ":series: steps"), LESSON, "measured-figure", "measured", "steps", "series are step"),
    Case("figure without a record", edit(LESSON, ":record: h200/kv-cache-by-hand\n", ""), LESSON, "measured-figure", "measured", "names no record", "<device>"),
    Case("series of an unknown record", edit(LESSON, ":series: step", ":series: h100/x:step"), LESSON, "measured-figure", "measured", "h100/x", "measure it"),
    Case("table of an unknown value", edit(LESSON, "Say it aloud.", "```{measured-table} h200/kv-cache-by-hand\n:values: cached, cash\n```"), LESSON,
         "{measured-table}", "measured", "`cash`", "values are step_time, cached"),
    Case("calculation on the home page", lambda t: t.write("book/index.md", "---\na: b\n---\n# Home\n\n{calc}`1 +`\n"), "book/index.md", "1 +", "calc",
         "1 +", "correct"),
    Case("link to nothing on a landing page", lambda t: t.write("book/part0/index.md", "# Part\n\n[x](none.md)\n"), "book/part0/index.md", "none.md",
         "broken-link", "none.md", "path"),
    Case("proof that cannot be computed",
         lambda t: t.write("book/index.md", "```{proof}\n:predict: 1 +\n:measure: h200/kv-cache-by-hand:cached | KiB\n```\n"), "book/index.md", 1, "measured",
         "not an expression", "correct"),
    Case("bar that cuts a table", edit(LESSON, "Say it aloud.", "| a | b |\n|---|---|\n| x | {calc}`1 | 1` |"), LESSON, "| x |", "table-bar", "cut", "\\|"),
    Case("estimate that cannot be computed", edit(CARD, "tags:", "estimate: {expr: 'kv_bytes(1)', unit: GiB, tolerance: 0.1}\ntags:"), CARD,
         "estimate", "calc", "estimate", "estimate.expr"),
    # records and sources
    Case("record without provenance", without("git", "command"), RECORD, 1, "provenance", "`git`, `command`", "infer_lab.bench"),
    Case("record with half a device", measured(device={"slug": "h200", "kind": "cuda"}), RECORD, '"device"', "provenance", "device.name", "measure"),
    Case("record that is not JSON", lambda t: t.write(RECORD, "{"), RECORD, 1, "record", "not JSON", "programs"),
    Case("record of NaN", edit(RECORD, "0.0013,", "NaN,"), RECORD, 1, "record", "NaN", "measure"),
    Case("record with an unknown unit", edit(RECORD, '"unit": "B"', '"unit": "bites"'), RECORD, 1, "record", "bites", "unit"),
    Case("series of unequal length", edit(RECORD, "1.1", "1.1,\n          1.2"), RECORD, '"step"', "record", "entries", "measure"),
    Case("record in the wrong place", measured(device={"slug": "h100", "name": "NVIDIA H100", "kind": "cuda"}), RECORD, 1, "id-is-file-name",
         "h100", "measurements/h100"),
    Case("record older than its source", lambda t: t.write("src/infer_lab/thing.py", "x = 2\n"), RECORD, 1, "stale-record", "thing.py", "measure again",
         severity="warning"),
    Case("unfinished text", edit(LESSON, "Say it aloud.", "Aloud.\n\nTODO: the rest."), LESSON, "TODO: the rest", "unfinished", "TODO: the rest", "write it"),
    Case("unfinished front matter", edit(CARD, "text: States the formula.", "text: TODO"), CARD, "text: TODO", "unfinished", "rubric.0.text", "write it"),
    Case("included file is gone", edit(LESSON, "Say it aloud.", "Aloud.\n\n```{lab-code} infer_lab.gone:x\n```"), LESSON, "infer_lab.gone", "included-code", "no file src/infer_lab/gone.py", "module:Class"),
    Case("included symbol is gone", edit(LESSON, "Say it aloud.", "Aloud.\n\n```{lab-code} infer_lab.thing:y\n```"), LESSON, "infer_lab.thing", "included-code", "nothing called `y`", "module:Class"),
    Case("record of a dirty tree", measured(git={"commit": "abc", "dirty": True}), RECORD, 1, "dirty-record", "uncommitted", "commit", severity="warning"),
    Case("source not read for long", edit(CARD, "checked: 2025-06-01", "checked: 2024-06-01"), CARD, "checked: 2024", "old-source", "395 days", "read it",
         severity="warning"),
    Case("source read tomorrow", edit(CARD, "checked: 2025-06-01", "checked: 2025-12-01"), CARD, "checked: 2025-12", "old-source", "to come", "set"),
    Case("exported schema is old", edit("questions/schema.json", "rubric", "rubrik"), "questions/schema.json", 1, "schema-file", "older", "--write"),
]  # fmt: skip

# Breaking these also breaks what hangs on them; the named finding must be there, others may be.
WITH_CONSEQUENCES = {
    "card without lab or waiver", "lab field missing", "lab without a written lesson", "page title in the text",
}  # fmt: skip


def test_a_right_course_has_no_problems_even_when_its_code_is_run(tree: Tree) -> None:
    assert problems(tree, run_code=True) == ()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_broken_rule_is_named_with_file_line_and_fix(case: Case, tree: Tree) -> None:
    case.breaks(tree)
    found = problems(tree)
    line = _line(tree, case)
    same = [p for p in found if (p.file, p.line, p.rule, p.severity) == (case.file, line, case.rule, case.severity)]
    assert [p for p in same if case.says in p.message and case.fix in p.fix], "\n".join(map(str, found)) or "nothing was found"
    if case.name not in WITH_CONSEQUENCES:
        assert found == tuple(same), "\n".join(map(str, found))


def _line(tree: Tree, case: Case) -> int:
    if isinstance(case.at, int):
        return case.at
    if "\n" in case.at:
        return tree.read(case.file).split(case.at)[0].count("\n") + 2
    return tree.line_of(case.file, case.at)


def test_every_rule_has_a_case() -> None:
    tested_below = {"section-order", "code"}
    assert set(get_args(Rule)) == {case.rule for case in CASES} | tested_below


def test_a_sentence_ends_once(tree: Tree) -> None:
    tree.edit(CARD, "(llama_3_8b) | KiB` in", "(llama3_8b) | KiB` in")
    tree.edit(CARD, ":step_time |", ":step_tim |")
    found = problems(tree)
    assert len(found) == 2 and all("Did you mean" in p.message and p.message.endswith("?") for p in found)


def test_a_wrong_value_of_a_long_record_names_the_nearest_and_not_all(tree: Tree) -> None:
    tree.write(RECORD, json.dumps(record(values=record()["values"] | {f"time_{n}": {"value": n, "unit": "ms"} for n in range(40)})))
    tree.edit(CARD, ":step_time |", ":step_tim |")
    (found,) = problems(tree)
    assert "Did you mean 'step_time'?" in found.message and len(found.message) < 300


def test_a_readers_own_record_beside_ours_is_no_orphan(tree: Tree) -> None:
    """`make labs-gpu` on another card writes the same record for that card, which no text names."""
    own = record(id="rtx-4090/kv-cache-by-hand", device={"slug": "rtx-4090", "name": "NVIDIA GeForce RTX 4090", "kind": "cuda"})
    tree.write("measurements/rtx-4090/kv-cache-by-hand.json", json.dumps(own))
    assert problems(tree) == ()


def test_a_byte_order_mark_is_no_mistake(tree: Tree) -> None:
    tree.write(CARD, "\ufeff" + tree.read(CARD))
    assert problems(tree) == ()


def test_sections_out_of_order_are_named_once(tree: Tree) -> None:
    text = tree.read(CARD)
    deeper = text[text.index("## Going deeper") : text.index("## Worked numbers")]
    tree.write(CARD, text.replace(deeper, "").replace("## Rubric", f"{deeper}## Rubric"))
    (found,) = problems(tree)
    assert (found.rule, found.line) == ("section-order", tree.line_of(CARD, "## Worked numbers"))
    assert "Direct answer, 中文回答, Going deeper, Worked numbers" in found.fix


def test_lab_parts_out_of_order_are_named(tree: Tree) -> None:
    tree.write(LAB, json.dumps(notebook(LAB_TEXT.replace("Predict", "X").replace("Measure", "Predict").replace("X", "Measure")), indent=1))
    (found,) = problems(tree)
    assert found.rule == "section-order" and "Measure" in found.message


def test_card_and_lab_without_a_common_lesson_are_a_one_way_edge(tree: Tree) -> None:
    lonely_lesson(tree)
    tree.write(LAB, json.dumps(notebook(lessons=["roofline"]), indent=1))
    tree.edit(OTHER, "lessons: [kv-cache]", "lessons: [kv-cache, roofline]")
    (found,) = problems(tree)
    assert found.rule == "one-way" and found.file == CARD and "share no lesson" in found.message


def test_planned_ids_may_be_named_but_do_not_make_a_page(tree: Tree) -> None:
    tree.edit(CARD, "follow_ups: [kv-cache-size-calculation]", "follow_ups: [kv-cache-size-calculation, chunked-prefill]")
    tree.edit(CARD, "lessons: [kv-cache]", "lessons: [kv-cache, roofline]")
    assert problems(tree) == ()


def test_units_in_code_maths_comments_and_addresses_are_not_prose(tree: Tree) -> None:
    tree.edit(
        LESSON,
        "Say it aloud.",
        "`80GB` and $80GB$ <!-- 80GB --> [x](https://example.org/80GB)\n\n```text\n80GB in 3ms\n```\n\n% 80GB\n\nAn 8B model, 2 × layers.",
    )
    assert problems(tree) == ()


def test_text_of_notes_is_prose(tree: Tree) -> None:
    tree.edit(LESSON, "Say it aloud.", "Aloud.\n\n:::{note}\nIt takes 3 ms.\n:::\n\n```{tip}\nOr 4 ms.\n```")
    assert [(p.rule, p.line) for p in problems(tree)] == [
        ("typed-number", tree.line_of(LESSON, "It takes")),
        ("typed-number", tree.line_of(LESSON, "Or 4 ms")),
    ]


class TestCode:
    def test_code_that_fails_is_named_at_its_own_line(self, tree: Tree) -> None:
        tree.edit(CARD, "print(2 + 2)", "x = 1\n\nassert x == 2, 'one is not two'")
        (found,) = problems(tree, run_code=True)
        assert (found.rule, found.line) == ("code", tree.line_of(CARD, "assert x")) and "one is not two" in found.message

    def test_blocks_of_a_card_run_as_one_program(self, tree: Tree) -> None:
        tree.edit(CARD, "print(2 + 2)\n```", "x = 1\n```\n\nThen:\n\n```python\nassert x == 1\n```")
        assert problems(tree, run_code=True) == ()

    def test_code_that_does_not_end_is_stopped(self, tree: Tree) -> None:
        from infer_course.checks.code import check_code

        tree.edit(CARD, "print(2 + 2)", "while True: pass")
        found = list(check_code(load(tree.root), time_limit_s=0.5))
        assert len(found) == 1 and "within 0.5 s" in found[0].message

    def test_code_that_needs_a_package_that_is_not_here_is_a_warning(self, tree: Tree) -> None:
        tree.edit(CARD, "print(2 + 2)", "raise ModuleNotFoundError(\"No module named 'torch'\")")
        (found,) = problems(tree, run_code=True)
        assert found.severity == "warning" and "infer-lab[engine]" in found.fix

    def test_coding_card_needs_code_that_runs(self, tree: Tree) -> None:
        tree.edit(CARD, "kind: concept", "kind: coding")
        tree.edit(CARD, "```python", "```text")
        (found,) = problems(tree, run_code=True)
        assert found.rule == "code" and "no ```python block" in found.message
