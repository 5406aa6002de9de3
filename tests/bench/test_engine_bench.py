"""The engine's benchmarks: the workload is the published one, floors are the calculator's, what was measured is kept and recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from infer_lab import cli_bench
from infer_lab.bench.engine_measure import full_batch_gaps
from infer_lab.bench.engine_rows import Figure, Peer, Row, Rows, Timed, fill, table
from infer_lab.bench.engine_work import Case, Floor, Job, mixed, uniform
from infer_lab.bench.record import Record
from infer_lab.bench.timeline import kind_of, our_kernels
from infer_lab.calculator import decode_step_floor, prefill_floor
from infer_lab.cli import app
from infer_lab.errors import UserError
from infer_lab.hardware import gpu
from infer_lab.llm import LLM
from infer_lab.outputs import CompletionOutput, RequestMetrics, RequestOutput
from infer_lab.presets import preset
from tests.engine.tiny_model import write_tiny_model
from tests.gpu.dense_reference import DenseReference

ROOT = Path(__file__).parents[2]
MODEL, BANDWIDTH, PEAK = preset("qwen3-0.6b"), 4.27e12, 685e12


@pytest.fixture(autouse=True)
def rows_of_this_test(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Rows, "place", lambda command, settings: tmp_path / f"{command}.jsonl")


@pytest.fixture
def floor() -> Floor:
    return Floor.of(MODEL, 2, 2 * 28 * 8 * 128 * 2, BANDWIDTH, PEAK, packed=None, doubled=False)


def test_the_workload_is_the_published_one(floor: Floor) -> None:
    job = mixed(MODEL.vocab_size)
    assert (len(job.prompts), job.num_prompt_tokens, job.num_output_tokens, max(job.outputs)) == (256, 142_827, 133_966, 1024)
    assert min(map(len, job.prompts)) >= 100 and max(map(max, job.prompts)) <= 10_000 and job.temperature == 0.6
    # 3.54 s is what the published floor says, with the bandwidth of a copy
    assert floor.seconds(floor.decode_all(job)) == pytest.approx(3.54, abs=0.01)
    assert floor.prefill_all(job).flops == pytest.approx(sum(floor.prefill(len(p)).flops for p in job.prompts))


def test_floors_are_the_calculators(floor: Floor) -> None:
    card, limits = gpu("h200-141gb"), {"bandwidth": BANDWIDTH, "peak": PEAK}
    for batch, context in ((1, 128), (32, 2048), (256, 1000)):
        assert floor.seconds(floor.decode([context] * batch)) == pytest.approx(
            decode_step_floor(card, MODEL, batch, context, **limits).base
        )
    for tokens in (16, 4096):
        assert floor.seconds(floor.prefill(tokens)) == pytest.approx(prefill_floor(card, MODEL, tokens, **limits).base)


def test_packed_weights_lower_the_floor_by_what_they_save(floor: Floor) -> None:
    packed = Floor.of(MODEL, 2, floor.kv, BANDWIDTH, PEAK, packed=0.5e9, doubled=True)
    whole = Floor.of(MODEL, 2, floor.kv, BANDWIDTH, PEAK, packed=1.0e9, doubled=False)
    assert whole.weights - packed.weights == pytest.approx(0.5e9) and packed.peak == 2 * PEAK


def test_a_case_says_what_it_wants() -> None:
    assert Case.parse("32x2048", 7) == Case(32, 2048, 7) and Case.parse("32x2048x128", 7) == Case(32, 2048, 128)
    assert Case(32, 2048, 7).name == "b32-p2048"
    for wrong in ("32", "x5", "0x5", "3x-1", "axb", "1x2x3x4"):
        with pytest.raises(UserError, match="32x2048"):
            Case.parse(wrong, 7)


def answer(ttft: float, gaps: tuple[float, ...]) -> RequestOutput:
    metrics = RequestMetrics(0.0, ttft, None, ttft + sum(gaps), gaps, 0)
    return RequestOutput("0", None, (1,), (CompletionOutput(0, "", tuple(range(len(gaps) + 1)), "length", metrics),))


def test_a_decode_step_is_timed_while_the_whole_batch_is_there() -> None:
    early = answer(1.0, (1.0, 0.25, 0.25, 0.25))  # waits while the other one's prompt is computed; ends at 2.75
    late = answer(2.0, (0.25, 0.25, 0.25, 0.125))  # alone from 2.75 on
    assert full_batch_gaps([early, late]) == ([0.25, 0.25], 2)
    with pytest.raises(UserError, match="whole batch"):
        full_batch_gaps([answer(1.0, (0.5,)), answer(3.0, (0.5,))])


def test_a_share_is_of_speed_whichever_way_the_figure_runs() -> None:
    assert Figure([2.0], "ms", 1.0).share == 0.5 == Figure([50.0], "tok/s", 100.0).share
    assert Figure([2.0], "ms").share is None


def test_rows_are_kept_and_not_measured_again(tmp_path: Path) -> None:
    row = Row(
        "a", {"batch": 1}, {"step": Figure([1.0, 2.0], "ms", 0.5)}, Timed("step", "batch 1", 2.0, 3.0), [["attention", "kernel", 3.0, 1.0]]
    )
    file = tmp_path / "rows.jsonl"
    Rows(file).get("a", lambda: row)
    again = Rows(file, resume=True).get("a", lambda: pytest.fail("measured twice"))
    assert again == row
    assert "a" not in Rows(file)  # without `resume`, from the start


def test_a_peer_stands_beside_the_same_work_only() -> None:
    peer = Peer.of(ROOT, "h200", "llama-3-8b")
    assert peer is not None and Peer.of(ROOT, "h200", "qwen3-4b") is None and Peer.of(ROOT, "h100", "llama-3-8b") is None

    def row(output: int) -> Row:
        return Row("b1-p128", {"output": output}, {"mean": Figure([5.0], "ms", 3.5)}, Timed("mean", "batch 1", 1.5e10, 1e9))

    theirs = peer.figure(row(256))
    assert theirs is not None and theirs.median == 4.8965 and "2026-11-29" in theirs.note
    assert peer.figure(row(128)) is None
    record = Record("engine-latency", "Decode step", "cpu", root=ROOT)
    fill(record, "Decode step", [row(256)], peer)
    assert record.cases["b1-p128"]["peers"] == {"vLLM 0.26.0 (2026-11-29)": "peer-b1-p128-mean"}
    assert record.cases["b1-p128"]["floor_us"] == 3500 and record.values["b1-p128-mean-share"]["value"] == 70


def test_a_table_shows_the_share_and_what_all_rows_have_in_common(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [Row(f"b{b}", {"batch": b, "dtype": "bfloat16"}, {"step": Figure([b * 2.0], "ms", 1.0)}) for b in (1, 2)]
    Console(width=100).print(table("Steps", rows))
    shown = capsys.readouterr().out
    assert "50%" in shown and "25%" in shown and shown.count("bfloat16") == 1


def test_kernels_are_told_apart_by_name() -> None:
    assert {kind_of(name) for name in ("decode_kernel", "_prefill_kernel", "hopper_prefill_kernel")} == {"attention"}
    assert kind_of("_rmsnorm_kernel") == "norm" and kind_of("_rope_kv_kernel") == "rope and KV write"
    assert kind_of("w4a16_kernel") == kind_of("w8a8_kernel") == "quantized products"
    assert kind_of("nvjet_tst_128x256") == "cuBLAS products" and kind_of("Memcpy DtoD") == "copies"
    assert kind_of("void at::native::vectorized_elementwise_kernel") == "torch"
    assert "pick_kernel" in our_kernels()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny_model(tmp_path_factory.mktemp("tiny")))


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str]:
    monkeypatch.setattr("sys.argv", ["infer-lab", *arguments])
    done = CliRunner().invoke(app, list(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout


@pytest.mark.parametrize("name, first", [("throughput", "r4-output"), ("latency", "b2-p8-step"), ("prefill", "p16-first-token"),
                                         ("quantization", "int8-b1-p8-step")])  # fmt: skip
def test_a_command_measures_and_records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model: str, name: str, first: str) -> None:
    monkeypatch.setenv("INFER_LAB_MEASUREMENTS", str(tmp_path))
    own = ("--scheme", "none", "--scheme", "int8") if name == "quantization" else ()
    arguments = ("--model", model, "--device", "cpu", "--quick", "--record", "--set", "block_size=8", *own)
    code, shown = command(monkeypatch, "bench", name, *arguments)
    last = json.loads(shown.splitlines()[-1])
    assert code == 0 and last["quick"] is True and "failed" not in last
    record = json.loads(Path(last["record"]).read_text())
    assert record["id"].split("/")[1].startswith(f"engine-{name}-") and record["command"].startswith(f"infer-lab bench {name}")
    value = record["values"][first]
    assert value["value"] > 0 and value["predicted"] > 0 and record["workload"]["block_size"] == 8
    assert "src/infer_lab/worker/kv_cache.py" in record["sources"] and record["values"]["limit-read-stream"]["unit"] == "GB/s"


def test_a_scheme_that_does_not_fit_loses_no_other(monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    arguments = ("--model", model, "--device", "cpu", "--quick", "--case", "1x8", "--scheme", "w4a16", "--scheme", "int8")
    code, shown = command(monkeypatch, "bench", "quantization", *arguments)
    last = json.loads(shown.splitlines()[-1])
    assert code == 1 and list(last["failed"]) == ["w4a16-b1-p8"] and last["int8-b1-p8 step (ms)"] > 0


def test_a_timeline_says_where_a_step_goes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model: str) -> None:
    monkeypatch.setenv("INFER_LAB_MEASUREMENTS", str(tmp_path))
    arguments = ("--model", model, "--device", "cpu", "--quick", "--record", "--timeline", "--case", "2x8")
    code, shown = command(monkeypatch, "bench", "latency", *arguments)
    record = json.loads(Path(json.loads(shown.splitlines()[-1])["record"]).read_text())
    kinds = {kind for kind, *_ in record["workload"]["timeline"]["b2-p8"]}
    assert code == 0 and kinds == {"torch", "idle"} and record["values"]["b2-p8-time-torch"]["value"] > 0


def test_an_option_that_the_engine_does_not_have_is_refused(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="no field of EngineConfig"):
        command(monkeypatch, "bench", "latency", "--model", model, "--device", "cpu", "--quick", "--set", "no_such=1")


def test_the_dense_reference_chooses_the_engines_tokens(model: str) -> None:
    """What the GPU tests hold the engine against is itself held against the engine on a CPU."""
    job = Job(uniform(250, 2, 9, 1).prompts, (6, 6))
    with LLM(model, device="cpu", max_model_len=64) as llm:
        outputs = llm.generate(job.prompts, progress=False)
        reference = DenseReference(llm.model_config, llm.loaded.model.slots())
        for prompt, output in zip(job.prompts, outputs, strict=True):
            ids = list(prompt) + list(output.token_ids)
            assert torch.equal(reference.logits(ids[:-1], len(prompt) - 1).argmax(1), torch.tensor(output.token_ids))


def test_an_unknown_scheme_is_refused_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_bench, "_bench", lambda *_: pytest.fail("the machine was measured first"))
    with pytest.raises(UserError, match="no scheme w3; there are none, w8a16"):
        cli_bench.quantization(scheme=["none", "w3"])
