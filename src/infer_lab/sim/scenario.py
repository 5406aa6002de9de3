"""A situation to play through: who asks when, on which engine and machine, and what counts as served in time.

Why one declaration for checking and for the form: a field carries its limits, its unit and a sentence, and both the parser and the page's
form read them there, so that the form cannot offer what the parser refuses. Small on purpose: what is to be looked at step by step must
fit on a page.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any

from infer_lab.core.config import SchedulerConfig
from infer_lab.errors import UserError
from infer_lab.hardware import GPUS
from infer_lab.sim.traffic import Arrival

MAX_REQUESTS = 52
"""One letter of the alphabet, large or small, for each."""
MODELS = ("llama-3-8b", "qwen2.5-7b", "qwen3-4b", "llama-3.2-1b", "qwen3-0.6b", "smollm2-135m")
"""Dense models that one card of each kind holds."""
NO_AGING_S = 1e6


def _number(default: float, low: float, high: float, label: str, unit: str = "", says: str = "", whole: bool = True) -> Any:
    kind = "whole" if whole else "number"
    return field(
        default=default if whole else float(default),
        metadata={"kind": kind, "label": label, "unit": unit, "low": low, "high": high, "says": says},
    )


def _choice(options: Sequence[str], label: str, says: str = "") -> Any:
    return field(default=options[0], metadata={"kind": "choice", "label": label, "options": tuple(options), "says": says})


def _switch(default: bool, label: str, says: str = "") -> Any:
    return field(default=default, metadata={"kind": "switch", "label": label, "says": says})


def _text(default: str, label: str, longest: int = 40) -> Any:
    return field(default=default, metadata={"kind": "text", "label": label, "high": longest, "says": ""})


@dataclass(frozen=True, slots=True)
class Group:
    """Requests of one kind, one after the other. Those with one `prefix` share the first `prefix_tokens` of their prompts."""

    name: str = _text("chat", "Name", 16)
    count: int = _number(4, 1, MAX_REQUESTS, "Requests")
    start_ms: float = _number(0, 0, 60_000, "First at", "ms", whole=False)
    gap_ms: float = _number(10, 0, 10_000, "Then every", "ms", whole=False)
    prompt_tokens: int = _number(200, 1, 8192, "Prompt", "tokens")
    output_tokens: int = _number(40, 1, 1024, "Output", "tokens")
    prefix_tokens: int = _number(0, 0, 8192, "Shared prefix", "tokens", "how many tokens of the prompt all of this row share")
    priority: int = _number(0, -9, 9, "Priority", says="smaller is more urgent; looked at by the priority policy only")
    n: int = _number(1, 1, 8, "Answers (n)", says="answers to each prompt, which is computed once")


@dataclass(frozen=True, slots=True)
class Engine:
    """What the scheduler is told; names and meanings are those of `SchedulerConfig`."""

    num_blocks: int = _number(512, 2, 1024, "KV pool", "blocks", "the null block included")
    block_size: int = _number(16, 1, 128, "Block size", "tokens")
    max_num_batched_tokens: int = _number(2048, 1, 16_384, "Token budget", "tokens a step")
    max_num_seqs: int = _number(16, 1, MAX_REQUESTS, "Batch at most", "requests")
    enable_chunked_prefill: bool = _switch(True, "Chunked prefill", "a prompt may be computed over several steps")
    enable_prefix_caching: bool = _switch(True, "Prefix caching", "KV of equal beginnings is found instead of computed")
    fork_answers: bool = _switch(True, "Fork answers", "answers to one prompt share its KV; else each is a request like any other")
    batching: str = _choice(("continuous", "static"), "Batching", "static: the next batch enters when all of the last have finished")
    policy: str = _choice(("fcfs", "priority"), "Order", "who is next in the queue")
    priority_aging_s: float = _number(
        NO_AGING_S, 1e-3, NO_AGING_S, "Aging", "s", "waiting so long is worth one level; 1000000: no aging", whole=False
    )
    admission: str = _choice(("prompt", "chunk", "request"), "Admit when", "what must fit into free blocks before a request enters")
    watermark: float = _number(0.0, 0, 0.9, "Watermark", "of pool", "share of the pool that admission leaves free", whole=False)
    preemption: str = _choice(("recompute", "swap"), "Preempt by", "throw KV away, or move it to the host")
    num_host_blocks: int = _number(0, 0, 4096, "Host memory", "blocks", "room for swapped KV")
    num_drafts: int = _number(0, 0, 8, "Drafts a step", "tokens", "guesses that one step verifies")
    acceptance: float = _number(0.7, 0, 1, "Drafts right", "of 1", "chance of each, if those before it were right", whole=False)


@dataclass(frozen=True, slots=True)
class Machine:
    """What a step is timed on; see `playground.floor_cost`."""

    model: str = _choice(MODELS, "Model")
    gpu: str = _choice(("h100_80gb", *sorted(set(GPUS) - {"h100_80gb"})), "GPU")
    overhead_ms: float = _number(0.0, 0, 50, "Overhead a step", "ms", "added to the floor of every step", whole=False)
    host_gb_s: float = _number(64, 1, 1000, "Link to the host", "GB/s", "64 is PCIe 5.0 x16 by its sheet", whole=False)


@dataclass(frozen=True, slots=True)
class Objective:
    """Served in time means both; goodput counts nothing else."""

    ttft_ms: float = _number(500, 1, 1e6, "TTFT at most", "ms", whole=False)
    tpot_ms: float = _number(20, 0.1, 1e5, "TPOT at most", "ms", whole=False)


@dataclass(frozen=True, slots=True)
class Side:
    label: str
    engine: Engine


@dataclass(frozen=True, slots=True)
class Scenario:
    """spacing "even": gaps and lengths as they stand. "random": exponential gaps and lognormal lengths around them, from `seed`."""

    traffic: tuple[Group, ...]
    sides: tuple[Side, ...]
    machine: Machine
    objective: Objective
    spacing: str = "even"
    seed: int = 0

    def arrivals(self, fork_answers: bool = True) -> list[tuple[str, Arrival]]:
        """(name, arrival) in order of time; every side meets the same. Without forking, n answers are n arrivals with one prompt."""
        r = random.Random(self.seed)
        found = []
        for number, group in enumerate(self.traffic):
            time_ms = group.start_ms
            for index in range(group.count):
                prompt, output = group.prompt_tokens - group.prefix_tokens, group.output_tokens
                if self.spacing == "random":
                    prompt, output = _spread(prompt, 8192, r), _spread(output, 1024, r)
                arrival = Arrival(
                    time_ms / 1e3, group.prefix_tokens + prompt, output, number, group.prefix_tokens, priority=group.priority, n=group.n
                )
                found.append((f"{group.name} {index + 1}" if group.count > 1 else group.name, arrival))
                time_ms += r.expovariate(1 / group.gap_ms) if self.spacing == "random" and group.gap_ms else group.gap_ms
        found.sort(key=lambda pair: pair[1].time)
        if fork_answers:
            return found
        return [
            (f"{name}, answer {i + 1}" if arrival.n > 1 else name, replace(arrival, n=1, own=own))
            for own, (name, arrival) in enumerate(found)
            for i in range(arrival.n)
        ]


def _spread(tokens: int, longest: int, r: random.Random) -> int:
    return max(1, min(longest, round(tokens * r.lognormvariate(0.0, 0.5)))) if tokens else 0


def scheduler_config(engine: Engine, max_model_len: int) -> SchedulerConfig:
    """Raises UserError for combinations that no scheduler can run, with the figures."""
    own = ("batching", "fork_answers", "num_drafts", "acceptance")
    options = {f.name: getattr(engine, f.name) for f in fields(engine) if f.name not in own}
    return SchedulerConfig(**options, max_model_len=max_model_len, step_records=1)


# -- from and to JSON --------------------------------------------------------------------------------------------------------


def parse(spec: object) -> Scenario:
    """{"traffic": [group…], "sides": [{"label", "engine"}…], "machine", "objective", "spacing", "seed"}; what is left out has its default.

    UserError names the field, what it got and what it takes."""
    given = _mapping(spec, "the scenario")
    _known(given, ("traffic", "sides", "machine", "objective", "spacing", "seed"), "the scenario")
    groups = tuple(_read(Group, group, f"row {i + 1} of the traffic") for i, group in enumerate(_list(given.get("traffic"), "traffic")))
    sides = []
    for i, entry in enumerate(_list(given.get("sides", [{}]), "sides")):
        side = _mapping(entry, f"side {'AB'[i % 2]}")
        _known(side, ("label", "engine"), f"side {'AB'[i % 2]}")
        sides.append(Side(str(side.get("label", "AB"[i % 2]))[:60], _read(Engine, side.get("engine", {}), f"side {'AB'[i % 2]}")))
    if not 1 <= len(sides) <= 2:
        raise UserError(f"one engine, or two to compare; got {len(sides)}")
    total = sum(group.count * group.n for group in groups)
    if not 1 <= total <= MAX_REQUESTS:
        raise UserError(f"the traffic has {total} requests; between 1 and {MAX_REQUESTS} can be shown (answers count one each)")
    for i, group in enumerate(groups):
        if group.prefix_tokens > group.prompt_tokens:
            raise UserError(
                f"row {i + 1} of the traffic: a shared prefix of {group.prefix_tokens} tokens is longer than its prompt of"
                f" {group.prompt_tokens}"
            )
    spacing, seed = given.get("spacing", "even"), given.get("seed", 0)
    if spacing not in ("even", "random"):
        raise UserError(f"spacing must be 'even' or 'random', got {spacing!r}")
    if not _is_number(seed) or seed != int(seed) or not 0 <= seed <= 999_999:
        raise UserError(f"seed must be a whole number in [0, 999999], got {seed!r}")
    machine, objective = _read(Machine, given.get("machine", {}), "machine"), _read(Objective, given.get("objective", {}), "objective")
    return Scenario(groups, tuple(sides), machine, objective, spacing, int(seed))


def plain(record: Any) -> dict[str, Any]:
    """A group, engine, machine or objective as JSON."""
    return {f.name: getattr(record, f.name) for f in fields(record)}


def to_json(scenario: Scenario) -> dict[str, Any]:
    """What `parse` reads, with every field written out."""
    return {
        "traffic": [plain(group) for group in scenario.traffic],
        "sides": [{"label": side.label, "engine": plain(side.engine)} for side in scenario.sides],
        "machine": plain(scenario.machine),
        "objective": plain(scenario.objective),
        "spacing": scenario.spacing,
        "seed": scenario.seed,
    }


def form() -> dict[str, list[dict[str, Any]]]:
    """The fields of each part, for whoever draws a form: name, label, kind, limits, unit, default and a sentence."""
    parts = {"traffic": Group, "engine": Engine, "machine": Machine, "objective": Objective}
    return {part: [{"name": f.name, "default": f.default, **f.metadata} for f in fields(kind)] for part, kind in parts.items()}


def _read(kind: Any, spec: object, where: str) -> Any:
    given = _mapping(spec, where)
    known = {f.name: f for f in fields(kind)}
    _known(given, tuple(known), where)
    return kind(**{name: _value(known[name], value, where) for name, value in given.items()})


def _value(f: Any, value: Any, where: str) -> Any:
    told, place = f.metadata, f"{where}: {f.name}"
    assert f.default is not MISSING
    if told["kind"] == "text":
        if not isinstance(value, str) or not 1 <= len(value.strip()) <= told["high"]:
            raise UserError(f"{place} must be text of 1 to {told['high']} characters, got {value!r:.60}")
        return value.strip()
    if told["kind"] == "switch":
        if not isinstance(value, bool):
            raise UserError(f"{place} must be true or false, got {value!r:.60}")
        return value
    if told["kind"] == "choice":
        if value not in told["options"]:
            raise UserError(f"{place} must be one of {', '.join(told['options'])}; got {value!r:.60}")
        return value
    whole = told["kind"] == "whole"
    if not _is_number(value) or (whole and value != int(value)):
        raise UserError(f"{place} must be a {'whole ' if whole else ''}number, got {value!r:.60}")
    if not told["low"] <= value <= told["high"]:
        raise UserError(f"{place} must lie between {told['low']:g} and {told['high']:g} {told['unit']}".rstrip() + f", got {value:g}")
    return int(value) if whole else float(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UserError(f"{where} must be an object of named fields, got {value!r:.60}")
    return value


def _list(value: object, name: str) -> list[Any]:
    if not isinstance(value, (list, tuple)) or not 1 <= len(value) <= MAX_REQUESTS:
        raise UserError(f"{name} must be a list of 1 to {MAX_REQUESTS} entries, got {value!r:.60}")
    return list(value)


def _known(given: Mapping[str, Any], names: tuple[str, ...], where: str) -> None:
    if unknown := [str(name) for name in given if name not in names]:
        raise UserError(f"{where} has no field {unknown[0]!r:.60}; known: {', '.join(names)}")
