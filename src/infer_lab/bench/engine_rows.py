"""Rows of an engine benchmark: kept on disk as they are measured, shown as a table, written into a record.

Why on disk: a model of 8 billion parameters takes a while to load and a GPU is lent for minutes. What was measured before an interruption
is not measured again: `--resume` takes it from there, if model, settings and code are the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from infer_lab.bench.environment import repository_root, sanitize
from infer_lab.bench.record import Record
from infer_lab.bench.timer import percentile
from infer_lab.units import Quantity

SOURCES = (
    "src/infer_lab/bench/engine_*.py", "src/infer_lab/bench/limits.py", "src/infer_lab/engine/engine_core.py",
    "src/infer_lab/layers/*.py", "src/infer_lab/models/fused.py", "src/infer_lab/models/llama.py", "src/infer_lab/worker/*.py",
)  # fmt: skip
"""Whose change makes a record of the engine out of date."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured figure beside its bound: what no engine could pass on this machine (a time from below, a rate from above)."""

    samples: Sequence[float]
    unit: str
    bound: float | None = None
    note: str = ""

    @property
    def median(self) -> float:
        return percentile(self.samples, 50)

    @property
    def share(self) -> float | None:
        """Of the bound's speed that was reached."""
        if self.bound is None:
            return None
        return self.median / self.bound if self.unit.endswith("/s") else self.bound / self.median


@dataclass(frozen=True, slots=True)
class Timed:
    """Which figure is the time of what work, for a comparison with the machine and with peers. nbytes, flops: the fewest it needs."""

    figure: str
    shape: str
    nbytes: float
    flops: float


@dataclass(frozen=True, slots=True)
class Row:
    """One case. about: what was run. figures: by name, the one that matters first. timeline: [kind, what ran, microseconds, launches] of
    one step, the longest first."""

    name: str
    about: Mapping[str, Any]
    figures: Mapping[str, Figure]
    timed: Timed | None = None
    timeline: Sequence[Sequence[Any]] = field(default=())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Row:
        figures = {name: Figure(**figure) for name, figure in data["figures"].items()}
        return cls(**{**data, "figures": figures, "timed": data["timed"] and Timed(**data["timed"])})


class Rows:
    """Measured rows by name. file: where they are kept; None keeps them in memory."""

    def __init__(self, file: Path | None = None, resume: bool = False) -> None:
        self.file = file
        self._rows: dict[str, Row] = {}
        if file is not None and resume and file.is_file():
            for line in file.read_text(encoding="utf-8").splitlines():
                row = Row.from_dict(json.loads(line))
                self._rows[row.name] = row
        elif file is not None:
            file.unlink(missing_ok=True)

    @staticmethod
    def place(command: str, settings: Mapping[str, Any]) -> Path:
        """Of the rows that were measured with these settings."""
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:12]
        return repository_root() / ".infer-lab" / "bench" / f"{command}-{digest}.jsonl"

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    def __getitem__(self, name: str) -> Row:
        return self._rows[name]

    def get(self, name: str, measure: Callable[[], Row]) -> Row:
        """The row of that name: measured now, unless it was before."""
        if name not in self._rows:
            row = self._rows[name] = measure()
            assert row.name == name
            if self.file is not None:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                with self.file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
        return self._rows[name]


def table(title: str, rows: Sequence[Row]) -> Table:
    """A line a row: what was run, each figure, and the share of the bound that the first one reached. What is the same in several rows
    stands below."""
    about = list(dict.fromkeys(name for row in rows for name in row.about))
    same = [name for name in about if len({str(row.about.get(name)) for row in rows}) == 1 and (len(rows) > 1 or len(about) > 6)]
    about = [name for name in about if name not in same]
    caption = ", ".join(f"{name.replace('_', ' ')} {rows[0].about[name]}" for name in same)
    shown = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    figures = list(dict.fromkeys(name for row in rows for name in row.figures))
    for name in about:
        shown.add_column(name.replace("_", " "), justify="right")
    for name in figures:
        shown.add_column(name.replace("_", " "), justify="right", style="bold" if name == figures[0] else "")
    shown.add_column("floor", justify="right")
    shown.add_column("share of it", justify="right")
    for row in rows:
        first = next(iter(row.figures.values()))
        cells = [str(row.about.get(name, "")) for name in about]
        cells += [_text(row.figures[name].median, row.figures[name].unit) if name in row.figures else "" for name in figures]
        cells.append("" if first.bound is None else _text(first.bound, first.unit))
        shown.add_row(*cells, "" if first.share is None else f"{first.share:.0%}")
    return shown


