"""Ten situations that are worth seeing, each with two engines that meet the same requests.

Ids are stable: lessons, cards and people's links name them (`playground.html?scenario=<id>`). What `see` says is asserted by a test on the
simulator, so the sentence cannot come apart from the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from infer_lab.errors import UserError


@dataclass(frozen=True, slots=True)
class Prepared:
    """title: English and Chinese. see: what to look at, in a few sentences. at_ms: the telling moment. watch: keys of the
    figures that tell the story. spec: what `playground.play` takes."""

    id: str
    title: str
    title_zh: str
    see: str
    at_ms: float
    watch: tuple[str, ...]
    spec: Mapping[str, Any]


def _spec(traffic: list[dict[str, Any]], a: tuple[str, dict[str, Any]], b: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    """`more["engine"]` is what both engines share."""
    both = more.pop("engine", {})
    return {"traffic": traffic, "sides": [{"label": label, "engine": both | own} for label, own in (a, b)], **more}


_ALL = (
    Prepared(
        "long-prefill-stalls-decode",
        "A long prompt freezes everyone else",
        "长 prompt 让所有人的 decode 停住",
        "Eight chats stream along when a prompt of 6,000 tokens arrives. In A one step computes all of it, and nobody gets a"
        " token until it is over. In B it comes in chunks between their tokens: no freeze, and its own first token comes later.",
        125,
        ("itl_max", "itl_mean", "ttft_max"),
        _spec(
            [
                {"name": "chat", "count": 8, "gap_ms": 4, "prompt_tokens": 150, "output_tokens": 60},
                {"name": "document", "count": 1, "start_ms": 120, "prompt_tokens": 6000, "output_tokens": 12},
            ],
            ("no chunks", {"enable_chunked_prefill": False, "max_num_batched_tokens": 8192}),
            ("chunks of 256", {"max_num_batched_tokens": 256}),
            engine={"num_blocks": 256, "block_size": 32},
            objective={"ttft_ms": 200, "tpot_ms": 6},
        ),
    ),
    Prepared(
        "token-budget",
        "The token budget trades first tokens for smooth ones",
        "token 预算：首 token 延迟与流畅度的取舍",
        "Prompts of 1,200 tokens arrive while others decode. The large budget of A answers at once and makes gaps uneven. The"
        " small one of B keeps every gap short, but a step waits for the weights whatever is in it: prompts get through too"
        " slowly, and queue.",
        150,
        ("itl_max", "ttft_mean", "output_tokens_per_s"),
        _spec(
            [{"name": "question", "count": 16, "gap_ms": 25, "prompt_tokens": 1200, "output_tokens": 40}],
            ("budget 4,096", {"max_num_batched_tokens": 4096}),
            ("budget 128", {"max_num_batched_tokens": 128}),
            engine={"num_blocks": 361, "block_size": 64},
            objective={"ttft_ms": 120, "tpot_ms": 12},
        ),
    ),
    Prepared(
        "static-or-continuous-batching",
        "A batch that waits for its slowest member",
        "静态批处理对比连续批处理",
        "Short and long answers share four places. In A a place that is done stays empty until the whole batch is, in B the"
        " next request takes it in the same step. Compare the thin lines: waiting.",
        300,
        ("latency_mean", "output_tokens_per_s", "mean_batch"),
        _spec(
            [
                {"name": "short", "count": 12, "gap_ms": 8, "prompt_tokens": 100, "output_tokens": 10},
                {"name": "long", "count": 4, "gap_ms": 24, "prompt_tokens": 100, "output_tokens": 90},
            ],
            ("static", {"batching": "static"}),
            ("continuous", {}),
            engine={"max_num_seqs": 4, "num_blocks": 256},
            objective={"ttft_ms": 250, "tpot_ms": 6},
        ),
    ),
    Prepared(
        "thrash",
        "Thrash: admit everybody, preempt everybody",
        "抖动：全部接纳，反复抢占",
        "Eight prompts, and a pool that holds two. A admits whoever has room for a first chunk; they take each other's blocks,"
        " and most of what it computes it has computed before (vermillion). B admits only what can finish: a queue, nothing"
        " twice, and all done sooner.",
        100,
        ("preemptions", "again_tokens", "duration"),
        _spec(
            [{"name": "essay", "count": 8, "gap_ms": 3, "prompt_tokens": 1200, "output_tokens": 100}],
            ("admit by chunk", {"admission": "chunk"}),
            ("admit by whole request", {"admission": "request"}),
            engine={"num_blocks": 201, "max_num_seqs": 8, "enable_prefix_caching": False, "max_num_batched_tokens": 512},
            objective={"ttft_ms": 1000, "tpot_ms": 8},
        ),
    ),
    Prepared(
        "watermark",
        "A few free blocks kept back",
        "水位线：留几个空闲块",
        "The pool is nearly full when new prompts come. A fills the last blocks with them, so the next decoded tokens preempt"
        " somebody, who then freezes for long. B keeps a share back for those who run: nobody is preempted, and the price is a"
        " longer queue.",
        190,
        ("preemptions", "itl_max", "queue_mean"),
        _spec(
            [
                {"name": "early", "count": 6, "gap_ms": 2, "prompt_tokens": 128, "output_tokens": 80},
                {"name": "late", "count": 6, "start_ms": 60, "gap_ms": 30, "prompt_tokens": 160, "output_tokens": 30},
            ],
            ("no watermark", {"watermark": 0.0}),
            ("30 % kept back", {"watermark": 0.3}),
            engine={"num_blocks": 72, "max_num_seqs": 12, "enable_prefix_caching": False},
            objective={"ttft_ms": 300, "tpot_ms": 6},
        ),
    ),
    Prepared(
        "swap-or-recompute",
        "Preempted: throw the KV away, or move it",
        "抢占：重算还是换出",
        "The same preemptions twice. A throws KV away and computes it again (vermillion); B copies it to the host and back, and"
        " computes nothing twice. B wins over this link of 64 GB/s. Set it to 8, and it loses: recomputing is cheaper.",
        300,
        ("again_tokens", "duration", "itl_max"),
        _spec(
            [{"name": "report", "count": 8, "gap_ms": 10, "prompt_tokens": 1500, "output_tokens": 60}],
            ("recompute", {"preemption": "recompute"}),
            ("swap", {"preemption": "swap", "num_host_blocks": 1024}),
            engine={
                "num_blocks": 250,
                "max_num_batched_tokens": 1024,
                "max_num_seqs": 8,
                "admission": "chunk",
                "enable_prefix_caching": False,
            },
            objective={"ttft_ms": 500, "tpot_ms": 8},
        ),
    ),
    Prepared(
        "shared-system-prompt",
        "One system prompt, computed once",
        "共享的系统提示只算一次",
        "Twelve requests begin with the same 1,024 tokens. A computes them twelve times. In B whoever comes after the first"
        " finds those blocks (squares with a number: how many share them) and computes only its own part.",
        100,
        ("computed_tokens", "ttft_mean", "peak_blocks"),
        _spec(
            [{"name": "chat", "count": 12, "gap_ms": 20, "prompt_tokens": 1120, "output_tokens": 30, "prefix_tokens": 1024}],
            ("no prefix cache", {"enable_prefix_caching": False}),
            ("prefix cache", {}),
            engine={"num_blocks": 513, "block_size": 32},
            objective={"ttft_ms": 20, "tpot_ms": 8},
        ),
    ),
    Prepared(
        "four-answers-one-prompt",
        "Four answers from one prompt",
        "一个 prompt，四个回答（n = 4）",
        "A gets the same prompt four times, as four requests. B asks for n = 4: the first computes the prompt, the others fork"
        " its blocks and copy only the last, partly filled one.",
        40,
        ("computed_tokens", "peak_blocks", "ttft_max"),
        _spec(
            [{"name": "idea", "count": 1, "prompt_tokens": 1000, "output_tokens": 48, "n": 4}],
            ("four requests", {"fork_answers": False}),
            ("n = 4", {}),
            engine={"num_blocks": 320, "enable_prefix_caching": False, "max_num_batched_tokens": 512},
            objective={"ttft_ms": 40, "tpot_ms": 6},
        ),
    ),
    Prepared(
        "giant-at-the-head",
        "A giant at the head of the queue",
        "队首的巨型请求",
        "A request that needs most of the pool arrives when the pool is half full. In A nobody overtakes it, so small ones"
        " behind it wait, though they would fit. In B it is of low priority: they pass, and it starts hardly later than in A.",
        200,
        ("ttft_mean", "in_time", "duration"),
        _spec(
            [
                {"name": "running", "count": 4, "gap_ms": 2, "prompt_tokens": 400, "output_tokens": 90},
                {"name": "giant", "count": 1, "start_ms": 60, "prompt_tokens": 3000, "output_tokens": 20, "priority": 3},
                {"name": "small", "count": 20, "start_ms": 70, "gap_ms": 20, "prompt_tokens": 80, "output_tokens": 20},
            ],
            ("first come, first served", {"policy": "fcfs"}),
            ("priority, aging 0.1 s", {"policy": "priority", "priority_aging_s": 0.1}),
            engine={"num_blocks": 240, "enable_prefix_caching": False, "max_num_seqs": 16},
            objective={"ttft_ms": 100, "tpot_ms": 8},
        ),
    ),
    Prepared(
        "priority-and-aging",
        "Priority without aging starves the rest",
        "没有老化的优先级会饿死别人",
        "Urgent requests keep coming, and one batch job of low priority waits beside them for one of two places. In A it waits"
        " until the last urgent one has gone; in B every 40 ms of waiting are worth one level, so it gets its turn among them.",
        250,
        ("ttft_max", "queue_mean", "in_time"),
        _spec(
            [
                {"name": "urgent", "count": 28, "gap_ms": 18, "prompt_tokens": 100, "output_tokens": 10},
                {"name": "batch", "count": 1, "start_ms": 20, "prompt_tokens": 400, "output_tokens": 20, "priority": 5},
            ],
            ("no aging", {}),
            ("aging 0.04 s", {"priority_aging_s": 0.04}),
            engine={"max_num_seqs": 2, "num_blocks": 128, "policy": "priority"},
            objective={"ttft_ms": 150, "tpot_ms": 6},
        ),
    ),
)

PREPARED: Mapping[str, Prepared] = MappingProxyType({scenario.id: scenario for scenario in _ALL})
DEFAULT = _ALL[0].id


def prepared(scenario_id: str) -> Prepared:
    """The scenario of that id; UserError lists those that exist."""
    if scenario_id not in PREPARED:
        raise UserError(f"no scenario is called {scenario_id!r}; known: {', '.join(PREPARED)}")
    return PREPARED[scenario_id]
