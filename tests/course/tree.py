"""A small course that is right in every way, written into a folder; tests break it in exactly one place."""

from __future__ import annotations

import hashlib
import json
import textwrap
from pathlib import Path
from typing import Any

from infer_course.schema import json_schema

CARD = """\
---
id: {id}
part: 0
order: {order}
title: {{en: "Why is the cache {order} big?", zh: "cache 为什么大？"}}
kind: {kind}
level: junior
minutes: 3
lessons: [kv-cache]
labs: [kv-cache-by-hand]
measurements: [h200/kv-cache-by-hand]
follow_ups: [{follow_up}]
tags: [kv-cache]
sources:
  - {{title: A paper, url: "https://example.org/paper", checked: 2025-06-01}}
rubric:
  - {{id: formula, level: junior, text: States the formula., follow_up: "What is the 2 for?"}}
  - {{id: meaning, level: mid, text: Says what each factor is.}}
  - {{id: limits, level: senior, text: Says when the formula stops being true.}}
  - {{id: heads, level: red_flag, text: Takes query heads for KV heads.}}
---

## Direct answer

Each token costs {{calc}}`kv_bytes_per_token(llama_3_8b) | KiB` in BF16, on a card with {{given}}`80 GB`.

## 中文回答

每个 token 存一份 K 和 V，所以 KV cache 随长度线性增长。

## Going deeper

The step took {{measured}}`h200/kv-cache-by-hand:step_time | ms .2f` on the machine.

## Worked numbers

Four tokens take {{calc}}`4 * kv_bytes_per_token(llama_3_8b) | KiB`.

## Code

```python
print(2 + 2)
```

## Follow-ups

### Why is Q not cached?

No later token reads it.

### What does GQA change?

Fewer KV heads, the same formula.

### How would you prove it?

Run [the lab](../../labs/part0/kv-cache-by-hand.ipynb).

## Common mistakes

**Using query heads.** Tempting because both are called heads; it overstates the cache.

**Forgetting V.** Tempting because the name says cache; it halves the answer.

## Rubric
"""

LESSON = """\
---
id: kv-cache
part: 0
order: 3
title: {{en: "The KV cache", zh: "KV cache"}}
minutes: 20
objectives:
  - Derive the bytes per token.
prerequisites: [prefill-and-decode]
stages: [attention-kv]
sources:
  - {{title: A paper, url: "https://example.org/paper", checked: 2025-06-01}}
---

A question opens the lesson, with {{calc}}`kv_bytes_per_token(llama_3_8b) | KiB` per token.

{filler}

## The measurement

```{{measured-figure}}
:record: h200/kv-cache-by-hand
:series: step
A caption without figures.
```

## Self-check

Say it aloud.
"""


def record(**changes: Any) -> dict[str, Any]:
    """A valid measurement record; `changes` replace top-level fields."""
    base: dict[str, Any] = {
        "schema": 1,
        "id": "h200/kv-cache-by-hand",
        "title": "KV cache by hand",
        "device": {"slug": "h200", "name": "NVIDIA H200", "kind": "cuda", "memory_bytes": 150_000_000_000},
        "software": {"python": "3.11.9", "torch": "2.8.0"},
        "git": {"commit": "0123456789abcdef0123456789abcdef01234567", "dirty": False},
        "date": "2025-06-02T10:00:00Z",
        "command": "make labs-gpu",
        "workload": {"batch": 1},
        "sources": {"src/infer_lab/thing.py": hashlib.sha256(b"x = 1\n").hexdigest()},
        "values": {
            "step_time": {"value": 0.00123, "unit": "s", "median": 0.00123, "p10": 0.0012, "p90": 0.0013, "n": 50},
            "cached": {"value": 131_072, "unit": "B"},
            "speedup": {"value": 3.5, "unit": "x"},
        },
        "series": {
            "step": {
                "title": "Step time",
                "kind": "measured",
                "x": {"label": "context", "unit": "tok", "values": [1, 2]},
                "y": {"label": "step", "unit": "ms", "values": [1.0, 1.1]},
            }
        },
    }
    return base | changes


LAB_TEXT = "# KV cache by hand\n\n" + "".join(
    f"## {name}\n\nText.\n\n" for name in ("Setup", "Predict", "Measure", "Explain", "Break it", "Check", "In the interview")
)


def notebook(text: str = LAB_TEXT, **changes: Any) -> dict[str, Any]:
    """A notebook with one markdown cell; `changes` replace its `infer_course` fields."""
    meta: dict[str, Any] = {
        "id": "kv-cache-by-hand",
        "part": 0,
        "order": 1,
        "title": {"en": "KV cache by hand", "zh": "手算 KV cache"},
        "lessons": ["kv-cache"],
        "measurements": ["h200/kv-cache-by-hand"],
        "minutes": 20,
        "needs": "cpu",
    }
    cells = [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": text.splitlines(keepends=True)},
        {"cell_type": "code", "id": "b", "metadata": {}, "execution_count": None, "outputs": [], "source": ["1 + 1"]},
    ]
    return {"cells": cells, "metadata": {"infer_course": meta | changes}, "nbformat": 4, "nbformat_minor": 5}


class Tree:
    """A course in a folder. `edit` replaces text in a file and fails when the text is not there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("book/part0/kv-cache.md", LESSON.format(filler=" ".join(["word"] * 1300)))
        self.write("questions/part0/kv-cache-principle.md", card("kv-cache-principle", 1, "kv-cache-size-calculation"))
        self.write(
            "questions/part0/kv-cache-size-calculation.md", card("kv-cache-size-calculation", 2, "kv-cache-principle", "calculation")
        )
        self.write("labs/part0/kv-cache-by-hand.ipynb", json.dumps(notebook(), indent=1))
        self.write("measurements/h200/kv-cache-by-hand.json", json.dumps(record(), indent=2))
        self.write("src/infer_lab/thing.py", "x = 1\n")
        self.write("questions/schema.json", json_schema())

    def path(self, name: str) -> Path:
        return self.root / name

    def read(self, name: str) -> str:
        return self.path(name).read_text(encoding="utf-8")

    def write(self, name: str, text: str) -> None:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text) if name.endswith(".py") else text, encoding="utf-8")

    def edit(self, name: str, old: str, new: str, count: int = 1) -> None:
        text = self.read(name)
        if old not in text:
            raise AssertionError(f"{name} does not hold {old!r}")
        self.write(name, text.replace(old, new, count))

    def line_of(self, name: str, needle: str) -> int:
        """Number of the first line that holds `needle`."""
        return next(number for number, line in enumerate(self.read(name).split("\n"), 1) if needle in line)


def card(card_id: str, order: int, follow_up: str, kind: str = "concept") -> str:
    return CARD.format(id=card_id, order=order, follow_up=follow_up, kind=kind)
