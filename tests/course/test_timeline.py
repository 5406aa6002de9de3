"""Where a step's time goes: what the page shows of a record's timeline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infer_course.nodes import Measurement
from infer_course.sphinx_ext.timeline import kinds

RECORD = Path(__file__).parents[2] / "measurements" / "h200" / "gemm.json"


def record() -> Measurement:
    entries = [["attention", "decode_kernel", 30.0, 28.0], ["idle", "between kernels", 20.0, 0.0], ["attention", "other", 10.0, 2.0]]
    document = json.loads(RECORD.read_text()) | {"workload": {"timeline": {"b1-p128": entries}}, "path": str(RECORD)}
    return Measurement.model_validate(document)


def test_kernels_are_summed_by_kind_and_the_longest_comes_first() -> None:
    attention, idle = kinds(record(), "b1-p128", most=1)
    assert (attention.name, attention.us, attention.launches) == ("attention", 40.0, 30.0)
    assert attention.share == pytest.approx(2 / 3) and attention.kernels == (("decode_kernel", 30.0),)
    assert (idle.name, idle.us) == ("idle", 20.0)


def test_a_row_without_a_timeline_is_told() -> None:
    with pytest.raises(ValueError, match="has no timeline of 'b2'; it has b1-p128"):
        kinds(record(), "b2")
