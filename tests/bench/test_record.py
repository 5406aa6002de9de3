from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from infer_lab.bench import environment
from infer_lab.bench.environment import Environment, gpu_slug, repository_root, sanitize
from infer_lab.bench.record import Record, RecordError, measurements_dir
from infer_lab.bench.timer import Timing
from infer_lab.errors import UnitError
from infer_lab.units import Quantity

HERE = Environment(
    device={"slug": "h200", "name": "NVIDIA H200", "kind": "cpu", "cpu": "some"},
    software={"python": "3.11", "torch": "2.11"},
    git={"commit": "a" * 40, "dirty": False},
    date="2026-11-29T12:00:00+00:00",
    command="python benchmarks/some.py",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "measurements").mkdir()
    (tmp_path / "source.py").write_text("x = 1\n")
    return tmp_path


def some(root: Path, **changes: object) -> Record:
    record = Record("some-test", "Some test", environment=replace(HERE, **changes), root=root, sources=["source.py"])  # type: ignore[arg-type]
    record.add_value("kv_bytes", Quantity(23_040, "B"))
    return record


def test_a_record_is_complete_and_readable(root: Path) -> None:
    record = some(root)
    record.add_timing("step", Timing((0.002, 0.001, 0.003)), note="batch 1")
    record.add_series("time", "Time per token", ("context", "tok", [64, 128]), ("time", "ms", [Timing((0.001,)), Timing((0.002,))]))
    record.add_series("floor", "Floor", ("context", "tok", [64, 128]), ("time", "ms", [0.5, 0.6]), kind="limit")
    path = record.write(root / "out")
    assert path == root / "out" / "h200" / "some-test.json"
    document = json.loads(path.read_text())
    assert list(document) == [
        "schema", "id", "title", "device", "software", "git", "date", "seconds", "command", "workload", "sources", "values", "series",
    ]  # fmt: skip
    assert document["id"] == "h200/some-test"
    assert document["sources"] == {"source.py": hashlib.sha256(b"x = 1\n").hexdigest()}
    assert document["values"]["step"] == {"value": 2.0, "unit": "ms", "note": "batch 1", "median": 2.0, "p10": 1.2, "p90": 2.8, "n": 3}
    assert document["values"]["kv_bytes"] == {"value": 23_040, "unit": "B"}
    assert document["series"]["time"]["y"]["values"] == [1.0, 2.0] and document["series"]["time"]["y"]["p90"] == [1.0, 2.0]
    assert document["series"]["floor"]["kind"] == "limit"


def test_writing_twice_gives_the_same_bytes_and_leaves_nothing_behind(root: Path) -> None:
    first = some(root).write().read_bytes()
    path = some(root).write()
    assert path.read_bytes() == first
    assert [p.name for p in path.parent.iterdir()] == ["some-test.json"]


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"git": {"commit": "", "dirty": False}}, "git commit.*INFER_LAB_COMMIT"),
        ({"date": ""}, "date"),
        ({"command": ""}, "command"),
        ({"software": {}}, "software"),
        ({"device": {"slug": "h200", "name": "", "kind": "cpu"}}, "device"),
    ],
)
def test_no_record_without_provenance(root: Path, changes: dict, missing: str) -> None:
    with pytest.raises(RecordError, match=missing):
        some(root, **changes).write()
    assert not list((root / "measurements").rglob("*.json"))


def test_what_cannot_be_traced_is_refused_before_it_is_measured(root: Path) -> None:
    here = replace(HERE, git={"commit": "", "dirty": False})
    with pytest.raises(RecordError, match=r"git commit.*INFER_LAB_COMMIT"):
        Record("some-test", "Some test", environment=here, root=root)


def test_an_empty_record_is_refused(root: Path) -> None:
    with pytest.raises(RecordError, match="nothing was measured"):
        Record("some-test", "Some test", environment=HERE, root=root).write()


@pytest.mark.parametrize("value", [math.nan, math.inf, True, "7"])
def test_a_value_is_a_finite_number(root: Path, value: object) -> None:
    with pytest.raises((RecordError, UnitError)):
        some(root).add_value("bad", value, "B")  # type: ignore[arg-type]


def test_a_prediction_is_kept_in_the_unit_of_the_figure(root: Path) -> None:
    record = some(root)
    record.add_value("size", 2048, "KiB", predicted=Quantity(1, "MiB"))
    record.add_value("factor", 3.5, "x", predicted=4)
    assert (record.values["size"]["predicted"], record.values["factor"]["predicted"]) == (1024, 4)
    with pytest.raises(UnitError):
        record.add_value("time", 1, "s", predicted=Quantity(1, "B"))
    with pytest.raises(RecordError):
        record.add_value("rate", 1, "x", predicted=math.nan)


def test_an_unknown_unit_is_refused(root: Path) -> None:
    with pytest.raises(UnitError):
        some(root).add_value("bad", 1, "Gb")
    with pytest.raises(UnitError):
        some(root).add_series("bad", "Bad", ("x", "tokens", [1]), ("y", "ms", [1]))


def test_a_name_is_recorded_once(root: Path) -> None:
    with pytest.raises(RecordError, match="already"):
        some(root).add_value("kv_bytes", 1, "B")


