"""The data that drill, browser and mock interview read: complete, plain, and the same from the same checkout."""

import json
from pathlib import Path

import pytest

from infer_course import measured_pairs
from infer_course.card_data import card_data
from infer_course.content_map import content_map
from infer_course.evaluated import plain_text
from infer_course.graph import Graph, load
from infer_course.schema import MeasurementMeta

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return load(ROOT)


def test_every_card_of_the_map_is_there_in_the_order_of_the_course(graph: Graph) -> None:
    cards = card_data(graph)["cards"]
    assert set(content_map().cards) <= set(cards)
    assert {card_id for card_id, card in cards.items() if not card["planned"]} == set(graph.cards)
    places = [(card["part"], card["order"], card["id"]) for card in cards.values()]
    assert places == sorted(places)


def test_the_data_is_json_and_always_the_same(graph: Graph) -> None:
    assert json.dumps(card_data(graph), sort_keys=True) == json.dumps(card_data(load(ROOT)), sort_keys=True)
    assert len(json.dumps(card_data(graph)["cards"]["kv-cache-principle"])) < 4_000


def test_an_estimate_carries_the_right_value_in_each_unit(graph: Graph) -> None:
    estimate = card_data(graph)["cards"]["kv-cache-size-calculation"]["estimate"]
    assert (estimate["value"], estimate["unit"], estimate["answer"]) == (128, "KiB", "128 KiB")
    assert ["B", 131072] in estimate["choices"] and ["MiB", 0.125] in estimate["choices"]


def test_rubric_and_follow_ups_are_those_of_the_card(graph: Graph) -> None:
    for card in graph.cards.values():
        data = card_data(graph)["cards"][card.id]
        assert [item["id"] for item in data["rubric"]] == [item.id for item in card.rubric]
        assert data["follow_ups"] == len(card.follow_up_questions)
        assert data["lessons"][0]["title"]["en"]


def test_marks_go_and_what_they_enclose_stays(graph: Graph) -> None:
    assert plain_text("## A *b* of `num_warps`\n\n- [text](x.md) costs $2 \\cdot n$\n\n| a | b |\n|---|--:|\n| 1 | 2 |", graph) == (
        "A b of num_warps text costs 2 \\cdot n a b 1 2"
    )


def _record(device: str, xs: list[int], measured: list[float], predicted: list[float], **values: dict) -> MeasurementMeta:
    def series(title: str, kind: str, ys: list[float]) -> dict:
        return {
            "title": title,
            "kind": kind,
            "x": {"label": "context", "unit": "tok", "values": xs},
            "y": {"label": "time", "unit": "ms", "values": ys},
        }

    return MeasurementMeta.model_validate(
        {
            "schema": 1,
            "id": f"{device}/lab",
            "title": "A lab",
            "device": {"slug": device, "name": device, "kind": "cpu"},
            "software": {"python": "3"},
            "git": {"commit": "0" * 40},
            "date": "2026-11-29T00:00:00+00:00",
            "command": "run",
            "values": {"size": {"value": 1024, "unit": "B"}, **values},
            "series": {"cached": series("cached", "measured", measured), "predicted_cached": series("floor", "predicted", predicted)},
        }
    )


def test_each_machine_is_held_against_its_own_prediction() -> None:
    ours, yours = _record("gpu", [128, 8192], [1, 4.0], [1, 2.0]), _record("laptop", [64, 256], [9, 30.0], [5, 10.0])
    pair = next(pair for pair in measured_pairs.side_by_side(ours, yours) if pair["name"] == "cached")
    assert (pair["ours"]["at"], pair["ours"]["predicted"], pair["ours"]["measured"]) == ("context 8,192 tokens", "2 ms", "4 ms")
    assert (pair["yours"]["at"], pair["yours"]["predicted"], pair["yours"]["ratio"]) == ("context 256 tokens", "10 ms", 3.0)


def test_a_value_may_carry_its_prediction_and_what_only_ours_has_comes_last() -> None:
    ours = _record("gpu", [1], [1], [1], alone={"value": 2, "unit": "x"}, zeta={"value": 8, "unit": "B", "predicted": 4})
    yours = _record("laptop", [1], [1], [1], zeta={"value": 6, "unit": "B", "predicted": 4})
    pairs = measured_pairs.side_by_side(ours, yours)
    assert [pair["name"] for pair in pairs if pair["yours"] is None] == [pairs[-1]["name"]] == ["alone"]
    zeta = next(pair for pair in pairs if pair["name"] == "zeta")
    assert (zeta["ours"]["predicted"], zeta["ours"]["ratio"], zeta["yours"]["ratio"]) == ("4 B", 2.0, 1.5)
