"""What the playground says about each prepared scenario holds on the simulator, so the page cannot claim what a run does not show."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from infer_lab.errors import UserError
from infer_lab.sim.playground import play
from infer_lab.sim.prepared import DEFAULT, PREPARED, prepared


@cache
def played(scenario_id: str) -> dict[str, Any]:
    return play(prepared(scenario_id).spec)


def both(scenario_id: str) -> tuple[dict[str, Any], dict[str, Any]]:
    a, b = played(scenario_id)["sides"]
    return a["totals"], b["totals"]


def of(scenario_id: str, side: int, name: str) -> list[dict[str, Any]]:
    found = [request for request in played(scenario_id)["sides"][side]["requests"] if request["name"].startswith(name)]
    assert found
    return found


def mean(requests: list[dict[str, Any]], key: str) -> float:
    return sum(request[key] for request in requests) / len(requests)


def test_a_long_prompt_without_chunks_freezes_those_who_decode() -> None:
    a, b = both("long-prefill-stalls-decode")
    assert a["itl_max"] > 10 * b["itl_max"]
    (whole,), (chunked,) = (of("long-prefill-stalls-decode", side, "document") for side in (0, 1))
    assert chunked["ttft"] > whole["ttft"], "the price of chunks"
    freeze = max(run[3] for step in played("long-prefill-stalls-decode")["sides"][0]["steps"] for run in step["runs"])
    assert freeze == 6000, "one step takes the whole prompt"


def test_a_small_budget_keeps_gaps_short_and_lets_prompts_queue() -> None:
    large, small = both("token-budget")
    assert large["itl_max"] > 3 * small["itl_max"]
    assert small["ttft_mean"] > 5 * large["ttft_mean"] and small["queue_mean"] > 10 * large["queue_mean"]


def test_static_batches_leave_places_empty() -> None:
    static, continuous = both("static-or-continuous-batching")
    assert static["latency_mean"] > 3 * continuous["latency_mean"]
    assert continuous["output_tokens_per_s"] > 2 * static["output_tokens_per_s"]
    assert continuous["mean_batch"] > 2 * static["mean_batch"]


def test_admitting_everybody_thrashes_and_is_slower_for_it() -> None:
    a, b = both("thrash")
    assert a["preemptions"] > 50 and b["preemptions"] == 0 == b["again_tokens"]
    assert a["again_tokens"] > a["computed_tokens"] / 2
    assert b["duration"] < a["duration"] and b["latency_mean"] < a["latency_mean"]


def test_a_watermark_spares_those_who_run_and_makes_others_queue() -> None:
    without, kept_back = both("watermark")
    assert without["preemptions"] > 0 == kept_back["preemptions"]
    assert without["itl_max"] > 10 * kept_back["itl_max"] and kept_back["queue_mean"] > without["queue_mean"]


def test_swapping_computes_nothing_twice_and_the_link_decides_who_wins() -> None:
    recompute, swap = both("swap-or-recompute")
    assert recompute["preemptions"] == swap["preemptions"] > 0
    assert recompute["again_tokens"] > 0 == swap["again_tokens"]
    assert swap["duration"] < recompute["duration"]
    slow = play({**prepared("swap-or-recompute").spec, "machine": {"host_gb_s": 8}})
    recompute, swap = (side["totals"] for side in slow["sides"])
    assert swap["duration"] > recompute["duration"]


def test_a_shared_prefix_is_computed_once() -> None:
    without, cached = both("shared-system-prompt")
    assert without["cached_tokens"] == 0 and cached["cached_tokens"] == 11 * 1024
    assert cached["ttft_mean"] < without["ttft_mean"] / 2 and cached["peak_blocks"] < without["peak_blocks"] / 4
    held = [entry for step in played("shared-system-prompt")["sides"][1]["steps"] for entry in step["blocks"]]
    assert max(len(entry) - 1 for entry in held) >= 4, "one block, many holders"


def test_forked_answers_share_the_prompt() -> None:
    four, forked = both("four-answers-one-prompt")
    assert four["computed_tokens"] == 4 * (1000 + 47) and forked["computed_tokens"] == 1000 + 3 + 4 * 47
    assert forked["peak_blocks"] < four["peak_blocks"] / 3 and forked["ttft_max"] < four["ttft_max"]


def test_nobody_overtakes_a_giant_unless_it_is_less_urgent() -> None:
    scenario = "giant-at-the-head"
    assert mean(of(scenario, 0, "small"), "ttft") > 10 * mean(of(scenario, 1, "small"), "ttft")
    (first_come,), (low,) = of(scenario, 0, "giant"), of(scenario, 1, "giant")
    assert low["queue"] < 1.05 * first_come["queue"]


def test_priority_without_aging_starves_and_aging_ends_it() -> None:
    scenario = "priority-and-aging"
    (starved,), (aged,) = of(scenario, 0, "batch"), of(scenario, 1, "batch")
    last_urgent = max(request["at"] + request["queue"] for request in of(scenario, 0, "urgent"))
    assert starved["at"] + starved["queue"] >= last_urgent, "after all the others"
    assert aged["queue"] < starved["queue"] / 2


@pytest.mark.parametrize("scenario_id", PREPARED)
def test_a_prepared_scenario_is_whole_and_fits_on_a_page(scenario_id: str) -> None:
    scenario, view = prepared(scenario_id), played(scenario_id)
    assert scenario.title and scenario.see.endswith(".") and any("\u4e00" <= letter <= "\u9fff" for letter in scenario.title_zh)
    assert len(view["sides"]) == 2 and view["sides"][0]["engine"] != view["sides"][1]["engine"]
    assert all(side["totals"]["finished"] == side["totals"]["requests"] for side in view["sides"])
    assert 0 < scenario.at_ms < min(side["steps"][-1]["at"] for side in view["sides"])
    assert len(scenario.watch) == 3 and set(scenario.watch) <= {row["key"] for row in view["figures"] if row["change"] != "same"}
    assert len(json.dumps(view)) < 500_000


def test_ten_scenarios_have_ten_ids_and_one_is_shown_first() -> None:
    assert len(PREPARED) == 10 and DEFAULT in PREPARED


def test_an_unknown_scenario_is_refused_with_those_that_exist() -> None:
    with pytest.raises(UserError, match=r"'trash'.*thrash"):
        prepared("trash")
