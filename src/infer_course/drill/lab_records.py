"""Finds the measurement records that the reader's own lab runs wrote on this machine, so that their figures come back in the drill.

`make labs` writes under `.infer-lab/measurements/`, or wherever INFER_LAB_MEASUREMENTS points; a GPU run writes into `measurements/`
beside the course's own, where those that version control does not know, or knows with other content, are the reader's.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from infer_course.drill.progress import ProgressError
from infer_course.measured_pairs import lab_of_record
from infer_course.problems import a_few
from infer_course.schema import MeasurementMeta
from infer_lab.bench.record import measurements_dir


def find(root: Path) -> list[dict[str, Any]]:
    """The reader's records of this checkout, in the order of their paths. Files that are no records are passed over."""
    folders = [measurements_dir("cpu", root)]
    if "INFER_LAB_MEASUREMENTS" in os.environ:
        folders.append(root / ".infer-lab" / "measurements")
    paths = [path for folder in dict.fromkeys(folders) if folder.is_dir() for path in sorted(folder.glob("*/*.json"))]
    return [record for path in [*paths, *_own_in_checkout(root)] if (record := _record(path)) is not None]


def read(path: Path) -> dict[str, Any]:
    """One record file that the reader names. ProgressError says why it is none."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        MeasurementMeta.model_validate(raw)
    except (OSError, ValueError, RecursionError) as error:
        fields = [".".join(str(step) for step in found["loc"]) for found in error.errors()] if isinstance(error, ValidationError) else []
        why = f"it lacks or has wrong: {a_few(dict.fromkeys(fields))}" if fields else str(error)
        raise ProgressError(f"{path} is no measurement record of schema 1: {why}") from None
    return raw


def newest(records: Iterable[Mapping[str, Any]], ours: MeasurementMeta) -> MeasurementMeta | None:
    """The reader's newest record of the lab that `ours` is of; None if there is none, or it is ours itself."""
    name = lab_of_record(ours.id)
    mine: Sequence[Mapping[str, Any]] = sorted(
        (record for record in records if lab_of_record(record["id"]) == name), key=lambda record: (record["date"], record["id"])
    )
    for raw in reversed(mine):
        try:
            found = MeasurementMeta.model_validate(raw)
        except ValidationError:
            continue
        if (found.id, found.date) != (ours.id, ours.date):
            return found
    return None


def _record(path: Path) -> dict[str, Any] | None:
    try:
        return read(path)
    except ProgressError:
        return None


def _own_in_checkout(root: Path) -> list[Path]:
    """Records under `measurements/` that are not the course's: new or changed as version control sees it."""
    command = ["git", "-C", str(root), "status", "--porcelain", "-z", "--untracked-files=all", "--", "measurements"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    names = [entry[3:] for entry in done.stdout.split("\0") if len(entry) > 3]
    return sorted(root / name for name in names if name.endswith(".json") and (root / name).is_file())
