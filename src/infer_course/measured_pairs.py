"""What a record says, row by row, so that a reader's own record of the same lab can stand beside ours: *predicted · yours · ours*.

Two kinds of rows. A value becomes a row of its own; a recorded value may carry `predicted`, in its own unit. A measured series becomes
one row, its last point, and its prediction is the point of the series `predicted_<name>` at the same place: sizes differ between
machines, so each side is held against its own prediction.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from infer_course.graph import Graph, texts_of
from infer_course.nodes import Measurement
from infer_course.schema import MeasurementMeta, Series
from infer_course.shown import grouped
from infer_lab.errors import UserError
from infer_lab.units import Quantity

_SHOWN_UNITS = {"tok": "tokens", "req": "requests", "1": ""}


def lab_of_record(record_id: str) -> str:
    """The part of a record's id that is the same on every machine: `h200/kv-cache-by-hand` → `kv-cache-by-hand`."""
    return record_id.rpartition("/")[2]


def rows(record: MeasurementMeta, values: Collection[str] | None = None) -> list[dict[str, Any]]:
    """[{"name", "label", "at", "measured", "predicted" | null, "ratio" | null}], texts as shown; measured / predicted is `ratio`.

    `values` chooses values by name (None: all). `name` is the same in every record of the lab; `at` says at which size ("" for a value).
    """
    found = [_value(name, record) for name in record.values if values is None or name in values]
    for name, series in record.series.items():
        predicted = record.series.get(f"predicted_{name}")
        if series.kind == "measured" and predicted is not None and predicted.kind == "predicted":
            found.append(_last_point(name, series, predicted))
    return found


def of_record(graph: Graph, record: Measurement, values: Collection[str] | None = None) -> dict[str, Any]:
    """{"record", "name", "lab" | null, "device", "date", "rows"}: what pages show of a record beside the reader's own."""
    labs = graph.labs_of_measurement(record.id)
    return {
        "record": record.id,
        "name": lab_of_record(record.id),
        "lab": labs[0].id if labs else None,
        "device": record.device.name,
        "date": record.date.date().isoformat(),
        "rows": rows(record, values),
    }


def of_card(graph: Graph, card_id: str) -> list[dict[str, Any]]:
    """`of_record` of each of the card's records, with the values that the card itself cites."""
    text = "\n".join(text.body for text in texts_of(graph.cards[card_id]))
    records = graph.measurements_of_card(card_id)
    return [of_record(graph, record, set(re.findall(re.escape(record.id) + r":([\w-]+)", text))) for record in records]


def side_by_side(ours: MeasurementMeta, yours: MeasurementMeta, values: Collection[str] | None = None) -> list[dict[str, Any]]:
    """[{"name", "label", "ours": row | null, "yours": row | null}]: rows that the two records share first, then what only ours has."""
    mine: Mapping[str, dict[str, Any]] = {row["name"]: row for row in rows(yours)}
    pairs = [{"name": row["name"], "label": row["label"], "ours": row, "yours": mine.get(row["name"])} for row in rows(ours, values)]
    return sorted(pairs, key=lambda pair: pair["yours"] is None)


def _value(name: str, record: MeasurementMeta) -> dict[str, Any]:
    value = record.values[name]
    return _row(name, name.replace("_", " "), "", value.value, value.predicted, value.unit)


def _last_point(name: str, series: Series, predicted: Series) -> dict[str, Any]:
    place, measured = max(zip(series.x.values, series.y.values, strict=True))
    known = dict(zip(predicted.x.values, predicted.y.values, strict=True)).get(place)
    at = f"{series.x.label} {_text(place, series.x.unit)}".strip()
    return _row(
        name, f"{series.title}: {series.y.label}", at, measured, known if predicted.y.unit == series.y.unit else None, series.y.unit
    )


def _row(name: str, label: str, at: str, measured: float | int, predicted: float | int | None, unit: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "at": at,
        "measured": _text(measured, unit),
        "predicted": None if predicted is None else _text(predicted, unit),
        "ratio": round(measured / predicted, 4) if predicted else None,
    }


def _text(value: float | int, unit: str) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    if unit in _SHOWN_UNITS:
        return f"{grouped(Quantity(value).format())} {_SHOWN_UNITS[unit]}".strip()
    try:
        return grouped(Quantity(value, unit).format())
    except UserError:
        return f"{value:g} {unit}"
