"""Numbers drawn as squares are numbers too: the figures of the KV-cache lesson must show what the calculator computes."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from infer_lab.calculator import gpu_memory, kv_budget, max_concurrency, weight_bytes
from infer_lab.hardware import h100_80gb
from infer_lab.presets import preset

FIGURES = Path(__file__).parents[2] / "book" / "part0" / "figures"
SVG = "{http://www.w3.org/2000/svg}"


def _cells(figure: ET.Element, group: str) -> list[int]:
    """How many rectangles each group of this class holds, in drawing order; the last one is the legend's."""
    return [len(g.findall(f"{SVG}rect")) for g in figure.iter(f"{SVG}g") if g.get("class") == group]


@pytest.mark.parametrize(("panel", "model"), [(0, "llama-3-8b"), (1, "llama-2-7b")])
def test_memory_map_has_one_square_per_gib_of_weights_and_one_cell_per_request(panel: int, model: str) -> None:
    figure = ET.parse(FIGURES / "card-memory-map.svg").getroot()
    shape = preset(model)
    assert _cells(figure, "kvm-weights")[panel] == round(weight_bytes(shape).to("GiB").value)
    assert _cells(figure, "kvm-kv")[panel] == max_concurrency(h100_80gb, shape, tokens=4096, util=0.92, driver=1).value


@pytest.mark.parametrize(("panel", "squares_per_request"), [(0, 0.5), (1, 2)])
def test_memory_map_covers_the_whole_card(panel: int, squares_per_request: float) -> None:
    figure = ET.parse(FIGURES / "card-memory-map.svg").getroot()
    weights, free, requests = (_cells(figure, name)[panel] for name in ("kvm-weights", "kvm-rest", "kvm-kv"))
    assert weights + free + requests * squares_per_request == round(gpu_memory(h100_80gb, driver=1).to("GiB").value)


def test_causal_figure_computes_everything_without_a_cache_and_one_token_with_it() -> None:
    figure = ET.parse(FIGURES / "causal-attention-with-cache.svg").getroot()
    tokens, per_token = 5, 3  # K, V and Q
    counts = {name: sum(r.get("class") == name for r in figure.iter(f"{SVG}rect")) - 1 for name in ("kvc-now", "kvc-read", "kvc-gone")}
    without = tokens * per_token + tokens * (tokens + 1) // 2
    with_cache = per_token + tokens
    assert counts["kvc-now"] == without + with_cache
    assert counts["kvc-read"] == (tokens - 1) * 2
    assert counts["kvc-gone"] == (tokens - 1) + (tokens - 1) * tokens // 2


@pytest.mark.parametrize("name", ["card-memory-map.svg", "causal-attention-with-cache.svg"])
def test_figures_name_themselves_and_take_the_colours_of_the_page(name: str) -> None:
    figure = ET.parse(FIGURES / name).getroot()
    assert figure.find(f"{SVG}title") is not None and figure.find(f"{SVG}desc") is not None
    assert "#0" not in (FIGURES / name).read_text() and 'fill="currentColor"' in (FIGURES / name).read_text()


def test_the_memory_ledger_is_drawn_to_scale() -> None:
    figure = ET.parse(FIGURES.parents[1] / "part2" / "figures" / "memory-ledger.svg").getroot()
    widths = {key: float(rect.get("width", 0)) for rect in figure.iter(f"{SVG}rect") for key in [rect.get("class")]}
    whole = next(float(rect.get("width", 0)) for rect in figure.iter(f"{SVG}rect"))
    card, shape = gpu_memory(h100_80gb, driver=1), preset("llama-3-8b")
    assert widths["mlg-w"] / whole == pytest.approx(float(weight_bytes(shape) / card), rel=1e-3)
    assert widths["mlg-p"] / whole == pytest.approx(float(kv_budget(h100_80gb, shape, util=0.92, driver=1, overhead=2e9) / card), rel=1e-3)


def test_the_bytes_of_a_product_are_drawn_to_scale() -> None:
    figure = ET.parse(FIGURES.parents[1] / "part2" / "figures" / "gemm-bytes-by-rows.svg").getroot()
    weight = float(next(r for r in figure.iter(f"{SVG}rect") if r.get("class") == "gsb-w").get("height", 0))
    heights = [float(r.get("height", 0)) for r in figure.iter(f"{SVG}rect") if r.get("class") == "gsb-io"][::2]
    assert [round(height / weight * 4096) for height in heights] == pytest.approx([64, 512, 4096], rel=0.02)