def test_a_series_has_as_many_x_as_y(root: Path) -> None:
    with pytest.raises(RecordError, match="2 x values and 1 y"):
        some(root).add_series("bad", "Bad", ("x", "tok", [1, 2]), ("y", "ms", [1]))


@pytest.mark.parametrize("name", ["", "Big", "a b", "a/b", "../a", "-a"])
def test_names_are_fit_for_files_and_ids(root: Path, name: str) -> None:
    with pytest.raises(RecordError, match="name"):
        Record(name, "Title", environment=HERE, root=root)


@pytest.mark.parametrize("gone", ["gone.py", "gone/*.py"])
def test_a_source_that_is_not_there_is_refused(root: Path, gone: str) -> None:
    with pytest.raises(RecordError, match="not there"):
        Record("some-test", "Title", environment=HERE, root=root, sources=[gone])


def test_a_pattern_names_each_of_its_files(root: Path) -> None:
    (root / "other.py").write_text("")
    record = Record("some-test", "Title", environment=HERE, root=root, sources=["*.py", "source.py"])
    assert list(record.sources) == ["other.py", "source.py"]


def test_a_cpu_record_stays_out_of_the_published_measurements(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INFER_LAB_MEASUREMENTS", raising=False)
    assert measurements_dir("cuda", root) == root / "measurements"
    assert measurements_dir("cpu", root) == root / ".infer-lab" / "measurements"
    monkeypatch.setenv("INFER_LAB_MEASUREMENTS", str(root / "elsewhere"))
    assert measurements_dir("cuda", root) == root / "elsewhere"


def test_the_commit_comes_from_the_environment_where_there_is_no_repository(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(root.parent))
    monkeypatch.setenv("INFER_LAB_COMMIT", "b" * 40)
    monkeypatch.chdir(root)
    assert environment.capture("cpu").git == {"commit": "b" * 40, "dirty": False}


def test_who_states_the_commit_of_a_copy_is_believed_before_the_copy_s_own_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFER_LAB_COMMIT", "c" * 40)
    monkeypatch.setenv("INFER_LAB_DIRTY", "1")
    assert environment.capture("cpu").git == {"commit": "c" * 40, "dirty": True}


@pytest.mark.parametrize(
    ("name", "gigabytes", "slug"),
    [
        ("NVIDIA H200", 141, "h200"),
        ("NVIDIA H100 80GB HBM3", 80, "h100"),
        ("NVIDIA H100 PCIe", 80, "h100-pcie"),
        ("NVIDIA A100-SXM4-80GB", 85, "a100-80gb"),
        ("NVIDIA A100-SXM4-40GB", 42, "a100-40gb"),
        ("NVIDIA L4", 24, "l4"),
        ("NVIDIA L40S", 48, "l40s"),
        ("NVIDIA GeForce RTX 4090", 24, "rtx-4090"),
        ("Some Card (TM) 7", 8, "some-card-tm-7"),
    ],
)
def test_device_slugs(name: str, gigabytes: int, slug: str) -> None:
    assert gpu_slug(name, int(gigabytes * 1e9)) == slug


def test_a_gpu_is_described_even_without_nvidia_smi(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    card = SimpleNamespace(name="NVIDIA H200", total_memory=150_754_820_096, multi_processor_count=132, major=9, minor=0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: card)
    monkeypatch.setattr(environment, "_output", lambda command: "")
    device = environment.capture("cuda").device
    assert (device["slug"], device["sm_count"], device["memory_bytes"]) == ("h200", 132, 150_754_820_096)
    assert device["driver"] == "unknown" and device["clocks_mhz_before"] is None


def test_clocks_are_read_from_nvidia_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_output", lambda command: "1980, 3201, 580.1")
    assert environment.clocks_mhz("cuda:0") == {"sm": 1980, "memory": 3201}
    monkeypatch.setattr(environment, "_output", lambda command: "[N/A], [N/A], 580.1")
    assert environment.clocks_mhz("cuda:0") is None


def test_a_slug_never_leaves_its_folder() -> None:
    assert sanitize("../../a b") == "a-b"


def test_the_root_is_found_from_a_folder_below(root: Path) -> None:
    below = root / "labs" / "part0"
    below.mkdir(parents=True)
    assert repository_root(below) == root


def test_a_case_names_recorded_times_only(root: Path) -> None:
    record = some(root)
    record.add_value("ours", 2.0, "us")
    record.add_value("rate", 2.0, "GB/s")
    record.add_case("c", "copy", "1 × 2", nbytes=8, flops=0, floor=Quantity(1, "us"), ours="ours", peers={})
    assert record.document()["cases"]["c"] == {
        "operation": "copy", "shape": "1 × 2", "bytes": 8, "flops": 0, "floor_us": 1, "ours": "ours", "peers": {},
    }  # fmt: skip
    for wrong in ("rate", "gone"):
        with pytest.raises(RecordError, match="not a recorded time"):
            record.add_case("d", "copy", "", nbytes=8, flops=0, floor=Quantity(1, "us"), ours="ours", peers={"x": wrong})
