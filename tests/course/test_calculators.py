"""The calculators without a browser: what text means, what is refused where, and their numbers against hand calculations."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infer_course.calculators import CALCULATORS, UnknownCalculatorError, form, view
from infer_course.calculators.fields import Field, FieldError
from infer_course.calculators.machines import machines, slim
from infer_course.calculators.sheet import show
from infer_lab.units import Quantity

ROOT = Path(__file__).parents[2]
names = st.sampled_from(sorted(CALCULATORS))


def records() -> list[dict]:
    return [slim(json.loads((ROOT / f"measurements/h200/{name}.json").read_text())) for name in ("limits", "gemm")]


def answers(name: str, texts: Mapping[str, str] | None = None) -> dict[str, str]:
    """Label → what is shown of each answer; "!" → why there is none."""
    seen = view(name, texts or {})
    assert not seen["errors"], seen["errors"]
    refused = re.search(r'il-calc-refused">(.*?)</p>', seen["html"])
    found = dict(re.findall(r"<dt>(.*?)</dt><dd><b>(.*?)</b>", seen["html"]))
    return found | ({"!": refused[1]} if refused else {})


# what text means

COUNT, AMOUNT, SHARE = Field("n", "N", "1"), Field("t", "T", "1", "amount", "ms"), Field("s", "S", "0.5", "share", high=1)


@pytest.mark.parametrize(
    ("text", "value"),
    [("4096", 4096), ("4,096", 4096), (" 131_072 ", 131_072), ("128K", 131_072), ("128k", 128_000), ("1.5K", 1536), ("2M", 2 * 10**6),
     ("1e3", 1000), ("100 tokens", 100)],
)  # fmt: skip
def test_counts_are_read_as_people_write_them(text: str, value: int) -> None:
    assert COUNT.read(text) == value


@pytest.mark.parametrize(
    ("text", "value"), [("40", 0.04), ("40 ms", 0.04), ("1 s", 1), ("300 us", 0.0003), ("300µs", 0.0003), ("0.5min", 30)]
)
def test_amounts_take_their_own_unit_or_one_of_its_kind(text: str, value: float) -> None:
    assert AMOUNT.read(text).to("s").value == pytest.approx(value)


def test_a_gib_is_not_a_gb_in_a_field_either() -> None:
    memory = Field("m", "M", "80", "amount", "GB")
    assert memory.read("80 GiB").to("B").value == 80 * 2**30 and memory.read("80").to("B").value == 80 * 10**9
    assert memory.spelt_out("80 GiB") == "= 85.9 GB" and memory.spelt_out("80") == memory.spelt_out("80 GB") == ""


def test_shares_may_be_percentages() -> None:
    assert SHARE.read("80%") == SHARE.read("0.8") == SHARE.read(".8") == 0.8


def test_what_is_not_plain_is_spelt_out() -> None:
    assert COUNT.spelt_out("128K") == "= 131,072" and COUNT.spelt_out("4096") == COUNT.spelt_out("4,096") == ""
    assert view("kv-cache", {"tokens": "128K"})["spelt"] == {"tokens": "= 131,072"}


@pytest.mark.parametrize(
    ("field", "text", "says"),
    [(COUNT, "", "write a number"), (COUNT, "many", "write a number"), (COUNT, "1.5", "whole number"), (COUNT, "5 ms", "means nothing"),
     (COUNT, "-1", "from 0"), (COUNT, "1" * 41, "write a number"), (AMOUNT, "5 GB", "no unit of this"), (AMOUNT, "nan", "write a number"),
     (SHARE, "1.2", "from 0 to 1"), (SHARE, "120%", "from 0 to 1"), (COUNT, "1e400", "reasonable size"),
     (COUNT, "1,5", "parts thousands"), (SHARE, "0,8", "parts thousands"), (AMOUNT, "1.000,5 ms", "parts thousands")],
)  # fmt: skip
def test_what_cannot_be_read_says_what_would(field: Field, text: str, says: str) -> None:
    with pytest.raises(FieldError, match=says) as error:
        field.read(text)
    assert error.value.field == field.name


@given(
    names, st.dictionaries(st.sampled_from(["model", "tokens", "batch", "rate", "tp", "k", "gpu", "latency", "q"]), st.text(max_size=50))
)
def test_no_text_breaks_a_calculator_and_none_reaches_the_page_unescaped(name: str, texts: dict[str, str]) -> None:
    seen = view(name, {**texts, "unknown": "<script>"})
    assert bool(seen["errors"]) != bool(seen["html"])
    assert "<script" not in seen["html"] + form(name, {field.name: "<script>\"'" for field in CALCULATORS[name].fields})


@st.composite
def states(draw: st.DrawFn) -> tuple[str, dict[str, str]]:
    """Any choices, and numbers over their whole range."""
    name, texts = draw(names), {}
    for field in CALCULATORS[name].fields:
        if draw(st.booleans()):
            continue
        if field.kind == "choice":
            texts[field.name] = draw(st.sampled_from([value for value, _ in field.options]))
        elif field.kind == "count":
            texts[field.name] = str(draw(st.integers(int(field.low), int(min(field.high, 10**8)))))
        else:
            texts[field.name] = f"{draw(st.floats(field.low, min(field.high, 1e5))):.6g}"
    return name, texts


@settings(max_examples=150)
@given(states())
def test_any_state_gives_results_or_says_why_not(state: tuple[str, dict[str, str]]) -> None:
    name, texts = state
    seen = view(name, texts, records())
    assert set(seen["errors"]) <= {field.name for field in CALCULATORS[name].fields}
    assert seen["errors"] or (seen["html"] and seen["headline"])
    assert "Traceback" not in seen["html"] and not re.search(r"\bnan\b|\binf\b", re.sub(r"<[^>]+>", " ", seen["html"]))


@settings(max_examples=40)
@given(states())
def test_the_query_leads_back_to_the_same_state(state: tuple[str, dict[str, str]]) -> None:
    name, texts = state
    seen = view(name, texts, records())
    again = view(name, dict(parse_qsl(seen["query"])), records())
    assert again == seen or seen["errors"]


@pytest.mark.parametrize("name", CALCULATORS)
def test_the_default_state_answers_shows_its_formulas_and_needs_no_query(name: str) -> None:
    seen = view(name, {}, records())
    assert not seen["errors"] and not seen["query"] and seen["headline"]
    assert seen["html"].count("<li>") >= 2 and "il-calc-formula" in seen["html"]


def test_the_same_state_gives_the_same_page_every_time() -> None:
    for name in CALCULATORS:
        assert view(name, {}, records()) == view(name, {}, records())


def test_where_the_reader_stands_is_a_dot_with_its_name_beside_it_and_not_a_line_of_the_legend() -> None:
    pictures = re.findall(r"<svg.*?</svg>", view("kv-cache", {})["html"], re.DOTALL)
    assert len(pictures) == 2, "one for wide places, one for narrow ones"
    for picture in pictures:
        assert picture.count("you: 116") == 1 and 'r="6"' in picture and "il-place" in picture


def test_an_unknown_calculator_names_those_that_exist() -> None:
    with pytest.raises(UnknownCalculatorError, match="kv-cache, roofline"):
        view("kv_cache", {})


# hand calculations: see the module of each formula for its derivation


def test_kv_cache_by_hand() -> None:
    """131,072 B a token; 0.92 · 81,559 MiB − 16.06 GB = 62.62 GB; 62.62 GB / (131,072 · 4,096) = 116.6."""
    assert answers("kv-cache") == {
        "Requests at once": "116", "One token": "128 KiB", "One request": "0.5 GiB", "Left for the cache": "58.3 GiB",
    }  # fmt: skip
    assert answers("kv-cache", {"kv": "fp8"})["Requests at once"] == "233"
    assert "141.1 GB" in answers("kv-cache", {"model": "llama-3-70b"})["!"]
    assert answers("kv-cache", {"model": "deepseek-v3", "gpu": "h200_141gb", "tp": "16", "weights": "fp8"})["One token"] == "68.62 KiB"


def test_one_request_that_is_too_long_is_said_to_be() -> None:
    assert "Not even one request" in answers("kv-cache", {"tokens": "1M"})["!"]


def test_your_own_shape_is_what_you_say() -> None:
    own = {
        "model": "custom",
        "layers": "2",
        "kv_heads": "2",
        "heads": "4",
        "head_dim": "64",
        "hidden": "256",
        "ffn": "512",
        "vocab": "1000",
    }
    assert answers("kv-cache", own)["One token"] == "1 KiB"
    assert view("kv-cache", own)["hidden"] == ["memory", "bandwidth", "peak"]
    assert view("kv-cache", {})["hidden"] == [
        "layers", "hidden", "ffn", "heads", "kv_heads", "head_dim", "vocab", "memory", "bandwidth", "peak",
    ]  # fmt: skip
    assert "kv_heads" in view("kv-cache", own)["query"]


def test_heads_that_do_not_share_evenly_are_refused_in_words() -> None:
    assert "5 KV heads" in answers("kv-cache", {"model": "custom", "kv_heads": "5"})["!"]


def test_parallelism_that_does_not_divide_is_refused_at_its_field() -> None:
    assert "tp=8" in view("kv-cache", {"model": "smollm2-135m", "tp": "8"})["errors"]["tp"]
    assert "experts" in view("parallelism", {"ep": "8"})["errors"]["ep"]


def test_roofline_by_hand() -> None:
    """(15.01 GB + 32 · 2,048 · 131,072 B) / 4.8 TB/s = 4.917 ms; 32 / 4.917 ms = 6,508."""
    found = answers("roofline")
    assert found["A step takes at least"] == "4.92 ms" and found["At most"] == "6,509 tokens/s"
    assert found["Compute-bound from"] == "no batch"
    assert answers("roofline", {"context": "0"})["Compute-bound from"] == "batch 207"
    assert answers("roofline", {"phase": "prefill", "prompt": "4096"})["Prefill takes at least"] == "62.23 ms"


def test_an_a100_has_no_fp8_units_and_the_page_says_so() -> None:
    assert "no FP8 units" in view("roofline", {"gpu": "a100_80gb", "weights": "fp8"})["html"]


def test_measured_points_belong_to_their_own_card() -> None:
    ours = view("roofline", {}, records())["html"]
    assert "measured: 695 TFLOP/s, 4.39 TB/s" in re.sub(r"\s*</?tspan[^>]*>\s*", " ", ours).replace("  ", " ") and "kernels" in ours
    assert "kernels" not in view("roofline", {"gpu": "l4"}, records())["html"].split("figcaption")[0]


def test_measured_limits_take_the_place_of_the_sheets() -> None:
    found = view("roofline", {"limits": "measured"}, records())["html"]
    assert "4.39" in found and answers("roofline", {"limits": "measured"})["A step takes at least"] == "4.92 ms", "none here"
    assert "5.38 ms" in found


def test_the_readers_own_record_is_drawn_as_theirs_on_any_card() -> None:
    mine = {**records()[0], "own": True, "device": {"slug": "mine", "name": "My <GPU>"}}
    html = view("roofline", {"gpu": "l4"}, [*records(), mine])["html"]
    assert "yours: 695" in re.sub(r"\s*</?tspan[^>]*>\s*", " ", html).replace("  ", " ") and "My &lt;GPU&gt;" in html


BROKEN = {
    "empty": {},
    "id": {"id": 3},
    "device": {"device": None},
    "value": {"values": {"copy": {"unit": "B/s"}}},
    "case": {"cases": {"a": {}}},
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_record_of_the_readers_spoils_nothing(what: str) -> None:
    broken = BROKEN[what]
    record = {**records()[0], **broken} if broken else {}
    assert [machine.slug for machine in machines([record, *records()])][-1] == "h200"


def test_parameters_by_hand() -> None:
    """128 · (1 − (120/128)^16) = 82.4 experts; 2 · (30.53e9 − 0.31e9 − 48 · 45.6 · 4.72e6) = 39.8 GB, and 16 · 2,048 · 98,304 B."""
    found = answers("parameters")
    assert (found["Parameters"], found["Active for a token"], found["Experts read"]) == ("30.53 B", "3.353 B", "82.42")
    assert found["A decode step reads"] == "43.02 GB"


def test_speculation_by_hand() -> None:
    """(1 − 0.8^5) / 0.2 = 3.36 tokens for 4 · 0.05 + 1 steps."""
    found = answers("speculation")
    assert found["Speed-up"] == "2.8×" and found["Tokens a round"] == "3.36 tokens" and found["A round costs"] == "1.2 steps"
    assert answers("speculation", {"verify": "given", "cost": "6", "k": "2"})["Pays from"] == "never"


def test_parallelism_by_hand() -> None:
    """70.55e9 · 2 / 8 = 17.64 GB, and 131,072 · 327,680 / 8 B of cache; one-shot: 3 µs + 7 · 1 MiB / 450 GB/s = 19.3 µs, 160 times."""
    assert answers("parallelism") == {"On each GPU": "21.43 GiB", "All-reduces": "3.09 ms"}
    assert "5.19 ms for its weights: 37% of the two" in view("parallelism", {})["headline"]
    assert answers("parallelism", {"pp": "4"})["Pipeline bubble"] == "43%"
    assert "Does not fit" in answers("parallelism", {"tp": "1"})["!"]


def test_queueing_by_hand() -> None:
    """M/M/8 at 75 %: Erlang C 0.357; 0.357 / (8 · 0.25) = 178 ms of waiting."""
    found = answers("queueing")
    assert found["Time in the system"] == "1.18 s" and found["Have to wait"] == "35.7%" and found["In the system"] == "7.07 requests"
    assert "grows without end" in answers("queueing", {"rate": "8"})["!"]
    assert answers("queueing", {"queue": "mg1", "rate": "0.5"})["Time in the system"] == "2 s"


def test_quantization_by_hand() -> None:
    """6.979e9 weights at 4 + 20/128 bits and 1.051e9 at 16."""
    found = answers("quantization")
    assert found["Weights"] == "5.728 GB" and found["Bits a quantized weight"] == "4.156"
    own = {"format": "own", "bits": "4", "group": "32", "scale": "16", "zero": "16"}
    assert answers("quantization", own)["Bits a quantized weight"] == "5"


def test_what_decode_gains_from_quantization_leaves_out_what_it_does_not_read() -> None:
    """15.01 GB without the embedding table, and 4.156 bits instead of 16 for the 6.979e9 weights of it: 15.01 / 4.677."""

    def note(texts: dict[str, str]) -> str:
        return re.search(r"decode at batch 1 gains at most ([\d.]+)×", view("quantization", texts)["html"])[1]

    assert note({}) == "3.21" and note({"format": "bf16"}) == note({"model": "deepseek-v3", "format": "bf16"}) == "1"
    assert note({"embeddings": "quantized"}) == note({"model": "smollm2-135m", "embeddings": "quantized"}) == f"{16 / (4 + 20 / 128):.3g}"


def test_large_answers_have_no_exponent() -> None:
    assert answers("roofline", {"phase": "prefill"})["Intensity"] == "1,943 FLOP/B"
    assert answers("parameters", {"model": "deepseek-v3"})["Weights at rest"] == "1,250 GiB"


def test_capacity_by_hand() -> None:
    """100 prompts of 14.4 ms / 0.7 are 2.05 replicas' time; with 20 requests a second on each of five, 41 %, and decode has the rest."""
    found = answers("capacity")
    assert int(found["GPUs"]) == 5 and float(found["TPOT"].split()[0]) <= 40
    assert "TTFT" in answers("capacity", {"ttft": "10"})["!"]
    assert int(answers("capacity", {"rate": "1000"})["GPUs"]) >= 40


def test_amounts_are_shown_in_the_prefix_that_fits() -> None:
    assert (
        show(Quantity(0.0005, "s")) == "500 µs"
        and show(Quantity(3_500_000_000, "B")) == "3.5 GB"
        and show(Quantity(12, "B/tok")) == "12 B/token"
    )
