"""How engines of this kind broke in public, as tests on ours: block pool, prefix cache and scheduler.

The cases, with the engines and issues where they happened, are real. Each test states the kind of failure; the fake cache raises when a
request reads KV that is another prefix's or unwritten, and compares every output with the reference.
"""

from __future__ import annotations

import pytest

from infer_lab.core.block_hash import BlockKey, extend_block_keys
from infer_lab.core.block_pool import BlockPool
from infer_lab.core.config import SchedulerConfig
from infer_lab.errors import InvalidRequestError, PromptTooLongError, RequestTooLargeError

from .world import World

B = 4


def config(**options) -> SchedulerConfig:
    return SchedulerConfig(
        **{"num_blocks": 65, "block_size": B, "max_num_batched_tokens": 64, "max_num_seqs": 8, "max_model_len": 64, "watermark": 0.0}
        | options
    )


def prompt_of(length: int, start: int = 0) -> list[int]:
    return [(start + i * 7) % 50 for i in range(length)]


# 1. vLLM #3193, nano-vLLM #144: a full hit left prefill with zero tokens
@pytest.mark.parametrize("length", [1, B - 1, B, B + 1, 3 * B - 1, 3 * B, 3 * B + 1])
def test_case_01_full_prompt_hit_still_computes_one_token(length: int) -> None:
    world = World(config())
    world.add("first", prompt_of(length), 3)
    world.drain()
    world.add("again", prompt_of(length), 3)
    plan = world.issue()
    assert plan.scheduled[0].num_tokens >= 1 and plan.scheduled[0].samples
    assert plan.scheduled[0].start == (length - 1) // B * B
    world.complete()
    world.drain()


# 2. nano-vLLM #211, #233: after preemption the number of cached tokens was an old one
@pytest.mark.parametrize("survives", [True, False])
def test_case_02_hits_are_counted_anew_when_a_preempted_request_resumes(survives: bool) -> None:
    world = World(config(num_blocks=1 + 6, admission="chunk", max_num_seqs=2))
    world.add("old", prompt_of(8), 9)
    victim = world.add("young", prompt_of(8, 3), 9)
    while not victim.num_preemptions:
        world.step()
    assert victim.num_computed_tokens == 0 and victim.num_cached_tokens == 0
    if survives:
        world.abort("old")  # the victim's blocks are still cached
    before = victim.num_tokens
    while not victim.block_ids:
        plan = world.issue()
        world.complete()
    resumed = next(s for s in plan.scheduled if s.request_id == "young")
    assert resumed.start % B == 0 and resumed.start < before
    assert (resumed.start > 0) or not survives
    world.drain()


# 3. nano-vLLM, fixed by 9fa256a: a reused block lost its hash, the chain restarted, later blocks were filed under the wrong parent
def test_case_03_a_chain_does_not_restart_when_its_blocks_are_evicted_and_reused() -> None:
    world = World(config(num_blocks=1 + 8, max_model_len=33))
    shared = [9, 9, 9, 9]
    world.add("a", [1, 2, 3, 4] + shared * 2 + [1], 4)
    world.drain()
    world.add("flood", prompt_of(28, 11), 4)  # takes every block, evicting a's
    world.drain()
    world.add("b", [5, 6, 7, 8] + shared * 2 + [1], 4)  # the same later blocks under another parent
    world.drain()
    world.add("a again", [1, 2, 3, 4] + shared * 2 + [1], 4)
    world.drain()
    world.add("c", shared * 3 + [1], 4)  # and where a restarted chain would have filed them
    world.drain()


def test_case_03_the_keys_of_a_request_do_not_depend_on_when_they_are_made() -> None:
    tokens, at_once, step_by_step = prompt_of(40), [], []
    extend_block_keys(at_once, tokens, (), B)
    for end in range(1, 41):
        extend_block_keys(step_by_step, tokens[:end], (), B)
    assert step_by_step == at_once and len(at_once) == 10


# 4. vLLM #12621, #3264, #30931; vllm-mlx #444: collisions, keys that leave something out, ids cut to 8 bits
def test_case_04_ids_that_agree_in_their_low_byte_are_different_prefixes() -> None:
    world = World(config())
    world.add("65", [65] * 9, 2, vocab=1000)
    world.drain()
    other = world.add("321", [321] * 9, 2, vocab=1000)
    world.drain()
    assert other.num_cached_tokens == 0


@pytest.mark.parametrize(
    "keys",
    [
        ((("adapter", "fr"),), (("adapter", "de"),)),
        ((("adapter", "fr"),), (("salt", "fr"),)),
        ((), (("salt", ""),)),
        ((("a", "b"), ("c", "d")), (("a", "bc"), ("", "d"))),
        ((("ab", "c"),), (("a", "bc"),)),
    ],
)
def test_case_04_extra_keys_separate_equal_tokens(keys) -> None:
    world = World(config())
    for name, key in zip("ab", keys, strict=True):
        world.add(name, prompt_of(12), 2, cache_keys=key)
        world.drain()
        again = world.add(name + " again", prompt_of(12), 2, cache_keys=key)
        world.drain()
        assert again.num_cached_tokens == 8
        assert world.scheduler.kv.pool.num_cached == (3 if name == "a" else 6)


