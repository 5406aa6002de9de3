from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_lab import calculator as c
from infer_lab.errors import NotApplicableError, UserError
from infer_lab.presets import preset

NVLINK, US = 450e9, 1e-6
sizes, gpus = st.integers(1, 2**30), st.integers(1, 64)


def test_a_ring_by_hand() -> None:
    """1 MiB over 8 GPUs at 450 GB/s, 3 µs a turn: 14 turns of 3 µs + 131,072 B / 450 GB/s = 0.291 µs."""
    assert c.ring_all_reduce_time(2**20, 8, NVLINK, 3 * US).value == pytest.approx(14 * (3e-6 + 131_072 / 450e9))


def test_a_tree_by_hand() -> None:
    assert c.tree_all_reduce_time(2**20, 8, NVLINK, 3 * US).value == pytest.approx(6 * 3e-6 + 2 * 2**20 / 450e9)


def test_one_shot_by_hand() -> None:
    assert c.one_shot_all_reduce_time(2**20, 8, NVLINK, 3 * US).value == pytest.approx(3e-6 + 7 * 2**20 / 450e9)


@given(sizes, gpus)
def test_a_ring_without_latency_sends_the_factor_times_the_payload(size: int, n: int) -> None:
    assert c.ring_all_reduce_time(size, n, NVLINK).value == pytest.approx(c.all_reduce_factor(n).value * size / NVLINK)


@pytest.mark.parametrize(
    "time", [c.ring_all_reduce_time, c.tree_all_reduce_time, c.one_shot_all_reduce_time], ids=["ring", "tree", "one-shot"]
)
def test_one_gpu_has_nobody_to_talk_to(time: c.Formula) -> None:
    assert time(2**20, 1, NVLINK, 3 * US).value == 0


@given(st.integers(2, 64))
def test_small_messages_want_few_turns_and_large_ones_few_bytes(n: int) -> None:
    ring, tree, one = (f(64, n, NVLINK, 3 * US).value for f in (c.ring_all_reduce_time, c.tree_all_reduce_time, c.one_shot_all_reduce_time))
    assert one <= tree and one <= ring
    ring, one = (f(2**32, n, NVLINK, 3 * US).value for f in (c.ring_all_reduce_time, c.one_shot_all_reduce_time))
    assert ring <= one + 1e-3


def test_llama_70b_sums_16_kib_a_token_twice_a_layer() -> None:
    model = preset("llama-3-70b")
    assert c.tp_payload(model, 1).to("KiB").value == 16
    assert (2 * model.num_layers * c.tp_payload(model, 64)).to("MiB").value == 160


def test_dispatch_by_hand() -> None:
    """DeepSeek-V3: 128 tokens · 8 experts · 7,168 · 1 byte, of which 63/64 leave the GPU."""
    sent = c.all_to_all_bytes(preset("deepseek-v3"), 128, 64, 1)
    assert sent.value == 128 * 8 * 7168 * 63 / 64
    with pytest.raises(NotApplicableError, match="evenly"):
        c.all_to_all_bytes(preset("deepseek-v3"), 128, 7)


@given(st.integers(1, 64), st.integers(1, 512))
def test_the_bubble_equals_a_schedule_drawn_out(stages: int, microbatches: int) -> None:
    slots = microbatches + stages - 1
    assert c.pipeline_bubble(stages, microbatches).value == pytest.approx(1 - microbatches / slots)


@pytest.mark.parametrize("bad", [0, -1, 1.5])
def test_a_collective_has_whole_gpus(bad: float) -> None:
    with pytest.raises(UserError):
        c.ring_all_reduce_time(10, bad, NVLINK)  # type: ignore[arg-type]
