"""Plays a scenario on the real scheduler and says everything about it: JSON in, JSON out. The site's playground is a view of it.

How long a step takes is a *floor*: what the datasheet's bandwidth and peak allow, plus an overhead if one is given. Real steps take
longer. Who waits for whom, what is preempted and what is found in the cache are the scheduler's own decisions all the same.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from infer_lab.calculator import decode_flops, decode_weight_bytes, kv_bytes_per_token
from infer_lab.errors import UserError
from infer_lab.hardware import gpu
from infer_lab.presets import preset
from infer_lab.sim.cost_model import RooflineCost
from infer_lab.sim.figures import figures
from infer_lab.sim.instance import Speculation
from infer_lab.sim.lanes import lanes, load, ticks
from infer_lab.sim.results import SimulationResult
from infer_lab.sim.scenario import Machine, Objective, Scenario, Side, parse, plain, scheduler_config, to_json
from infer_lab.sim.simulation import Simulation
from infer_lab.sim.trace import Recorder, ms


def play(spec: object) -> dict[str, Any]:
    """{"scenario", "cost", "sides": [trace, …], "figures": [row, …], "end", "ticks", "hash"}; times in milliseconds.

    UserError for what cannot be played, with the figures."""
    scenario = parse(spec)
    cost = floor_cost(scenario.machine, scenario.sides[0].engine.block_size)
    sides = [_play(scenario, side) for side in scenario.sides]
    end = max(side["steps"][-1]["at"] for side in sides)
    played = {
        "scenario": to_json(scenario),
        "cost": describe_cost(scenario.machine, cost),
        "sides": sides,
        "figures": figures(sides),
        "end": end,
        "ticks": ticks(end),
    }
    return played | {"hash": fingerprint(played)}


def fingerprint(played: Mapping[str, Any]) -> str:
    """The same for the same run, whatever ran it."""
    return hashlib.sha256(json.dumps(played, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


def floor_cost(machine: Machine, block_size: int) -> RooflineCost:
    """Weights once and every cached position once a step, or two operations for each parameter and token, whichever takes longer.

    Left out, so that it stays a floor: the arithmetic of attention, the LM head, activations, launches, and everything on the host."""
    model, card = preset(machine.model), gpu(machine.gpu)
    kv_bytes = float(kv_bytes_per_token(model).base)
    return RooflineCost(
        weight_bytes=float(decode_weight_bytes(model).base),
        kv_bytes=kv_bytes,
        flops=float(decode_flops(model, 1, 0).base) - 2 * model.vocab_size * model.hidden_size,
        bandwidth=float(card.bandwidth.base),
        peak=float(card.peak_flops("bf16").base),
        overhead_s=machine.overhead_ms / 1e3,
        block_bytes=kv_bytes * block_size,
        host_bandwidth=machine.host_gb_s * 1e9,
    )


def describe_cost(machine: Machine, cost: RooflineCost) -> dict[str, Any]:
    """The terms of the floor in milliseconds, and a sentence with them."""
    weights, tokens, kv = cost.weight_bytes / cost.bandwidth, 1000 * cost.flops / cost.peak, 1000 * cost.kv_bytes / cost.bandwidth
    free_tokens = math.floor(weights / tokens * 1000)
    name, overhead = gpu(machine.gpu).name, machine.overhead_ms
    says = (
        f"A step of {machine.model} (bf16) on one {name} takes its floor by the datasheet: {ms(weights):.2f} ms to read the weights and"
        f" {ms(kv):.3f} ms for every 1,000 cached positions, or {ms(tokens):.1f} ms for every 1,000 tokens computed, whichever is longer"
        + (f"; and {overhead:g} ms of overhead. " if overhead else ". ")
        + f"So the first {free_tokens} tokens of a step cost nothing beside the weights. Real steps take longer; the decisions are"
        " the engine's own."
    )
    return {
        "name": "floor",
        "says": says,
        "weights_ms": ms(weights),
        "thousand_tokens_ms": ms(tokens),
        "thousand_kv_ms": ms(kv),
        "block_swap_ms": ms(cost.block_bytes / cost.host_bandwidth),
        "free_tokens": free_tokens,
    }


def _play(scenario: Scenario, side: Side) -> dict[str, Any]:
    engine = side.engine
    named = scenario.arrivals(engine.fork_answers)
    longest = max(arrival.prompt_tokens + arrival.output_tokens for _, arrival in named)
    try:
        config = scheduler_config(engine, max(2, longest))
    except UserError as error:
        raise UserError(f"{side.label}: {error}") from None
    recorder = Recorder([name for name, _ in named])
    simulation = Simulation(
        config,
        floor_cost(scenario.machine, engine.block_size),
        speculation=Speculation(engine.num_drafts, engine.acceptance) if engine.num_drafts else None,
        static_batching=engine.batching == "static",
        observer=recorder,
    )
    result = simulation.run(arrival for _, arrival in named)
    recorder.finish(simulation.instances[0], simulation.now)
    return {
        "label": side.label,
        "engine": plain(engine),
        "requests": recorder.requests,
        "steps": recorder.steps,
        "lanes": lanes(recorder.requests, recorder.steps),
        "load": load(recorder.steps, engine.max_num_batched_tokens, engine.num_blocks - 1),
        "totals": totals(result, recorder.steps, scenario.objective),
    }


def totals(result: SimulationResult, steps: Sequence[Mapping[str, Any]], objective: Objective) -> dict[str, float | None]:
    """Plain numbers over the whole run; times in milliseconds, None where there is nothing to average."""
    limits = {"ttft_s": objective.ttft_ms / 1e3, "tpot_s": objective.tpot_ms / 1e3}
    runs = [run for step in steps for run in step["runs"]]
    found: dict[str, float | None] = {
        "requests": len(result.requests) + result.num_rejected,
        "finished": len(result.requests),
        "refused": result.num_rejected,
        "steps": result.num_steps,
        "duration": ms(result.duration_s),
        "utilization": round(result.utilization, 4),
        "output_tokens": sum(request.output_tokens for request in result.requests),
        "output_tokens_per_s": round(result.output_tokens_per_s, 1),
        "requests_per_s": round(result.requests_per_s, 3),
        "in_time": round(result.attainment(**limits), 4),
        "goodput": round(result.goodput(**limits), 3),
        "preemptions": sum(request.num_preemptions for request in result.requests),
        "computed_tokens": sum(run[3] for run in runs),
        "again_tokens": sum(run[4] for run in runs),
        "cached_tokens": sum(request.cached_tokens for request in result.requests),
        "prompt_tokens": sum(request.prompt_tokens for request in result.requests),
        "peak_blocks": max(step["used"] for step in steps),
        "mean_batch": round(len(runs) / max(1, result.num_steps), 2),
    }
    for name in ("ttft", "itl", "tpot", "queue", "latency"):
        values = result.values(name)
        found[f"{name}_mean"] = ms(sum(values) / len(values)) if values else None
        found[f"{name}_p99"] = ms(result.percentile(name, 99)) if values else None
        found[f"{name}_max"] = ms(values[-1]) if values else None
    return found
