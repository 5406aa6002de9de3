"""Ours beside peers and the floor: the arithmetic of the figures on *Measured*, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from infer_course.nodes import Measurement
from infer_course.sphinx_ext.compared import by_operation, compared, shares_html
from infer_course.sphinx_ext.roofline import roofline, roofline_html

ROOT = Path(__file__).parents[2]


def record(name: str, **changes: object) -> Measurement:
    document = json.loads((ROOT / "measurements" / "h200" / f"{name}.json").read_text())
    return Measurement.model_validate({**document, **changes, "path": f"measurements/h200/{name}.json"})


def two_cases() -> Measurement:
    times = {name: {"value": value, "unit": "us"} for name, value in (("a", 20), ("a-peer", 40), ("b", 0.1))}
    work = {"bytes": 4e6, "flops": 8e6, "floor_us": 10}
    return record(
        "gemm",
        values=times,
        series={},
        cases={
            "a": {**work, "operation": "copy <fast>", "shape": "1 × 2", "ours": "a", "peers": {"peer & co": "a-peer"}},
            "b": {**work, "operation": "product", "shape": "3", "ours": "b", "floor_us": 0.05, "flops": 4e9},
        },
    )


def test_share_ratio_and_rate_are_those_of_the_recorded_times() -> None:
    copy, product = compared(two_cases())
    assert copy.share == pytest.approx(0.5) and copy.rivals[0].ratio == pytest.approx(2)
    assert copy.rate == "0.20 TB/s" and product.rate == "40000 TFLOP/s"
    assert [name for name, _ in by_operation([copy, product, copy])] == ["copy <fast>", "product"]


def test_every_case_and_every_peer_is_a_mark_with_its_words_escaped() -> None:
    html = shares_html(compared(two_cases()), "title", "key")
    assert "copy &lt;fast&gt;" in html and "peer &amp; co" in html and "<fast>" not in html
    wide = html.split("il-plot--narrow")[0]
    assert len(re.findall(r"<title>(ours|peer &amp; co): ", wide)) == 3


def test_one_operation_can_be_chosen_and_an_unknown_one_is_named() -> None:
    assert [row.operation for row in compared(two_cases(), ["product"])] == ["product"]
    with pytest.raises(ValueError, match="no case of prodct"):
        compared(two_cases(), ["prodct"])
    with pytest.raises(ValueError, match="holds no cases"):
        compared(record("gemm", cases={}))


def test_the_roofline_holds_every_case_and_only_of_its_own_machine() -> None:
    roof = roofline([two_cases()], record("limits"))
    wide = roofline_html(roof, "key").split("il-plot--narrow")[0]
    assert wide.count("il-letter") == 2 + len(roof.cases)
    assert roof.bandwidth == pytest.approx(4.39, rel=0.01) and roof.peak == pytest.approx(695, rel=0.01)
    other = record("limits", device={"slug": "other", "name": "Other", "kind": "cuda"})
    with pytest.raises(ValueError, match="another machine"):
        roofline([two_cases()], other)


def test_a_case_that_names_no_recorded_value_is_refused() -> None:
    case = {"operation": "x", "shape": "y", "bytes": 1, "flops": 1, "floor_us": 1, "ours": "gone"}
    with pytest.raises(ValueError, match="names gone"):
        record("gemm", cases={"c": case})
