"""The trace of a played scenario says the same as the simulator, adds up, and silly input is refused by name."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infer_lab.core.config import SchedulerConfig
from infer_lab.errors import SimulationTooLongError, UserError
from infer_lab.sim.figures import FIGURES, show
from infer_lab.sim.lanes import ticks
from infer_lab.sim.playground import fingerprint, floor_cost, play
from infer_lab.sim.prepared import PREPARED
from infer_lab.sim.scenario import Engine, form, parse, scheduler_config, to_json
from infer_lab.sim.simulation import Simulation

GROUPS = st.fixed_dictionaries(
    {
        "count": st.integers(1, 8),
        "start_ms": st.sampled_from([0, 3.5, 40]),
        "gap_ms": st.sampled_from([0, 2, 9.25]),
        "prompt_tokens": st.integers(40, 300),
        "output_tokens": st.integers(1, 40),
        "prefix_tokens": st.sampled_from([0, 32, 40]),
        "priority": st.integers(-2, 2),
        "n": st.sampled_from([1, 1, 3]),
    }
)
ENGINES = st.fixed_dictionaries(
    {
        "num_blocks": st.integers(24, 120),
        "max_num_batched_tokens": st.sampled_from([24, 100, 400]),
        "max_num_seqs": st.integers(1, 12),
        "enable_prefix_caching": st.booleans(),
        "fork_answers": st.booleans(),
        "batching": st.sampled_from(["continuous", "continuous", "static"]),
        "policy": st.sampled_from(["fcfs", "priority"]),
        "admission": st.sampled_from(["prompt", "chunk", "request"]),
        "preemption": st.sampled_from(["recompute", "swap"]),
        "num_host_blocks": st.integers(1, 60),
        "num_drafts": st.sampled_from([0, 0, 3]),
    }
)
SPECS = st.fixed_dictionaries(
    {
        "traffic": st.lists(GROUPS, min_size=1, max_size=2),
        "sides": st.lists(st.fixed_dictionaries({"engine": ENGINES}), min_size=1, max_size=2),
        "spacing": st.sampled_from(["even", "random"]),
        "seed": st.integers(0, 99),
    }
)


def small(**engine: Any) -> dict[str, Any]:
    return {"traffic": [{"count": 3, "prompt_tokens": 50, "output_tokens": 4}], "sides": [{"engine": engine}]}


@given(SPECS)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_trace_adds_up_to_what_the_simulator_says(spec: dict[str, Any]) -> None:
    view = play(spec)
    scenario = parse(spec)
    for side, drawn in zip(scenario.sides, view["sides"], strict=True):
        arrivals = [arrival for _, arrival in scenario.arrivals(side.engine.fork_answers)]
        longest = max(arrival.prompt_tokens + arrival.output_tokens for arrival in arrivals)
        totals = drawn["totals"]
        assert totals["finished"] + totals["refused"] == totals["requests"] == len(drawn["requests"])
        times = [step["at"] for step in drawn["steps"]]
        assert times == sorted(times) and totals["steps"] == len(times) - 1
        got = Counter[int]()
        for step in drawn["steps"]:
            assert sum(run[3] for run in step["runs"]) <= side.engine.max_num_batched_tokens
            assert not {run[0] for run in step["runs"]} & set(step["waiting"])
            for number, _, _, _, _, new, *_ in step["runs"]:
                got[number] += new
        for number, request in enumerate(drawn["requests"]):
            assert got[number] == (0 if request["refused"] else request["output"])
            if not request["refused"]:
                assert request["at"] <= request["at"] + request["queue"] <= request["at"] + request["ttft"] <= request["done"] + 0.01
        if not side.engine.num_drafts and not totals["refused"]:
            options = {"static_batching": side.engine.batching == "static"}
            cost = floor_cost(scenario.machine, side.engine.block_size)
            plainly = Simulation(scheduler_config(side.engine, longest), cost, **options).run(arrivals)
            assert totals["latency_mean"] == pytest.approx(1e3 * plainly.mean("latency"), abs=1e-3)
    assert json.loads(json.dumps(view, allow_nan=False)) == view


@given(SPECS)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_every_block_is_empty_cached_or_held_by_those_who_run(spec: dict[str, Any]) -> None:
    for side in play(spec)["sides"]:
        blocks: dict[int, list[int]] = {}
        alive: set[int] = set()
        for step in side["steps"]:
            blocks |= {block: state for block, *state in step["blocks"]}
            alive = (alive | {number for number, _ in step["entered"]}) - {number for number, *_ in step["left"]}
            held = {block: state for block, state in blocks.items() if state and state != [-1]}
            assert len(held) == step["used"] and 0 not in held
            assert {number for state in held.values() for number in state} <= alive
            for number, _, start, count, *rest in step["runs"]:
                written = rest[2:]
                size = side["engine"]["block_size"]
                assert len(written) == -(-(start + count) // size) - start // size
                assert all(number in held[block] for block in written)
            alive -= set(step["done"])
        assert not {number for state in blocks.values() for number in state if number >= 0}, "everything is given back"


@given(SPECS)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_what_is_written_out_is_read_back_the_same(spec: dict[str, Any]) -> None:
    assert parse(to_json(parse(spec))) == parse(spec)


def test_the_same_scenario_gives_the_same_trace_in_another_process() -> None:
    program = "from infer_lab.sim import playground as p, prepared as s\nprint(p.play(s.prepared('thrash').spec)['hash'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    view = play(PREPARED["thrash"].spec)
    assert done.stdout.strip() == view["hash"]
    assert view["hash"] == fingerprint({name: value for name, value in view.items() if name != "hash"})


def test_a_scenario_that_a_browser_wrote_gives_the_same_trace() -> None:
    view = play({"traffic": [{}], "machine": {"overhead_ms": 2.0}})
    whole_numbers_without_points = json.loads(json.dumps(view["scenario"]).replace(".0,", ",").replace(".0}", "}"))
    assert play(whole_numbers_without_points)["hash"] == view["hash"]


def test_the_simulator_of_the_page_needs_neither_torch_nor_numpy() -> None:
    program = "import sys, infer_lab.sim.playground\nprint([m for m in ('torch', 'numpy', 'infer_course') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_a_refused_request_says_why_and_the_others_are_served() -> None:
    view = play({"traffic": [{"prompt_tokens": 900}, {"name": "ok", "prompt_tokens": 10}], "sides": [{"engine": {"num_blocks": 20}}]})
    (side,) = view["sides"]
    assert side["totals"]["refused"] == 4 and side["totals"]["finished"] == 4
    assert "need 59 KV blocks" in side["requests"][0]["refused"]


def test_random_spacing_follows_the_seed() -> None:
    def hashes(seed: int) -> str:
        return play({**small(), "spacing": "random", "seed": seed})["hash"]

    assert hashes(1) == hashes(1) != hashes(2)


def test_a_step_takes_its_floor() -> None:
    view = play({**small(), "machine": {"overhead_ms": 2.0}})
    cost, first = view["cost"], view["sides"][0]["steps"][0]
    assert cost["weights_ms"] == pytest.approx(15.01e9 / 3350e9 * 1e3, rel=0.01)
    assert first["ms"] == pytest.approx(cost["weights_ms"] + 2.0 + cost["thousand_kv_ms"] * 50 / 1000, abs=0.01)
    assert cost["free_tokens"] == pytest.approx(317, abs=3)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ([], "the scenario must be an object"),
        ({}, "traffic must be a list"),
        ({"traffic": [{}], "speed": 1}, "has no field 'speed'"),
        ({"traffic": [{"promt_tokens": 3}]}, r"row 1 of the traffic has no field 'promt_tokens'; known: name, count"),
        ({"traffic": [{"prompt_tokens": 0}]}, r"prompt_tokens must lie between 1 and 8192 tokens, got 0"),
        ({"traffic": [{"prompt_tokens": 1e9}]}, "must lie between"),
        ({"traffic": [{"prompt_tokens": 2.5}]}, "must be a whole number, got 2.5"),
        ({"traffic": [{"prompt_tokens": "9"}]}, "must be a whole number, got '9'"),
        ({"traffic": [{"gap_ms": float("nan")}]}, "must be a number, got nan"),
        ({"traffic": [{"count": True}]}, "must be a whole number, got True"),
        ({"traffic": [{"name": " "}]}, "text of 1 to 16 characters"),
        ({"traffic": [{"count": 30}, {"count": 30}]}, r"60 requests; between 1 and 52"),
        ({"traffic": [{"count": 20, "n": 8}]}, "160 requests"),
        ({"traffic": [{"prompt_tokens": 5, "prefix_tokens": 9}]}, "shared prefix of 9 tokens is longer than its prompt of 5"),
        ({"traffic": [{}], "sides": [{}, {}, {}]}, "one engine, or two to compare; got 3"),
        ({"traffic": [{}], "sides": [{"engine": {"policy": "lifo"}}]}, "policy must be one of fcfs, priority; got 'lifo'"),
        ({"traffic": [{}], "sides": [{"engine": {"max_num_batched_tokens": 8}}]}, r"A: max_num_batched_tokens \(8\) must be at least"),
        ({"traffic": [{"prompt_tokens": 5000}], "sides": [{"engine": {"enable_chunked_prefill": False}}]}, "A: without chunked prefill"),
        ({"traffic": [{}], "sides": [{"engine": {"preemption": "swap"}}]}, "needs num_host_blocks > 0"),
        ({"traffic": [{}], "machine": {"gpu": "abacus"}}, "machine: gpu must be one of h100_80gb"),
        ({"traffic": [{}], "spacing": "odd"}, "spacing must be"),
        ({"traffic": [{}], "seed": -1}, "seed must be"),
    ],
)
def test_silly_input_is_refused_with_the_field_and_the_figures(spec: object, said: str) -> None:
    with pytest.raises(UserError, match=said):
        play(spec)


def test_a_run_of_too_many_steps_is_refused_and_not_cut() -> None:
    spec = {"traffic": [{"count": 4, "output_tokens": 1024}], "sides": [{"engine": {"max_num_seqs": 1}}]}
    with pytest.raises(SimulationTooLongError, match=r"after 2000 steps .* of 4 requests are unfinished; .* shorter outputs"):
        play(spec)


def test_the_form_offers_the_options_of_the_scheduler_under_their_own_names() -> None:
    names = {entry["name"] for entry in form()["engine"]} - {"batching", "fork_answers", "num_drafts", "acceptance"}
    assert names <= set(SchedulerConfig.__slots__)
    for part in form().values():
        for entry in part:
            assert entry["label"] and (entry["kind"] != "whole" or entry["low"] <= entry["default"] <= entry["high"])
    assert scheduler_config(Engine(), 100).watermark == 0.0


@given(st.floats(min_value=0.01, max_value=200_000))
def test_a_time_axis_has_few_round_ticks_from_zero_on(end: float) -> None:
    found = ticks(end)
    assert found[0] == 0 and len(found) <= 8 and found[-1] <= end
    assert len({round(b - a, 6) for a, b in pairwise(found)}) <= 1


def test_figures_are_written_for_people() -> None:
    times = [show(number, "ms") for number in (None, 12.34, 1234.6, 12_345.0)]
    assert times == ["–", "12.3 ms", "1,235 ms", "12.35 s"]
    assert [show(0.5, "%"), show(3.0, "1"), show(2.26, "1")] == ["50 %", "3", "2.3"]
    rows = {row["key"]: row for row in play(PREPARED["long-prefill-stalls-decode"].spec)["figures"]}
    assert list(rows) == [figure.key for figure in FIGURES]
    assert rows["itl_max"]["change"].startswith("÷ 1") and rows["itl_max"]["better"] == 1
    assert rows["ttft_mean"]["change"].startswith("+") and rows["ttft_mean"]["better"] == 0
    assert rows["preemptions"] == rows["preemptions"] | {"values": ["0", "0"], "change": "same", "better": None}
