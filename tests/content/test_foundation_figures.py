"""What the figures of Part 0 draw or print is what the library's tables and formulas say."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import torch

from infer_lab.hardware import LINKS, h100_80gb
from infer_lab.units import Quantity

FIGURES = Path(__file__).parents[2] / "book" / "part0" / "figures"
SVG = "{http://www.w3.org/2000/svg}"
NAMES = ("heads-and-kv-heads.svg", "memory-levels.svg", "format-bits.svg")


def _text(name: str) -> str:
    return " ".join("".join(t.itertext()) for t in ET.parse(FIGURES / name).getroot().iter(f"{SVG}text"))


def _rectangles(name: str, kind: str) -> list[ET.Element]:
    return [r for r in ET.parse(FIGURES / name).getroot().iter(f"{SVG}rect") if r.get("class") == kind]


def test_memory_levels_print_the_figures_of_the_card() -> None:
    text = _text("memory-levels.svg")
    tb_s = [quantity.to("TB/s").format("g") for quantity in (h100_80gb.bandwidth, LINKS["nvlink4"].bandwidth, LINKS["pcie5"].bandwidth)]
    for printed in (f"SM {h100_80gb.sms}", h100_80gb.l2.format(), h100_80gb.memory.format(), *tb_s):
        assert printed in text
    assert h100_80gb.shared_memory_per_block == Quantity(227, "KiB") and "227 KiB" in text


def test_heads_figure_caches_a_key_and_a_value_per_kv_head() -> None:
    assert len(_rectangles("heads-and-kv-heads.svg", "avh-q")) == 4 * 8
    assert len(_rectangles("heads-and-kv-heads.svg", "avh-kv")) == 2 * (8 + 2 + 1)


def test_format_bits_draw_the_formats_that_torch_has() -> None:
    rows: dict[float, dict[str, int]] = {}
    for kind in ("bit-s", "bit-e", "bit-m"):
        for cell in _rectangles("format-bits.svg", kind):
            row = rows.setdefault(float(cell.get("y", 0)), dict.fromkeys(("bit-s", "bit-e", "bit-m"), 0))
            row[kind] += 1
    drawn = [(row["bit-e"], row["bit-m"]) for _, row in sorted(rows.items())]
    floats = [torch.float32, torch.bfloat16, torch.float16, torch.float8_e5m2, torch.float8_e4m3fn]
    for (exponent, mantissa), kind in zip(drawn, floats, strict=False):
        assert torch.finfo(kind).eps == 2.0**-mantissa
        assert 1 + exponent + mantissa == 8 * kind.itemsize
    assert drawn[5:] == [(0, 8), (2, 1)]


@pytest.mark.parametrize("name", NAMES)
def test_figures_name_themselves_and_take_the_colours_of_the_page(name: str) -> None:
    figure = ET.parse(FIGURES / name).getroot()
    assert figure.find(f"{SVG}title") is not None and figure.find(f"{SVG}desc") is not None
    assert "#0" not in (FIGURES / name).read_text() and 'fill="currentColor"' in (FIGURES / name).read_text()
