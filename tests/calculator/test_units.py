from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_lab.errors import UnitError
from infer_lab.units import Quantity

SIZES = ["B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB"]


def test_gb_is_not_gib() -> None:
    assert Quantity(1, "GiB").to("GB").value == 1.073741824
    assert Quantity(1, "GiB") != Quantity(1, "GB")
    assert Quantity(80, "GB").to("GiB").value == pytest.approx(74.506, abs=1e-3)


def test_whole_numbers_stay_whole() -> None:
    kib = Quantity(131_072, "B").to("KiB")
    assert kib.value == 128 and isinstance(kib.value, int)
    assert isinstance((Quantity(10, "B") / 5).value, int)
    assert isinstance(Quantity(10, "B").to("KiB").value, float)


@given(st.integers(0, 10**18), st.sampled_from(SIZES), st.sampled_from(SIZES))
def test_conversion_there_and_back_keeps_the_amount(value: int, a: str, b: str) -> None:
    assert Quantity(value, a).to(b).to(a).value == pytest.approx(value, rel=1e-12)


@given(st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9))
def test_sums_in_mixed_prefixes_equal_sums_in_bytes(a: int, b: int) -> None:
    assert (Quantity(a, "KiB") + Quantity(b, "B")).to("B") == Quantity(1024 * a + b, "B")


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (lambda: Quantity(1, "GB") + Quantity(1, "s"), "add"),
        (lambda: Quantity(1, "GB") - 1, "subtract"),
        (lambda: Quantity(1, "GB") < Quantity(1, "FLOP"), "compare"),
        (lambda: Quantity(1, "GB").to("ms"), "different kinds"),
        (lambda: float(Quantity(1, "GB")), "plain number"),
        (lambda: Quantity(1, "GB") ** 2, "power"),
        (lambda: Quantity(1, "Gb"), "no unit"),
        (lambda: Quantity(1, "B") / 0, "division by zero"),
        (lambda: Quantity("1", "B"), "int or a float"),  # type: ignore[arg-type]
    ],
)
def test_mixed_kinds_are_refused(expression, words: str) -> None:
    with pytest.raises(UnitError, match=words):
        expression()


def test_products_and_quotients_carry_their_kind() -> None:
    assert (Quantity(4.8, "TB/s") * Quantity(1, "ms")).to("GB").value == pytest.approx(4.8)
    assert (Quantity(15, "GB") / Quantity(3, "TB/s")).to("ms") == Quantity(5, "ms")
    assert (Quantity(989.4, "TFLOP/s") / Quantity(3.35, "TB/s")).unit == "FLOP/B"
    assert (Quantity(6, "GiB") / Quantity(2, "GiB")) == 3


def test_counted_things_have_no_dimension() -> None:
    assert (32 / Quantity(8, "ms")).to("tok/s") == Quantity(4000, "tok/s")
    assert (Quantity(128, "KiB/tok") * Quantity(4096, "tok")).to("MiB").value == 512
    assert Quantity(128, "KiB/tok").to("KiB").value == 128
    assert int(Quantity(7, "tok")) == 7


def test_equal_quantities_hash_alike() -> None:
    assert len({Quantity(1, "KiB"), Quantity(1024, "B")}) == 1
    assert Quantity(0.5) == Quantity(50, "%")


@pytest.mark.parametrize(
    ("quantity", "spec", "text"),
    [
        (Quantity(131_072, "B"), "", "131,072 B"),
        (Quantity(14.957, "GiB"), "", "14.96 GiB"),
        (Quantity(14.957, "GiB"), ".1f", "15.0 GiB"),
        (Quantity(3, "x"), "", "3×"),
        (Quantity(82.25, "%"), ".0f", "82%"),
        (Quantity(104), "", "104"),
        (Quantity(5.1, "us"), "", "5.1 µs"),
        (Quantity(114_516.4, "tok"), "", "114,516 tok"),
    ],
)
def test_format(quantity: Quantity, spec: str, text: str) -> None:
    assert quantity.format(spec) == text


@pytest.mark.parametrize(("wrong", "right"), [("kiB", "KiB"), ("gb/s", "GB"), ("FLOP/b", "B")])
def test_a_unit_in_wrong_letters_is_told_the_right_ones(wrong: str, right: str) -> None:
    with pytest.raises(UnitError, match=rf"\(write {right}\)"):
        Quantity(1, wrong)
