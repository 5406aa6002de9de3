"""The one writer of measurement records, `measurements/<device>/<name>.json`.

Why: a figure in the course must answer: on what, when, with which code, how often, how spread? A record that cannot say is not written.
Keys come in a fixed order and the file is replaced in one step, so that records can be compared by eye and never stand half-written.
The reader of these files is `infer_course.measure`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from infer_lab.bench.environment import Environment, capture, clocks_mhz, repository_root
from infer_lab.bench.timer import Timing, percentile
from infer_lab.errors import UserError
from infer_lab.units import Number, Quantity, quantity

SCHEMA = 1
SeriesKind = Literal["measured", "predicted", "limit", "peer"]
_KINDS = ("measured", "predicted", "limit", "peer")
_NAME = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*\Z")
_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")


class RecordError(UserError):
    """A measurement cannot be written: provenance, a value or a name is missing or malformed."""


def measurements_dir(kind: str = "cuda", root: Path | None = None) -> Path:
    """Where records go: `measurements/` for GPUs, which the course publishes; `.infer-lab/measurements/` for a reader's CPU.

    INFER_LAB_MEASUREMENTS overrides both.
    """
    if "INFER_LAB_MEASUREMENTS" in os.environ:
        return Path(os.environ["INFER_LAB_MEASUREMENTS"])
    base = root or repository_root()
    return base / "measurements" if kind == "cuda" else base / ".infer-lab" / "measurements"


class Record:
    """Collects values and series, then writes them with their provenance.

    name: the part of the id after the device ("kv-cache-by-hand"). sources: files, relative to the repository, or patterns such as
    "src/infer_lab/worker/*.py", whose change makes the record out of date; their SHA-256 is stored.
    """

    def __init__(
        self,
        name: str,
        title: str,
        device: str = "cpu",
        *,
        workload: Mapping[str, Any] | None = None,
        sources: Iterable[str] = (),
        command: str | None = None,
        environment: Environment | None = None,
        root: Path | None = None,
    ) -> None:
        if not _ID.match(name):
            raise RecordError(f"a record's name is of small letters and digits joined by hyphens, not {name!r}")
        self.name = name
        self.title = title
        self.device = device
        self.root = root or repository_root()
        self.workload = dict(workload or {})
        self.sources = {path: _sha256(self.root / path) for path in _files(self.root, sources)}
        self.environment = environment or capture(device, command)
        self.values: dict[str, dict[str, Any]] = {}
        self.series: dict[str, dict[str, Any]] = {}
        self.cases: dict[str, dict[str, Any]] = {}
        self._start = time.monotonic()
        self._require_provenance()  # now, not after the measurement: what took minutes of a GPU must not be lost in the last line

    @property
    def id(self) -> str:
        return f"{self.environment.slug}/{self.name}"

    def add_value(
        self,
        name: str,
        value: Number | Quantity,
        unit: str | None = None,
        *,
        note: str = "",
        predicted: Number | Quantity | None = None,
    ) -> None:
        """One figure, and what was predicted for it (a bare number is in the figure's unit)."""
        self._check_new(name, self.values)
        shown = quantity(value, unit or "1") if not isinstance(value, Quantity) else value.to(unit) if unit else value
        entry: dict[str, Any] = {"value": _finite(shown.value, name), "unit": shown.unit}
        if predicted is not None:
            expected = predicted.to(shown.unit) if isinstance(predicted, Quantity) else quantity(predicted, shown.unit)
            entry["predicted"] = _finite(expected.value, name)
        if note:
            entry["note"] = note
        self.values[name] = entry

    def add_timing(self, name: str, timing: Timing, unit: str = "ms", *, note: str = "") -> None:
        """The median of a timing, with its spread."""
        self.add_samples(name, [Quantity(seconds, "s").to(unit).value for seconds in timing.samples], unit, note=note)

    def add_samples(self, name: str, samples: Sequence[Number], unit: str, *, note: str = "") -> None:
        """The median of repeated figures, with their 10th and 90th percentile."""
        if not samples:
            raise RecordError(f"{self.id}: {name} has no samples")
        self.add_value(name, percentile(samples, 50), unit, note=note)
        low, high = (_finite(percentile(samples, p), name) for p in (10, 90))
        entry = self.values[name]
        self.values[name] = entry | {"median": entry["value"], "p10": low, "p90": high, "n": len(samples)}

    def add_series(
        self,
        name: str,
        title: str,
        x: tuple[str, str, Sequence[Number]],
        y: tuple[str, str, Sequence[Number | Timing]],
        kind: SeriesKind = "measured",
    ) -> None:
        """A curve. x and y are (label, unit, values); timings among the y values become medians in `unit`, with their spread."""
        self._check_new(name, self.series)
        if kind not in _KINDS:
            raise RecordError(f"{self.id}: a series is one of {', '.join(_KINDS)}, not {kind!r}")
        if len(x[2]) != len(y[2]) or not x[2]:
            raise RecordError(f"{self.id}: {name} has {len(x[2])} x values and {len(y[2])} y values")
        self.series[name] = {"title": title, "x": _axis(*x, name=name), "y": _axis(*y, name=name), "kind": kind}

    def add_case(
        self, name: str, operation: str, shape: str, *, nbytes: float, flops: float, floor: Quantity, ours: str, peers: Mapping[str, str]
    ) -> None:
        """One piece of work that was timed for us and for peers, so that they can be compared with each other and with the machine.

        nbytes, flops: the fewest that the work needs. floor: the shortest time that the measured limits allow for them. ours, and peers
        by their labels: names of recorded times.
        """
        self._check_new(name, self.cases)
        for timed in (ours, *peers.values()):
            if timed not in self.values or self.values[timed]["unit"] not in ("s", "ms", "us", "ns"):
                raise RecordError(f"{self.id}: the case {name} names {timed!r}, which is not a recorded time")
        self.cases[name] = {
            "operation": operation, "shape": shape, "bytes": _finite(nbytes, name), "flops": _finite(flops, name),
            "floor_us": _finite(floor.to("us").value, name), "ours": ours, "peers": dict(peers),
        }  # fmt: skip

    def _require_provenance(self) -> None:
        env = self.environment
        missing = [
            field
            for field, value in (
                ("device", env.device.get("name")), ("date", env.date), ("git commit", env.git.get("commit")),
                ("software", env.software), ("command", env.command), ("title", self.title),
            )
            if not value
        ]  # fmt: skip
        if missing:
            raise RecordError(
                f"{self.id}: no record without provenance; missing: {', '.join(missing)}."
                " Outside a git repository set INFER_LAB_COMMIT to the commit that this copy is from."
            )

    def document(self) -> dict[str, Any]:
        """The record as it will be written; RecordError if it could not be traced or holds nothing."""
        env = self.environment
        self._require_provenance()
        if not self.values and not self.series:
            raise RecordError(f"{self.id}: nothing was measured")
        device = dict(env.device)
        if device.get("kind") == "cuda" and device.get("clocks_mhz_after") is None:
            device["clocks_mhz_after"] = clocks_mhz(self.device)
        return {
            "schema": SCHEMA, "id": self.id, "title": self.title, "device": device, "software": dict(env.software), "git": dict(env.git),
            "date": env.date, "seconds": round(time.monotonic() - self._start, 1), "command": env.command, "workload": self.workload,
            "sources": self.sources,
            "values": dict(sorted(self.values.items())), "series": dict(sorted(self.series.items())),
            **({"cases": self.cases} if self.cases else {}),
        }  # fmt: skip

    def write(self, directory: Path | None = None) -> Path:
        """Writes the record and returns its path. An existing record of the same id is replaced in one step."""
        document = self.document()
        folder = directory or measurements_dir(str(self.environment.device.get("kind")), self.root)
        path = folder / self.environment.slug / f"{self.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{self.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(document, file, indent=1, ensure_ascii=False, allow_nan=False)
                file.write("\n")
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        return path

    def _check_new(self, name: str, existing: Mapping[str, object]) -> None:
        _check_name(name, self.id)
        if name in existing:
            raise RecordError(f"{self.id}: {name} was recorded already")


def _axis(label: str, unit: str, values: Sequence[Number | Timing], name: str) -> dict[str, Any]:
    quantity(1, unit)  # refuses an unknown unit
    timings = [v for v in values if isinstance(v, Timing)]
    if timings and len(timings) != len(values):
        raise RecordError(f"{name}: timings and plain numbers are mixed in one axis")
    if not timings:
        return {"label": label, "unit": unit, "values": [_finite(v, name) for v in values if not isinstance(v, Timing)]}

    def scaled(seconds: float) -> Number:
        return _finite(Quantity(seconds, "s").to(unit).value, name)

    return {
        "label": label, "unit": unit, "values": [scaled(t.median) for t in timings],
        "p10": [scaled(t.p10) for t in timings], "p90": [scaled(t.p90) for t in timings],
    }  # fmt: skip


def _finite(value: Number, name: str) -> Number:
    """Six significant figures are more than any clock deserves."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise RecordError(f"{name}: {value!r} is no finite number")
    return value if isinstance(value, int) else float(f"{value:.6g}")


def _check_name(name: str, where: str) -> None:
    if not _NAME.match(name):
        raise RecordError(f"{where}: the name {name!r} should be of small letters, digits, '-' and '_'")


def _files(root: Path, sources: Iterable[str]) -> list[str]:
    """Names of the files, sorted; a pattern that matches none stays as it is, to be missed by name."""
    found = (sorted(path.relative_to(root).as_posix() for path in root.glob(source)) or [source] for source in sources)
    return sorted({name for names in found for name in names})


def _sha256(path: Path) -> str:
    if not path.is_file():
        raise RecordError(f"the source {path.name} of this record is not there: {path}")
    return hashlib.sha256(path.read_bytes()).hexdigest()