def test_case_04_a_digest_alone_is_not_believed() -> None:
    pool = BlockPool(4)
    (block,) = pool.allocate(1)
    key = BlockKey(b"digest", b"parent", b"tokens")
    pool.file(block, key)
    assert pool.lookup(key) == block
    assert pool.lookup(key._replace(tokens=b"others")) is None
    assert pool.lookup(key._replace(parent=b"another")) is None
    pool.file(pool.allocate(1)[0], key._replace(tokens=b"others"))  # the collision is not filed either
    assert pool.lookup(key) == block and pool.num_cached == 1
    pool.check_invariants()


# 5. mini-sglang #80, #46: pages on one side and tokens on the other; what was matched was not locked
def test_case_05_matched_blocks_are_not_evicted_by_the_allocation_for_the_rest() -> None:
    world = World(config(num_blocks=1 + 6, max_model_len=24))
    world.add("first", prompt_of(8), 1)
    world.drain()
    longer = world.add("longer", prompt_of(23), 1)  # 2 blocks hit, the other 4 of the pool are needed: hits must not be among them
    world.drain()
    assert longer.num_cached_tokens == 8


def test_case_05_hits_on_free_blocks_count_as_blocks_that_are_no_longer_free() -> None:
    world = World(config(num_blocks=1 + 6, max_model_len=24, admission="prompt"))
    world.add("first", prompt_of(9), 1)
    world.drain()
    running = world.add("running", prompt_of(11, 5), 8)
    world.step()
    hits_two_needs_two = world.add("second", prompt_of(13), 1)  # 3 blocks are free, 2 of them are its hits
    world.step()
    assert running.block_ids and not hits_two_needs_two.block_ids
    world.drain()


# 6. nano-vLLM #144, vllm-gaudi #524: a resumed request was taken for a decode
@pytest.mark.parametrize("preemption", ["recompute", "swap"])
@pytest.mark.parametrize("after", [1, 2, 5])
def test_case_06_output_is_the_same_when_preempted_after_any_number_of_tokens(after: int, preemption: str) -> None:
    world = World(config(num_blocks=1 + 8, num_host_blocks=8, preemption=preemption, admission="chunk", max_model_len=32))
    world.add("old", prompt_of(16 + B - after), 12)
    young = world.add("young", prompt_of(B * 3, 5), 12)
    world.drain()  # the world compares the outputs
    assert young.num_preemptions >= 1


# 7. nano-vLLM #212: a chunk attended to KV that was not written yet
@pytest.mark.parametrize("budget", [1, 2, 3, 4, 5, 7, 64])
def test_case_07_chunks_of_any_size_read_only_what_is_written(budget: int) -> None:
    world = World(config(max_num_batched_tokens=budget, max_num_seqs=1))
    world.add("a", prompt_of(30), 5)
    world.add("b", prompt_of(25), 5)
    world.drain()


def test_case_07_requests_that_share_a_prefix_in_one_step_do_not_lean_on_each_other() -> None:
    world = World(config())
    world.add("a", prompt_of(16), 2)
    twin = world.add("b", prompt_of(16), 2)
    plan = world.issue()
    assert [s.start for s in plan.scheduled] == [0, 0] and twin.num_cached_tokens == 0
    world.complete()
    world.drain()


# 8. vLLM #35541, #39734; nano-vLLM: a request larger than the pool hung or killed the engine
def test_case_08_what_cannot_fit_is_refused_with_figures_and_the_neighbours_finish() -> None:
    world = World(config(num_blocks=1 + 10, max_model_len=60))
    world.add("neighbour", prompt_of(20), 5)
    world.step()
    with pytest.raises(RequestTooLargeError, match=r"30 prompt tokens and up to 12 output tokens need 11 KV blocks of 4 tokens.* 10 "):
        world.add("huge", prompt_of(30), 12)
    fits_exactly = world.add("fits exactly", prompt_of(30, 5), 11)  # the last token's KV is never written
    world.drain()
    assert fits_exactly.num_output_tokens == 11


# 9. SGLang #1837, #38982: finished or aborted in the middle of its chunks, it leaked blocks
@pytest.mark.parametrize("in_flight", [False, True])
@pytest.mark.parametrize("steps", range(9))
def test_case_09_abort_at_every_boundary_leaves_the_pool_full(steps: int, in_flight: bool) -> None:
    world = World(config(max_num_batched_tokens=4, max_num_seqs=2))
    world.add("a", prompt_of(14), 4)
    world.add("b", prompt_of(14), 4)
    for _ in range(steps):
        world.step()
    if in_flight:
        world.issue()
    world.abort("a")
    world.abort("a")  # late aborts are no error
    world.drain()


# 10. nano-vLLM: max_tokens=0 never stopped, and nobody looked at the model's maximum length
def test_case_10_max_tokens_of_zero_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="max_tokens must be a whole number of at least 1, got 0"):
        World(config()).add("none", [1], 0)


def test_case_10_generation_ends_at_the_models_context() -> None:
    world = World(config(max_model_len=20))
    request = world.add("long", prompt_of(17), 100)
    world.drain()
    assert request.num_tokens == 20 and request.finish_reason == "length"


def test_case_10_a_prompt_at_the_limit_is_served_or_refused_as_advertised() -> None:
    world = World(config(max_model_len=20))
    request = world.add("just fits", prompt_of(19), 100)
    for length in (20, 21):
        with pytest.raises(PromptTooLongError, match=rf"the prompt has {length} tokens.*max_model_len = 20"):
            world.add("too long", prompt_of(length), 1)
    world.drain()
    assert request.num_output_tokens == 1 and request.finish_reason == "length"