def timeline_table(row: Row, most: int = 24) -> Table:
    """Where the time of a step goes, kernel by kernel."""
    shown = Table(title=f"One step of {row.name}: where the time goes", title_justify="left")
    for name in ("µs", "launches", "kind", "what"):
        shown.add_column(name, justify="left" if name in ("kind", "what") else "right")
    for kind, what, us, launches in row.timeline[:most]:
        shown.add_row(f"{us:,.1f}", f"{launches:g}", kind, what[:80])
    return shown


@dataclass(frozen=True, slots=True)
class Peer:
    """Another engine's figures on a machine of this kind, measured on a day of their own: `benchmarks/vllm_h200.json` says how."""

    who: str
    date: str
    rows: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, root: Path, device: str, model: str) -> Peer | None:
        """What is known of this model on this device."""
        path = root / "benchmarks" / f"vllm_{device}.json"
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"rows": {}}
        return cls(data["who"], data["date"], data["rows"][model]) if model in data["rows"] else None

    def figure(self, row: Row) -> Figure | None:
        """Its figure for the same work, if it did the same."""
        known = self.rows.get(row.name)
        if known is None or row.timed is None or known["figure"] != row.timed.figure:
            return None
        if any(row.about.get(name) != known[name] for name in ("output", "output_tokens") if name in known):
            return None
        return Figure(known["samples"], known["unit"], note=f"{self.who}, measured on {self.date}, in a run of its own")


def fill(record: Record, operation: str, rows: Sequence[Row], peer: Peer | None = None) -> None:
    """Values `<row>-<figure>` with their bounds as predictions, and cases beside the floor and a peer; what a timeline holds, summed by
    kind, beside the whole list."""
    for row in rows:
        for name, figure in row.figures.items():
            value = f"{row.name}-{name}"
            record.add_samples(value, figure.samples, figure.unit, note=figure.note)
            if figure.bound is not None:
                record.values[value]["predicted"] = float(f"{figure.bound:.6g}")
                record.add_value(f"{value}-share", (figure.share or 0.0) * 100, "%", note="of the floor's speed")
        if row.timed is not None:
            peers: dict[str, str] = {}
            if peer is not None and (theirs := peer.figure(row)) is not None:
                peers[f"{peer.who} ({peer.date})"] = f"peer-{row.name}-{row.timed.figure}"
                record.add_samples(f"peer-{row.name}-{row.timed.figure}", theirs.samples, theirs.unit, note=theirs.note)
            floor = Quantity(row.figures[row.timed.figure].bound or 0.0, row.figures[row.timed.figure].unit)
            record.add_case(
                row.name, operation, row.timed.shape, nbytes=row.timed.nbytes, flops=row.timed.flops, floor=floor,
                ours=f"{row.name}-{row.timed.figure}", peers=peers,
            )  # fmt: skip
        kinds: dict[str, float] = {}
        for kind, _, us, _ in row.timeline:
            kinds[kind] = kinds.get(kind, 0.0) + us
        for kind, us in kinds.items():
            record.add_value(f"{row.name}-time-{sanitize(kind)}", us, "us", note=f"of one step: {kind}")
    record.workload["rows"] = {row.name: dict(row.about) for row in rows}
    timelines = {row.name: [list(entry) for entry in row.timeline] for row in rows if row.timeline}
    if timelines:
        record.workload["timeline"] = timelines


def summary(rows: Sequence[Row]) -> dict[str, float]:
    """Medians, with their units in the names, for the last line of output."""
    return {f"{row.name} {name} ({f.unit})": round(f.median, 4) for row in rows for name, f in row.figures.items()}


def _text(value: float, unit: str) -> str:
    return Quantity(value, unit).format(",.0f" if value >= 1000 else ".3g" if value < 1 else ",.2f")
