from __future__ import annotations

import inspect
import re
import subprocess
import sys

import pytest

from infer_lab import calculator as c
from infer_lab import hardware as hw
from infer_lab.formulas import Formula
from infer_lab.presets import preset

LLAMA = preset("llama-3-8b")
FORMULAS = {name: f for name, f in vars(c).items() if isinstance(f, Formula)}
EXAMPLE = {
    "model": LLAMA,
    "gpu": hw.h100_80gb,
    "tokens": 100,
    "batch": 4,
    "context": 128,
    "n": 4096,
    "m": 8,
    "k": 4096,
    "acceptance": 0.8,
    "draft_tokens": 4,
    "payload": 2**20,
    "bandwidth": 450e9,
    "stages": 4,
    "rate": 2.0,
    "service": 0.3,
    "time": 4,
    "bits": 4,
    "prompt": 1000,
    "output": 200,
    "ttft": 0.5,
    "tpot": 0.05,
    "ep": 8,
    "head_dim": 128,
    "memory": 51_200,
    "part": 0.3,
    "factor": 2,
}
OF_EXPERTS = ("distinct_experts", "all_to_all_bytes")  # fmt: skip


def test_explain_shows_symbols_numbers_and_result() -> None:
    assert c.explain(c.kv_bytes_per_token, LLAMA) == (
        "kv_bytes_per_token = 2 · layers · kv_heads · head_dim · bytes = 2 · 32 · 8 · 128 · 2 = 131,072 B/tok"
    )


def test_explain_of_mla_shows_its_own_formula() -> None:
    assert "layers · latent · bytes = 61 · 576 · 2 = 70,272 B/tok" in c.explain(c.kv_bytes_per_token, preset("deepseek-v3"))


def test_tracing_lists_outer_calls_before_the_ones_they_make() -> None:
    with c.tracing() as calls:
        c.max_cached_tokens(hw.h100_80gb, LLAMA)
    assert [(call.name, call.depth) for call in calls] == [
        ("max_cached_tokens", 0), ("kv_budget", 1), ("weight_bytes", 2), ("parameters", 3), ("kv_bytes_per_token", 1),
    ]  # fmt: skip


def test_tracing_goes_on_after_an_error() -> None:
    with c.tracing() as calls:
        with pytest.raises(Exception, match="deepseek"):
            c.crossover_tokens(preset("deepseek-v3"))
        c.kv_bytes_per_token(LLAMA)
    assert calls[-1].depth == 0


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_every_public_formula_works_and_explains_itself(name: str) -> None:
    fn = FORMULAS[name]
    parameters = inspect.signature(fn.function).parameters.values()
    example = EXAMPLE | ({"model": preset("mixtral-8x7b")} if name in OF_EXPERTS else {})
    arguments = {p.name: example[p.name] for p in parameters if p.default is inspect.Parameter.empty}
    text = c.explain(fn, **arguments)
    assert text.startswith(f"{name} = {fn.formula} = ") and not re.search(r"[{}]", text)
    assert fn.__doc__, "a formula says what it is"
    assert name in c.__all__


def test_the_calculator_needs_neither_torch_nor_numpy() -> None:
    """It runs in the browser and while the book is built."""
    code = (
        "import sys; import infer_lab.calculator, infer_lab.presets;"
        "print(sorted({'torch', 'numpy', 'pydantic', 'triton'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
