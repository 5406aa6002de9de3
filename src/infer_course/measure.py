"""Looks numbers up in measurement records, with the machine, the day and the commit that they come from.

Why: a measured figure in the text must be traceable and must change when the record does. Records are written by
`infer_lab.bench.record`; here they are only read. A record whose sources changed since is *stale*: still shown, and said to be so.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from infer_course.errors import MeasureError
from infer_course.graph import Graph
from infer_course.nodes import Measurement
from infer_course.problems import a_few, did_you_mean
from infer_course.shown import render, split_tail
from infer_lab.errors import UserError
from infer_lab.units import Quantity


@dataclass(frozen=True, slots=True)
class Measured:
    """One value of a record. `text` is what the reader sees; spread and n are None where the record has none."""

    ref: str
    record: str
    name: str
    quantity: Quantity
    text: str
    device: str
    date: str
    commit: str
    dirty: bool
    n: int | None = None
    p10: Quantity | None = None
    p90: Quantity | None = None
    note: str = ""

    @property
    def spread(self) -> str:
        """`1.20 to 1.30 ms`, or nothing where it was not recorded."""
        if self.p10 is None or self.p90 is None:
            return ""
        return f"{self.p10.format()} to {self.p90.format()}"

    @property
    def provenance(self) -> str:
        """`NVIDIA H200, 2025-06-02, commit 0123456, median of 50 (p10 to p90: 1.2 ms to 1.3 ms)`."""
        parts = [self.device, self.date, f"commit {self.commit[:7]}{' with local changes' if self.dirty else ''}"]
        if self.n and self.n > 1:
            parts.append(f"median of {self.n}")
        if self.spread:
            parts[-1] += f" (p10 to p90: {self.spread})"
        if self.note:
            parts.append(self.note)
        return ", ".join(parts)


def lookup(graph: Graph, ref: str) -> Measured:
    """The value `name` of the record, for `ref` = `<device>/<record>:<name>`; MeasureError says what exists instead."""
    record_id, colon, name = (part.strip() for part in ref.partition(":"))
    if not colon or not name:
        values = a_few(graph.measurements[record_id].values) if record_id in graph.measurements else ""
        known = f"; `{record_id}` has {values}" if values else ""
        raise MeasureError(f"`{ref}` must be `<device>/<record>:<value>`{known}")
    record = find_record(graph, record_id)
    if name not in record.values:
        known = a_few(record.values) or "no values"
        raise MeasureError(f"the record `{record_id}` has no value `{name}`; it has {known}.{did_you_mean(name, record.values)}")
    value = record.values[name]

    def of(number: float | int | None) -> Quantity | None:
        return None if number is None else Quantity(number, value.unit)

    try:
        quantity, p10, p90 = Quantity(value.value, value.unit), of(value.p10), of(value.p90)
    except UserError as error:
        raise MeasureError(f"the value `{name}` of `{record_id}` has a bad unit: {error}") from None
    return Measured(
        ref=f"{record_id}:{name}",
        record=record_id,
        name=name,
        quantity=quantity,
        text=quantity.format(),
        device=record.device.name,
        date=record.date.date().isoformat(),
        commit=record.git.commit,
        dirty=record.git.dirty,
        n=value.n,
        p10=p10,
        p90=p90,
        note=value.note or "",
    )


def evaluate(text: str, graph: Graph) -> Measured:
    """What a `{measured}` role shows: `h200/kv-cache-by-hand:step_time | ms .2f`. Spread follows into the unit."""
    try:
        tail = split_tail(text)
        found = lookup(graph, tail.head)
        unit = tail.unit or found.quantity.unit
        shown = found.quantity.to(unit)
        p10, p90 = (None if q is None else q.to(unit) for q in (found.p10, found.p90))
        return replace(found, quantity=shown, text=render(shown, tail.spec), p10=p10, p90=p90)
    except MeasureError:
        raise
    except UserError as error:
        raise MeasureError(str(error)) from None


def find_record(graph: Graph, record_id: str) -> Measurement:
    """The record of that id; MeasureError names the nearest."""
    if record_id not in graph.measurements:
        known = a_few(graph.measurements) or "none yet"
        raise MeasureError(f"no record is called `{record_id}`; records are {known}.{did_you_mean(record_id, graph.measurements)}")
    return graph.measurements[record_id]


def changed_sources(root: Path, record: Measurement) -> tuple[str, ...]:
    """Files that the record names as its sources and that are different or gone now. Empty: the record is fresh."""
    changed = []
    for name, digest in record.sources.items():
        path = root / name
        if not path.is_file():
            changed.append(f"{name} (gone)")
        elif hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            changed.append(name)
    return tuple(changed)
