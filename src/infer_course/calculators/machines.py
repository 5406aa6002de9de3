"""What was measured, for the roofline: the limits of a machine and the pieces of work that were timed on it, from measurement records.

Records are the JSON documents of `measurements/` (schema 1), ours or the reader's own out of their progress file. What is missing or
malformed in a reader's record is left out: their file is theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from infer_lab.errors import UserError
from infer_lab.units import Quantity


@dataclass(slots=True)
class Machine:
    """bandwidth in B/s and peak in FLOP/s, 0 where they were not measured. points: (operation, FLOP/B, FLOP/s)."""

    slug: str
    name: str
    date: str
    ours: bool
    bandwidth: float = 0.0
    peak: float = 0.0
    points: list[tuple[str, float, float]] = field(default_factory=list)


def machines(records: Iterable[Mapping[str, Any]]) -> list[Machine]:
    """One a device, ours before the reader's own. A record of the reader's has `"own": true` beside its document."""
    found: dict[tuple[bool, str], Machine] = {}
    for record in records:
        try:
            device, own = record["device"], bool(record.get("own"))
            key = (own, str(device["slug"]))
            machine = found.setdefault(key, Machine(key[1], str(device["name"]), str(record["date"])[:10], not own))
            _add(machine, record)
        except (KeyError, TypeError, AttributeError, ValueError, UserError):
            continue
    return [machine for machine in found.values() if machine.bandwidth or machine.peak or machine.points]


def _add(machine: Machine, record: Mapping[str, Any]) -> None:
    values = record.get("values", {})
    if str(record["id"]).endswith("/limits"):
        machine.bandwidth = _in(values.get("read_stream") or values.get("copy"), "B/s")
        machine.peak = _in(values.get("matmul_bf16"), "FLOP/s")
    for case in record.get("cases", {}).values():
        seconds = _in(values.get(case["ours"]), "s")
        if seconds > 0 and case["bytes"] > 0 and case["flops"] > 0:
            machine.points.append((str(case["operation"]), case["flops"] / case["bytes"], case["flops"] / seconds))


def _in(value: Mapping[str, Any] | None, unit: str) -> float:
    return float(Quantity(value["value"], value["unit"]).to(unit).value) if value else 0.0


def slim(record: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a record that `machines` reads, for the page to carry."""
    cases = record.get("cases", {})
    wanted = {"read_stream", "copy", "matmul_bf16", *(case["ours"] for case in cases.values())}
    values = {name: {"value": v["value"], "unit": v["unit"]} for name, v in record["values"].items() if name in wanted}
    kept = {name: {key: case[key] for key in ("operation", "ours", "bytes", "flops")} for name, case in cases.items()}
    device = {"slug": record["device"]["slug"], "name": record["device"]["name"]}
    return {"id": record["id"], "date": str(record["date"]), "device": device, "values": values, "cases": kept}
