"""The text that a new card, lesson or lab begins with. Everything to be written says TODO, and the check calls each TODO unfinished."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence

from infer_course.checks.structure import LAB_SECTIONS
from infer_course.content_map import MappedCard, MappedLesson

TODO = "TODO"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # a JSON string is a YAML string


def card(known: MappedCard, questions: Sequence[str], today: datetime.date) -> str:
    """Front matter from the content map, and every section that a card of its kind needs."""
    needs = {"calculation": ("Worked numbers",), "system-design": ("Worked numbers",), "coding": ("Code",)}.get(known.kind, ())
    asked = "\n".join(f"% {question}" for question in questions)
    worked = "\n## Worked numbers\n\nTODO: each number by {calc}`kv_bytes_per_token(llama_3_8b) | KiB` or {measured}, never typed.\n"
    code = '\n## Code\n\n```python\nassert True, "TODO: code that runs as it stands"\n```\n'
    return f"""---
id: {known.id}
part: {known.part}
order: {known.order}
title:
  en: {_quoted(known.title)}
  zh: TODO
kind: {known.kind}
level: {known.level}
minutes: 3
lessons: [{known.lesson}]
lab_waiver: "TODO: name labs in `labs: [...]`, or say why no lab proves this card"
follow_ups: []
tags: []
sources:
  - title: TODO the primary source
    url: https://example.org/
    checked: {today.isoformat()}
rubric:
  - {{id: todo-junior, level: junior, text: TODO}}
  - {{id: todo-mid, level: mid, text: TODO, follow_up: TODO what an interviewer asks when it is missing}}
  - {{id: todo-senior, level: senior, text: TODO}}
  - {{id: todo-red-flag, level: red_flag, text: TODO}}
---

## Direct answer

TODO: what you say in sixty seconds, at most 120 words; the first sentence answers the question.

## 中文回答

TODO：同样的意思，用口语说，每段不超过 200 字。

## Going deeper

{asked}

**TODO the mechanism.** The derivation, the trade-off, when it stops being true.
{worked if "Worked numbers" in needs else ""}{code if "Code" in needs else ""}
## Follow-ups

### TODO: what next?

TODO.

### TODO: why?

TODO.

### TODO: how would you prove it?

TODO.

## Common mistakes

**TODO the pitfall.** Why it tempts; what it costs.

## Rubric

What each level says.
"""


def lesson(known: MappedLesson, today: datetime.date) -> str:
    """The shape that a good lesson has; see CONTRIBUTING."""
    return f"""---
id: {known.id}
part: {known.part}
order: {known.order}
title:
  en: {_quoted(known.title_en)}
  zh: {_quoted(known.title_zh)}
minutes: 20
objectives:
  - TODO something that can be tested
prerequisites: []
stages: []
sources:
  - title: TODO the primary source
    url: https://example.org/
    checked: {today.isoformat()}
---

TODO: open with the question, or with the measurement that surprises.

## TODO: the smallest model that explains it

## TODO: the derivation

## TODO: a real model on a real GPU

## TODO: predicted and measured, and the gap

## TODO: the code that does it

## When this stops being true

TODO

## What production engines do

TODO: version or date named.

## Self-check

TODO
"""


def lab(lab_id: str, part: int, title: str, lessons: Sequence[str]) -> str:
    """A notebook with the parts of a lab, runnable as it stands, that predicts, compares and checks something trivial."""
    meta = {
        "id": lab_id,
        "part": part,
        "order": 0,
        "title": {"en": title, "zh": TODO},
        "lessons": list(lessons),
        "minutes": 20,
        "needs": "cpu",
    }
    words = {
        "Setup": "TODO: what is loaded, in three lines.", "Predict": "Change the value to your own before you run on.",
        "Measure": "TODO", "Explain": "TODO: the plot, and where the gap comes from.", "Break it": "TODO: change one thing; see it fail.",
        "Check": "What must hold on every machine.", "In the interview": "TODO: how to say it in sixty seconds.",
    }  # fmt: skip
    code = {
        "Setup": "from infer_course.labkit import check, compare, predict\nfrom infer_lab.calculator import kv_bytes_per_token\n"
        "from infer_lab.presets import PRESETS",
        "Predict": 'guess = predict("KV cache a token", kv_bytes_per_token(PRESETS["llama-3-8b"]), "B", why="TODO")\nguess',
        "Measure": "measured = guess.quantity\ncompare(guess, measured)",
        "Break it": "wrong = 2 * measured.value",
        "Check": 'check(wrong != measured.value, "TODO: a statement that a fault in the library would break")',
    }  # fmt: skip
    cells: list[dict[str, object]] = [_cell("markdown", "title", f"# {title}\n\nTODO: the question that this lab answers.")]
    for name in LAB_SECTIONS:
        key = name.lower().replace(" ", "-")
        cells.append(_cell("markdown", key, f"## {name}\n\n{words[name]}"))
        if name in code:
            cells.append(_cell("code", f"{key}-code", code[name]))
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "language_info": {"name": "python"}}
    document = {"cells": cells, "metadata": {"infer_course": meta, **kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def _cell(kind: str, cell_id: str, source: str) -> dict[str, object]:
    extra: dict[str, object] = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "id": cell_id, "metadata": {}, "source": source.splitlines(keepends=True), **extra}
