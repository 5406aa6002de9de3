from __future__ import annotations

import pytest

from infer_course import labkit
from infer_course.labkit import CheckFailed, check, choose, compare, predict
from infer_lab.bench import Timing
from infer_lab.units import Quantity


def test_a_failed_check_says_which_idea_is_at_stake() -> None:
    with pytest.raises(CheckFailed, match="logits are the same"):
        check(False, "logits are the same with and without the cache")


def test_a_passed_check_prints_only_its_statement(capsys: pytest.CaptureFixture[str]) -> None:
    check(True, "logits are the same")
    assert capsys.readouterr().out == "✓ logits are the same\n"


def test_a_prediction_shows_its_number_and_reason() -> None:
    shown = predict("bytes per token", 23_040, "B", why="2 · 30 · 3 · 64 · 2")
    assert str(shown) == "predict  bytes per token: 23,040 B  because 2 · 30 · 3 · 64 · 2"
    assert "23,040 B" in shown._repr_html_() and "#E69F00" in shown._repr_html_()


def test_a_comparison_is_in_the_unit_of_the_prediction() -> None:
    result = compare(predict("step", 2, "ms"), Timing((0.003, 0.003)))
    assert result.measured == Quantity(3, "ms") and result.ratio == pytest.approx(1.5)
    assert "1.50×" in str(result)


def test_an_exact_comparison_says_so() -> None:
    assert "exact" in str(compare(predict("bytes", Quantity(64, "KiB"), "B"), 65_536))


def test_reasons_are_escaped() -> None:
    assert "<b>x" not in predict("n", 1, why="<b>x")._repr_html_()


def test_sizes_follow_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INFER_LAB_QUICK", raising=False)
    monkeypatch.setenv("INFER_LAB_DEVICE", "cpu")
    assert choose(cpu=1, gpu=2, quick=3) == 1
    monkeypatch.setenv("INFER_LAB_DEVICE", "cuda")
    assert choose(cpu=1, gpu=2, quick=3) == 2
    monkeypatch.setenv("INFER_LAB_QUICK", "1")
    assert choose(cpu=1, gpu=2, quick=3) == 3
    assert choose(cpu=1, gpu=2) == 2


def test_a_record_opens_on_the_labs_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFER_LAB_DEVICE", "cpu")
    assert labkit.record("some-lab", "Some lab").environment.device["kind"] == "cpu"
