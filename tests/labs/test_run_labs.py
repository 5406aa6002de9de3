from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from infer_course import run_labs
from infer_course.schema import LabRun


def notebook(root: Path, name: str, *sources: str) -> Path:
    path = root / "labs" / "part0" / f"{name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s) for s in sources])
    book.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(book, path)
    return path


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "measurements").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INFER_LAB_COMMIT", "a" * 40)  # of a folder that is no repository
    return tmp_path


def test_outputs_are_stored_only_when_asked(root: Path) -> None:
    warned = "import os, warnings\nwarnings.warn('names a file of this machine')"
    path = notebook(root, "one", warned, "print(os.environ['INFER_LAB_DEVICE'])")
    before = path.read_bytes()
    assert run_labs.main([]) == 0
    assert path.read_bytes() == before
    assert run_labs.main(["--store"]) == 0
    stored = nbformat.read(path, as_version=4)
    assert stored.cells[1].outputs[0].text == "cpu\n"
    assert stored.cells[0].outputs == [], "a warning is not for readers"
    assert "execution" not in stored.cells[1].metadata
    ran = LabRun.model_validate(stored.metadata["infer_course"]["run"])
    assert ran.seconds > 0 and ran.software["python"] and ran.device


def test_a_failing_cell_is_named_and_nothing_is_stored(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = notebook(root, "bad", "print('measured')", "# the culprit\nraise ValueError('seven')", "y = 2")
    before = path.read_bytes()
    assert run_labs.main(["--store"]) == 2
    error = capsys.readouterr().err
    assert "bad.ipynb, code cell 2 (# the culprit)" in error and "ValueError: seven" in error
    assert path.read_bytes() == before
    assert "its outputs up to there: .infer-lab/failed/bad.ipynb" in error
    kept = nbformat.read(root / ".infer-lab" / "failed" / "bad.ipynb", as_version=4)
    assert kept.cells[0].outputs[0].text == "measured\n", "what was measured before is not lost"


def test_a_failing_lab_does_not_keep_the_others_from_running_when_asked_so(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notebook(root, "a-bad", "raise ValueError('seven')")
    good = notebook(root, "b-good", "print(6 * 7)")
    assert run_labs.main(["--store", "--keep-going"]) == 2
    assert "these labs failed: a-bad" in capsys.readouterr().err
    assert nbformat.read(good, as_version=4).cells[0].outputs[0].text == "42\n"


def test_on_a_gpu_the_next_kernel_is_started_early_and_none_is_left_over(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_labs, "_require_device", lambda device: None)
    started: list[str] = []
    stopped: list[str] = []
    make_ready, stop = run_labs._make_ready, run_labs._Ready.stop
    monkeypatch.setattr(run_labs, "_make_ready", lambda path, options: (started.append(path.stem), make_ready(path, options))[1])
    monkeypatch.setattr(run_labs._Ready, "stop", lambda self: (stopped.append(self.path.stem), stop(self))[1])
    notebook(root, "a", "print(1)")
    notebook(root, "b", "raise ValueError('eight')")
    notebook(root, "c", "print(3)")
    assert run_labs.main(["--device", "cuda"]) == 2
    assert started == ["a", "b", "c"] and stopped == ["c"]
    assert "ValueError: eight" in capsys.readouterr().err


def test_a_gpu_run_without_a_gpu_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    notebook(root, "one", "raise SystemError('must not run')")
    assert run_labs.main(["--device", "cuda", "--store"]) == 2
    assert "no CUDA device was found" in capsys.readouterr().err


def test_outputs_without_a_commit_are_refused_before_anything_runs(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook(root, "one", "print(1)")
    monkeypatch.setenv("INFER_LAB_COMMIT", "")
    assert run_labs.main(["--store"]) == 2
    said = capsys.readouterr()
    assert "set INFER_LAB_COMMIT" in said.err and "[1/1]" not in said.out
    assert run_labs.main([]) == 0, "without storing, no commit is needed"


def test_an_unknown_lab_is_refused_with_the_known_ones(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notebook(root, "one", "pass")
    assert run_labs.main(["--only", "two"]) == 2
    assert "no lab is called two; there are: one" in capsys.readouterr().err


def test_ctrl_c_ends_the_kernel_and_says_so_in_a_line(root: Path) -> None:
    notebook(root, "a-good", "print(6 * 7)")
    notebook(root, "b-long", "import os, signal\nos.kill(os.getppid(), signal.SIGINT)\nsignal.pause()")
    command = [sys.executable, "-m", "infer_course.run_labs", "--store", "--keep-going"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120)
    assert done.returncode == 130
    assert done.stderr == "stopped; the outputs of the labs before this one are stored\n"
